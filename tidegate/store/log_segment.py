"""A segment of the log: a file of frames, and beside it an index with an entry for each batch that is durable.

An entry is written only after the frames before it have reached the disk, so readers (``LogSegment``) trust entries and
never lock; the writer is ``log_tail.Tail``. Knows nothing of other segments but how the next one is named, and nothing
of what publications are.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.closing import Closing
from tidegate.errors import StoreError

__all__ = [
    "ENTRY",
    "NOTES",
    "DurableEntry",
    "LogSegment",
    "data_file",
    "entry_of",
    "index_file",
    "packed_entries",
    "segments",
    "valid_entries",
]

_ENTRY = struct.Struct("<qqqqQ")
ENTRY = _ENTRY.size
#: How the names of files end that say what is left of a segment that was dropped; ``gone_rows`` writes them.
NOTES = ".gone"
#: Entries that are read at a time, at most.
_SOME = 32_768
#: Multipliers of an entry's fields in the checksum that is its last field, and what is added to that sum, so that an
#: entry of zeros is not valid.
_WEIGHTS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], np.uint64)
_EXTRA = np.uint64(0x85EBCA77C2B2AE63)
_64_BITS = (1 << 64) - 1
_W, _X, _Y, _Z = map(int, _WEIGHTS)
_MORE = int(_EXTRA)


class DurableEntry(NamedTuple):
    """States that all frames up to a byte, and so all rows up to a row, are durable; version and time of the last."""

    end_byte: int
    end_row: int
    version: int
    appended: int


def data_file(directory: Path, first_row: int) -> Path:
    """The file of frames of the segment that begins with the row."""
    return directory / f"{first_row:020d}.log"


def index_file(directory: Path, first_row: int) -> Path:
    """The entries of that segment."""
    return directory / f"{first_row:020d}.index"


def _checks(fields: NDArray[np.int64]) -> NDArray[np.uint64]:
    sums: NDArray[np.uint64] = (fields.view(np.uint64) * _WEIGHTS).sum(axis=1, dtype=np.uint64)
    return sums + _EXTRA


def valid_entries(table: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of some entries, a row of five numbers each, are as they were written."""
    good: NDArray[np.bool_] = _checks(np.ascontiguousarray(table[:, :4])) == table[:, 4].view(np.uint64)
    return good


def packed_entries(entries: Sequence[DurableEntry]) -> bytes:
    """The bytes of entries."""
    if len(entries) == 1:
        return _ENTRY.pack(*entries[0], _check(entries[0]))
    fields = np.array(entries, np.int64)
    return np.column_stack([fields.view(np.uint64), _checks(fields)]).tobytes()


def entry_of(data: bytes) -> DurableEntry | None:
    """The entry that some bytes are; None if they are too few or were damaged."""
    if len(data) < ENTRY:
        return None
    *fields, check = _ENTRY.unpack(data)
    return DurableEntry(*fields) if _check(fields) == check else None


def _check(fields: Sequence[int]) -> int:
    """``_checks`` for one entry."""
    a, b, c, d = fields
    return (a * _W + b * _X + c * _Y + d * _Z + _MORE) & _64_BITS


def _good_entries(data: bytes, after: DurableEntry) -> tuple[int, DurableEntry]:
    """How many entries come before one that is torn or does not follow on the one before it, and the last of them."""
    if not data[:ENTRY].strip(b"\0"):
        return 0, after
    if len(data) < 2 * ENTRY:  # as a rule; numpy takes ten times as long for one
        one = entry_of(data[:ENTRY])
        return (1, one) if one is not None and _follows(one, after) else (0, after)
    table = np.frombuffer(data, np.int64, 5 * (len(data) // ENTRY)).reshape(-1, 5)
    fields = table[:, :4]
    good = valid_entries(table)
    before = np.concatenate([[after], fields[:-1]])
    good &= (fields[:, :2] > before[:, :2]).all(axis=1) & (fields[:, 2] >= before[:, 2])
    count = len(good) if good.all() else int(np.argmin(good))
    return count, DurableEntry(*fields[count - 1].tolist()) if count else after


def _follows(entry: DurableEntry, before: DurableEntry) -> bool:
    return entry.end_byte > before.end_byte and entry.end_row > before.end_row and entry.version >= before.version


class LogSegment(Closing):
    """A segment as readers see it: what has become durable. ``last`` is the last entry, ``count`` their number."""

    _index_mode = os.O_RDONLY

    def __init__(self, directory: Path, first_row: int) -> None:
        self.directory, self.first_row = directory, first_row
        self.file = data_file(directory, first_row)
        self.count, self.last = 0, DurableEntry(0, first_row, 0, 0)
        #: A row, and how many batches end at it or before it.
        self._asked = -1, 0
        self._index = os.open(index_file(directory, first_row), self._index_mode)
        try:
            self._begin()
        except BaseException:
            os.close(self._index)
            raise

    def _begin(self) -> None:
        """Find the last entry. An index that ends with an entry is full, as it is once the next segment has begun."""
        count, rest = divmod(os.fstat(self._index).st_size, ENTRY)
        found, last = self._read(count - 1) if count and not rest else (0, self.last)
        if found:
            self.count, self.last = count, last
        else:
            self.refresh()

    def close(self) -> None:
        """Close the file."""
        os.close(self._index)

    def _read(self, number: int) -> tuple[int, DurableEntry]:
        return _good_entries(os.pread(self._index, ENTRY, number * ENTRY), self.last)

    def refresh(self) -> None:
        """Notice entries that have been added."""
        most, found = 1, 1  # mostly there is none, or one
        while found:
            data = os.pread(self._index, most * ENTRY, self.count * ENTRY)
            found, self.last = _good_entries(data, self.last)
            self.count, most = self.count + found, min(8 * most, _SOME)
        if data[:ENTRY].strip(b"\0"):
            self._refuse_gap()

    def _refuse_gap(self) -> None:
        """An entry that is not whole is one that is being written, unless there is another behind it."""
        behind = os.pread(self._index, ENTRY, (self.count + 1) * ENTRY)
        if entry_of(behind) is not None and not self._read(self.count)[0]:
            raise self._gap(self.count)

    def _gap(self, number: int) -> StoreError:
        at = f"byte {number * ENTRY} of {index_file(self.directory, self.first_row)}"
        got = "one with a gap, which opening the log to append mends; if it does not, remove the file first"
        return StoreError("a whole index of the log", got, at)

    def latest(self) -> Self:
        """The segment that is the last one now, this or another; this one is closed if it is another."""
        self.refresh()
        index = os.fstat(self._index)
        if index.st_nlink == 0:  # dropped, and perhaps the next one too
            following = segments(self.directory)[-1]
        elif index.st_size > self.count * ENTRY or not self.count:  # one that another follows has no room for entries
            return self
        elif os.path.exists(f"{self.directory}/{self.last.end_row:020d}.log"):  # quicker than a Path
            following = self.last.end_row
        else:
            return self
        found = type(self)(self.directory, following).latest()
        self.close()
        return found

    def entry(self, number: int) -> DurableEntry:
        """An entry by its number; -1 stands for the beginning."""
        if number < 0:
            return DurableEntry(0, self.first_row, 0, 0)
        if number == self.count - 1:
            return self.last
        found = entry_of(os.pread(self._index, ENTRY, number * ENTRY))
        if found is None:
            raise self._gap(number)
        return found

    def frames_until(self, row: int) -> int:
        """How many batches end at the row or before it. Who reads on asks for the end, and next for where that was."""
        if row > self.last.end_row:
            return self.count
        if row == self.last.end_row:
            self._asked = row, self.count
        elif row != self._asked[0]:
            self._asked = row, bisect_right(range(self.count), row, key=lambda number: self.entry(number).end_row)
        return self._asked[1]


def segments(directory: Path) -> list[int]:
    """The first rows of all segments, in order."""
    found = sorted(int(name[:-4]) for name in os.listdir(directory) if name.endswith(".log") and name[:-4].isdigit())
    if not found:
        raise StoreError("a log", "a directory without one", str(directory))
    return found
