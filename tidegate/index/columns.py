"""Arrow columns: which types a column of publications may have, and its conversion to the types that readings expect.

``index/table_columns.py`` calls ``unpacked`` and ``typed`` for each column of a table: a type that no publication can
have is a mistake in the table and is refused for all its rows. Single values are checked in ``index/checks.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.model import RESERVED
from tidegate.time_zones import HINT

__all__ = ["converted", "is_list", "is_text", "micros", "raw", "typed", "unpacked"]

_INSTANTS = pa.timestamp("us", "UTC")
_POINTS = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
#: What a reserved column without a single value is read as.
_EMPTY = {"text": pa.string(), "time": _INSTANTS, "point": _POINTS}
_MICROS = {"s": 1_000_000, "ms": 1000}
_EXPECTED = "numbers, strings, truth values, timestamps with a time zone, dates, points (struct lon, lat) or lists"
_RESERVED: dict[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "text": ("strings", lambda kind: is_text(kind)),
    "time": ("timestamps with a time zone", pa.types.is_timestamp),
    "point": ("points (struct lon, lat)", pa.types.is_struct),
}


def is_text(kind: pa.DataType) -> bool:
    """Whether values of the type are strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether values of the type are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def raw(array: pa.Array, kind: Any) -> NDArray[Any]:
    """The numbers in the array's memory, without a copy; where the array is null, whatever stands there."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * np.dtype(kind).itemsize)


def micros(array: pa.Array) -> NDArray[np.int64]:
    """Timestamps as microseconds since 1970, floored; nonsense where they are null or not within the years."""
    count = raw(array, np.int64)
    unit = array.type.unit
    return count if unit == "us" else count // 1000 if unit == "ns" else count * _MICROS[unit]


# --- types ----------------------------------------------------------------------------------------------------------


def typed(name: str, array: pa.Array) -> pa.Array:
    """The unpacked column if it is of a type that a publication can have, or an error that names it."""
    if name == "event":
        raise PublicationError("columns start and end", "a column event, which is a reserved name")
    at = f"column {shown(name)}"
    kind, reserved = array.type, RESERVED.get(name)
    if reserved is not None:
        if pa.types.is_null(kind):
            return pa.nulls(len(array), _EMPTY[reserved])
        wanted, fits = _RESERVED[reserved]
        if not fits(kind):
            raise PublicationError(f"{wanted} as {name}", f"{kind}", at)
    _check_type(kind, at)
    return array


def unpacked(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece and in a plain type: no dictionaries, string views, decimals or half floats."""
    return _unpacked(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())


def _unpacked(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):  # more text than one array can hold
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_decimal(array.type) or pa.types.is_float16(array.type):
        return array.cast(pa.float64())
    if is_list(array.type):
        lengths = pc.list_value_length(array)
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(np.asarray(lengths.fill_null(0) if lengths.null_count else lengths), out=offsets[1:])
        return _lists(array, pa.array(offsets), _unpacked(array.flatten()))
    return array


def _lists(array: pa.Array, offsets: pa.Array, members: pa.Array) -> pa.Array:
    """The members as lists, null where those of the array are."""
    return pa.LargeListArray.from_arrays(offsets, members, mask=array.is_null() if array.null_count else None)


def _check_type(kind: pa.DataType, at: str) -> None:
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise PublicationError(f"timestamps with a time zone {HINT}", "timestamps without one", at)
        if not _exists(kind.tz):
            raise PublicationError("a time zone that exists", shown(kind.tz), at)
    elif pa.types.is_struct(kind):
        parts = [field.type for field in kind if field.name in ("lon", "lat")]
        if len(parts) != 2 or not all(_is_degrees(part) for part in parts):
            raise PublicationError("points (struct lon, lat) of numbers", f"{kind}", at)
    elif is_list(kind):
        if pa.types.is_nested(kind.value_type):
            raise PublicationError(_EXPECTED, f"{kind}", at)
        _check_type(kind.value_type, at)
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_null(kind)
        or is_text(kind)
    ):
        raise PublicationError(_EXPECTED, f"{kind}", at)


def _is_degrees(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


@lru_cache(256)
def _exists(zone: str) -> bool:
    try:
        pc.assume_timezone(pa.array([datetime(2026, 1, 1)], pa.timestamp("us")), zone)
    except pa.ArrowInvalid:
        return False
    return True


# --- conversions ----------------------------------------------------------------------------------------------------


def converted(array: pa.Array) -> pa.Array:
    """A typed column whose values have passed all checks, converted to the type that readings expect."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _instants(array)
    if pa.types.is_date64(kind):
        days = pa.array(raw(array, np.int64) // 86_400_000, pa.int64()).cast(pa.int32(), safe=False)
        return _with_nulls_of(array, days.view(pa.date32()))
    if pa.types.is_struct(kind) and kind != _POINTS:
        lon, lat = (pc.struct_field(array, part).cast(pa.float64(), safe=False) for part in ("lon", "lat"))
        return pa.StructArray.from_arrays([lon, lat], ["lon", "lat"], mask=array.is_null())
    if is_list(kind):
        return _lists(array, array.offsets, converted(array.values))
    return array


def _instants(array: pa.Array) -> pa.Array:
    """Timestamps of any unit and zone as microseconds in UTC, floored."""
    if array.type.unit == "us":
        return array if array.type == _INSTANTS else array.cast(_INSTANTS)
    return _with_nulls_of(array, pa.array(micros(array)).view(_INSTANTS))


def _with_nulls_of(array: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), values, None) if array.null_count else values
