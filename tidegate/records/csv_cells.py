"""The cells of a CSV column as values of one kind: numbers, instants, truth values or texts.

A reserved name decides the kind of its column; for another the readers of files try one kind after the other. An empty
cell is missing. Where a column has fractions, and whole numbers that no double is equal to, ``tables`` puts the rows
into several tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.model import RESERVED
from tidegate.records.number_columns import common_kind, kind_of
from tidegate.records.tables import Part
from tidegate.records.timestamps import INSTANT, read_timestamps
from tidegate.time_zones import HINT, TimeZone
from tidegate.whole_numbers import DOUBLES, exact, is_long

__all__ = ["EXPECTED", "Cells", "possible_kinds", "read_cells", "tables"]

#: The kinds, and what an error says that a cell must be.
EXPECTED = {
    pa.float64(): "a number",
    INSTANT: f"a timestamp with its offset from UTC, such as '2026-11-15T08:00:00Z', {HINT}",
    pa.bool_(): "true or false",
    pa.string(): "text",
}


_WHOLE = re.compile("[+-]?0*[0-9]{1,20}")


class Cells(NamedTuple):
    """A column as values, null where a cell is no such value; the rows of these cells; and whole numbers by row, where
    the column has their doubles, which are other numbers.
    """

    array: pa.Array
    wrong: list[int]
    longs: dict[int, int]


def possible_kinds(column: str) -> list[pa.DataType]:
    """The kinds that the cells of a column may be of; the first that fits all of them is taken."""
    if column.endswith((".lon", ".lat")):
        return [pa.float64()]
    fixed = {"text": [pa.string()], "time": [INSTANT]}
    return fixed.get(RESERVED.get(column, ""), list(EXPECTED))


def read_cells(cells: Sequence[str | None], kind: pa.DataType, zone: TimeZone | None) -> Cells:
    """The cells as values of a kind."""
    texts = pa.array([cell or None for cell in cells], pa.string())
    if kind == INSTANT:
        found, wrong = read_timestamps(texts, zone)
        return Cells(found, wrong.tolist(), {})
    faults: list[int] = []
    try:
        array = texts.cast(kind)
    except pa.ArrowInvalid:
        array, faults = _one_by_one(texts, kind)
    return _exactly(texts, array, faults) if kind == pa.float64() else Cells(array, faults, {})


def tables(columns: Mapping[str, Cells]) -> list[Part]:
    """The rows as tables: as one where a column of numbers can hold all of its cells."""
    whole = pa.table({name: cells.array for name, cells in columns.items()})
    longs = {name: cells.longs for name, cells in columns.items() if cells.longs}
    if not longs:
        return [(np.arange(len(whole)), whole)]
    alike: dict[tuple[pa.DataType | None, ...], list[int]] = {}
    for row in range(len(whole)):
        kinds = tuple(kind_of(some[row]) if row in some else None for some in longs.values())
        alike.setdefault(kinds, []).append(row)
    parts: list[Part] = []
    for kinds, rows in alike.items():
        part = whole.take(pa.array(rows))
        for kind, (name, some) in zip(kinds, longs.items(), strict=True):
            if kind is not None:
                array = pa.array([some[row] for row in rows], kind)
                part = part.set_column(part.column_names.index(name), name, array)
        parts.append((np.array(rows, np.int64), part))
    return parts


def _exactly(texts: pa.Array, doubles: pa.Array, wrong: list[int]) -> Cells:
    """Numbers as integers if all are whole, and else as doubles, if some of these are rounded."""
    large = np.flatnonzero(np.abs(doubles.to_numpy(zero_copy_only=False)) >= DOUBLES).tolist()
    longs = {row: whole for row in large if (whole := _whole(texts[row].as_py())) is not None and is_long(whole)}
    if not longs:
        return Cells(doubles, wrong, {})
    there = np.asarray(doubles.is_valid()).tolist()
    numbers = [_whole(text) if some else None for some, text in zip(there, texts.to_pylist(), strict=True)]
    present = [number for number in numbers if number is not None]
    if len(present) == sum(there) and (kind := common_kind(present)) is not None:
        return Cells(pa.array(numbers, kind), wrong, {})
    return Cells(doubles, wrong, longs)


def _whole(text: str) -> int | None:
    """The number that a cell has, if it is a whole one of 64 bits and written as such."""
    number = exact(int(text)) if _WHOLE.fullmatch(text) else None
    return number if isinstance(number, int) else None


def _one_by_one(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    values: list[object] = []
    wrong: list[int] = []
    for i, text in enumerate(texts):
        try:
            values.append(text.cast(kind).as_py())
        except pa.ArrowInvalid:
            values.append(None)
            wrong.append(i)
    return pa.array(values, kind), wrong
