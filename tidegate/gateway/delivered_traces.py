"""Which items of a queue belong to a trace: those of publications that carry its context as attributes.

Looks into items as they are written, as JSON, and asks the queue when they were matched. Knows no spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import orjson

from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.open_queues import OpenQueues
from tidegate.errors import TidegateError
from tidegate.store.queue_directory import Queue

__all__ = ["TracedItem", "is_state", "traced_items"]

_PARENT = b'"traceparent":"'
#: The context of a trace that is sampled: the last bit of its flags says so.
_SAMPLED = re.compile(rb'"traceparent":"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]["-]')
#: What a ``tracestate`` may be that is passed on: OpenTelemetry logs one that it does not understand as it is.
_STATE = re.compile(r"[!-~]([ -~]{0,510}[!-~])?")


class TracedItem(NamedTuple):
    """An item of a queue, the contexts of its publications, and when that which caused it was appended and matched, in
    µs since 1970.
    """

    number: int
    contexts: list[dict[str, str]]
    appended: int | None
    matched: int


def is_state(value: object) -> bool:
    """Whether a ``tracestate`` is one that is passed on: visible ASCII, at most 512 characters."""
    return isinstance(value, str) and _STATE.fullmatch(value) is not None


def traced_items(
    queues: OpenQueues, queue: Queue, items: Sequence[EncodedItem], appended: Callable[[int], int | None]
) -> list[TracedItem]:
    """Those of the items that belong to a trace that is sampled. ``appended`` knows when a row was."""
    found = list[TracedItem]()
    for item in items:
        if _PARENT not in item.body or item.type != "notification" or _SAMPLED.search(item.body) is None:
            continue
        contexts = _contexts(item.body)
        with suppress(TidegateError):  # it is gone by now
            delivery = queues.delivery(queue, item.number)
            if delivery is not None and contexts:
                at = appended(delivery.row) if delivery.row >= 0 else None
                found.append(TracedItem(item.number, contexts, at, delivery.matched_at))
    return found


def _contexts(body: bytes) -> list[dict[str, str]]:
    """The contexts of the publications of an item, in their order."""
    said = orjson.loads(body)
    found = list[dict[str, str]]()
    for publication in said.get("publications") or [said.get("publication", {})]:
        attributes = publication.get("attributes", {})
        parent, state = attributes.get("traceparent"), attributes.get("tracestate")
        if isinstance(parent, str):
            found.append({"traceparent": parent} | ({"tracestate": state} if is_state(state) else {}))
    return found
