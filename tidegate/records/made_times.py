"""Which publications of a batch had no time when they were sent and got that of their arrival, so that a second sending
of the same is known to say the same.

Mostly all of a batch had none, or none had: then the metadata of the column ``time`` says so. Else the column of marks,
which also says which numbers are integers, has a truth value for each. Matching never looks at either.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.whole_numbers import MARKS

__all__ = ["made_times", "with_made_times"]

_ALL = {b"tidegate.made": b"all times"}
_TIME = "time"


def with_made_times(batch: pa.RecordBatch, made: NDArray[np.bool_] | None = None) -> pa.RecordBatch:
    """The batch with a note of which times were made; None for all of them."""
    schema, columns = batch.schema, batch.columns
    if made is None or made.all():
        place = schema.get_field_index(_TIME)
        return pa.RecordBatch.from_arrays(columns, schema=schema.set(place, schema.field(place).with_metadata(_ALL)))
    if not made.any():
        return batch
    names, marks = [_TIME], [pa.array(made)]
    place = schema.get_field_index(MARKS)
    if place >= 0:
        others = columns.pop(place)
        names += [field.name for field in others.type]
        marks += others.flatten()
        schema = schema.remove(place)
    together = pa.StructArray.from_arrays(marks, names)
    return pa.RecordBatch.from_arrays([*columns, together], schema=schema.append(pa.field(MARKS, together.type)))


def made_times(table: pa.Table) -> list[bool]:
    """Of each publication whether its time was made."""
    schema = table.schema
    if (schema.field(_TIME).metadata or {}).keys() >= _ALL.keys():
        return [True] * table.num_rows
    place = schema.get_field_index(MARKS)
    if place >= 0 and schema.field(place).type.get_field_index(_TIME) >= 0:
        found: list[bool] = pc.struct_field(table.column(place), _TIME).to_pylist()
        return found
    return [False] * table.num_rows
