"""Reads a history from a file for ``tidegate shapes tolerance``: readings or series of sources, in order of time.

``read`` returns a ``ReadHistory``, whose history ``tidegate.shapes.tolerance`` takes. A file that cannot be used is an
error that names the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.cli.progress import progress
from tidegate.cli.publication_files import SIZE, FileBatch, batches, table
from tidegate.cli.sought_shape import meant
from tidegate.cli.text_records import JSON, extension
from tidegate.errors import PublicationError, SettingError, TidegateError, shown
from tidegate.model import Publication
from tidegate.shapes.tolerance import SeriesHistory

__all__ = ["HISTORIES", "Columns", "ReadHistory", "read"]

Numbers = NDArray[np.float64]

#: Files of readings or series.
HISTORIES = (*JSON, ".csv", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class Columns:
    """The names of the columns with the time and the source."""

    time: str
    source: str


@dataclass(frozen=True)
class ReadHistory:
    """A history as it was read, and how many rows could not be used."""

    path: Path
    attribute: str
    history: SeriesHistory
    has_series: bool
    read: int
    left_out: int


def read(path: Path, attribute: str, columns: Columns, chosen: list[str]) -> ReadHistory:
    """The values of an attribute in a file, of the chosen sources or, if none is chosen, of all."""
    kind = extension(path, HISTORIES)
    reader = _HistoryReader(attribute, columns)
    with progress(path.stat().st_size) as show:
        for batch in _arrow(path) if kind in (".arrow", ".feather") else batches(path):
            reader.take(batch)
            show(batch.read, f"{reader.read:,} read")
    return reader.found(path, chosen)


class _HistoryReader:
    """Takes the batches of a file and keeps sources, times and values of the attribute."""

    def __init__(self, attribute: str, columns: Columns) -> None:
        self.attribute, self.columns = attribute, columns
        self.names: dict[str, int] = {}
        self.read = 0
        self._known: dict[str, None] = {}  # the columns seen so far
        self._kind: bool | None = None
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Numbers]] = []

    def take(self, batch: FileBatch) -> None:
        rows = _as_table(batch, self.attribute)
        self.read += len(rows)
        self._known |= dict.fromkeys(rows.column_names)
        if self.attribute not in rows.column_names:
            return  # in JSON a batch without the attribute has no column for it
        column = _plain(rows.column(self.attribute))
        _numeric(column, self.attribute, batch)
        good = column.is_valid()
        times, sources = self._times(rows, batch), self._sources(rows, batch)
        for needed in (times, sources):
            good = pc.and_(good, needed.is_valid())
        if not pc.any(good).as_py():
            return
        has_series = _is_list(column.type)
        if self._kind not in (None, has_series):
            raise batch.located(SettingError(f"numbers or series as {self.attribute}", "both"))
        self._kind = has_series
        column = column.filter(good)
        if has_series:
            values = _floats(column.flatten())
            lengths = np.asarray(pc.list_value_length(column)).astype(np.int64)
        else:
            values = _floats(column)
            lengths = np.ones(len(values), np.int64)
        encoded = sources.filter(good).dictionary_encode()
        codes = np.array([self.names.setdefault(n, len(self.names)) for n in encoded.dictionary.to_pylist()], np.int64)
        self._parts.append(
            (codes[np.asarray(encoded.indices)], np.asarray(times.filter(good).cast(pa.int64())), lengths, values)
        )

    def _times(self, rows: pa.Table, batch: FileBatch) -> pa.Array:
        name = self.columns.time
        self._present(name, "--time-column", batch)
        column = _plain(rows.column(name))
        for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
            try:
                if pa.types.is_temporal(column.type) or pa.types.is_string(column.type):
                    return column.cast(kind, safe=False).cast(pa.timestamp("us"))
            except pa.ArrowException:
                continue
        first = next((value for value in column.to_pylist() if value is not None), None)
        raise batch.located(SettingError(f"timestamps or dates as {name}", shown(first)))

    def _sources(self, rows: pa.Table, batch: FileBatch) -> pa.Array:
        name = self.columns.source
        if name == "-":
            return pa.array(["-"] * len(rows))
        self._present(name, "--source-column", batch)
        column = _plain(rows.column(name))
        try:
            return column.cast(pa.string())
        except pa.ArrowException:
            raise batch.located(SettingError(f"text as {name}", f"{column.type}")) from None

    def _present(self, name: str, option: str, batch: FileBatch) -> None:
        if name not in self._known:
            some = ", ".join(list(self._known)[:20])
            raise SettingError(f"a column {name}, or another by {option}", some, str(batch.file))

    def found(self, path: Path, chosen: list[str]) -> ReadHistory:
        if not self.read:
            raise SettingError("a history of readings or series", "an empty file", str(path))
        if self.attribute not in self._known:
            others = [name for name in self._known if name not in (self.columns.time, self.columns.source, "id")]
            close = meant(get_close_matches(self.attribute, others, 1))
            got = ", ".join(others[:20]) or "none"
            raise SettingError(f"an attribute {shown(self.attribute)}", f"{got}{close}", str(path))
        if not self._parts:
            raise SettingError(f"values of {self.attribute}", "none in the whole file", str(path))
        sources, times, lengths, values = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        read, missing = self.read, self.read - len(sources)
        if chosen:
            for name in chosen:
                if name not in self.names:
                    close = meant(get_close_matches(name, list(self.names), 3))
                    raise SettingError("a source of the history", shown(name) + close, str(path))
            wanted = np.isin(sources, [self.names[name] for name in chosen])
            values = values[np.repeat(wanted, lengths)]
            sources, times, lengths = sources[wanted], times[wanted], lengths[wanted]
            read, missing = len(sources), 0
        if self._kind:
            history = SeriesHistory.series(sources, times, lengths, values)
        else:
            history = SeriesHistory.readings(sources, times, values)
            missing += len(values) - len(history.values)
        if not len(history.values):
            raise SettingError(f"finite values of {self.attribute}", "none", str(path))
        return ReadHistory(path, self.attribute, history, bool(self._kind), read, missing)


def _as_table(batch: FileBatch, attribute: str) -> pa.Table:
    """The batch as a table.

    A batch that comes as a list, because a column has several kinds of value, may still have one kind in the attribute.
    """
    if isinstance(batch.rows, pa.Table):
        return batch.rows
    found = table(batch.rows, [attribute]) or table([_rounded(one, attribute) for one in batch.rows], [attribute])
    if found is None:
        values = [one.value(attribute) for one in batch.rows]
        at = next((i for i, value in enumerate(values) if not _is_numeric(value)), 0)  # 0: numbers beside lists
        raise batch.located(_not_numeric(attribute, values[at], at))
    return found


def _rounded(one: Publication, attribute: str) -> Publication:
    """The publication with a whole number, which may be too large for a double, as a double."""
    value = one.value(attribute)
    return replace(one, attributes={attribute: float(value)}) if type(value) is int else one


def _is_numeric(value: object) -> bool:
    several = value if isinstance(value, list) else [] if value is None else [value]
    return all(one is None or (isinstance(one, int | float) and not isinstance(one, bool)) for one in several)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, without dictionary encoding, and with text always as ``string``."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return column.cast(pa.string() if pa.types.is_large_string(kind) else kind).combine_chunks()


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _numeric(column: pa.Array, attribute: str, batch: FileBatch) -> None:
    kind = column.type.value_type if _is_list(column.type) else column.type
    if not any(is_kind(kind) for is_kind in _NUMERIC):
        values = [(row, value) for row, value in enumerate(column.to_pylist()) if value is not None]
        # In CSV a single cell that is no number makes the whole column text, so the error must name that cell.
        for row, value in [one for one in values if not _is_number(one[1])] or values:
            raise batch.located(_not_numeric(attribute, value, row))


_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)


def _is_number(text: object) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text if isinstance(text, str) else "")
    except ValueError:
        return False
    return True


def _floats(column: pa.Array) -> Numbers:
    """A column as doubles; a missing value within a series is NaN, so that the series has no shape."""
    return np.asarray(column.cast(pa.float64(), safe=False).fill_null(float("nan")))


def _not_numeric(attribute: str, got: object, row: int) -> TidegateError:
    return PublicationError(f"numbers, or lists of numbers, as {attribute}", shown(got), f"row {row}")


def _arrow(path: Path) -> Iterator[FileBatch]:
    """A file of Arrow's file format or stream format."""
    try:
        with pa.memory_map(str(path)) as file:
            try:
                whole_file = pa.ipc.open_file(file)
                parts = (whole_file.get_batch(i) for i in range(whole_file.num_record_batches))
            except pa.ArrowInvalid:
                file.seek(0)
                parts = iter(pa.ipc.open_stream(file))
            first, size = 1, path.stat().st_size
            for part in parts:
                for at in range(0, len(part), 8 * SIZE):
                    some = pa.Table.from_batches([part.slice(at, 8 * SIZE)])
                    yield FileBatch(some, path, range(first, first + len(some)), "row", min(file.tell(), size))
                    first += len(some)
    except (pa.ArrowException, ValueError) as wrong:
        said = next(iter(str(wrong).splitlines()), type(wrong).__name__)
        raise SettingError("an Arrow file", said, str(path)) from None
