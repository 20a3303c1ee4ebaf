"""The durable local log: publishers append to it, matchers map it. A row's number is its position for good.

``Log`` writes; its files are described in ``log_segment`` and ``log_frames``. Threads that call ``append`` at the same
time share one write to the disk. All their rows are stamped with the registry's version, which is read after all of
these calls began. With ``Identities`` each publication is taken once. Knows nothing of subscriptions or matching.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidegate.errors import SettingError, StoreError, shown
from tidegate.store.group_commit import GroupCommit
from tidegate.store.log_directory import drop, locked, opened
from tidegate.store.log_frames import BATCH, WITHDRAWN, Frame, Slice, Tombstone, read, tombstones
from tidegate.store.log_reader import LogReader
from tidegate.store.log_segment import DurableEntry, LogSegment, segments
from tidegate.store.log_tail import Tail
from tidegate.store.wakeups import Waker

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.model import Publication
    from tidegate.records.given import Given
    from tidegate.store.gone_rows import Named
    from tidegate.store.identities import Identities
    from tidegate.store.log_intake import CheckedBatches, CheckedLots, PendingAppend, PendingAppends
    from tidegate.store.log_rows import LogRows
    from tidegate.store.validity_limits import ValidityLimits
    from tidegate.time_zones import Zone

__all__ = ["Appended", "Frame", "Log", "Slice", "Tombstone", "read"]

_MICROSECOND = timedelta(microseconds=1)


def _no_version() -> int:
    return 0


def _now() -> int:
    return time.time_ns() // 1000


class Appended(NamedTuple):
    """What became of publications: how many were taken, and how many the log had already.

    ``conflicts`` has the places of those that were refused, because the log has others of the same identity. All that
    was taken, and what it repeats, is in rows before ``position``.
    """

    position: int
    accepted: int
    duplicates: int
    conflicts: tuple[int, ...]


class Log(LogReader):
    """A log in a directory of its own. Threads share one ``Log``; each process opens one of its own on the directory.

    ``version`` says how far the registry is, ``clock`` the time in µs since 1970. A segment that has reached
    ``segment_bytes`` is followed by another. ``identities`` is the index of what the log has, if each is to be taken
    once, ``limits`` says for how long publications may be valid.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        version: Callable[[], int] = _no_version,
        segment_bytes: int = 256 << 20,
        create: bool = True,
        clock: Callable[[], int] = _now,
        identities: Identities | None = None,
        limits: ValidityLimits | None = None,
    ) -> None:
        if segment_bytes < 1:
            raise SettingError("a segment of at least 1 byte", shown(segment_bytes))
        try:
            where = Path(directory).absolute()
        except TypeError:
            raise SettingError("the path of a directory", shown(directory)) from None
        self._version, self._clock, self._segment_bytes = version, clock, segment_bytes
        self._identities, self._limits = identities, limits
        self._turns = GroupCommit(self._write)
        self._tail: Tail | None = None
        self._rows: LogRows | None = None
        self._at = str(where)
        try:
            opened(where, create)
            super().__init__(where)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            got = f"{error.strerror or error}"
            raise StoreError("a directory with a log that can be used", got, self._at) from None
        self._waker = Waker(self.directory)

    @property
    def identities(self) -> Identities | None:
        """Which publications it has, if each is to be taken once."""
        return self._identities

    @property
    def limits(self) -> ValidityLimits | None:
        """For how long publications may be valid."""
        return self._limits

    def prepare(self) -> None:
        """Do now what the first append would do: import what checks publications, and know which ones there are."""
        from tidegate.store import log_dedupe, log_intake, log_rows  # noqa: F401

        with self._turns.alone(), self._locked() as tail:
            if self._identities is not None:
                last, _, now = self._stamps(tail)
                self._identities.follow(self.directory, last, now)

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, publications: Given, *, timezone: Zone = None, made_times: Collection[int] = ()) -> Appended:
        """Take publications, all or none, and return once they are durable.

        They may be in any form that ``Engine.publish`` takes. The rows are in the order given. A log that knows
        identities takes each once: it leaves out what it has, and says of that which says something else.
        ``made_times`` has the places of those that had no time and got that of their arrival from the caller.
        """
        [found] = self.append_all([(publications, made_times)], timezone=timezone)
        if isinstance(found, Exception):
            raise found
        return found

    def append_all(
        self,
        lots: Sequence[tuple[Given, Collection[int]]],
        checked: Sequence[CheckedLots] = (),
        *,
        timezone: Zone = None,
    ) -> list[Appended | Exception]:
        """Take what several callers bring, with one write to the disk, and say of each lot what became of it.

        A lot is what ``append`` takes: publications, and the places of those whose times were made. Each is taken whole
        or not at all, and the error of one is none of the others'. Lots may be written in another order than given.
        The lots of ``checked`` follow; whoever brings them has made sure that they are publications within the limits.
        """
        from tidegate.store.log_intake import (
            PendingAppends,  # a process that only reads need not import what checks publications
        )

        pending = PendingAppends(lots, checked, timezone, self._limits, self._clock)
        if not pending.is_done:
            self._turns.bring(pending)
        return [found if isinstance(found, Exception) else self._outcome(found) for found in pending.each]

    def _outcome(self, arrival: PendingAppend) -> Appended | Exception:
        """What became of an append that was written or refused."""
        if arrival.error is not None:
            return arrival.error
        if not arrival.rows:
            return Appended(self.end, 0, 0, ())
        if not arrival.met:
            return Appended(arrival.position, arrival.rows, 0, ())
        return self._compared(arrival)

    def _compared(self, arrival: PendingAppend) -> Appended:
        """What became of an append of which something was known."""
        from tidegate.store.log_dedupe import differing
        from tidegate.store.log_rows import LogRows

        with self._poll:
            if self._rows is None:
                self._rows = LogRows(self.directory)
        again = sum(len(met.rows) for met in arrival.met)
        conflicts = differing(arrival.met, self._rows)
        return Appended(arrival.position, arrival.rows - again, again - len(conflicts), conflicts)

    def _write(self, brought: list[PendingAppends]) -> None:
        """Write the appends of several threads, and set the position or the error of each. Runs in one of them."""
        from tidegate.store.log_intake import bundles

        taken = [arrival for pending in brought for arrival in pending.all()]
        try:
            ready = list(bundles([arrival for pending in brought for arrival in pending.arrivals]))
            ready += (some for pending in brought for some in pending.ready)
            if not ready:
                return
            with self._locked() as tail:
                has_written = self._take(tail, ready)
            if has_written:
                self._waker.wake()
        except BaseException as error:
            plain = error if isinstance(error, Exception) else StoreError("a write that ends", "an interrupted one")
            for arrival in taken:
                if not arrival.is_done:
                    arrival.error = plain
            if plain is not error:  # this thread was interrupted, and the others were not
                raise

    def _take(self, tail: Tail, ready: list[CheckedBatches]) -> bool:
        """Write what is new, if anything is. What fails once it is durable, fails nobody: the index is made again."""
        from tidegate.store.log_dedupe import all_new, sifted

        last, version, now = self._stamps(tail)
        known = self._identities
        if known is None:
            new = all_new(ready, last.end_row)
        else:
            known.follow(self.directory, last, now)
            new = sifted(ready, known, last.end_row, now)
        if new.batches:
            tail = self._put(tail, new.batches, version, now, BATCH)
        for arrival in (arrival for bundle in ready for arrival in bundle.arrivals):
            arrival.position = arrival.ends_at
        if known is not None and new.batches:
            known.add(new.hashes, new.valid_until, last.end_row, now, tail.last)
        return bool(new.batches)

    def unpublish(self, publications: Iterable[tuple[str, str]]) -> list[bool]:
        """Withdraw all publications of each source and id, of every phase; return once that is durable.

        Says of each pair whether there was one that still counts, by the horizon or because it is valid, and was not
        withdrawn before.
        """
        known, pairs = self._identities, list(publications)
        if known is None:
            raise StoreError("a log that knows identities, as that of a data directory", "one without", self._at)
        if not pairs:
            return []
        with self._turns.alone(), self._locked() as tail:
            last, version, now = self._stamps(tail)
            known.follow(self.directory, last, now)
            rows = known.standing(pairs, now)
            graves = [Tombstone(*pair, sorted(some)) for pair, some in rows.items() if some]
            if graves:
                tail = self._put(tail, [[tombstones(graves)]], version, now, WITHDRAWN)
                known.withdraw([grave[:2] for grave in graves], now, tail.last)
        if graves:
            self._waker.wake()
        return [bool(rows.pop(pair, ())) for pair in pairs]

    def has(self, publications: Sequence[Publication]) -> list[bool]:
        """Of which publications the log knows the identity: these are not appended again. It knows none of a log that
        takes each as often as it comes.
        """
        known = self._identities
        if known is None or not publications:
            return [False] * len(publications)
        with self._turns.alone(), self._locked() as tail:
            last, _, now = self._stamps(tail)
            known.follow(self.directory, last, now)
            rows = known.known(known.hashes.of_objects(publications), now)
        return [False] * len(publications) if rows is None else (rows >= 0).tolist()

    def standing_rows(self, source: str, id: str) -> list[int]:
        """The rows that may be of a source and id, of any phase, and still count: by the horizon, or because they are
        valid, and were not withdrawn. They are found by hashes: what is there is to be compared.
        """
        known = self._identities
        if known is None:
            raise StoreError("a log that knows identities, as that of a data directory", "one without", self._at)
        with self._turns.alone(), self._locked() as tail:
            last, _, now = self._stamps(tail)
            known.follow(self.directory, last, now)
            return sorted(known.standing([(source, id)], now)[source, id])

    def withdraw(self, graves: Sequence[Tombstone]) -> int:
        """Append tombstones whose rows the caller knows, and return the row after the last once they are durable."""
        if not graves:
            return self.end
        with self._turns.alone(), self._locked() as tail:
            _, version, now = self._stamps(tail)
            end: int = self._put(tail, [[tombstones(graves)]], version, now, WITHDRAWN).last.end_row
        self._waker.wake()
        return end

    def _put(
        self, tail: Tail, batches: Sequence[Sequence[pa.RecordBatch]], version: int, appended: int, kind: int
    ) -> Tail:
        """Write batches behind what is there, to another segment if this one is full; return the one they are in."""
        if tail.count and tail.last.end_byte >= self._segment_bytes:
            tail.seal()
            self._tail = Tail.create(self.directory, tail.last.end_row)
            tail.close()
            tail = self._tail
        tail.append(batches, version, appended, kind)
        return tail

    def _stamps(self, tail: Tail) -> tuple[DurableEntry, int, int]:
        """The last entry, and version and time for the next frame, neither before that of the last frame."""
        version, last = self._version(), tail.last
        if not tail.count and (before := [row for row in segments(self.directory) if row < tail.first_row]):
            with LogSegment(self.directory, before[-1]) as previous:
                last = previous.last
        if version < last.version:  # this is not the registry whose versions the earlier frames have
            wanted = f"a version of {last.version} or more, as in the log"
            raise StoreError(wanted, shown(version), self._at)
        return last, version, max(self._clock(), last.appended)

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
                super().close()
                for opened in (self._waker, self._tail, self._rows, self._identities):
                    if opened is not None:
                        opened.close()
