"""One publication as an Arrow record batch, built from its bytes: ten times faster than by way of lists of values.

``tables.table`` does the same for any number of publications; for one it gives equal columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from tidegate.model import Publication, micros
from tidegate.records.json_column import INSTANT, POINT
from tidegate.records.number_columns import kind_of

__all__ = ["record_batch"]

_DOUBLE, _STRING, _TRUTH, _DAY = pa.float64(), pa.string(), pa.bool_(), pa.date32()
_EPOCH = date(1970, 1, 1).toordinal()
_doubles, _longs, _days, _offsets = (struct.Struct(form).pack for form in ("<d", "<q", "<i", "<ii"))
_buffer, _made = pa.py_buffer, pa.Array.from_buffers


def _number(value: float) -> pa.Array:
    return _made(_DOUBLE, 1, [None, _buffer(_doubles(value))])


def _whole(value: int) -> pa.Array:
    kind = kind_of(value)
    return _number(float(value)) if kind == _DOUBLE else pa.array([value], kind)


def _text(value: str) -> pa.Array:
    letters = value.encode()
    return _made(_STRING, 1, [None, _buffer(_offsets(0, len(letters))), _buffer(letters)])


def _truth(value: bool) -> pa.Array:
    return _made(_TRUTH, 1, [None, _buffer(b"\1" if value else b"\0")])


def _instant(value: datetime) -> pa.Array:
    return _made(INSTANT, 1, [None, _buffer(_longs(micros(value)))])


def _day(value: date) -> pa.Array:
    return _made(_DAY, 1, [None, _buffer(_days(value.toordinal() - _EPOCH))])


def _point(value: tuple[float, float]) -> pa.Array:
    return _made(POINT, 1, [None], children=[_number(value[0]), _number(value[1])])


_READERS: dict[type, Callable[[Any], pa.Array]] = {
    float: _number, int: _whole, str: _text, bool: _truth, datetime: _instant, date: _day, tuple: _point,
}  # fmt: skip
_FIELDS = ("start", "end", "phase", "location", "valid_until")


def record_batch(publication: Publication) -> pa.RecordBatch | None:
    """The publication as a batch of one row; None where it has a value of another kind, such as a list."""
    names = ["id", "source", "time"]
    arrays = [_text(publication.id), _text(publication.source), _instant(publication.time)]
    for name in _FIELDS:
        value = getattr(publication, name)
        if value is not None:
            names.append(name)
            arrays.append(_READERS[type(value)](value))
    for name, value in publication.attributes.items():
        read = _READERS.get(type(value))
        if read is None:
            return None
        names.append(name)
        arrays.append(read(value))
    return pa.RecordBatch.from_arrays(arrays, names)
