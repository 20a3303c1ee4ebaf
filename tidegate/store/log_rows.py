"""Reading the log by row number: what each of some publications said, as plain dicts.

A queue refers to publications by their rows; ``LogRows`` gives what a reader of the queue is shown. It keeps segments
mapped and frames decoded between calls, a bounded number of each. Knows nothing of queues, nor of who may see what.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.closing import Closing
from tidegate.errors import StoreError
from tidegate.records.row_objects import row_objects
from tidegate.records.row_sizes import row_frame, row_sizes
from tidegate.store.gone_rows import GoneRows
from tidegate.store.log_frames import WITHDRAWN, Header
from tidegate.store.log_segment import segments
from tidegate.store.row_segment import RowSegment
from tidegate.store.valid_contents import ValidContents

__all__ = ["LogRows"]

#: What is said of a publication that is gone by retention, of a row that was given up as damaged, and of a tombstone.
_GONE: dict[str, Any] = {"gone": True}
_LOST: dict[str, Any] = {"lost": True}
_UNPUBLISHED: dict[str, Any] = {"unpublished": True}
#: Bytes of what is said of a row that is no publication, or is gone.
_SHORT = 200
#: Segments that are mapped at a time, and columns of frames of one row that are remembered.
_SEGMENTS, _SCHEMAS = 64, 4096

_Rows = NDArray[np.int64]


class LogRows(Closing):
    """The publications of the log in a directory, by row. Threads may share one; ``frames`` are kept decoded.

    What the log has dropped is looked for in the valid set of the directory ``valid``, if one is given.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        frames: int = 1024,
        valid: str | os.PathLike[str] | None = None,
    ) -> None:
        self.directory, self._most = Path(directory).absolute(), frames
        self._lock = threading.RLock()
        self._firsts: list[int] = []
        self._listed = -1
        self._open: OrderedDict[int, RowSegment] = OrderedDict()
        self._frames: OrderedDict[tuple[int, int], tuple[Header, pa.RecordBatch | None]] = OrderedDict()
        self._beside: dict[tuple[int, int], int | None] = {}
        self._gone = GoneRows(self.directory)
        self._valid = None if valid is None else ValidContents(valid)
        self._is_closed = False

    def publications(self, rows: Sequence[int] | _Rows, fields: Collection[str] | None = None) -> list[dict[str, Any]]:
        """The publication of each row, in the order of the rows, with the attributes ``fields``, or all of them.

        A row that the log has dropped has ``"gone": True`` in place of its attributes, and id, source, phase and time
        if these were noted when it was dropped. ``{"lost": True}`` stands for a row whose frame was damaged and given
        up, ``{"unpublished": True, "source": …, "id": …}`` for a tombstone. A row that is not in the log yet is an
        error, and so is a frame that is damaged.
        """
        wanted = np.asarray(rows, np.int64)
        found: list[dict[str, Any]] = [{}] * len(wanted)
        if len(wanted):
            with self._lock:
                for places, table in self._tables(wanted, found):
                    for place, row in zip(places.tolist(), row_objects(table, fields), strict=True):
                        found[place] = row
                gone = [place for place, publication in enumerate(found) if not publication]
                for place, publication in zip(gone, self._gone.find(wanted[gone]) if gone else (), strict=True):
                    found[place] = (publication or {}) | _GONE
        return found

    @property
    def first_row(self) -> int:
        """The first row that the log has not dropped."""
        with self._lock:
            try:
                changed = os.stat(self.directory).st_mtime_ns
                if changed != self._listed:
                    self._list(changed)
            except OSError as error:
                if isinstance(error, StoreError):
                    raise
                raise StoreError("a log", f"{error.strerror or error}", str(self.directory)) from None
            return self._firsts[0]

    def tables(self, rows: Sequence[int] | _Rows) -> list[tuple[_Rows, pa.Table]]:
        """The publications of some rows as tables, each with their places among the rows. There are several where their
        schemas differ. Rows that the log has dropped or given up are in none, and neither are tombstones.
        """
        wanted = np.asarray(rows, np.int64)
        with self._lock:
            return list(self._tables(wanted, [{}] * len(wanted))) if len(wanted) else []

    def sizes(self, rows: Sequence[int] | _Rows) -> _Rows:
        """About how many bytes the publication of each row has as JSON, found without reading what it says."""
        wanted = np.asarray(rows, np.int64)
        found, dropped = np.full(len(wanted), _SHORT), list[_Rows]()
        with self._lock:
            for segment, places in self._by_segment(wanted, dropped) if len(wanted) else ():
                for at, header, batch in self._by_frame(segment, wanted, places):
                    if batch is not None:
                        size = self._size_of_one(segment, header, batch) if header.rows == 1 else None
                        found[at] = row_sizes(batch, wanted[at] - header.first_row) if size is None else size
            if self._valid is not None and dropped and len(gone := np.concatenate(dropped)):
                for at, sizes in self._valid.sizes(wanted[gone]):
                    found[gone[at]] = sizes
        return found

    def _size_of_one(self, segment: RowSegment, header: Header, batch: pa.RecordBatch) -> int | None:
        """The bytes of the only row of a frame as JSON, from what other frames of the same columns have beside what
        they say; None where columns have lists, which may become many times as large.
        """
        key = segment.first_row, header.schema_at
        if key not in self._beside:
            if len(self._beside) >= _SCHEMAS:
                self._beside.clear()
            has_lists = any(pa.types.is_list(kind) or pa.types.is_large_list(kind) for kind in batch.schema.types)
            self._beside[key] = None if has_lists else header.size - batch.nbytes - row_frame(batch.schema.names)
        beside = self._beside[key]
        return None if beside is None else header.size - beside

    def _tables(self, wanted: _Rows, others: list[dict[str, Any]]) -> Iterator[tuple[_Rows, pa.Table]]:
        """The same one after the other; rows that are none of publications are told at their places in ``others``."""
        dropped = list[_Rows]()
        for segment, places in self._by_segment(wanted, dropped):
            yield from self._read(segment, wanted, places, others)
        if self._valid is not None and len(gone := np.concatenate(dropped)):
            for at, table in self._valid.tables(wanted[gone]):
                yield gone[at], table

    def _by_segment(self, wanted: _Rows, dropped: list[_Rows]) -> Iterator[tuple[RowSegment, _Rows]]:
        """The segments that have the rows, and the places of these in order; of those that none has in ``dropped``."""
        self._refresh(int(wanted.max()), int(wanted.min()))
        order = np.argsort(wanted, kind="stable")
        firsts = np.array([*self._firsts, np.iinfo(np.int64).max], np.int64)
        cuts = np.searchsorted(wanted[order], firsts)
        dropped.append(order[: cuts[0]])
        for first, low, high in zip(self._firsts, cuts, cuts[1:], strict=False):
            if low < high:
                segment = self._segment(first)
                if segment is None:  # a moment ago
                    dropped.append(order[low:high])
                else:
                    yield segment, order[low:high]

    def _refresh(self, last: int, first: int) -> None:
        """Know the segments of now, of which those that were dropped are closed, and that all rows are durable."""
        if self._is_closed:
            raise StoreError("an open log", "one that was closed", str(self.directory))
        try:
            changed = os.stat(self.directory).st_mtime_ns
            if changed != self._listed:
                self._list(changed)
            end = self._end()
            if last >= end:  # a time of change is coarse: there may be another segment nevertheless
                self._list(changed)
                end = self._end()
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("a log", f"{error.strerror or error}", str(self.directory)) from None
        if not 0 <= first <= last < end:
            got = f"row {first if first < 0 else last}"
            raise StoreError(f"rows before {end}, the end of the log", got, str(self.directory))

    def _list(self, changed: int) -> None:
        self._firsts, self._listed = segments(self.directory), changed
        for dropped in [row for row in self._open if row < self._firsts[0]]:
            self._open.pop(dropped).close()
        for key in [key for key in self._frames if key[0] < self._firsts[0]]:
            del self._frames[key]

    def _end(self) -> int:
        """The row after the last durable one; 0 where the last segment that was listed is gone."""
        newest = self._segment(self._firsts[-1])
        if newest is None:
            return 0
        newest.refresh()
        return newest.last.end_row

    def _segment(self, first: int) -> RowSegment | None:
        """A segment, open; None if it was dropped."""
        found = self._open.get(first)
        if found is None:
            try:
                found = self._open[first] = RowSegment(self.directory, first)
            except FileNotFoundError:
                return None
            if len(self._open) > _SEGMENTS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(first)
        return found

    def _read(
        self, segment: RowSegment, rows: _Rows, places: _Rows, others: list[dict[str, Any]]
    ) -> Iterator[tuple[_Rows, pa.Table]]:
        """The publications of some rows of a segment, which stand at these places in order."""
        groups: dict[int, tuple[list[pa.RecordBatch], list[_Rows]]] = {}  # by the position of their schema
        for some, header, batch in self._by_frame(segment, rows, places):
            if batch is None:
                for place in some.tolist():
                    others[place] = _LOST.copy()
                continue
            picked = _picked(batch, rows[some] - header.first_row)
            if header.kind == WITHDRAWN:
                for place, row in zip(some.tolist(), picked.select(["source", "id"]).to_pylist(), strict=True):
                    others[place] = _UNPUBLISHED | row
                continue
            batches, at = groups.setdefault(header.schema_at, ([], []))
            batches.append(picked)
            at.append(some)
        for batches, at in groups.values():
            yield np.concatenate(at), pa.Table.from_batches(batches)

    def _by_frame(
        self, segment: RowSegment, rows: _Rows, places: _Rows
    ) -> Iterator[tuple[_Rows, Header, pa.RecordBatch | None]]:
        """The frames of a segment that have some rows, which stand at these places in order, each with its places."""
        wanted = rows[places]
        if wanted[-1] >= segment.last.end_row:  # it has grown since, before another followed
            segment.refresh()
        numbers = segment.numbers(wanted)
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for low, high in pairwise(cuts):
            yield places[low:high], *self._frame(segment, int(numbers[low]))

    def _frame(self, segment: RowSegment, number: int) -> tuple[Header, pa.RecordBatch | None]:
        key = segment.first_row, number
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = segment.frame(number)
            if len(self._frames) > self._most:
                self._frames.popitem(last=False)
        else:
            self._frames.move_to_end(key)
        return found

    def close(self) -> None:
        """Unmap everything."""
        with self._lock:
            self._is_closed = True
            self._frames.clear()
            while self._open:
                self._open.popitem()[1].close()
            if self._valid is not None:
                self._valid.close()


def _picked(batch: pa.RecordBatch, rows: _Rows) -> pa.RecordBatch:
    """Some rows of a batch, in the order given."""
    if len(rows) == 1 or (rows[1:] - rows[:-1] == 1).all():
        return batch.slice(int(rows[0]), len(rows))
    return batch.take(pa.array(rows))
