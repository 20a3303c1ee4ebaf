"""The cells of a CSV column as values of one kind: numbers, instants, truth values or texts.

A reserved name decides the kind of its column; for another the readers of files try one kind after the other. An empty
cell is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.model import RESERVED
from tidegate.records.timestamps import INSTANT, read_timestamps
from tidegate.time_zones import HINT, TimeZone

__all__ = ["EXPECTED", "possible_kinds", "read_cells"]

#: The kinds, and what an error says that a cell must be.
EXPECTED = {
    pa.float64(): "a number",
    INSTANT: f"a timestamp with its offset from UTC, such as '2026-11-15T08:00:00Z', {HINT}",
    pa.bool_(): "true or false",
    pa.string(): "text",
}


def possible_kinds(column: str) -> list[pa.DataType]:
    """The kinds that the cells of a column may be of; the first that fits all of them is taken."""
    if column.endswith((".lon", ".lat")):
        return [pa.float64()]
    fixed = {"text": [pa.string()], "time": [INSTANT]}
    return fixed.get(RESERVED.get(column, ""), list(EXPECTED))


def read_cells(cells: Sequence[str | None], kind: pa.DataType, zone: TimeZone | None) -> tuple[pa.Array, list[int]]:
    """The cells as values, and the positions of those that are no such value and are null instead."""
    texts = pa.array([cell or None for cell in cells], pa.string())
    if kind == INSTANT:
        found, wrong = read_timestamps(texts, zone)
        return found, wrong.tolist()
    try:
        return texts.cast(kind), []
    except pa.ArrowInvalid:
        return _one_by_one(texts, kind)


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
