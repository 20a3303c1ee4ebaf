"""Values of publications as JSON values: one value, or those of an Arrow column.

For ``stored_bodies``, which writes them as texts, and ``row_objects``. ``record`` reads all of them but gaps of a
series, which JSON does not have. Knows no names of fields.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.moments import moment
from tidegate.records.json_column import INSTANT

__all__ = ["instants", "json_value", "json_values", "listed", "stamp", "stamps"]


def json_value(value: Any) -> Any:
    """A value of an attribute as JSON."""
    if isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else {"gap": _gap(value)}
    if isinstance(value, datetime):
        return {"timestamp": stamp(value)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, tuple):
        return _point(value)
    if value is None:
        return None
    return value if _is_plain(value) else [json_value(item) for item in value]


def _is_plain(members: list[Any]) -> bool:
    """Whether JSON can express all members as they are."""
    kinds = set(map(type, members))
    if kinds == {float}:
        return all(map(isfinite, members))
    return kinds <= _TEXTS_AND_TRUTHS or kinds == {int}


def _gap(number: float) -> str:
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def stamp(when: datetime) -> str:
    """A moment as a text of RFC 3339 in UTC, with microseconds."""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _point(point: tuple[float, float]) -> dict[str, float]:
    return {"lon": point[0], "lat": point[1]}


_TEXTS_AND_TRUTHS = frozenset({bool, str})
#: Types of columns whose values JSON has as they are; the id of a type is quicker to compare than the type.
_AS_THEY_ARE = frozenset(kind.id for kind in (pa.float64(), pa.int64(), pa.bool_(), pa.string(), pa.large_string()))
#: Values up to which a column is listed one by one: each call of Arrow's functions takes as long as some values.
_FEW = 8


def listed(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values of a column as ``to_pylist`` gives them, but faster for most types."""
    if len(column) <= _FEW:
        return list(column.to_pylist())
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_plain = column.null_count == 0 and pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
    values: list[Any]
    values = column.to_numpy(zero_copy_only=False).tolist() if is_text or is_plain else column.to_pylist()
    return values


def json_values(column: pa.ChunkedArray | pa.Array, is_attribute: bool = True, gaps: bool = True) -> list[Any]:
    """The values of a column as JSON. Without ``gaps``, those of a series stay NaN and infinite."""
    kind = column.type
    if kind.id in _AS_THEY_ARE:
        return listed(column)
    if pa.types.is_dictionary(kind):
        return json_values(column.cast(kind.value_type), is_attribute, gaps)
    if pa.types.is_timestamp(kind):
        texts = stamps(column)
        return [None if text is None else {"timestamp": text} for text in texts] if is_attribute else list(texts)
    if pa.types.is_date(kind):
        return [None if day is None else {"date": day.isoformat()} for day in column.to_pylist()]
    if pa.types.is_struct(kind):
        lons, lats = (listed(pc.struct_field(column, part).cast(pa.float64())) for part in ("lon", "lat"))
        points = [None if point[0] is None else point for point in zip(lons, lats, strict=True)]
        return [None if point is None else _point(point) for point in points] if is_attribute else points
    values = listed(column)
    if pa.types.is_nested(kind):
        member = kind.value_type
        if pa.types.is_temporal(member) or (gaps and pa.types.is_floating(member)):
            return [None if value is None else json_value(value) for value in values]
    elif pa.types.is_decimal(kind):
        return [None if value is None else float(value) for value in values]
    return values


def stamps(column: pa.ChunkedArray | pa.Array) -> list[str | None]:
    """``stamp`` for a column of timestamps."""
    if len(column) <= _FEW:
        with suppress(OverflowError):  # before the year 1 or after 9999
            moments = instants(column).cast(pa.int64()).to_pylist()
            return [None if micros is None else stamp(moment(micros)) for micros in moments]
    texts = instants(column).cast(pa.timestamp("us")).cast(pa.string())  # a zone would take most of the time
    return listed(pc.binary_join_element_wise(pc.binary_replace_slice(texts, 10, 11, "T"), "Z", ""))


def instants(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column of timestamps in microseconds and UTC, floored, also before 1970."""
    if column.type == INSTANT:
        return column
    if column.type.unit == "ns":
        column = pc.floor_temporal(column.cast(pa.timestamp("ns", "UTC")), unit="microsecond")
    return column.cast(INSTANT)
