"""Deliveries as their readers see them: items of a queue, with the content of the publications that they name.

A queue has references; ``DeliveredItems`` reads the rows of the log and makes the items that the API and the command
line show. What cannot be shown, or is not to be, is told as ``gap`` or ``skipped``, never left out in silence. Knows
nothing of connections, nor who the reader is: it is given what he may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.broker.read_filter import ReadFilter
from tidegate.errors import SettingError, shown
from tidegate.model import micros
from tidegate.moments import moment
from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription, PatternNotification
from tidegate.store.log_rows import LogRows
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_frames import Delivery
from tidegate.store.queue_reader import QueueReader
from tidegate.store.version_readers import now

__all__ = ["DeliveredItems", "Item", "ItemPage", "QueuePosition"]

Item = dict[str, Any]
#: How a delivery names a publication: by its row in the log; where the source is no log by the JSON that is kept with
#: the delivery, or for patterns by its id.
_Name = int | bytes | str
#: Deliveries that are looked at beyond those of a page where none of these is shown.
_FURTHER = 1_000


class ItemPage(NamedTuple):
    """Items of a queue in order; what to give for ``after`` to go on; the newest number, and the oldest kept; what
    might be read when it was made, as in an ``EncodedPage``.
    """

    epoch: str
    items: list[Item]
    next: int
    last: int
    oldest: int
    read: str | None = None


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


class _Named(NamedTuple):
    """The publications that some deliveries name: what those say that may be read, which may not be, and which are
    withdrawn.
    """

    contents: dict[_Name, Item]
    unreadable: set[_Name]
    withdrawn: set[_Name]


class DeliveredItems:
    """The queues of ``queues``, with content from ``rows``; None where no publication is a row of a log.

    ``withdrawn`` says which of some rows have been unpublished; without it none is. ``clock`` tells the time of day, in
    microseconds since 1970: what is valid no longer is shown only to subscriptions that want it.
    """

    def __init__(
        self,
        queues: QueueReader,
        rows: LogRows | None,
        *,
        withdrawn: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
        clock: Callable[[], int] = now,
    ) -> None:
        self._queues, self._rows, self._withdrawn, self._clock = queues, rows, withdrawn, clock

    def page(self, queue: Queue, after: QueuePosition, limit: int = 100, read: ReadFilter | None = None) -> ItemPage:
        """Items after a position, of publications that may be read. If the position is of another epoch or beyond the
        end, or what comes next is not kept any more, the first item is a ``gap``, and deliveries follow from the oldest
        that is kept.
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
        at = self._clock()
        made = self._made(found.deliveries, at, read)
        if made and all("reason" in item for item in made):  # look further, so that a long range is one item
            made += self._made(self._following(queue, made[-1]["number"]), at, read)
        items = list(_in_ranges(made))[:limit]
        following = items[-1]["number"] if items else max(known, found.oldest - 1)
        return ItemPage(queue.epoch, [*([gap] if reason else []), *items], following, found.last, found.oldest)

    def _following(self, queue: Queue, number: int) -> list[Delivery]:
        """The deliveries after a number; none where a gap follows, which the next page tells."""
        found = self._queues.read(queue, number, _FURTHER)
        return found.deliveries if found.oldest <= number + 1 else []

    def _made(self, deliveries: Sequence[Delivery], at: int, read: ReadFilter | None) -> list[Item]:
        """An item for each delivery; of what is left out only ``number`` and ``reason``."""
        named = self._named(deliveries, read)
        return [_item(delivery, named, at) for delivery in deliveries]

    def _named(self, deliveries: Sequence[Delivery], read: ReadFilter | None) -> _Named:
        names = set(chain.from_iterable(map(_names, deliveries)))
        rows = sorted(name for name in names if isinstance(name, int))
        contents: dict[_Name, Item] = {
            name: orjson.loads(name) if isinstance(name, bytes) else {"id": name} if isinstance(name, str) else {}
            for name in names
        }
        unreadable = set() if read is None else names - self._readable(rows, contents, read)
        withdrawn = set[_Name]()
        if self._withdrawn is not None and rows:
            every = np.array(rows, np.int64)
            withdrawn.update(every[self._withdrawn(every)].tolist())
        rows = [row for row in rows if row not in unreadable]
        if self._rows is not None and rows:
            contents |= zip(rows, self._rows.publications(rows), strict=True)
        return _Named(contents, unreadable, withdrawn)

    def _readable(self, rows: Sequence[int], contents: dict[_Name, Item], read: ReadFilter) -> set[_Name]:
        """Those that may be read. What the log has no more, and what is known by its id only, nobody can judge."""
        found = set[_Name]()
        if self._rows is not None and rows:
            every = np.array(rows, np.int64)
            for places, table in self._rows.tables(every):
                found.update(every[places[read.holds(table)]].tolist())
        texts = [name for name in contents if isinstance(name, bytes)]
        readable = read.holds_for([contents[text] for text in texts])
        found.update(text for text, holds in zip(texts, readable, strict=True) if holds)
        return found


def _names(delivery: Delivery) -> tuple[_Name, ...]:
    """The publications that a delivery names."""
    if delivery.kind == DeliveryKind.PATTERN:
        return PatternNotification.unpacked(delivery.told).publications
    if delivery.kind == DeliveryKind.SKIPPED:
        return ()
    return (delivery.row if delivery.row >= 0 else delivery.told,)


def _item(delivery: Delivery, named: _Named, at: int) -> Item:
    """What a delivery says at a moment; of one that is left out only ``number`` and ``reason``."""
    names = _names(delivery)
    if (reason := _left_out(delivery, names, named)) is not None:
        return {"number": delivery.number, "reason": reason}
    matched = [MatchedSubscription.unpacked(meaning) for meaning in delivery.meanings]
    is_single = delivery.kind in _SINGLE
    if is_single and _has_expired(named.contents[names[0]], at):
        matched = [one for one in matched if one.expired]
        if not matched:
            return {"number": delivery.number, "reason": "expired"}
    if delivery.kind == DeliveryKind.RETRACTED:
        return _retracted(delivery, named.contents[names[0]])
    item: Item = {
        "number": delivery.number,
        "type": "notification",
        "subscriptions": [one.id for one in matched],
        "matched_at": _instant(delivery.matched_at),
        "initial": delivery.kind == DeliveryKind.INITIAL,
    }
    publications = [_with_fields(named.contents[name], matched) for name in names]
    if is_single:
        return item | {"time": publications[0].get("time"), "publication": publications[0]}
    told = PatternNotification.unpacked(delivery.told)
    item |= {"time": _instant(told.time), "publications": publications}
    return item | {"score": told.score, "distance": told.distance}


def _retracted(delivery: Delivery, content: Item) -> Item:
    """What a retraction says: of the publication only which it is."""
    item = {"number": delivery.number, "type": "retracted", "matched_at": _instant(delivery.matched_at)}
    publication = {name: content[name] for name in _IDENTITY if name in content}
    return {**item, **orjson.loads(delivery.told), "publication": publication}


#: The kinds that are of one publication and show it.
_SINGLE = (DeliveryKind.PUBLICATION, DeliveryKind.INITIAL)
#: What a retraction says of the publication.
_IDENTITY = ("id", "source", "time", "phase", "gone")


def _left_out(delivery: Delivery, names: Sequence[_Name], named: _Named) -> str | None:
    """Why a delivery is left out, whoever its subscriptions are; None if it is shown."""
    if delivery.kind == DeliveryKind.SKIPPED:
        return str(orjson.loads(delivery.told))
    if not named.unreadable.isdisjoint(names):
        return "unreadable"
    if delivery.kind not in _SINGLE:
        return None
    if names[0] in named.withdrawn:
        return "unpublished"
    return "damaged" if named.contents[names[0]].get("lost") else None


def _has_expired(publication: Item, at: int) -> bool:
    """Whether a publication is valid no longer. That is not known of one that is gone: it counts as valid."""
    until = publication.get("valid_until")
    return until is not None and micros(datetime.fromisoformat(until)) <= at


def _in_ranges(made: Sequence[Item]) -> Iterator[Item]:
    """The items, with consecutive ones that are left out for one reason as one."""
    for reason, some in groupby(made, lambda item: item.get("reason")):
        together = list(some)
        if reason is None:
            yield from together
        else:
            first, last = together[0]["number"], together[-1]["number"]
            yield {"type": "skipped", "from": first, "number": last, "reason": reason}


def _with_fields(publication: Item, matched: Sequence[MatchedSubscription]) -> Item:
    """A publication with the attributes that some of the subscriptions want."""
    if any(one.fields == "all" for one in matched) or "attributes" not in publication:
        return publication
    wanted = {name for one in matched if one.fields != "none" for name in one.fields}
    kept = {name: value for name, value in publication["attributes"].items() if name in wanted}
    return {**publication, "attributes": kept}


@lru_cache(maxsize=1024)  # deliveries of a batch have the same
def _instant(micros: int) -> str:
    return moment(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
