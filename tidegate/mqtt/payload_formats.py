"""The forms of payloads: JSON, plain numbers and texts, CloudEvents and SenML, each as a function from a message to the
items that it says. Knows no topic and no rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from tidegate.errors import shown
from tidegate.gateway import cloud_events
from tidegate.mqtt.message_refusals import MessageRefused
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packets import Message
from tidegate.mqtt.senml import SENML, of_pack

__all__ = ["PayloadFormat", "Read", "auto_of", "format_named"]

#: Letters that separate a name in SenML from what is measured under it.
_ENDS = ":/.-_"
_JSON = "application/json"
_VERSION = "specversion"


class Read(NamedTuple):
    """What a payload says: items, and the source that it names beside them, if any."""

    items: list[Any]
    source: str | None = None


#: Reads a message; the name is that of the attribute that a plain value becomes, the number the time now in µs.
PayloadFormat = Callable[[Message, str, int], Read]


def _loaded(payload: bytes) -> Any:
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as wrong:
        raise MessageRefused("json", "JSON", wrong.msg) from None


def _json(message: Message, name: str, now: int) -> Read:
    """An object, several in an array, or a plain value."""
    found = _loaded(message.payload)
    if isinstance(found, dict):
        return Read([found])
    if isinstance(found, list):
        if not found or not all(isinstance(one, dict) for one in found):
            raise MessageRefused("payload", "an object, an array of objects, or a plain value", shown(found))
        return Read(found)
    if found is None:
        raise MessageRefused("payload", "an object, an array of objects, or a plain value", "null")
    return Read([{name: found}])


def _number(message: Message, name: str, now: int) -> Read:
    text = message.payload.strip()
    try:
        if len(text) > 100 or b"_" in text:  # which Python takes
            raise ValueError
        number = int(text) if text.lstrip(b"+-").isdigit() else float(text)
        if not math.isfinite(number):
            raise ValueError
    except ValueError:
        raise MessageRefused("number", "a number", shown(message.payload)) from None
    return Read([{name: number}])


def _text(message: Message, name: str, now: int) -> Read:
    try:
        return Read([{name: message.payload.decode()}])
    except UnicodeDecodeError:
        raise MessageRefused("text", "text in UTF-8", shown(message.payload)) from None


def _cloud_event(message: Message, name: str, now: int) -> Read:
    """An event whose attributes are properties of the message, or all of which is its payload, or a batch of those."""
    kind = _content_type(message)
    given = message.properties.get(Property.USER, ())
    if any(property == _VERSION for property, _ in given):
        event = dict[str, Any]()
        for property, value in given:
            if property in event:
                raise MessageRefused("cloudevents", f"one property {shown(property)}", "two")
            event[property] = value
        return Read([cloud_events.of_attributes(event, kind, message.payload)])
    found = _loaded(message.payload)
    if kind != cloud_events.BATCH:
        return Read([cloud_events.of_event(found)])
    if not isinstance(found, list) or not found:
        raise MessageRefused("cloudevents", "an array of events", shown(found))
    return Read([cloud_events.of_event(one) for one in found])


def _senml(message: Message, name: str, now: int) -> Read:
    measured, items, bases = of_pack(_loaded(message.payload), now), list[Any](), set[str]()
    for one in measured:
        item = {name if key == "value" else key: value for key, value in one.attributes.items()}
        if one.time is not None:
            item["time"] = one.time
        bases.add(one.base)
        items.append(item)
    if not items:
        raise MessageRefused("senml", "a record with a value", "none")
    if len(bases) == 1:
        return Read(items, bases.pop().rstrip(_ENDS) or None)
    for item, one in zip(items, measured, strict=True):
        item["source"] = one.base.rstrip(_ENDS)
    return Read(items)


def _plain(message: Message, name: str, now: int) -> Read:
    """JSON if it is that, else text."""
    try:
        return _json(message, name, now)
    except MessageRefused as wrong:
        if wrong.code != "json" or message.payload[:1] in (b"{", b"["):
            raise
    return _text(message, name, now)


_BY_NAME: dict[str, PayloadFormat] = {
    "json": _json,
    "number": _number,
    "text": _text,
    "cloudevents": _cloud_event,
    "senml": _senml,
}
_BY_TYPE: dict[str, PayloadFormat] = {
    _JSON: _json,
    cloud_events.STRUCTURED: _cloud_event,
    cloud_events.BATCH: _cloud_event,
    SENML: _senml,
    "application/sensml+json": _senml,
    "text/plain": _plain,
    "": _plain,
}


def format_named(name: str) -> PayloadFormat | None:
    """The form of that name; None for what each message says of itself."""
    return _BY_NAME.get(name)


def auto_of(message: Message) -> PayloadFormat:
    """The form that a message says it has."""
    if any(property == _VERSION for property, _ in message.properties.get(Property.USER, ())):
        return _cloud_event
    kind = _content_type(message)
    found = _BY_TYPE.get(kind.partition(";")[0].strip().lower())
    if found is None:
        if kind.partition(";")[0].strip().lower().endswith("+json"):
            return _json
        raise MessageRefused("payload", f"one of {', '.join(filter(None, _BY_TYPE))} as content type", shown(kind))
    return found


def _content_type(message: Message) -> str:
    found: str = message.properties.get(Property.CONTENT_TYPE, "")
    return found
