"""Which numbers of a column of doubles were given as integers, so that readers of the log get them back as such.

A stream in which an attribute is now 5 and now 5.5 has one kind of column, of doubles, whatever is in a batch: that is
what matching reads, and frames of one schema are matched together. What was an integer is said beside it. Mostly all
whole numbers of a column are integers, or none is: then the column's metadata says so. Only where a column has both 5
and 5.0 there is a column more, ``MARKS``, with a truth value for each number. Matching never looks at either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.whole_numbers import MARKS, is_long

__all__ = ["WHOLE", "as_given", "is_marks", "marked_names", "marks_of", "with_marks"]

#: The metadata of a column in which every whole number was given as an integer.
_KEY = b"tidegate.integers"
WHOLE = {_KEY: b"all whole numbers"}


def marks_of(values: Sequence[Any]) -> pa.Array | None:
    """Which of the numbers, or of the members of the lists, were integers; None where all whole ones were.

    Integers of a list that a double rounds do not count: they are doubles now.
    """
    is_list = any(isinstance(value, list) for value in values)
    members = (member for value in values if value for member in value) if is_list else values
    if not any(member.is_integer() if type(member) is float else is_long(member) for member in members):
        return None
    if not is_list:
        return pa.array([type(value) is int for value in values])
    lists = [None if v is None else [type(m) is int and not is_long(m) for m in v] for v in values]
    return pa.array(lists, pa.list_(pa.bool_()))


def is_marks(kind: pa.DataType) -> bool:
    """Whether a column of the name ``MARKS`` is one of marks."""
    fields = [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    members = [
        field.value_type if pa.types.is_list(field) or pa.types.is_large_list(field) else field for field in fields
    ]
    return bool(members) and all(map(pa.types.is_boolean, members))


def marked_names(schema: pa.Schema) -> tuple[str, ...]:
    """The columns whose whole numbers were integers, and the column of marks, if there is one."""
    return tuple(field.name for field in schema if field.name == MARKS or _KEY in (field.metadata or ()))


def with_marks(batch: pa.RecordBatch, given: pa.Table) -> pa.RecordBatch:
    """The rows of a table as a batch of plain columns, marked as the table is."""
    names = marked_names(given.schema)
    if not names:
        return batch
    fields = [field.with_metadata(WHOLE) if field.name in names else field for field in batch.schema]
    arrays = batch.columns
    if MARKS in names:
        marks = given.column(MARKS).combine_chunks()
        fields.append(pa.field(MARKS, marks.type))
        arrays.append(marks)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def as_given(values: list[Any], is_integer: Sequence[Any] | None = None) -> list[Any]:
    """Numbers of a marked column, or lists of them, with integers where integers were given.

    ``is_integer`` has the marks of the column, None where all whole numbers were integers.
    """
    if is_integer is None:
        return [_whole(value) for value in values]
    return [value if value is None else _chosen(value, mark) for value, mark in zip(values, is_integer, strict=True)]


def _whole(value: Any) -> Any:
    if type(value) is list:
        return [int(member) if member.is_integer() else member for member in value]
    return int(value) if value is not None and value.is_integer() else value


def _chosen(value: Any, mark: Any) -> Any:
    if type(value) is list:
        return [int(member) if one else member for member, one in zip(value, mark, strict=True)]
    return int(value) if mark else value
