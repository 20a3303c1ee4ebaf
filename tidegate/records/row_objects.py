"""Rows of Arrow columns as publications in JSON's terms: the dicts that readers of a log are given.

The opposite of ``record``, which makes publications of such dicts: ``row_objects`` gives objects that it takes. Times
are texts of RFC 3339 in UTC, with microseconds. Knows neither files nor what is wrong with a publication.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model import RESERVED
from tidegate.records.integer_marks import as_given, marked_names
from tidegate.records.json_values import json_values
from tidegate.whole_numbers import MARKS

__all__ = ["row_objects"]

_FIELDS = ("start", "end", "phase", "location", "valid_until")


def row_objects(table: pa.Table | pa.RecordBatch, wanted: Collection[str] | None = None) -> list[dict[str, Any]]:
    """A dict for each row, with the wanted attributes or all under ``attributes``, and without what the row lacks.

    A point is ``{"lon", "lat"}``, a timestamp among the attributes ``{"timestamp"}``, a date ``{"date"}``.
    """
    names = table.schema.names
    if isinstance(table, pa.Table) and len(batches := table.to_batches()) == 1:
        table = batches[0]  # whose columns are at hand in half the time
    columns = [json_values(table.column(name), is_attribute=False) for name in ("id", "source", "time")]
    found = [{"id": id, "source": source, "time": time} for id, source, time in zip(*columns, strict=True)]
    for name in _FIELDS:
        if name in names:
            _put(found, name, json_values(table.column(name), is_attribute=name == "location"))
    attributes: list[dict[str, Any]] = [{} for _ in found]
    whole = marked_names(table.schema)
    marks = {field.name for field in table.schema.field(MARKS).type} if MARKS in whole else ()
    for name in names:
        if name and name not in RESERVED and (wanted is None or name in wanted):
            values = json_values(table.column(name), gaps=False)
            if name in marks:
                path = [name]  # a text that begins with a dot would be read as one
                values = as_given(values, pc.struct_field(table.column(MARKS), path).to_pylist())
            elif name in whole:
                values = as_given(values)
            _put(attributes, name, values)
    _put(found, "attributes", attributes)
    return found


def _put(rows: list[dict[str, Any]], name: str, values: list[Any]) -> None:
    for row, value in zip(rows, values, strict=True):
        if value is not None:
            row[name] = value
