"""Tables of a few rows as publications, and a few notifications as a table.

Arrow takes microseconds for each thing it does to a column, however short, so a broker that gets its publications one
by one is better off with objects; ``SmallTableBatch`` has both. ``publications_of`` leaves to ``ArrowBatch`` whatever
is out of the ordinary, and every one that is wrong, so that errors are the same for tables of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import PublicationError
from tidegate.index.batch import ArrowBatch, ObjectBatch
from tidegate.index.checks import REQUIRED
from tidegate.index.columns import is_text
from tidegate.model import FLAT, GROUPED, RESERVED, Notification, Publication

__all__ = ["SmallTableBatch", "flat_of", "grouped_of", "publications_of", "trusted_batch"]

#: Rows up to which a table is read as objects.
_FEW = 8
_POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
_INSTANT = pa.timestamp("us", "UTC")
_FLAT, _GROUPED = pa.struct(list(FLAT)), pa.struct(list(GROUPED))

_NO_FLAT, _NO_GROUPED = FLAT.empty_table(), GROUPED.empty_table()


class _Reading(NamedTuple):
    """How the columns of a schema are read."""

    schema: pa.Schema
    names: list[str]
    points: list[str]
    is_plain: bool


#: Those of the schemas that came last; ``Schema.equals`` is a hundred times as fast as a schema's hash.
_recent: list[_Reading] = []
_MOST_RECENT = 8


def publications_of(table: pa.Table | pa.RecordBatch) -> list[Publication] | None:
    """The rows as publications; None where they are many, of other than plain types, or no publications."""
    if table.num_rows > _FEW:
        return None
    reading = _reading_of(table.schema)
    if not reading.is_plain:
        return None
    try:
        batches = table.to_batches() if isinstance(table, pa.Table) else [table]
        return [
            _publication(dict(zip(reading.names, row, strict=True)), reading.points)
            for batch in batches  # whose columns are at hand in half the time
            for row in zip(*[column.to_pylist() for column in batch.columns], strict=True)
        ]
    except (PublicationError, ValueError, OverflowError):  # whatever is wrong, ``ArrowBatch`` says it
        return None


def _publication(values: dict[str, Any], points: list[str]) -> Publication:
    for name in points:
        if (point := values[name]) is not None:
            values[name] = point["lon"], point["lat"]
    fields = {name: values.pop(name) for name in RESERVED if name in values}
    return Publication(**fields, attributes=values)


def _reading_of(schema: pa.Schema) -> _Reading:
    for reading in _recent:
        if reading.schema.equals(schema):
            return reading
    names = schema.names
    is_plain = (
        len(set(names)) == len(names)
        and "event" not in names
        and all(name in names for name in REQUIRED)
        and all(_is_plain(field) for field in schema)
    )
    reading = _Reading(schema, names, [field.name for field in schema if field.type == _POINT], is_plain)
    _recent[:] = [reading, *_recent[: _MOST_RECENT - 1]]
    return reading


def _is_plain(field: pa.Field) -> bool:
    """Whether Python has the same value for every value of the column, and no other is expected there."""
    kind, expected = field.type, RESERVED.get(field.name)
    if expected is not None:
        return bool({"text": is_text(kind), "time": kind == _INSTANT, "point": kind == _POINT}[expected])
    if pa.types.is_list(kind):
        kind = kind.value_type
    return kind in (pa.float64(), pa.int64(), pa.bool_(), _INSTANT, _POINT) or is_text(kind)


class SmallTableBatch(ObjectBatch):
    """The rows of a table as objects, and as the columns of that table for whoever wants these."""

    def __init__(self, publications: Sequence[Publication], table: pa.Table) -> None:
        super().__init__(publications)
        self._table = table

    @property
    def arrays(self) -> dict[str, pa.Array]:
        """The columns by name, as an ``ArrowBatch`` has them."""
        return ArrowBatch.trusted(self._table).arrays

    def picked(self, rows: NDArray[np.int64]) -> Self:
        return type(self)([self.publications[i] for i in rows.tolist()], self._table.take(pa.array(rows)))


def trusted_batch(table: pa.Table) -> ArrowBatch | SmallTableBatch:
    """A table whose rows were all checked before, as those of the log were, as objects where they are few."""
    few = publications_of(table)
    return ArrowBatch.trusted(table) if few is None else SmallTableBatch(few, table)


def flat_of(notifications: Sequence[Notification]) -> pa.Table:
    """Notifications as a table, a row each."""
    return pa.Table.from_struct_array(pa.array(notifications, _FLAT)) if notifications else _NO_FLAT


def grouped_of(rows: Sequence[tuple[str, int, list[str]]]) -> pa.Table:
    """Publications and times with the ids of the subscriptions they matched."""
    return pa.Table.from_struct_array(pa.array(rows, _GROUPED)) if rows else _NO_GROUPED
