"""A segment of the log for readers of single rows: in which frame a row is, and the frames by their numbers.

``LogRows`` keeps some of these open. Both files are mapped, so that finding a thousand rows reads a few pages of the
index. A frame is compared with its checksum the first time it is asked for. Knows nothing of other segments.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.store.log_frames import SCHEMA, Header, after, frame_at, mapped
from tidegate.store.log_segment import ENTRY, LogSegment, entry_of, valid_entries

__all__ = ["RowSegment"]

#: Rows up to which each is looked for by itself.
_FEW = 8


class RowSegment(LogSegment):
    """A segment, of which ``rows_until`` and ``frame`` read what is durable as of the last ``refresh``."""

    def _begin(self) -> None:
        super()._begin()
        self._schemas: dict[int, pa.Schema] = {}
        self._verified = bytearray()
        self._mapped = 0
        self._map()

    def _map(self) -> None:
        """Map what is durable by now. Nothing that an entry calls durable is ever cut off."""
        if self._mapped == self.count:
            return
        self._file = mapped(str(self.file), self.last.end_byte)
        entries = mmap.mmap(self._index, self.count * ENTRY, access=mmap.ACCESS_READ)
        self._entries: NDArray[np.int64] = np.frombuffer(entries, np.int64).reshape(self.count, -1)
        self._verified += bytes(self.count - self._mapped)
        self._mapped = self.count

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the frames that hold these rows, all of which are in the segment and durable."""
        self._map()
        if len(rows) <= _FEW:
            return np.array([self._number(row) for row in rows.tolist()], np.int64)
        ends = self._entries[:, 1]
        low, high = np.zeros(len(rows), np.int64), np.full(len(rows), self.count, np.int64)
        for _ in range(self.count.bit_length()):  # a search of all rows together: ``ends`` is not copied for it
            middle = (low + high) // 2
            is_right = ends[np.minimum(middle, self.count - 1)] <= rows
            low, high = np.where(is_right & (low < high), middle + 1, low), np.where(is_right, high, middle)
        used = np.unique(np.concatenate([low, np.maximum(low - 1, 0)]))
        good = valid_entries(self._entries[used])
        if not good.all():
            raise self._gap(int(used[np.argmin(good)]))
        return low

    def _number(self, row: int) -> int:
        """The number of the frame that holds one row."""
        item = self._entries.item
        found = bisect_right(range(self.count), row, key=lambda number: item(number, 1))
        for number in (found, max(found - 1, 0)):
            if entry_of(self._entries[number].tobytes()) is None:
                raise self._gap(number)
        return found

    def frame(self, number: int) -> tuple[Header, pa.RecordBatch | None]:
        """The header of a frame and its batch, of publications or of tombstones; None if these were given up."""
        end = self._entries[number]
        at, row = self._entries[number - 1, :2].tolist() if number else (0, self.first_row)
        is_verified = bool(self._verified[number])
        while True:
            header, batch = frame_at(self._file, at, row, self._schemas, str(self.file), is_verified)
            at = after(at, header)
            if header.kind != SCHEMA:
                break
        if at != end[0] or row + header.rows != end[1]:
            raise self._gap(number)
        self._verified[number] = 1
        return header, batch
