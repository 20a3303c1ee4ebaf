"""Publications that the log has dropped and that somebody may still name: what is left of them.

Before ``Log.retain`` drops a segment, ``note`` writes id, source, phase and time of those of its rows that are still
named, into a file beside the log; ``GoneRows`` answers from these files. For a moment there are both the file and the
segment, never neither. Knows nothing of who names rows.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.errors import StoreError
from tidegate.records.json_values import instants, json_values
from tidegate.store.log_frames import WITHDRAWN
from tidegate.store.log_segment import NOTES
from tidegate.store.log_tail import sync_directory
from tidegate.store.row_segment import RowSegment

__all__ = ["GoneRows", "Named", "forget", "note"]

#: Which rows from one row to before another somebody may still name.
Named = Callable[[int, int], NDArray[np.int64]]

#: How the name of a file ends that is being written.
_NEW = ".new"
_FORMAT = 1
_COLUMNS = ("id", "source", "phase", "time")
#: Files that are mapped at a time.
_FILES = 16

_Rows = NDArray[np.int64]


# --- writing: the caller holds the lock of the log --------------------------------------------------------------------


def note(directory: Path, first: int, named: Named) -> None:
    """Write down what is named of the segment that begins with a row.

    Rows whose frames are damaged are left out: nobody knows any more what they were.
    """
    with RowSegment(directory, first) as segment:
        end = segment.last.end_row
        rows = _within(named, first, end)
        batches = _batches(segment, rows) if len(rows) else []
    if batches:
        table = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="default")
        _write(directory / f"{first:020d}{NOTES}", table.combine_chunks(), end)


def _within(named: Named, first: int, end: int) -> _Rows:
    rows = np.unique(np.asarray(named(first, end), np.int64))
    return rows[(rows >= first) & (rows < end)]


def _batches(segment: RowSegment, rows: _Rows) -> list[pa.RecordBatch]:
    numbers = segment.numbers(rows)
    found = []
    for number in np.unique(numbers).tolist():
        try:
            header, batch = segment.frame(number)
        except StoreError:
            continue
        if batch is not None and header.kind != WITHDRAWN:
            some = rows[numbers == number]
            names = [name for name in _COLUMNS if name in batch.schema.names]
            picked = batch.select(names).take(pa.array(some - header.first_row))
            columns = [
                instants(column) if name == "time" else column.cast(pa.large_string())
                for name, column in zip(names, picked.columns, strict=True)
            ]
            found.append(pa.RecordBatch.from_arrays([pa.array(some), *columns], ["row", *names]))
    return found


def _write(path: Path, table: pa.Table, end: int) -> None:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    beginning = Path(f"{path}{_NEW}")
    try:
        arrays = {"rows": np.frombuffer(stream.getvalue(), np.uint8)}
        array_bundle.write(beginning, arrays, {"format": _FORMAT, "end": end})
        with beginning.open("rb") as file:
            os.fsync(file.fileno())
        beginning.rename(path)
        sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            beginning.unlink()
        raise StoreError("room to write", f"{error.strerror or error}", str(path)) from None


def forget(directory: Path, named: Named) -> None:
    """Remove the files of which no row is named any more, and what a write that was interrupted has left."""
    for name in os.listdir(directory):
        path = directory / name
        if name.endswith(_NEW):
            path.unlink()
        elif name.endswith(NOTES):
            noted = _read(path)
            if not np.isin(_within(named, _first(name), noted.end), noted.rows).any():
                path.unlink()


# --- reading ----------------------------------------------------------------------------------------------------------


class _Noted(NamedTuple):
    """What a file has: rows, ascending, the publication of each, and the row after the last of the segment."""

    rows: _Rows
    table: pa.Table
    end: int


def _first(name: str) -> int:
    return int(name[: -len(NOTES)])


def _read(path: Path) -> _Noted:
    arrays, facts = array_bundle.read(path)
    if facts.get("format") != _FORMAT:
        raise StoreError(f"rows that were dropped, in format {_FORMAT}", f"format {facts.get('format')}", str(path))
    try:
        table = pa.ipc.open_stream(pa.py_buffer(arrays["rows"])).read_all()
        table.validate(full=True)
        return _Noted(np.asarray(table.column("row")), table, facts["end"])
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StoreError("rows that were dropped", f"{error}", str(path)) from None


class GoneRows:
    """Answers for rows that the log in a directory has dropped. One thread at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._firsts: list[int] = []
        self._files: OrderedDict[int, _Noted] = OrderedDict()

    def find(self, rows: _Rows) -> list[dict[str, Any] | None]:
        """For each row id, source, phase and time of the publication, as JSON has them, or None."""
        names = os.listdir(self.directory)
        self._firsts = sorted(_first(name) for name in names if name.endswith(NOTES))
        for first in self._files.keys() - self._firsts:
            del self._files[first]
        found: list[dict[str, Any] | None] = [None] * len(rows)
        wanted: dict[int, list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            if at := bisect_right(self._firsts, row):
                wanted.setdefault(self._firsts[at - 1], []).append(place)
        for first, places in wanted.items():
            noted, some = self._noted(first), rows[places]
            if noted is None:
                continue
            nearest = np.minimum(np.searchsorted(noted.rows, some), len(noted.rows) - 1)
            is_there = noted.rows[nearest] == some
            told = _told(noted.table.take(pa.array(nearest[is_there])))
            for place, publication in zip(np.array(places)[is_there].tolist(), told, strict=True):
                found[place] = publication
        return found

    def _noted(self, first: int) -> _Noted | None:
        if first not in self._files:
            path = self.directory / f"{first:020d}{NOTES}"
            try:
                self._files[first] = _read(path)
            except StoreError:
                if path.exists():
                    raise
                return None  # removed since the directory was listed
            if len(self._files) > _FILES:
                self._files.popitem(last=False)
        self._files.move_to_end(first)
        return self._files[first]


def _told(table: pa.Table) -> list[dict[str, Any]]:
    names = [name for name in _COLUMNS if name in table.column_names]
    columns = [json_values(table.column(name), is_attribute=False) for name in names]
    rows = (zip(names, values, strict=True) for values in zip(*columns, strict=True))
    return [{name: value for name, value in row if value is not None} for row in rows]
