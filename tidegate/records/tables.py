"""``Publication`` objects as Arrow tables: as one table where one can hold them, as several where kinds differ.

A column holds values of one kind, so an attribute with numbers and texts needs two tables, and so does one with
fractions and with whole numbers that no double is equal to. Knows nothing of JSON.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.model import Publication
from tidegate.records.integer_marks import WHOLE, marks_of
from tidegate.records.json_column import INSTANT, POINT
from tidegate.records.number_columns import common_kind, kind_of
from tidegate.whole_numbers import MARKS

__all__ = ["SPARSEST", "Kinds", "Part", "Rows", "apart", "beside", "kinds_of", "merged", "table"]

Rows = NDArray[np.int64]
#: Rows of what was given, and a table of them.
Part = tuple[Rows, pa.Table]
#: The type of each column.
Kinds = dict[str, pa.DataType]
#: Cells of a table per value in it. Sparser ones are cut, lest a few thousand rows, each with names of its own, fill
#: the memory.
SPARSEST = 16

#: Tables that are open for more rows at a time, so that finding one for a publication takes bounded time.
OPEN = 16


def table(
    publications: Sequence[Publication], wanted: Collection[str] | None = None, *, marked: bool = False
) -> pa.Table | None:
    """Publications as a table, with the wanted attributes or all. With ``marked`` it says which numbers are integers.

    None where some attribute has values of several kinds, which no column can hold.
    """
    marks: dict[str, pa.Array | None] = {}
    columns: dict[str, pa.Array] = {
        "id": pa.array([p.id for p in publications], pa.string()),
        "source": pa.array([p.source for p in publications], pa.string()),
        "time": pa.array([p.time for p in publications], INSTANT),
    }
    names = dict.fromkeys(("start", "end", "phase", "location", "valid_until"))
    names |= dict.fromkeys(name for p in publications for name in p.attributes if wanted is None or name in wanted)
    for name in names:
        values = [p.value(name) for p in publications]
        kinds = {type(value) for value in values if value is not None}
        if not kinds:
            continue
        members = {type(item) for value in values if value for item in value} if kinds == {list} else set()
        kind = _LISTS.get(frozenset(members)) if kinds == {list} else _KINDS.get(frozenset(kinds))
        if kind == pa.float64() and int in kinds:
            kind = common_kind([value for value in values if value is not None])
        if kind is None:
            return None
        if members == {int}:
            kind = pa.list_(common_kind([item for value in values if value for item in value]) or pa.float64())
        if marked and int in kinds | members and pa.float64() in (kind, getattr(kind, "value_type", None)):
            marks[name] = marks_of(values)
        if kinds == {tuple}:
            values = [None if v is None else {"lon": v[0], "lat": v[1]} for v in values]
        elif kind == pa.float64():
            values = [None if v is None else float(v) for v in values]
        elif kinds == {list} and pa.types.is_float64(kind.value_type):
            values = [None if v is None else [float(item) for item in v] for v in values]
        columns[name] = pa.array(values, kind)
    if some := {name: array for name, array in marks.items() if array is not None}:
        columns[MARKS] = pa.StructArray.from_arrays(list(some.values()), list(some))
    whole = marks.keys() - some.keys()
    fields = [pa.field(name, array.type, metadata=WHOLE if name in whole else None) for name, array in columns.items()]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


_KINDS: dict[frozenset[type], pa.DataType] = {
    frozenset({int}): pa.float64(),
    frozenset({float}): pa.float64(),
    frozenset({int, float}): pa.float64(),
    frozenset({str}): pa.string(),
    frozenset({bool}): pa.bool_(),
    frozenset({datetime}): INSTANT,
    frozenset({date}): pa.date32(),
    frozenset({tuple}): POINT,
}
_LISTS: dict[frozenset[type], pa.DataType] = {
    frozenset(): pa.list_(pa.float64()),
    **{kinds: pa.list_(kind) for kinds, kind in _KINDS.items() if kind != POINT},
}


def kinds_of(publication: Publication, wanted: Collection[str] | None) -> Kinds:
    """What kind of column each attribute needs; an error where there is none, for a list of several kinds.

    Attributes that are not wanted are checked too: whether it is a publication must not depend on subscriptions.
    """
    found: Kinds = {}
    for name, value in publication.attributes.items():
        kind = (
            _kind_of_list(value)
            if isinstance(value, list)
            else kind_of(value)
            if type(value) is int
            else _KINDS.get(frozenset((type(value),)))
        )
        if kind is None:
            at = f"publication {shown(publication.id)}, attribute {shown(name)}"
            raise PublicationError("a list whose members are of one kind", shown(value), at)
        if wanted is None or name in wanted:
            found[name] = kind
    return found


def _kind_of_list(value: list[Any]) -> pa.DataType | None:
    kinds = frozenset(map(type, value))
    return pa.list_(common_kind(value) or pa.float64()) if kinds == {int} else _LISTS.get(kinds)


def apart(
    publications: Iterable[tuple[int, Publication, Kinds]], wanted: Collection[str] | None, *, for_log: bool = False
) -> Iterator[Part]:
    """Rows, their publications and the kinds of these, as tables: several where an attribute has several kinds.

    With ``for_log`` each table has rows that follow each other, so there may be many more tables, and says which
    numbers are integers.
    """
    things = (((row, found), kinds, 1) for row, found, kinds in publications)
    for some in _alike(things, SPARSEST, 1 if for_log else OPEN):
        yield np.array([row for row, _ in some], np.int64), table([found for _, found in some], wanted, marked=for_log)


def merged(parts: Iterable[Part]) -> list[Part]:
    """Tables put together where no column has two kinds and not half of the cells would be empty."""
    found: list[Part] = []
    schemas = ((part, part[1].schema) for part in parts)
    sized = ((part, dict(zip(schema.names, schema.types, strict=True)), len(part[0])) for part, schema in schemas)
    for some in _alike(sized, 2):
        if len(some) > 1:
            rows, tables = zip(*some, strict=True)
            some = [(np.concatenate(rows), pa.concat_tables(tables, promote_options="default"))]
        found += some
    return found


def beside(left: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """The table with more columns."""
    return pa.table({**dict(zip(left.column_names, left.columns, strict=True)), **columns}) if columns else left


T = TypeVar("T")


@dataclass(slots=True)
class _Pile(Generic[T]):
    """Things (publications or tables) that one table can hold: its columns' kinds, its rows, and the filled cells."""

    things: list[T] = field(default_factory=list)
    kinds: Kinds = field(default_factory=dict)
    rows: int = 0
    cells: int = 0

    def takes(self, kinds: Kinds, rows: int, slack: int) -> bool:
        cells = len(self.kinds.keys() | kinds.keys()) * (self.rows + rows)
        if cells > slack * (self.cells + len(kinds) * rows):
            return False
        return all(self.kinds.get(name, kind) == kind for name, kind in kinds.items())


def _alike(things: Iterable[tuple[T, Kinds, int]], slack: int, most: int = OPEN) -> Iterator[list[T]]:
    """Group things that fit in one table. Each comes with its kinds and its rows.

    A table may have at most ``slack`` times as many cells as its things fill; ``most`` tables are open at a time.
    """
    piles: deque[_Pile[T]] = deque()
    for thing, kinds, rows in things:
        pile = next((pile for pile in piles if pile.takes(kinds, rows, slack)), None)
        if pile is None:
            if len(piles) == most:
                yield piles.popleft().things
            piles.append(pile := _Pile())
        pile.things.append(thing)
        pile.kinds |= kinds
        pile.rows += rows
        pile.cells += rows * len(kinds)
    for pile in piles:
        yield pile.things
