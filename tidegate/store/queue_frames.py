"""Frames of queues: the deliveries of one or several batches, sorted by queue, as flat arrays behind a header.

A frame is written once, by ``packed``, and read in place by ``QueueFrame``. A delivery is a reference: the row of the
log that caused it, when it was matched, and which subscriptions matched. What these numbers of subscriptions mean is in
the frame too, so that a frame that is dropped takes with it exactly what nobody needs any more. Every 64 KiB have a
checksum, which is verified before anything in them is believed. Knows neither files nor which queues there are.

The arrays, in the order of ``_ARRAYS``; ``q`` queues, ``d`` deliveries, ``s`` matches of subscriptions, ``b`` batches,
``n`` subscriptions that are named, ``e`` deliveries with more to tell:

- ``queue`` (q) ascending, ``begin`` (q + 1) where the deliveries of each begin, ``first`` (q) the number of the first;
- ``row``, ``batch``, ``kind`` (d); ``batch`` is a place in ``batches`` (b) and ``times`` (b);
- ``matched_begin`` (d + 1) and ``matched`` (s), places in ``named`` (n);
- ``meaning_begin`` (n + 1) and ``meanings``: the bytes that say what a number means;
- ``told`` (e), deliveries in ascending order; ``told_begin`` (e + 1) and ``tellings``: their bytes;
- ``changes``: the bytes that say which queues were made and ended in these batches, and up to which cuts;
- ``spans``: the first and the last row of publications, then of initial ones; the last before the first for none.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import StoreError

__all__ = ["HEADER", "MAGICS", "Delivery", "QueueFrame", "frame_size", "packed"]

#: Changes whenever a file of an older program could be misread. Frames of the one before have no initial deliveries and
#: no retractions, and do not say which subscriptions want what is valid no longer.
_MAGIC, _BEFORE = b"TGQ2", b"TGQ1"
#: What every frame begins with.
MAGICS = (_MAGIC, _BEFORE)
#: Magic, checksum of the header behind it, checksum of the checksums, bytes of the frame, first and last batch, sizes.
_HEADER = struct.Struct("<4sIIIqqq10q")
HEADER = _HEADER.size
_BLOCK = 1 << 16
#: The kinds of deliveries that are of one row: publications, and initial ones.
_RETRACTABLE = (0, 3)
#: The arrays of a frame: their types, and which of the ten sizes, with how much added, is their length.
_ARRAYS: dict[str, tuple[str, int, int]] = {
    "queue": ("<i4", 0, 0), "begin": ("<i4", 0, 1), "first": ("<i8", 0, 0),
    "row": ("<i8", 1, 0), "batch": ("<i4", 1, 0), "kind": ("<u1", 1, 0),
    "matched_begin": ("<i4", 1, 1), "matched": ("<i4", 2, 0),
    "batches": ("<i8", 3, 0), "times": ("<i8", 3, 0),
    "named": ("<i8", 4, 0), "meaning_begin": ("<i8", 4, 1), "meanings": ("<u1", 5, 0),
    "told": ("<i4", 6, 0), "told_begin": ("<i8", 6, 1), "tellings": ("<u1", 7, 0),
    "changes": ("<u1", 8, 0), "spans": ("<i8", 9, 0),
}  # fmt: skip
#: For each of the sizes an array that has that length. A frame of ``TGQ1`` has no ``spans``.
_SIZED_BY = ("queue", "row", "matched", "batches", "named", "meanings", "told", "tellings", "changes", "spans")


_NOWHERE = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64)


class Delivery(NamedTuple):
    """One delivery of a queue. ``meanings`` are those of the subscriptions that matched; ``told`` is what else there is
    to say, empty for most. ``matched_at`` is in µs since 1970.
    """

    number: int
    kind: int
    row: int
    matched_at: int
    meanings: tuple[bytes, ...]
    told: bytes


def _places(sizes: tuple[int, ...]) -> tuple[dict[str, tuple[int, int]], int]:
    """Where each array begins and how long it is, and where the last one ends."""
    places, at = {}, HEADER
    for name, (dtype, which, more) in _ARRAYS.items():
        length = sizes[which] + more
        places[name] = at, length
        at += -(-length * int(dtype[2:]) // 8) * 8
    return places, at


def _end_of_checks(end: int) -> int:
    blocks = -(-(end - HEADER) // _BLOCK)
    return end + -(-4 * blocks // 8) * 8


def packed(arrays: Mapping[str, NDArray[Any]], first_batch: int, last_batch: int) -> bytearray:
    """The bytes of a frame of these arrays, all but ``spans``."""
    arrays = {**arrays, "spans": _spans(arrays["kind"], arrays["row"])}
    sizes = tuple(len(arrays[name]) for name in _SIZED_BY)
    places, end = _places(sizes)
    data = bytearray(_end_of_checks(end))
    for name, (at, length) in places.items():
        np.frombuffer(data, _ARRAYS[name][0], length, at)[:] = arrays[name]
    view = memoryview(data)
    checks = np.array([zlib.crc32(view[at : min(at + _BLOCK, end)]) for at in range(HEADER, end, _BLOCK)], "<u4")
    view[end : end + 4 * len(checks)] = checks.tobytes()
    fields = (zlib.crc32(view[end:]), 0, len(data), first_batch, last_batch, *sizes)
    header = _HEADER.pack(_MAGIC, 0, *fields)
    view[:HEADER] = _HEADER.pack(_MAGIC, zlib.crc32(header[8:]), *fields)
    return data


def _spans(kind: NDArray[Any], row: NDArray[Any]) -> NDArray[np.int64]:
    found = []
    for wanted in _RETRACTABLE:
        some = row[kind == wanted]
        found += [some.min(), some.max()] if len(some) else [0, -1]
    return np.array(found, np.int64)


def frame_size(header: bytes | memoryview) -> int | None:
    """How many bytes a frame has, by its first ``HEADER`` bytes; None if they are not those of a frame."""
    if len(header) < HEADER or header[:4] not in MAGICS:
        return None
    fields = _HEADER.unpack(header[:HEADER])
    if fields[1] != zlib.crc32(header[8:HEADER]):
        return None
    return int(fields[4])


class QueueFrame:
    """A frame in a buffer: the bytes of a file that is mapped, or bytes in memory. ``at`` says where it came from.

    A ``StoreError`` tells of a frame that is not as it was written. Nothing is believed before it was verified, and
    what was verified is not again. ``is_ours`` says that this process has just made the bytes.
    """

    def __init__(self, data: Any, at: str, *, is_ours: bool = False) -> None:
        self._data, self._at = memoryview(data), at
        if (size := frame_size(self._data[:HEADER])) is None or size > len(self._data):
            raise StoreError("a frame of queues", "other bytes, or too few", at)
        _, _, check, _, self.nbytes, self.first_batch, self.last_batch, *sizes = _HEADER.unpack(self._data[:HEADER])
        self._places, self._end = _places(tuple(sizes))
        if _end_of_checks(self._end) != size or zlib.crc32(self._data[self._end : size]) != check:
            raise StoreError("a frame of queues as it was written", "another one, by its checksum", at)
        blocks = -(-(self._end - HEADER) // _BLOCK)
        self._checks = np.frombuffer(self._data, "<u4", blocks, self._end)
        self._is_verified = np.full(blocks, is_ours)
        self._spans: NDArray[np.int64] | None = None
        self.queue, self.begin, self.first = (self.array(name) for name in ("queue", "begin", "first"))

    def array(self, name: str, low: int = 0, high: int | None = None) -> NDArray[Any]:
        """Some of an array, verified."""
        at, length = self._places[name]
        dtype = _ARRAYS[name][0]
        high = length if high is None else high
        width = int(dtype[2:])
        self._verify(at + low * width, at + high * width)
        return np.frombuffer(self._data, dtype, high - low, at + low * width)

    def verify(self) -> None:
        """Verify all of it."""
        self._verify(HEADER, self._end)

    def _verify(self, begin: int, end: int) -> None:
        for block in range((begin - HEADER) // _BLOCK, -(-(end - HEADER) // _BLOCK)):
            if not self._is_verified[block]:
                at = HEADER + block * _BLOCK
                if zlib.crc32(self._data[at : min(at + _BLOCK, self._end)]) != self._checks[block]:
                    got = f"another one, by the checksum at byte {at}"
                    raise StoreError("a frame of queues as it was written", got, self._at)
                self._is_verified[block] = True

    @property
    def deliveries(self) -> int:
        """How many deliveries there are, of all queues."""
        return self._places["row"][1]

    @property
    def newest(self) -> int:
        """When the last batch was matched, in µs since 1970."""
        return int(self.array("times")[-1])

    def span(self, queue: int) -> tuple[int, int]:
        """The number of the first delivery of a queue, and the number after its last; 0, 0 if it has none here."""
        at = int(np.searchsorted(self.queue, queue))
        if at == len(self.queue) or self.queue[at] != queue:
            return 0, 0
        first = int(self.first[at])
        return first, first + int(self.begin[at + 1] - self.begin[at])

    def read(self, queue: int, low: int, high: int) -> list[Delivery]:
        """The deliveries of a queue with numbers low … high − 1, which must all be here."""
        at = int(np.searchsorted(self.queue, queue))
        offset = int(self.begin[at]) - int(self.first[at])
        return self.read_places(low + offset, high + offset, low)

    def read_places(self, begin: int, end: int, number: int) -> list[Delivery]:
        """The deliveries at some places, which are of one queue; ``number`` is that of the first."""
        rows, kinds = self.array("row", begin, end).tolist(), self.array("kind", begin, end).tolist()
        times = self.array("times")[self.array("batch", begin, end)].tolist()
        starts = self.array("matched_begin", begin, end + 1).tolist()
        places = self.array("matched", starts[0], starts[-1]).tolist()
        meanings = {place: self.meaning(place) for place in set(places)}
        matched = [meanings[place] for place in places]
        told = self._told(begin, end)
        return [
            Delivery(number + i, kinds[i], rows[i], times[i],
                     tuple(matched[starts[i] - starts[0] : starts[i + 1] - starts[0]]), told.get(begin + i, b""))
            for i in range(end - begin)
        ]  # fmt: skip

    def read_some(self, begin: int, end: int, places: NDArray[np.int64], numbers: list[int]) -> list[Delivery]:
        """The deliveries at ``places`` behind ``begin``, all before ``end``, with their numbers; of any queues."""
        rows, kinds = self.array("row", begin, end)[places].tolist(), self.array("kind", begin, end)[places].tolist()
        times = self.array("times")[self.array("batch", begin, end)[places]].tolist()
        starts = self.array("matched_begin", begin, end + 1).astype(np.int64)
        first, sizes = starts[places] - starts[0], starts[places + 1] - starts[places]
        matched = self.array("matched", int(starts[0]), int(starts[-1]))
        matches = self._matches(matched, first, sizes)
        told = self._told(begin, end)
        tellings = [told.get(begin + place, b"") for place in places.tolist()] if told else repeat(b"")
        return list(map(Delivery, numbers, kinds, rows, times, matches, tellings))

    def _matches(
        self, matched: NDArray[np.int32], first: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> list[tuple[bytes, ...]]:
        """What the subscriptions mean that matched some deliveries: ``sizes`` of them for each, from ``first`` on."""
        if not sizes.all() or sizes.max(initial=1) > 1:
            every = {place: self.meaning(place) for place in np.unique(matched).tolist()}
            ranges = zip(first.tolist(), (first + sizes).tolist(), strict=True)
            return [tuple(every[place] for place in matched[low:high].tolist()) for low, high in ranges]
        places, which = np.unique(matched[first], return_inverse=True)
        low, high = int(places[0]), int(places[-1]) + 1
        begins = self.array("meaning_begin", low, high + 1)
        text = self.array("meanings", int(begins[0]), int(begins[-1])).tobytes()
        bounds = begins - begins[0]
        begun, ended = bounds[places - low].tolist(), bounds[places - low + 1].tolist()
        meanings = [(text[begin:end],) for begin, end in zip(begun, ended, strict=True)]
        return [meanings[place] for place in which.tolist()]

    @property
    def spans(self) -> NDArray[np.int64]:
        """The first and the last row of publications, and of initial ones."""
        found = self._spans if self._spans is not None else self.array("spans")
        if not len(found):  # an older frame
            found = _spans(self.array("kind"), self.array("row"))
        self._spans = found
        return found

    def of_rows(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The deliveries of publications and initial ones in some rows, which ascend: queue, number and row of each.

        Unless one of the rows is between the first and the last there is of a kind, nothing is read.
        """
        first, last = self.spans[::2], self.spans[1::2]
        if (np.searchsorted(rows, first) == np.searchsorted(rows, last, "right")).all():
            return _NOWHERE
        row = self.array("row")
        places = np.flatnonzero(np.isin(row, rows))
        places = places[np.isin(self.array("kind")[places], _RETRACTABLE)]
        at = np.searchsorted(self.begin, places, "right") - 1
        return self.queue[at], self.first[at] + places - self.begin[at], row[places]

    def meaning(self, place: int) -> bytes:
        """What the subscription at a place of ``named`` means."""
        low, high = self.array("meaning_begin", place, place + 2).tolist()
        return self.array("meanings", low, high).tobytes()

    def telling(self, place: int) -> bytes:
        """What else there is to say of the delivery at a place of ``told``."""
        low, high = self.array("told_begin", place, place + 2).tolist()
        return self.array("tellings", low, high).tobytes()

    def _told(self, begin: int, end: int) -> dict[int, bytes]:
        told = self.array("told")
        low, high = np.searchsorted(told, [begin, end]).tolist()
        return {delivery: self.telling(low + i) for i, delivery in enumerate(told[low:high].tolist())}
