"""One publication as an Arrow record batch, converted by Arrow in one call: ten times faster than column by column.

``tables.table`` does the same for any number of publications; for one it gives equal columns.
"""

from __future__ import annotations

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

#: Rows as structs, by the names of their fields, then the names of their attributes with a type of Python or Arrow.
#: Publications of a stream have few kinds of rows, and making a type takes longer than a row.
_structs: dict[tuple[Any, ...], pa.DataType] = {}
_MOST = 1024


def record_batch(publication: Publication) -> pa.RecordBatch | None:
    """The publication as a batch of one row; None where it has a value of another kind, such as a list."""
    row: list[Any] = [publication.id, publication.source, publication.time]
    names: list[Any] = []
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
    struct = _structs.get(tuple(names)) or _struct(names)
    return None if struct is None else pa.RecordBatch.from_struct_array(pa.array([tuple(row)], struct))


def _struct(names: list[Any]) -> pa.DataType | None:
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
    if len(_structs) >= _MOST:
        _structs.clear()
    found = _structs[tuple(names)] = pa.struct(fields)
    return found
