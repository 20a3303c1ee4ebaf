"""Files of publications for commands, in batches: JSON Lines, a JSON array, CSV or Parquet, with the model's columns.

``batches`` yields a ``FileBatch`` at a time. Its rows are an Arrow table or, where a column would hold more than one
kind of value, a list of publications; the engine takes either. A row that cannot be taken is an error that names the
file and the line. (The pipeline reads files with ``runs/publication_files.py``, which goes on after such a row.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.cli.text_records import JSON, cells, extension, objects
from tidegate.errors import PublicationError, TidegateError, shown
from tidegate.model import Publication
from tidegate.records import publication, table
from tidegate.records.csv_cells import EXPECTED, Cells, possible_kinds, read_cells, tables
from tidegate.records.locations import with_points
from tidegate.time_zones import TimeZone

__all__ = ["FileBatch", "batches", "publication", "table"]

#: Publications that are read, matched and written together.
SIZE = 8192

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


def batches(path: Path, zone: TimeZone | None = None, size: int = SIZE) -> Iterator[FileBatch]:
    """The publications of a file, ``size`` at a time. Times without an offset from UTC are in ``zone``."""
    kind = extension(path, (*JSON, ".csv", ".parquet"))
    return (_parquet if kind == ".parquet" else _csv if kind == ".csv" else _json)(path, zone, size)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _json(path: Path, zone: TimeZone | None, size: int) -> Iterator[FileBatch]:
    found: list[Publication] = []
    numbers: list[int] = []
    unit, read = "line", 0
    for place, record, read in objects(path, PublicationError):
        if isinstance(record, TidegateError):
            raise record
        found.append(publication(record, str(place), zone))
        numbers.append(place.number)
        unit = place.unit
        if len(found) == size:
            yield FileBatch(table(found, marked=True) or found, path, numbers, unit, read)
            found, numbers = [], []
    if found:
        yield FileBatch(table(found, marked=True) or found, path, numbers, unit, read)


# --- CSV ------------------------------------------------------------------------------------------------------------


def _csv(path: Path, zone: TimeZone | None, size: int) -> Iterator[FileBatch]:
    """Cells are read twice: a column is of numbers only if every cell of the file is one. An empty cell is missing."""
    kinds = _kinds(path, zone, size)
    lines = cells(path, PublicationError)
    next(lines, None)
    while some := list(islice(lines, size)):
        numbers = [place.number for place, _, _ in some]
        columns: dict[str, Cells] = {}
        for name, texts in zip(kinds, zip(*(row for _, row, _ in some), strict=True), strict=True):
            columns[name] = read_cells(texts, kinds[name], zone)
            if wrong := columns[name].wrong:  # possible only if a reserved name, not the cells, decided the kind
                expected = f"{EXPECTED[kinds[name]]} as {name}"
                raise PublicationError(expected, shown(texts[wrong[0]]), f"line {numbers[wrong[0]]} of {path}")
        for rows, found in tables(columns):
            yield FileBatch(with_points(found), path, [numbers[row] for row in rows.tolist()], "line", some[-1][2])


def _kinds(path: Path, zone: TimeZone | None, size: int) -> dict[str, pa.DataType]:
    """The kind of each column: as its reserved name says, else the first that fits all its cells."""
    rows = cells(path, PublicationError)
    header = next((row for _, row, _ in rows), None)
    if header is None:
        raise PublicationError("a header with the names of the columns", "an empty file", str(path))
    candidates = {name: possible_kinds(name) for name in header}
    while some := [row for _, row, _ in islice(rows, size)]:
        for name, texts in zip(header, zip(*some, strict=True), strict=True):
            while len(candidates[name]) > 1 and read_cells(texts, candidates[name][0], zone).wrong:
                del candidates[name][0]
    return {name: kinds[0] for name, kinds in candidates.items()}


# --- Parquet --------------------------------------------------------------------------------------------------------


def _parquet(path: Path, zone: TimeZone | None, size: int) -> Iterator[FileBatch]:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as wrong:
        raise PublicationError("a Parquet file", _summary(wrong), str(path)) from None
    with file:
        first, rows, whole = 1, max(file.metadata.num_rows, 1), path.stat().st_size
        some = file.iter_batches(size)
        while (part := _next(some, path)) is not None:
            after = first + part.num_rows
            try:
                found = with_points(pa.Table.from_batches([part]))
            except PublicationError as error:
                error.at = f"{error.at} of {path}"
                raise
            yield FileBatch(found, path, range(first, after), "row", whole * (after - 1) // rows)
            first = after


def _next(some: Iterator[pa.RecordBatch], path: Path) -> pa.RecordBatch | None:
    try:
        return next(some, None)
    except (pa.ArrowException, OSError) as wrong:
        raise PublicationError("a whole Parquet file", f"a damaged one: {_summary(wrong)}", str(path)) from None


def _summary(wrong: Exception) -> str:
    return next(iter(str(wrong).splitlines()), type(wrong).__name__)
