"""Files of publications for the pipeline: JSON Lines, CSV or Parquet, read piece by piece. Spark's workers call it.

The file may lie on this machine or wherever ``pyarrow.fs`` reaches. A row that is no publication, and a file that is
damaged, become faults that name their place, for the quarantine. Only a file that cannot be read at the moment is an
error.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from tidegate.errors import PublicationError
from tidegate.model import COORDINATES, RESERVED
from tidegate.records import expand
from tidegate.records.csv_cells import EXPECTED, Cells, possible_kinds, read_cells, tables
from tidegate.records.locations import with_points
from tidegate.records.tables import Rows
from tidegate.rejected_row import QuarantinedRow
from tidegate.time_zones import TimeZone

__all__ = ["FORMATS", "FilePart", "located", "publications"]

#: Endings by format.
FORMATS = {"jsonl": (".jsonl", ".ndjson"), "csv": (".csv",), "parquet": (".parquet",)}

_KEPT = frozenset(RESERVED) - {"event"}


class FilePart(NamedTuple):
    """Some publications of a file, as tables of values that are not checked yet, and the rows that are none."""

    tables: list[pa.Table]
    faults: list[QuarantinedRow]


def publications(
    path: str, wanted: Collection[str] | None, size: int, zone: TimeZone | None = None
) -> Iterator[FilePart]:
    """The publications of a file, about ``size`` at a time, with the reserved names and the wanted attributes or all.

    Times of CSV and JSON without an offset from UTC are in ``zone``; those of Parquet are left to ``sift``.
    """
    filesystem, name = located(path)
    ending = f".{name.rsplit('.', 1)[-1].lower()}"
    if ending in FORMATS["parquet"]:
        yield from _parquet(filesystem, name, wanted, size)
    elif ending in FORMATS["csv"]:
        yield from _csv(filesystem, name, wanted, size, zone)
    else:
        yield from _lines(filesystem, name, wanted, size, zone)


def located(path: str) -> tuple[fs.FileSystem, str]:
    """The file system and the name of a path as Spark writes it: ``file:/a/b``, escaped as in URLs."""
    if "://" in path and not path.startswith("file:"):
        filesystem, name = fs.FileSystem.from_uri(path)
        return filesystem, name
    return fs.LocalFileSystem(), unquote(urlsplit(path).path) if path.startswith("file:") else path


# --- JSON Lines -----------------------------------------------------------------------------------------------------


def _lines(
    filesystem: fs.FileSystem, name: str, wanted: Collection[str] | None, size: int, zone: TimeZone | None
) -> Iterator[FilePart]:
    number = 0
    with filesystem.open_input_stream(name) as raw, io.BufferedReader(raw) as file:
        while some := list(islice(file, size)):
            numbered = [(n, line) for n, line in enumerate(some, number + 1) if line.strip()]
            number += len(some)
            tables, faults = expand([line for _, line in numbered], wanted, zone)
            refused = [
                QuarantinedRow(
                    f"{fault.reason}; line {numbered[fault.row][0]} of {name}", _text(numbered[fault.row][1])
                )
                for fault in faults
            ]
            yield FilePart([table for _, table in tables], refused)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r\n")


# --- CSV ------------------------------------------------------------------------------------------------------------


def _csv(
    filesystem: fs.FileSystem, name: str, wanted: Collection[str] | None, size: int, zone: TimeZone | None
) -> Iterator[FilePart]:
    """Cells are read twice: an attribute is a number only if every cell of the file is one. Empty cells are missing."""
    kinds = _kinds(filesystem, name, wanted, size, zone)
    for header, rows, faults in _rows(filesystem, name, size):
        columns: dict[str, Cells] = {}
        bad: dict[int, str] = {}
        for at, column in enumerate(header):
            if column not in kinds:
                continue
            cells = [row[at] or None for _, row in rows]
            columns[column] = found = read_cells(cells, kinds[column], zone)
            bad |= {i: f"expected {EXPECTED[kinds[column]]} as {column}; got {cells[i]!r}" for i in found.wrong}
        for i, reason in sorted(bad.items()):
            faults.append(QuarantinedRow(f"{reason}; line {rows[i][0]} of {name}", ",".join(rows[i][1])))
        yield FilePart([_without(bad, *part) for part in tables(columns)] if rows else [], faults)


def _without(bad: Mapping[int, str], rows: Rows, table: pa.Table) -> pa.Table:
    """The table without the rows that are no publications, with its points."""
    found = with_points(table) if table.num_columns else table
    return found.filter(pa.array([row not in bad for row in rows.tolist()], pa.bool_())) if bad else found


def _kinds(
    filesystem: fs.FileSystem, name: str, wanted: Collection[str] | None, size: int, zone: TimeZone | None
) -> dict[str, pa.DataType]:
    """The kind of each column that is kept: as its reserved name says, else the first that fits all its cells."""
    kinds: dict[str, list[pa.DataType]] = {}
    for header, rows, _ in _rows(filesystem, name, size):
        if not kinds:
            kinds = {column: possible_kinds(column) for column in header if _is_kept(column, wanted)}
        for at, column in enumerate(header):
            cells = [row[at] or None for _, row in rows]
            while len(kinds.get(column, ())) > 1 and read_cells(cells, kinds[column][0], zone).wrong:
                del kinds[column][0]
    return {column: left[0] for column, left in kinds.items()}


def _is_kept(column: str, wanted: Collection[str] | None) -> bool:
    name = column.removesuffix(".lon").removesuffix(".lat")
    return wanted is None or name in wanted or name in _KEPT or name in COORDINATES


_Rows = tuple[list[str], list[tuple[int, list[str]]], list[QuarantinedRow]]


def _rows(filesystem: fs.FileSystem, name: str, size: int) -> Iterator[_Rows]:
    """The header, with some numbered rows at a time that have as many cells as the header; other rows are faults."""
    with (
        filesystem.open_input_stream(name) as raw,
        io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8-sig", errors="replace", newline="") as file,
    ):
        reader = csv.reader(file)
        header = next((row for row in reader if row), [])
        if len(set(header)) < len(header):
            twice = next(column for column in header if header.count(column) > 1)
            yield [], [], [QuarantinedRow(f"expected each column once in the header; got {twice!r} twice; {name}", "")]
            return
        while True:
            rows: list[tuple[int, list[str]]] = []
            faults: list[QuarantinedRow] = []
            try:
                for row in islice(reader, size):
                    if len(row) == len(header):
                        rows.append((reader.line_num, row))
                    elif row:
                        reason = f"expected {len(header)} cells as in the header; got {len(row)}"
                        faults.append(QuarantinedRow(f"{reason}; line {reader.line_num} of {name}", ",".join(row)))
                    else:
                        continue
            except csv.Error as wrong:
                faults.append(
                    QuarantinedRow(f"expected a row of CSV; got {wrong}; line {reader.line_num} of {name}", "")
                )
            if not rows and not faults:
                return
            yield header, rows, faults


# --- Parquet --------------------------------------------------------------------------------------------------------


def _parquet(filesystem: fs.FileSystem, name: str, wanted: Collection[str] | None, size: int) -> Iterator[FilePart]:
    with filesystem.open_input_file(name) as raw:
        try:
            file = pq.ParquetFile(raw)
            columns = [column for column in file.schema_arrow.names if _is_kept(column, wanted)]
            for batch in file.iter_batches(size, columns=columns):
                yield FilePart([with_points(pa.Table.from_batches([batch]))], [])
        except PublicationError as wrong:
            yield FilePart([], [QuarantinedRow(f"{wrong} of {name}", "")])
        except pa.ArrowException as wrong:
            said = next(iter(str(wrong).splitlines()), type(wrong).__name__)
            yield FilePart([], [QuarantinedRow(f"expected a whole Parquet file; got {said}; {name}", "")])
