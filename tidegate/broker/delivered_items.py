"""Deliveries as their readers see them: items of a queue, with the content of the publications that they name.

A queue has references; ``DeliveredItems`` reads the rows of the log and makes the items that the API and the command
line show. What cannot be shown is told as ``gap`` or ``skipped``, never left out in silence. Knows nothing of
connections, nor of who may read what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from tidegate.errors import SettingError, shown
from tidegate.moments import moment
from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription, PatternNotification
from tidegate.store.log_rows import LogRows
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_frames import Delivery
from tidegate.store.queue_reader import QueueReader

__all__ = ["DeliveredItems", "Item", "ItemPage", "QueuePosition"]

Item = dict[str, Any]


class ItemPage(NamedTuple):
    """Items of a queue in order; what to give for ``after`` to go on; the newest number, and the oldest kept."""

    epoch: str
    items: list[Item]
    next: int
    last: int
    oldest: int


class QueuePosition(NamedTuple):
    """Where somebody goes on to read: after a number; the epoch that the number is of, if they say so."""

    number: int
    epoch: str | None = None

    @staticmethod
    def parsed(text: str) -> QueuePosition:
        """``N`` or ``epoch-N``."""
        epoch, dash, digits = text.rpartition("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19) or (dash and not epoch):
            raise SettingError("a number of a queue, or an epoch, a dash and a number", shown(text), "after")
        return QueuePosition(int(digits), epoch or None)


class DeliveredItems:
    """The queues of ``queues``, with content from ``rows``; None where no publication is a row of a log."""

    def __init__(self, queues: QueueReader, rows: LogRows | None) -> None:
        self._queues, self._rows = queues, rows

    def page(self, queue: Queue, after: QueuePosition, limit: int = 100) -> ItemPage:
        """Items after a position. If the position is of another epoch or beyond the end, or what comes next is not kept
        any more, the first item is a ``gap``, and deliveries follow from the oldest that is kept.
        """
        known, reason = after.number, None
        if after.epoch not in (None, queue.epoch):
            known, reason = 0, "epoch"
        elif known > self._queues.last(queue):
            known, reason = 0, "beyond"
        found = self._queues.read(queue, known, limit)
        if reason is None and found.oldest > known + 1:
            reason = "retention"
        gap = {"type": "gap", "from": known + 1, "to": found.oldest - 1, "oldest": found.oldest, "reason": reason}
        items = [*([gap] if reason else []), *self._items(found.deliveries)]
        following = found.deliveries[-1].number if found.deliveries else max(known, found.oldest - 1)
        return ItemPage(queue.epoch, items, following, found.last, found.oldest)

    def _items(self, deliveries: Sequence[Delivery]) -> Iterator[Item]:
        contents = self._contents(deliveries)
        made = (self._item(delivery, contents) for delivery in deliveries)
        for reason, some in groupby(made, lambda item: item.get("reason")):
            together = list(some)
            if reason is None:
                yield from together
            else:
                first, last = together[0]["number"], together[-1]["number"]
                yield {"type": "skipped", "from": first, "number": last, "reason": reason}

    def _contents(self, deliveries: Sequence[Delivery]) -> dict[int | str, Item]:
        """The publications that deliveries name, by row; those known by their ids only, by these."""
        named: dict[int | str, Item] = {}
        for delivery in deliveries:
            if delivery.kind == DeliveryKind.PATTERN:
                named |= {one: {"id": one} for one in PatternNotification.unpacked(delivery.told).publications}
            elif delivery.row >= 0:
                named[delivery.row] = {}
        if self._rows is not None and (rows := sorted(row for row in named if isinstance(row, int))):
            named |= zip(rows, self._rows.publications(rows), strict=True)
        return named

    def _item(self, delivery: Delivery, contents: dict[int | str, Item]) -> Item:
        if delivery.kind == DeliveryKind.SKIPPED:
            return {"number": delivery.number, "reason": orjson.loads(delivery.told)}
        matched = [MatchedSubscription.unpacked(meaning) for meaning in delivery.meanings]
        item: Item = {
            "number": delivery.number,
            "type": "notification",
            "subscriptions": [one.id for one in matched],
            "matched_at": _instant(delivery.matched_at),
            "initial": False,
        }
        if delivery.kind == DeliveryKind.PATTERN:
            told = PatternNotification.unpacked(delivery.told)
            publications = [_with_fields(contents[one], matched) for one in told.publications]
            item |= {"time": _instant(told.time), "publications": publications}
            return item | {"score": told.score, "distance": told.distance}
        content = orjson.loads(delivery.told) if delivery.told else contents[delivery.row]
        if content.get("lost"):
            return {"number": delivery.number, "reason": "damaged"}
        return item | {"time": content.get("time"), "publication": _with_fields(content, matched)}


def _with_fields(publication: Item, matched: Sequence[MatchedSubscription]) -> Item:
    """A publication with the attributes that some of the subscriptions want."""
    if any(one.fields == "all" for one in matched) or "attributes" not in publication:
        return publication
    wanted = {name for one in matched if one.fields != "none" for name in one.fields}
    kept = {name: value for name, value in publication["attributes"].items() if name in wanted}
    return {**publication, "attributes": kept}


def _instant(micros: int) -> str:
    return moment(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
