"""Items of queues as messages: the item as JSON, and as properties what a reader may want to know without reading it.

They are those of a CloudEvent in binary mode: where the item is of one publication the publication's id, source, time,
and what it says as ``type``, ``subject``, ``traceparent`` and ``tracestate``. Knows no queue and no connection.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec
import orjson

from tidegate.broker.encoded_items import EncodedItem
from tidegate.model import micros
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.wire_fields import is_plain

__all__ = ["left_out", "message_of"]

_TYPE = "tidegate"
_FIXED: dict[int, Any] = {Property.PAYLOAD_IS_TEXT: 1, Property.CONTENT_TYPE: "application/json"}
_SECOND = 1_000_000
#: Seconds that an expiry can say.
_LONGEST = 2**32 - 1
#: Characters of a value as a property.
_MOST = 1024


class _Attributes(msgspec.Struct):
    type: Any = None
    subject: Any = None
    traceparent: Any = None
    tracestate: Any = None


class _Publication(msgspec.Struct):
    id: str | None = None
    source: str | None = None
    time: str | None = None
    valid_until: str | None = None
    attributes: _Attributes | None = None


class _Item(msgspec.Struct):
    time: str | None = None
    publication: _Publication | None = None


_DECODER = msgspec.json.Decoder(_Item)
_NAMES = ("type", "subject", "traceparent", "tracestate")


def message_of(item: EncodedItem, epoch: str, now: int, read_at: int) -> dict[int, Any]:
    """The properties of the message that an item becomes; its payload is the item. ``now`` and when it was read are in
    µs since 1970.
    """
    found = _DECODER.decode(item.body)
    publication = found.publication
    event = {"specversion": "1.0", "id": f"{epoch}-{item.number}", "source": _TYPE, "type": f"{_TYPE}.{item.type}"}
    if found.time is not None:
        event["time"] = found.time
    properties: dict[int, Any] = dict(_FIXED)
    if publication is not None:
        for name in ("id", "source", "time"):
            if _is_short(value := getattr(publication, name)):
                event[name] = value
        if item.type == "notification" and publication.attributes is not None:
            for name in _NAMES:
                if _is_short(value := getattr(publication.attributes, name)):
                    event[name] = value
        if publication.valid_until is not None:
            end = micros(datetime.fromisoformat(publication.valid_until))
            if end > read_at - _SECOND:  # else it had expired then, and somebody wants it nevertheless
                properties[Property.MESSAGE_EXPIRY] = min(_LONGEST, max(1, math.ceil((end - now) / _SECOND)))
    event["epoch"], event["number"] = epoch, str(item.number)
    properties[Property.USER] = list(event.items())
    return properties


def _is_short(value: object) -> bool:
    """Whether a value may be a property; the payload has it in any case."""
    return isinstance(value, str) and 0 < len(value) <= _MOST and is_plain(value)


def left_out(item: EncodedItem, reason: str) -> EncodedItem:
    """What is told in place of an item that the MQTT broker does not take."""
    said = {"type": "skipped", "from": item.number, "number": item.number, "reason": reason}
    return EncodedItem("skipped", item.number, orjson.dumps(said))
