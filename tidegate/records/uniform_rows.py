"""Publications of one kind as an Arrow record batch, converted by Arrow in one call and not column by column.

They have the same attributes, each of one type. ``tables.table`` does the same for all others, and gives equal columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from tidegate.model import RESERVED, Publication
from tidegate.records.integer_marks import WHOLE
from tidegate.records.json_column import INSTANT, POINT
from tidegate.records.number_columns import kind_of
from tidegate.whole_numbers import DOUBLES

__all__ = ["record_batch"]

_FIELDS = ("start", "end", "phase", "location", "valid_until")
_OF_FIELD = {"text": pa.string(), "time": INSTANT, "point": POINT}
_OF_VALUE: dict[Any, pa.DataType] = {
    float: pa.float64(), int: pa.float64(), str: pa.string(), bool: pa.bool_(), datetime: INSTANT, date: pa.date32(),
    tuple: POINT, pa.int64(): pa.int64(), pa.uint64(): pa.uint64(),
}  # fmt: skip

#: Schemas and types of rows by the names of fields, then the names of attributes, each with a type of Python or Arrow.
#: Publications of a stream have few kinds of rows, and making a schema takes longer than a row.
_schemas: dict[tuple[Any, ...], tuple[pa.Schema, pa.DataType]] = {}
_MOST = 1024
#: Kinds of rows that are put together, at most.
_MOST_KINDS = 16


def record_batch(publications: Sequence[Publication]) -> pa.RecordBatch | None:
    """The publications as a batch; None where they differ in kind, or have a value of another, such as a list."""
    names, first = _row(publications[0])
    rows, kinds = [first], {tuple(names)}
    for publication in publications[1:]:
        others, row = _row(publication)
        if others != names:
            if len(others) != len(names) or len(kinds) == _MOST_KINDS:
                return None
            kinds.add(tuple(others))
        rows.append(row)
    one = _common(kinds, rows) if len(kinds) > 1 else tuple(names)
    known = None if one is None else _schemas.get(one) or _schema(one)
    if known is None:
        return None
    schema, struct = known
    try:  # always the same schema, which is recognized without a look at its fields
        return pa.RecordBatch.from_arrays(pa.array(rows, struct).flatten(), schema=schema)
    except pa.ArrowCapacityError:  # more text than one column holds
        return None


def _common(kinds: set[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """What rows are together that differ in this only, that numbers are now integers and now fractions."""
    found = []
    for place, some in enumerate(map(set, zip(*kinds, strict=True))):
        if len(some) == 1:
            found.append(some.pop())
            continue
        if some != {int, float}:
            return None
        count = sum(name in RESERVED for name in found)  # fields, before the pairs of name and kind
        column = 3 + count + (place - count) // 2
        if any(type(row[column]) is float and row[column].is_integer() for row in rows):
            return None
        found.append(int)  # all whole numbers are integers
    return tuple(found)


def _row(publication: Publication) -> tuple[list[Any], tuple[Any, ...]]:
    """The names of its fields, the names of its attributes with their types, and all values."""
    row: list[Any] = [publication.id, publication.source, publication.time]
    names: list[Any] = []
    if not (
        publication.location is None
        and publication.phase is None
        and publication.start is None
        and publication.end is None
        and publication.valid_until is None
    ):
        for name in _FIELDS:
            value = getattr(publication, name)
            if value is not None:
                names.append(name)
                row.append(value)
    for name, value in publication.attributes.items():
        kind: Any = type(value)
        if kind is int and not -DOUBLES <= value <= DOUBLES:  # type: ignore[operator]
            kind = kind_of(value)  # type: ignore[arg-type]
        names += (name, kind)
        row.append(value)
    return names, tuple(row)


def _schema(names: tuple[Any, ...]) -> tuple[pa.Schema, pa.DataType] | None:
    fields = [pa.field(name, _OF_FIELD[RESERVED[name]]) for name in ("id", "source", "time")]
    rest = iter(names)
    for name in rest:
        if name in RESERVED:
            fields.append(pa.field(name, _OF_FIELD[RESERVED[name]]))
            continue
        kind = next(rest)
        if kind not in _OF_VALUE:
            return None
        fields.append(pa.field(name, _OF_VALUE[kind], metadata=WHOLE if kind is int else None))
    if len(_schemas) >= _MOST:
        _schemas.clear()
    found = _schemas[names] = pa.schema(fields), pa.struct(fields)
    return found
