"""Files of publications for commands, in batches: JSON Lines, a JSON array, CSV or Parquet, with the model's columns.

``batches`` yields a ``FileBatch`` at a time. Its rows are an Arrow table or, where a column would hold more than one
kind of value, a list of publications; the engine takes either. A row that cannot be taken is an error that names the
file and the line. (The pipeline reads files with ``runs/publication_files.py``, which goes on after such a row.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.cli.text_records import JSON, cells, extension, objects
from tidegate.errors import PublicationError, TidegateError, shown
from tidegate.model import RESERVED, Publication
from tidegate.records import publication, table

__all__ = ["FileBatch", "batches", "publication", "table"]

#: Publications that are read, matched and written together.
SIZE = 8192

_INSTANT = pa.timestamp("us", "UTC")
#: Looked for at the end only: the name of a column, which may be any text, may stand before it.
_ROW = re.compile(r"\brow (\d+)\Z")


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Some publications of a file, the numbers of their lines, and how many bytes of the file have been read."""

    rows: pa.Table | list[Publication]
    file: Path
    numbers: list[int] | range
    unit: str
    read: int

    def located(self, error: TidegateError) -> TidegateError:
        """The error, with the line of the file in place of the row of the batch that the engine named."""
        at, found = _ROW.subn(lambda row: f"{self.unit} {self.numbers[int(row[1])]}", error.at)
        span = "" if found else f", {self.unit}s {self.numbers[0]} to {self.numbers[-1]}"
        error.at = f"{at} of {self.file}{span}" if at else f"{self.file}{span}"
        return error


def batches(path: Path, size: int = SIZE) -> Iterator[FileBatch]:
    """The publications of a file, ``size`` at a time."""
    kind = extension(path, (*JSON, ".csv", ".parquet"))
    return (_parquet if kind == ".parquet" else _csv if kind == ".csv" else _json)(path, size)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _json(path: Path, size: int) -> Iterator[FileBatch]:
    found: list[Publication] = []
    numbers: list[int] = []
    unit, read = "line", 0
    for place, record, read in objects(path, PublicationError):
        if isinstance(record, TidegateError):
            raise record
        found.append(publication(record, str(place)))
        numbers.append(place.number)
        unit = place.unit
        if len(found) == size:
            yield FileBatch(table(found) or found, path, numbers, unit, read)
            found, numbers = [], []
    if found:
        yield FileBatch(table(found) or found, path, numbers, unit, read)


# --- CSV ------------------------------------------------------------------------------------------------------------


def _csv(path: Path, size: int) -> Iterator[FileBatch]:
    """Cells are read twice: a column is of numbers only if every cell of the file is one. An empty cell is missing."""
    readers = _readers(path, size)
    rows = cells(path, PublicationError)
    next(rows, None)
    while some := list(islice(rows, size)):
        numbers = [place.number for place, _, _ in some]
        columns: dict[str, pa.Array] = {}
        for name, texts in zip(readers, zip(*(row for _, row, _ in some), strict=True), strict=True):
            array = _texts(texts)
            try:
                columns[name] = readers[name](array)
            except pa.ArrowInvalid:  # possible only if a reserved name, not the cells, decided the kind
                raise _first_fault(name, array, path, numbers) from None
        yield FileBatch(_with_points(pa.table(columns), path), path, numbers, "line", some[-1][2])


def _readers(path: Path, size: int) -> dict[str, Callable[[pa.Array], pa.Array]]:
    """How to read each column: as its reserved name says, else as the first kind that fits all its cells."""
    rows = cells(path, PublicationError)
    header = next((row for _, row, _ in rows), None)
    if header is None:
        raise PublicationError("a header with the names of the columns", "an empty file", str(path))
    candidates = {name: _reserved(name) or list(_GUESSES) for name in header}
    while some := [row for _, row, _ in islice(rows, size)]:
        for name, texts in zip(header, zip(*some, strict=True), strict=True):
            while len(candidates[name]) > 1:
                try:
                    candidates[name][0](_texts(texts))
                    break
                except pa.ArrowInvalid:
                    del candidates[name][0]
    return {name: kinds[0] for name, kinds in candidates.items()}


def _texts(cells: tuple[str, ...]) -> pa.Array:
    return pa.array([cell or None for cell in cells], pa.string())


def _numbers(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.float64())


def _instants(texts: pa.Array) -> pa.Array:
    return texts.cast(_INSTANT)


def _truths(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.bool_())


def _as_they_are(texts: pa.Array) -> pa.Array:
    return texts


_GUESSES = (_numbers, _instants, _truths, _as_they_are)


def _reserved(name: str) -> list[Callable[[pa.Array], pa.Array]] | None:
    if name.endswith((".lon", ".lat")):
        return [_numbers]
    known: dict[str, list[Callable[[pa.Array], pa.Array]]] = {"text": [_as_they_are], "time": [_instants]}
    return known.get(RESERVED.get(name, ""))


def _first_fault(name: str, texts: pa.Array, path: Path, numbers: list[int]) -> PublicationError:
    if name.endswith((".lon", ".lat")):
        kind, wanted = pa.float64(), "a number"
    else:
        kind, wanted = _INSTANT, "a timestamp with its offset from UTC, such as '2026-11-15T08:00:00Z',"
    for number, text in zip(numbers, texts, strict=True):
        try:
            text.cast(kind)
        except pa.ArrowInvalid:
            return PublicationError(f"{wanted} as {name}", shown(text.as_py()), f"line {number} of {path}")
    raise AssertionError("a column that cannot be cast has a cell that cannot")


def _with_points(found: pa.Table, path: Path) -> pa.Table:
    """Columns x.lon and x.lat as one column x of points."""
    for name in [name.removesuffix(".lon") for name in found.column_names if name.endswith(".lon")]:
        if any(found.column_names.count(f"{name}.{part}") != 1 for part in ("lon", "lat")):
            continue  # the engine refuses a column that is there twice
        lon, lat = (_degrees(found, f"{name}.{part}", path) for part in ("lon", "lat"))
        missing = pa.compute.and_(lon.is_null(), lat.is_null())
        points = pa.StructArray.from_arrays([lon, lat], ["lon", "lat"], mask=missing)
        found = found.drop_columns([f"{name}.lon", f"{name}.lat"]).append_column(name, points)
    return found


def _degrees(found: pa.Table, name: str, path: Path) -> pa.Array:
    column = found.column(name).combine_chunks()
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or kind == pa.null()):
        raise PublicationError(f"numbers as {name}", f"{kind}", str(path))
    return column.cast(pa.float64(), safe=False)  # a number too large to be exact is out of range anyway


# --- Parquet --------------------------------------------------------------------------------------------------------


def _parquet(path: Path, size: int) -> Iterator[FileBatch]:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as wrong:
        raise PublicationError("a Parquet file", _summary(wrong), str(path)) from None
    with file:
        first, rows, whole = 1, max(file.metadata.num_rows, 1), path.stat().st_size
        some = file.iter_batches(size)
        while (part := _next(some, path)) is not None:
            after = first + part.num_rows
            found = _with_points(pa.Table.from_batches([part]), path)
            yield FileBatch(found, path, range(first, after), "row", whole * (after - 1) // rows)
            first = after


def _next(some: Iterator[pa.RecordBatch], path: Path) -> pa.RecordBatch | None:
    try:
        return next(some, None)
    except (pa.ArrowException, OSError) as wrong:
        raise PublicationError("a whole Parquet file", f"a damaged one: {_summary(wrong)}", str(path)) from None


def _summary(wrong: Exception) -> str:
    return next(iter(str(wrong).splitlines()), type(wrong).__name__)
