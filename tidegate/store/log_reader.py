"""What is in a log: where it begins and ends, and which slices of it there are, for those that read it in order.

``Log`` extends ``LogReader`` by writing. Readers never wait for writers. Knows nothing of publications.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from tidegate.closing import Closing
from tidegate.errors import SettingError, StoreError, shown
from tidegate.store.log_frames import Slice
from tidegate.store.log_segment import DurableEntry, LogSegment, segments

__all__ = ["LogReader"]


class LogReader(Closing):
    """The log in a directory that exists, as it is when it is asked. Threads may share one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._poll = threading.RLock()
        self._is_closed = False
        self._last = LogSegment(directory, segments(directory)[-1])

    @property
    def begin(self) -> int:
        """The first row that is kept."""
        return segments(self.directory)[0]

    @property
    def end(self) -> int:
        """The row after the last durable one. Cheap enough to be asked every few milliseconds."""
        with self._poll:
            if self._is_closed:
                raise StoreError("an open log", "one that was closed", str(self.directory))
            self._last = self._last.latest()
            return self._last.last.end_row

    def appended(self, row: int) -> int | None:
        """When a row was appended (µs since 1970); None at the end of the log."""
        with self._poll:
            first = [first for first in self._kept(row, row) if first <= row][-1]
            with self._segment(first) as segment:
                number = segment.frames_until(row)
                return segment.entry(number).appended if number < segment.count else None

    def end_before(self, moment: int) -> int:
        """The row after the last one that was appended before a moment (µs since 1970)."""
        begin, end = self.begin, self.end
        return begin + bisect_left(range(begin, end), moment, key=lambda row: self.appended(row) or 0)

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        found = 0
        with os.scandir(self.directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # dropped since the directory was listed
                    found += entry.stat().st_size
        return found

    def cut(self, begin: int, rows: int) -> int:
        """The last row at most so many rows after ``begin`` where no batch is split; at least one batch after it."""
        if rows < 1:
            raise SettingError("at least 1 row", shown(rows))
        with self._poll:
            firsts = self._kept(begin, begin)
            with self._segment([row for row in firsts if row <= begin + rows][-1]) as segment:
                most = segment.entry(segment.frames_until(begin + rows) - 1).end_row
            if most > begin:
                return most
            with self._segment([row for row in firsts if row <= begin][-1]) as segment:
                number = segment.frames_until(begin)
                return segment.entry(number).end_row if number < segment.count else begin

    def since(self, moment: int) -> int:
        """The row where the first batch begins that was appended at a moment, in µs since 1970, or later; or the end.

        Stamps never go back.
        """
        with self._poll:
            end, firsts = self.end, segments(self.directory)  # the end first: the segments then contain it
            for first, following in zip(firsts, [*firsts[1:], end], strict=True):
                with self._segment(first) as segment:
                    if segment.count and segment.last.appended >= moment:
                        frames = range(segment.count)
                        number = bisect_left(frames, moment, key=lambda number: segment.entry(number).appended)
                        return segment.entry(number - 1).end_row
                    if following == end:
                        return end
            return end

    def stamp(self, row: int) -> DurableEntry:
        """The entry of the batch that a row is in, which says its version and when it was appended."""
        with self._poll:
            first = [first for first in self._kept(row, row + 1) if first <= row][-1]
            with self._segment(first) as segment:
                return segment.entry(segment.frames_until(row))

    def slices(self, begin: int, end: int, pieces: int) -> list[Slice]:
        """The rows between two places where no batch is split, in about so many pieces of about as many rows.

        A piece is of one file: there are more pieces where there are more files.
        """
        if pieces < 1:
            raise SettingError("at least 1 piece", shown(pieces))
        found: list[Slice] = []
        with self._poll:
            firsts = self._kept(begin, end)
            for first, following in zip(firsts, [*firsts[1:], end], strict=True):
                low, high = max(first, begin), min(following, end)
                if low < high:
                    with self._segment(first) as segment:
                        share = max(1, round(pieces * (high - low) / (end - begin)))
                        found += self._pieces(segment, low, high, share)
        return found

    def _pieces(self, segment: LogSegment, low: int, high: int, pieces: int) -> Iterator[Slice]:
        numbers = [_nearest(segment, low + (high - low) * i // pieces) for i in range(pieces + 1)]
        for number, row in ((numbers[0], low), (numbers[-1], high)):
            if segment.entry(number - 1).end_row != row:
                raise SettingError("a row where a batch begins", f"{row}, within one", str(self.directory))
        for a, b in pairwise(numbers):
            if a < b:
                before, last = segment.entry(a - 1), segment.entry(b - 1)
                span = before.end_byte, last.end_byte, before.end_row, last.end_row - before.end_row
                yield Slice(str(segment.file), *span, segment.entry(a).version, last.version)

    def _kept(self, begin: int, end: int) -> list[int]:
        """The first rows of all segments, if all rows from ``begin`` to ``end`` are in them."""
        last = self.end  # asked first: the segments then contain it
        is_newest = self._last.first_row <= begin
        firsts = [self._last.first_row] if is_newest else segments(self.directory)
        if begin < firsts[0]:
            raise StoreError(f"rows that are kept, from {firsts[0]} on", f"row {begin}", str(self.directory))
        if not begin <= end <= last:
            raise StoreError(f"rows up to {last}, the end of the log", f"rows {begin} to {end}", str(self.directory))
        return firsts

    @contextmanager
    def _segment(self, first: int) -> Iterator[LogSegment]:
        if first == self._last.first_row:
            yield self._last
            return
        try:
            segment = LogSegment(self.directory, first)
        except FileNotFoundError:  # dropped since the directory was listed
            got = f"row {first}"
            raise StoreError(f"rows that are kept, from {self.begin} on", got, str(self.directory)) from None
        with segment:
            yield segment

    def close(self) -> None:
        """Close all files."""
        with self._poll:
            if not self._is_closed:
                self._is_closed = True
                self._last.close()


def _nearest(segment: LogSegment, row: int) -> int:
    """How many batches end before the place nearest to the row where one ends."""
    number = segment.frames_until(row)
    is_nearer = number < segment.count and segment.entry(number).end_row - row < row - segment.entry(number - 1).end_row
    return number + 1 if is_nearer else number
