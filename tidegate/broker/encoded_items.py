"""Items of many queues at once, as JSON: what ``DeliveredItems`` gives for each queue alone, made for delivery.

The deliveries of all queues are read in one go, each row of the log that they name is read once, and encoded once for
all that show the same attributes of it. No more content is read than the pages may have bytes. Knows no connections; is
told what each reader may read.
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
from tidegate.broker.named_deliveries import BESIDE, NamedDeliveries, PublicationName, names_of
from tidegate.broker.read_filter import ReadFilter
from tidegate.moments import moment
from tidegate.store.delivery_records import DeliveryKind, PatternNotification
from tidegate.store.log_rows import LogRows
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_frames import Delivery
from tidegate.store.queue_reader import QueueReader

__all__ = ["PAGE", "EncodedItem", "EncodedItems", "EncodedPage"]

#: Bytes with which a page is long enough, if nothing else is said.
PAGE = 2 << 20

#: Deliveries that are looked at beyond those of a page where none of these is shown.
_FURTHER = 1_000
#: Bytes of content that are kept, about, and of the items of all queues that are read together.
_CONTENT, _TOGETHER = 32 << 20, 8 << 20
#: Rows whose sizes are remembered: who goes on where a page ended asks for most of them again.
_SIZES = 20_000
_SINGLE = (DeliveryKind.PUBLICATION, DeliveryKind.INITIAL)
_IDENTITY = ("id", "source", "time", "phase", "gone")


class EncodedItem(NamedTuple):
    """One item: its type, the number after which a reader goes on who has it, and all of it as a JSON object."""

    type: str
    number: int
    body: bytes


class EncodedPage(NamedTuple):
    """Items of a queue in order, and where to go on behind them. ``read`` is what its principal might read when it was
    made, as it is stored; None for everything.
    """

    epoch: str
    items: list[EncodedItem]
    next: int
    read: str | None = None


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
        self._row_sizes: dict[int, int] = {}
        self._lock = threading.Lock()

    def pages(
        self,
        wanted: Sequence[tuple[Queue, QueuePosition]],
        limit: int,
        reads: Sequence[ReadFilter | None],
        most: int = PAGE,
    ) -> list[EncodedPage]:
        """For each queue the items after a position, of publications that may be read by the filter at its place: up to
        so many, and up to the one with which there are ``most`` bytes.

        Where all of them would have very many bytes, these are the pages of the first queues only, of one at least.
        """
        with self._lock:
            return self._pages(wanted, limit, reads, most)

    def _pages(
        self, wanted: Sequence[tuple[Queue, QueuePosition]], limit: int, reads: Sequence[ReadFilter | None], most: int
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
        given = self._within(
            [NamedDeliveries.of(one.deliveries, read) for one, read in zip(found, reads, strict=True)], most
        )
        made = self._made(given, at)
        self._look_further(queues, reads, made, most, at)
        pages = []
        for queue, number, reason, one, some in zip(queues, known, reasons, found, made, strict=False):
            items = _short(_in_ranges(some)[:limit], most)
            following = items[-1].number if items else max(number, one.begin - 1)
            if reason is None and one.begin > number + 1:
                reason = "retention"
            gap = [_gap(number + 1, one.begin, reason)] if reason else []
            pages.append(EncodedPage(queue.epoch, [*gap, *items], following))
        return pages

    def _look_further(
        self,
        queues: Sequence[Queue],
        reads: Sequence[ReadFilter | None],
        made: Sequence[list[EncodedItem | _LeftOut]],
        most: int,
        at: int,
    ) -> None:
        """Add more deliveries where none is shown, so that a long range is one item."""
        further = [place for place, some in enumerate(made) if some and _are_left_out(some)]
        if not further:
            return
        lasts = [made[place][-1].number for place in further]
        more = self._queues.read_many([queues[place] for place in further], lasts, _FURTHER)
        there = [
            NamedDeliveries.of(one.deliveries if one.begin == last + 1 else [], reads[place])
            for place, last, one in zip(further, lasts, more, strict=True)
        ]
        for place, some in zip(further, self._made(self._within(there, most), at), strict=False):
            made[place].extend(some)

    def _within(self, given: Sequence[NamedDeliveries], most: int) -> list[NamedDeliveries]:
        """The first of them, each as far as it has so many bytes, about, and all together as many as there may be."""
        sizes = self._sizes(set[PublicationName]().union(*(one.names for one in given)))
        largest = BESIDE + max(sizes.values(), default=0)
        found, together = list[NamedDeliveries](), 0
        for one in given:
            size = largest * len(one.deliveries)
            if size > most or not one.is_plain:
                one, size = one.within(sizes, most)
            found.append(one)
            together += size
            if together >= _TOGETHER:
                break
        return found

    def _sizes(self, names: Set[PublicationName]) -> dict[PublicationName, int]:
        """About how many bytes each publication has."""
        rows, known = [name for name in names if isinstance(name, int)], self._row_sizes
        missing = [row for row in rows if row not in known]
        if missing and self._rows is not None:
            if len(known) > _SIZES:
                known.clear()
                missing = rows
            known.update(zip(missing, self._rows.sizes(missing).tolist(), strict=True))
        return {name: known.get(name, 0) if isinstance(name, int) else len(name) for name in names}

    # --- items ------------------------------------------------------------------------------------------------------

    def _made(self, given: Sequence[NamedDeliveries], at: int) -> list[list[EncodedItem | _LeftOut]]:
        """An item for each delivery, or why it is left out."""
        named = self._named(given)
        suffixes: dict[Any, bytes | str] = {}
        found = []
        for deliveries, read, _, _ in given:
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

    def _named(self, given: Sequence[NamedDeliveries]) -> _Named:
        """What is known of all publications that some deliveries name."""
        names, of_read = set[PublicationName](), dict[ReadFilter, set[PublicationName]]()
        for one in given:
            names |= one.names
            if one.read is not None:
                of_read.setdefault(one.read, set()).update(one.names)
        rows = sorted(name for name in names if isinstance(name, int))
        every = np.array(rows, np.int64)
        withdrawn = set(every[self._withdrawn(every)].tolist()) if rows else set()
        contents = self._contents(names, rows)
        unreadable = {read: mine - self._readable(mine, contents, read) for read, mine in of_read.items()}
        return _Named(contents, unreadable, withdrawn)

    def _contents(self, names: Iterable[PublicationName], rows: Sequence[int]) -> dict[PublicationName, EncodedContent]:
        contents: dict[PublicationName, EncodedContent] = {}
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
        self, names: Iterable[PublicationName], contents: Mapping[PublicationName, EncodedContent], read: ReadFilter
    ) -> set[PublicationName]:
        """Those that may be read. What the log has no more, and what is known by its id only, nobody can judge."""
        found = set[PublicationName]()
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

    contents: dict[PublicationName, EncodedContent]
    unreadable: dict[ReadFilter, set[PublicationName]]
    withdrawn: set[PublicationName]


_NONE: frozenset[PublicationName] = frozenset()


def _suffix(delivery: Delivery, named: _Named, unreadable: Set[PublicationName], at: int) -> bytes | str:
    """What follows the number of an item; or why the delivery is left out."""
    if delivery.kind == DeliveryKind.SKIPPED:
        return str(orjson.loads(delivery.told))
    names = names_of(delivery)
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


def _single(delivery: Delivery, name: PublicationName, named: _Named, at: int) -> bytes | str:
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


def _short(items: list[EncodedItem], most: int) -> list[EncodedItem]:
    """The items up to the one with which there are so many bytes."""
    if sum([len(item.body) for item in items]) < most:  # nearly always
        return items
    size = 0
    for count, item in enumerate(items, 1):
        size += len(item.body)
        if size >= most:
            return items[:count]
    return items


def _gap(begin: int, oldest: int, reason: str) -> EncodedItem:
    gap = {"type": "gap", "from": begin, "to": oldest - 1, "oldest": oldest, "reason": reason}
    return EncodedItem("gap", oldest - 1, orjson.dumps(gap))


@lru_cache(maxsize=1024)  # deliveries of a batch have the same
def _instant(micros: int) -> bytes:
    return b'"%b"' % moment(micros).isoformat(timespec="microseconds").replace("+00:00", "Z").encode()
