"""Items of many queues at once, as JSON: what ``DeliveredItems`` gives for each queue alone, made for delivery.

The deliveries of all queues are read in one go, each row of the log that they name is read once, and encoded once for
all that show the same attributes of it. Knows no connections; is told what each reader may read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.broker.delivered_items import QueuePosition
from tidegate.broker.encoded_content import ContentCache, EncodedContent, Matched
from tidegate.broker.read_filter import ReadFilter
from tidegate.moments import moment
from tidegate.store.delivery_records import DeliveryKind, PatternNotification
from tidegate.store.log_rows import LogRows
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_frames import Delivery
from tidegate.store.queue_reader import QueueReader

__all__ = ["EncodedItem", "EncodedItems", "EncodedPage"]

#: A publication as a delivery names it; see ``delivered_items``.
_Name = int | bytes | str
#: Deliveries that are looked at beyond those of a page where none of these is shown.
_FURTHER = 1_000
#: Bytes of content that are kept, about.
_CONTENT = 64 << 20
_SINGLE = (DeliveryKind.PUBLICATION, DeliveryKind.INITIAL)
_IDENTITY = ("id", "source", "time", "phase", "gone")


class EncodedItem(NamedTuple):
    """One item: its type, the number after which a reader goes on who has it, and all of it as a JSON object."""

    type: str
    number: int
    body: bytes


class EncodedPage(NamedTuple):
    """Items of a queue in order, and where to go on behind them."""

    epoch: str
    items: list[EncodedItem]
    next: int


class EncodedItems:
    """The items of ``queues``, with content from ``rows``. Threads may share one. For the rest see ``DeliveredItems``,
    which says what an item is.
    """

    def __init__(
        self,
        queues: QueueReader,
        rows: LogRows | None,
        *,
        withdrawn: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
        clock: Callable[[], int],
    ) -> None:
        self._queues, self._rows, self._withdrawn, self._clock = queues, rows, withdrawn, clock
        self._cache = ContentCache(_CONTENT)
        self._lock = threading.Lock()

    def pages(
        self,
        wanted: Sequence[tuple[Queue, QueuePosition]],
        limit: int,
        reads: Sequence[ReadFilter | None],
    ) -> list[EncodedPage]:
        """For each queue the items after a position, of publications that may be read by the filter at its place."""
        with self._lock:
            return self._pages(wanted, limit, reads)

    def _pages(
        self, wanted: Sequence[tuple[Queue, QueuePosition]], limit: int, reads: Sequence[ReadFilter | None]
    ) -> list[EncodedPage]:
        at, known, reasons = self._clock(), list[int](), list[str | None]()
        for queue, position in wanted:
            reason = None
            if position.epoch not in (None, queue.epoch):
                reason = "epoch"
            elif position.number > self._queues.last(queue):
                reason = "beyond"
            known.append(0 if reason else position.number)
            reasons.append(reason)
        queues = [queue for queue, _ in wanted]
        found = self._queues.read_many(queues, known, limit)
        made = self._made([(one.deliveries, read) for one, read in zip(found, reads, strict=True)], at)
        further = [place for place, some in enumerate(made) if some and _are_left_out(some)]
        if further:  # look further, so that a long range is one item
            lasts = [made[place][-1].number for place in further]
            more = self._queues.read_many([queues[place] for place in further], lasts, _FURTHER)
            there = [
                (one.deliveries if one.begin == last + 1 else [], reads[place])
                for place, last, one in zip(further, lasts, more, strict=True)
            ]
            for place, some in zip(further, self._made(there, at), strict=True):
                made[place] += some
        pages = []
        for queue, number, reason, one, some in zip(queues, known, reasons, found, made, strict=True):
            items = _in_ranges(some)[:limit]
            following = items[-1].number if items else max(number, one.begin - 1)
            if reason is None and one.begin > number + 1:
                reason = "retention"
            gap = [_gap(number + 1, one.begin, reason)] if reason else []
            pages.append(EncodedPage(queue.epoch, [*gap, *items], following))
        return pages

    # --- items ------------------------------------------------------------------------------------------------------

    def _made(
        self, given: Sequence[tuple[list[Delivery], ReadFilter | None]], at: int
    ) -> list[list[EncodedItem | _LeftOut]]:
        """An item for each delivery, or why it is left out."""
        named = self._named(given)
        suffixes: dict[Any, bytes | str] = {}
        found = []
        for deliveries, read in given:
            unreadable = _NONE if read is None else named.unreadable[read]
            some = list[EncodedItem | _LeftOut]()
            for delivery in deliveries:
                number, kind, row, matched_at, meanings, _ = delivery
                if kind == 0 and row >= 0 and row not in unreadable:  # nearly all are so
                    key = row, matched_at, meanings
                    suffix = suffixes.get(key)
                    if suffix is None:
                        suffix = suffixes[key] = _single(delivery, row, named, at)
                else:
                    suffix = _suffix(delivery, named, unreadable, at)
                if isinstance(suffix, str):
                    some.append(_LeftOut(number, suffix))
                elif kind == DeliveryKind.RETRACTED:
                    some.append(EncodedItem("retracted", number, b'{"number":%d%b' % (number, suffix)))
                else:
                    some.append(EncodedItem("notification", number, b'{"number":%d%b' % (number, suffix)))
            found.append(some)
        return found

    def _named(self, given: Sequence[tuple[list[Delivery], ReadFilter | None]]) -> _Named:
        """What is known of all publications that some deliveries name."""
        names, of_read = set[_Name](), dict[ReadFilter, set[_Name]]()
        for deliveries, read in given:
            mine = set[_Name]()
            for delivery in deliveries:
                if delivery.kind == 0 and delivery.row >= 0:
                    mine.add(delivery.row)
                else:
                    mine.update(_names(delivery))
            names |= mine
            if read is not None:
                of_read.setdefault(read, set()).update(mine)
        rows = sorted(name for name in names if isinstance(name, int))
        every = np.array(rows, np.int64)
        withdrawn = set(every[self._withdrawn(every)].tolist()) if rows else set()
        contents = self._contents(names, rows)
        unreadable = {read: mine - self._readable(mine, contents, read) for read, mine in of_read.items()}
        return _Named(contents, unreadable, withdrawn)

    def _contents(self, names: Iterable[_Name], rows: Sequence[int]) -> dict[_Name, EncodedContent]:
        contents: dict[_Name, EncodedContent] = {}
        for name in names:
            if isinstance(name, bytes):
                contents[name] = EncodedContent(orjson.loads(name))
            elif isinstance(name, str):
                contents[name] = EncodedContent({"id": name})
        if self._rows is None:
            return contents | {row: EncodedContent({}) for row in rows}
        if not rows:
            return contents
        self._cache.drop_before(self._rows.first_row)
        missing = []
        for row in rows:
            content = self._cache.get(row)
            if content is None:
                missing.append(row)
            else:
                contents[row] = content
        if missing:
            for row, publication in zip(missing, self._rows.publications(missing), strict=True):
                contents[row] = EncodedContent(publication)
                self._cache.put(row, contents[row])
        return contents

    def _readable(
        self, names: Iterable[_Name], contents: Mapping[_Name, EncodedContent], read: ReadFilter
    ) -> set[_Name]:
        """Those that may be read. What the log has no more, and what is known by its id only, nobody can judge."""
        found = set[_Name]()
        rows = sorted(name for name in names if isinstance(name, int))
        if self._rows is not None and rows:
            every = np.array(rows, np.int64)
            for places, table in self._rows.tables(every):
                found.update(every[places[read.holds(table)]].tolist())
        texts = [name for name in names if isinstance(name, bytes)]
        holds = read.holds_for([contents[text].publication for text in texts])
        found.update(text for text, is_held in zip(texts, holds, strict=True) if is_held)
        return found


class _LeftOut(NamedTuple):
    """A delivery that is not shown, and why."""

    number: int
    reason: str


class _Named(NamedTuple):
    """Publications by name: what they say, who may not read them, and which are withdrawn."""

    contents: dict[_Name, EncodedContent]
    unreadable: dict[ReadFilter, set[_Name]]
    withdrawn: set[_Name]


_NONE: frozenset[_Name] = frozenset()


def _names(delivery: Delivery) -> tuple[_Name, ...]:
    """The publications that a delivery names."""
    if delivery.kind == DeliveryKind.PATTERN:
        return PatternNotification.unpacked(delivery.told).publications
    if delivery.kind == DeliveryKind.SKIPPED:
        return ()
    return (delivery.row if delivery.row >= 0 else delivery.told,)


def _suffix(delivery: Delivery, named: _Named, unreadable: Set[_Name], at: int) -> bytes | str:
    """What follows the number of an item; or why the delivery is left out."""
    if delivery.kind == DeliveryKind.SKIPPED:
        return str(orjson.loads(delivery.told))
    names = _names(delivery)
    if any(name in unreadable for name in names):
        return "unreadable"
    if delivery.kind in _SINGLE:
        return _single(delivery, names[0], named, at)
    if delivery.kind == DeliveryKind.RETRACTED:
        content = named.contents[names[0]].publication
        publication = {name: content[name] for name in _IDENTITY if name in content}
        head = b',"type":"retracted","matched_at":%b' % _instant(delivery.matched_at)
        return head + b"," + orjson.dumps({**orjson.loads(delivery.told), "publication": publication})[1:]
    told, matched = PatternNotification.unpacked(delivery.told), Matched.of(delivery.meanings)
    publications = b",".join([named.contents[name].encoded(matched.fields) for name in names])
    numbers = orjson.dumps({"score": told.score, "distance": told.distance})[1:]
    time = _instant(told.time)
    return b'%b,"time":%b,"publications":[%b],%b' % (_head(matched, delivery), time, publications, numbers)


def _single(delivery: Delivery, name: _Name, named: _Named, at: int) -> bytes | str:
    """The same of one publication."""
    content = named.contents[name]
    if name in named.withdrawn:
        return "unpublished"
    if content.is_lost:
        return "damaged"
    matched: Matched | None = Matched.of(delivery.meanings)
    assert matched is not None
    if content.until is not None and content.until <= at:
        matched = matched.expired
        if matched is None:
            return "expired"
    return _head(matched, delivery) + content.ending(matched.fields)


def _head(matched: Matched, delivery: Delivery) -> bytes:
    is_initial = b"true" if delivery.kind == DeliveryKind.INITIAL else b"false"
    return b',"type":"notification","subscriptions":%b,"matched_at":%b,"initial":%b' % (
        matched.ids,
        _instant(delivery.matched_at),
        is_initial,
    )


def _are_left_out(made: Iterable[EncodedItem | _LeftOut]) -> bool:
    return all(isinstance(one, _LeftOut) for one in made)


def _in_ranges(made: Sequence[EncodedItem | _LeftOut]) -> list[EncodedItem]:
    """The items, with consecutive ones that are left out for one reason as one."""
    found: list[EncodedItem] = [one for one in made if isinstance(one, EncodedItem)]
    if len(found) == len(made):
        return found
    found = []
    first, before = 0, None
    for one in made:
        if isinstance(one, EncodedItem):
            found.append(one)
            before = None
            continue
        if before == one.reason:
            found.pop()
        else:
            first, before = one.number, one.reason
        skipped = {"type": "skipped", "from": first, "number": one.number, "reason": one.reason}
        found.append(EncodedItem("skipped", one.number, orjson.dumps(skipped)))
    return found


def _gap(begin: int, oldest: int, reason: str) -> EncodedItem:
    gap = {"type": "gap", "from": begin, "to": oldest - 1, "oldest": oldest, "reason": reason}
    return EncodedItem("gap", oldest - 1, orjson.dumps(gap))


@lru_cache(maxsize=1024)  # deliveries of a batch have the same
def _instant(micros: int) -> bytes:
    return b'"%b"' % moment(micros).isoformat(timespec="microseconds").replace("+00:00", "Z").encode()
