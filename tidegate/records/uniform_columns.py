"""JSON objects that are publications of much the same kind as an Arrow record batch, checked column by column.

``checked_batch`` takes only what is surely good and simple: numbers, texts, truth values and one location. It gives
what ``uniform_rows.record_batch`` gives of the same publications, in a small part of the time, or None; then each
object is looked at by itself, by ``record`` and the model, which alone define what a publication is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.model import COORDINATES, LOCATION_PARTS, NAME_LENGTH, RESERVED, TEXT_LENGTH
from tidegate.records.integer_marks import WHOLE
from tidegate.records.json_column import INSTANT, POINT
from tidegate.records.timestamps import read_timestamps
from tidegate.whole_numbers import DOUBLES

__all__ = ["checked_batch"]

_REQUIRED = ("id", "source", "time")
_OTHER = frozenset({"", *RESERVED, *LOCATION_PARTS, *COORDINATES})
#: Columns of a batch at most, and cells for each value in it.
_MOST, _SPARSEST = 64, 4
_Column = Sequence[Any]


def checked_batch(records: Sequence[dict[str, Any]]) -> pa.RecordBatch | None:
    """The publications of JSON objects, in their order; None where one of them needs a look of its own."""
    columns = _columns(records)
    if columns is None or not columns.keys() >= {*_REQUIRED}:
        return None
    nested = columns.pop("attributes", None)
    location = columns.pop("location", None)
    if nested is not None:
        if set(map(type, nested)) != {dict} or (inner := _columns(nested)) is None or inner.keys() & columns.keys():
            return None
        columns |= inner
    try:
        return _batch(columns, location)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError):
        return None  # it will be said of the object itself


def _columns(records: Sequence[dict[str, Any]]) -> dict[str, _Column] | None:
    """The values of each name, None where an object does not have it; None where there are too many names."""
    names: Collection[str] = records[0].keys()
    if len(names) > _MOST:
        return None
    if len(set(map(tuple, records))) == 1:
        return dict(zip(names, zip(*map(dict.values, records), strict=True), strict=True))
    names = dict.fromkeys(chain.from_iterable(records))
    if len(names) > _MOST or len(names) * len(records) > _SPARSEST * sum(map(len, records)):
        return None
    return {name: [record.get(name) for record in records] for name in names}


def _batch(columns: dict[str, _Column], location: _Column | None) -> pa.RecordBatch | None:
    arrays: list[pa.Array] = []
    kinds: list[tuple[str, bool, pa.DataType]] = []
    for name in _REQUIRED:
        values = columns.pop(name)
        array = _texts(values, NAME_LENGTH) if set(map(type, values)) == {str} else None
        if array is not None and name == "time":
            array, wrong = read_timestamps(array)
            if len(wrong):
                return None
        elif array is not None and (np.diff(_offsets(array)) == 0).any():
            return None
        arrays.append(array)
        kinds.append((name, False, INSTANT if name == "time" else pa.string()))
    if location is not None:
        arrays.append(_points(location))
        kinds.append(("location", False, POINT))
    if not _are_names(tuple(columns)):
        return None
    for name, values in columns.items():
        array, is_whole = _attribute(values)
        if array is not None and pa.types.is_null(array.type):
            continue
        arrays.append(array)
        kinds.append((name, is_whole, None if array is None else array.type))
    if any(array is None for array in arrays):
        return None
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(tuple(kinds)))


@lru_cache(maxsize=4096)
def _are_names(names: tuple[str, ...]) -> bool:
    return all(type(name) is str and len(name) <= NAME_LENGTH and name not in _OTHER for name in names)


@lru_cache(maxsize=1024)
def _schema(kinds: tuple[tuple[str, bool, pa.DataType], ...]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata=WHOLE if is_whole else None) for name, is_whole, kind in kinds])


# --- columns ----------------------------------------------------------------------------------------------------------


def _attribute(values: _Column) -> tuple[pa.Array | None, bool]:
    """A column, None where one of its values needs a look; and whether its whole numbers are integers."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {str}:
        return _texts(values, TEXT_LENGTH), False
    if kinds == {float}:
        return _finite(values), False
    if kinds == {int}:
        there = [value for value in values if value is not None]
        is_exact = min(there) >= -DOUBLES and max(there) <= DOUBLES
        return (pa.array(np.array(values, np.float64), from_pandas=True) if is_exact else None), True
    if kinds == {bool}:
        return pa.array(values, pa.bool_()), False
    if kinds == {int, float}:
        is_clear = not any(_is_doubtful(value) for value in values)
        return (_finite(values) if is_clear else None), True
    return (None if kinds else pa.nulls(len(values))), False


def _is_doubtful(value: Any) -> bool:
    """Whether a number beside others is a whole double, or an integer that may be no double."""
    return value.is_integer() if type(value) is float else value is not None and not -DOUBLES <= value <= DOUBLES


def _finite(values: _Column) -> pa.Array | None:
    """Numbers as doubles; None where one is infinite or none."""
    doubles = np.array(values, np.float64)  # NaN stands for what is missing
    if not np.isfinite(doubles).all() and any(value is not None and not np.isfinite(value) for value in values):
        return None
    return pa.array(doubles, from_pandas=True)


def _texts(values: _Column, longest: int) -> pa.Array | None:
    """Texts; None where one is perhaps too long: it has more bytes than there may be characters."""
    array = pa.array(values, pa.string())
    if not isinstance(array, pa.Array) or (np.diff(_offsets(array)) > longest).any():
        return None
    return array


def _offsets(texts: pa.Array) -> Any:
    return np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1)


def _points(values: _Column) -> pa.Array | None:
    """Objects of lon and lat; None where one is something else, or no place."""
    there = [value for value in values if value is not None]
    if set(map(type, there)) != {dict} or set(map(len, there)) != {2}:
        return None
    try:
        pairs = [(value["lon"], value["lat"]) for value in there]
    except KeyError:
        return None
    if not set(map(type, chain.from_iterable(pairs))) <= {int, float}:
        return None
    lons, lats = np.array(pairs, np.float64).T
    if not ((np.abs(lons) <= 180) & (np.abs(lats) <= 90)).all():
        return None
    points = pa.StructArray.from_arrays([pa.array(lons), pa.array(lats)], fields=list(POINT))
    if len(there) == len(values):
        return points
    is_there = np.array([value is not None for value in values])
    return points.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))
