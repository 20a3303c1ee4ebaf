"""The durable local log: publishers append to it, matchers map it. A row's number is its position for good.

``Log`` is the only class here; its files are described in ``log_segment`` and ``log_frames``. Threads that call
``append`` at the same time share one write to the disk. All their rows are stamped with the registry's version, which
is read after all of these calls began. Readers never wait for writers. Knows nothing of subscriptions or matching.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.closing import Closing
from tidegate.errors import SettingError, StoreError, shown
from tidegate.store.group_commit import GroupCommit
from tidegate.store.log_directory import drop, locked, opened
from tidegate.store.log_frames import BATCH, WITHDRAWN, Frame, Slice, Tombstone, read, tombstones
from tidegate.store.log_segment import LogSegment, segments
from tidegate.store.log_tail import Tail
from tidegate.store.wakeups import Waker

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.records.given import Given
    from tidegate.store.gone_rows import Named
    from tidegate.store.log_intake import PendingAppend
    from tidegate.time_zones import Zone

__all__ = ["Frame", "Log", "Slice", "Tombstone", "read"]

_MICROSECOND = timedelta(microseconds=1)


def _no_version() -> int:
    return 0


def _now() -> int:
    return time.time_ns() // 1000


class Log(Closing):
    """A log in a directory of its own. Threads share one ``Log``; each process opens one of its own on the directory.

    ``version`` says how far the registry is, ``clock`` the time in µs since 1970. A segment that has reached
    ``segment_bytes`` is followed by another.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        version: Callable[[], int] = _no_version,
        segment_bytes: int = 256 << 20,
        create: bool = True,
        clock: Callable[[], int] = _now,
    ) -> None:
        if segment_bytes < 1:
            raise SettingError("a segment of at least 1 byte", shown(segment_bytes))
        try:
            self.directory = Path(directory).absolute()
        except TypeError:
            raise SettingError("the path of a directory", shown(directory)) from None
        self._version, self._clock, self._segment_bytes = version, clock, segment_bytes
        self._turns, self._poll = GroupCommit(self._write), threading.RLock()
        self._tail: Tail | None = None
        self._waker = Waker(self.directory)
        self._is_closed = False
        try:
            opened(self.directory, create)
            self._last = LogSegment(self.directory, segments(self.directory)[-1])
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            got = f"{error.strerror or error}"
            raise StoreError("a directory with a log that can be used", got, str(self.directory)) from None

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, publications: Given, *, timezone: Zone = None) -> int:
        """Take publications, all or none, and return the row after their last once they are durable.

        They may be in any form that ``Engine.publish`` takes. The rows are in the order given.
        """
        from tidegate.store.log_intake import (
            PendingAppend,  # a process that only reads need not import what checks publications
        )

        arrival = PendingAppend(publications, timezone)
        if not arrival.rows:
            return self.end
        self._turns.bring(arrival)
        if arrival.error is not None:
            raise arrival.error
        return arrival.position

    def _write(self, taken: list[PendingAppend]) -> None:
        """Write the appends of several threads, and set the position or the error of each. Runs in one of them."""
        from tidegate.store.log_intake import bundles

        try:
            ready = list(bundles(taken))
            if not ready:
                return
            with self._locked() as tail:
                row = self._put(tail, [bundle.batches for bundle in ready], BATCH)
                for arrival in (arrival for bundle in ready for arrival in bundle.arrivals):
                    row = arrival.position = row + arrival.rows
            self._waker.wake()
        except BaseException as error:
            is_plain = isinstance(error, Exception)  # else this thread was interrupted, and the others were not
            for arrival in taken:
                if not arrival.is_done:
                    arrival.error = error if is_plain else StoreError("a write that ends", "an interrupted one")
            if not is_plain:
                raise

    def withdraw(self, unpublished: Sequence[Tombstone]) -> int:
        """Append tombstones, all or none, and return the row after the last of them once they are durable."""
        batch = tombstones(unpublished)
        if not batch.num_rows:
            return self.end
        with self._turns.alone(), self._locked() as tail:
            end: int = self._put(tail, [[batch]], WITHDRAWN) + batch.num_rows
        self._waker.wake()
        return end

    def _put(self, tail: Tail, batches: Sequence[Sequence[pa.RecordBatch]], kind: int) -> int:
        """Write batches behind what is there, to another segment if this one is full; return their first row."""
        version, appended = self._stamps(tail)
        if tail.count and tail.last.end_byte >= self._segment_bytes:
            tail.seal()
            self._tail = Tail.create(self.directory, tail.last.end_row)
            tail.close()
            tail = self._tail
        row = tail.last.end_row
        tail.append(batches, version, appended, kind)
        return row

    def _stamps(self, tail: Tail) -> tuple[int, int]:
        """The version and the time for the next frame, neither before that of the last frame."""
        version, last = self._version(), tail.last
        if not tail.count and (before := [row for row in segments(self.directory) if row < tail.first_row]):
            with LogSegment(self.directory, before[-1]) as previous:
                last = previous.last
        if version < last.version:  # this is not the registry whose versions the earlier frames have
            wanted = f"a version of {last.version} or more, as in the log"
            raise StoreError(wanted, shown(version), str(self.directory))
        return version, max(self._clock(), last.appended)

    @contextmanager
    def _locked(self) -> Iterator[Tail]:
        """The last segment, mended if it has to be, while this process holds the lock of the log."""
        if self._is_closed:
            raise StoreError("an open log", "one that was closed", str(self.directory))
        try:
            with locked(self.directory):
                last = self._tail or Tail(self.directory, segments(self.directory)[-1])
                self._tail = tail = last.latest()
                if not tail.is_whole:
                    tail.mend()
                yield tail
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            got = f"{error.strerror or error}"
            raise StoreError("a log that can be written", got, str(self.directory)) from None

    # --- reading ------------------------------------------------------------------------------------------------------

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

    def standing(self, version: Callable[[], int]) -> tuple[int, int]:
        """The end of the log, and a version: every row after that end is stamped with this version or a later one.

        Waits for appends that are under way: they may have asked for their version already.
        """
        try:
            with locked(self.directory):
                now = version()
                return self.end, now
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("a log that can be locked", f"{error.strerror or error}", str(self.directory)) from None

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
        firsts = segments(self.directory)
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

    # --- the rest -----------------------------------------------------------------------------------------------------

    def retain(
        self,
        *,
        before: int | None = None,
        age: timedelta | None = None,
        size: int | None = None,
        named: Named | None = None,
    ) -> int:
        """Drop old segments and return how many.

        Those older than ``age`` or beyond ``size`` bytes go, oldest first, or without either all that end at ``before``
        or earlier. One with a row at or after ``before`` stays, and so does the last. Readers keep a dropped segment
        for as long as they have it mapped.

        ``named`` says which rows from one to before another somebody may still name; of these, ``LogRows`` goes on
        telling id, source and time until it does not name them any more.
        """
        if before is None and age is None and size is None:
            raise SettingError("before, age or size", "none of them")
        oldest = None if age is None else self._clock() - age // _MICROSECOND
        with self._turns.alone(), self._locked():
            return drop(self.directory, before, oldest, size, named)

    def close(self) -> None:
        """Wait for writes that are under way, then close all files."""
        with self._turns.alone(), self._poll:
            if not self._is_closed:
                self._is_closed = True
                self._last.close()
                if self._tail is not None:
                    self._tail.close()


def _nearest(segment: LogSegment, row: int) -> int:
    """How many batches end before the place nearest to the row where one ends."""
    number = segment.frames_until(row)
    is_nearer = number < segment.count and segment.entry(number).end_row - row < row - segment.entry(number - 1).end_row
    return number + 1 if is_nearer else number
