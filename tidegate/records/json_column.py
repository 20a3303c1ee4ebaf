"""JSON values of one name, as ``orjson`` reads them, to one Arrow column, without an object per value.

``attribute`` takes the values that are surely good and of the commonest kind. Rows of other kinds are left for another
column, and every doubtful row is reported as odd, for the caller to check by itself. So this module does not define
what a value may be: the model does, and ``record`` defines which JSON stands for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model import NAME_LENGTH, PHASES, RESERVED
from tidegate.records.number_columns import kinds_apart
from tidegate.records.timestamps import INSTANT, read_timestamps
from tidegate.time_zones import TimeZone

__all__ = ["ALIKE", "INSTANT", "POINT", "Values", "attribute", "field"]

POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])


class Values(NamedTuple):
    """A column, None where it would hold no value; the odd rows; and those whose value is of another kind."""

    array: pa.Array | None
    odd: list[int]
    other: list[int]


def attribute(values: list[Any]) -> Values:
    """The column of the commonest kind among the values."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    if not kinds:
        return Values(None, [], [])
    if len(kinds) == 1 or kinds == {int, float}:
        return _BUILT[kinds.pop()](values)
    counts = Counter(_BUILT[type(value)] for value in values if value is not None)
    build = counts.most_common(1)[0][0]
    other = [i for i, value in enumerate(values) if value is not None and _BUILT[type(value)] is not build]
    array, odd, more = build(_without(values, other))
    return Values(array, odd, other + more)


def field(name: str, values: list[Any], zone: TimeZone | None = None) -> tuple[pa.Array, list[int]]:
    """The column of a reserved name, and the odd rows. Times without an offset from UTC are in ``zone``."""
    kind = RESERVED[name]
    if kind == "point":
        other = _other_than(dict, values)
        array, odd, more = _objects(_without(values, other), points_only=True)
        return pa.nulls(len(values), POINT) if array is None else array, other + odd + more
    if kind == "time":
        return _instants(values, zone)[:2]
    other = _other_than(str, values)
    array = pa.array(_without(values, other), pa.string())
    if name == "phase":
        known = pc.is_in(array, pa.array([*PHASES, None]))
    else:
        lengths = pc.binary_length(array)  # bytes, never fewer than characters: what is within the bounds surely is
        known = pc.and_(pc.greater(lengths, 0), pc.less_equal(lengths, NAME_LENGTH))
    return array, other + _false(known)


def _other_than(kind: type, values: list[Any]) -> list[int]:
    if set(map(type, values)) <= {kind, type(None)}:
        return []
    return [i for i, value in enumerate(values) if value is not None and type(value) is not kind]


def _without(values: list[Any], rows: list[int]) -> list[Any]:
    if not rows:
        return values
    rest = list(values)
    for i in rows:
        rest[i] = None
    return rest


def _false(truths: pa.Array) -> list[int]:
    """The rows that are false; null is not."""
    if pc.all(truths).as_py() is not False:
        return []
    found: list[int] = np.flatnonzero(~np.asarray(truths.fill_null(True))).tolist()
    return found


# --- values of one kind ---------------------------------------------------------------------------------------------


def _numbers(values: list[Any]) -> Values:
    doubles = np.array(values, np.float64)  # NaN stands for null, since JSON has no NaN
    kind, other = kinds_apart(values, doubles)
    if kind == pa.float64() and not other:
        return Values(pa.array(doubles, from_pandas=True), [], [])
    return Values(pa.array(_without(values, other), kind), [], other)


def _members(values: list[Any]) -> pa.Array:
    """The members of lists of numbers, as doubles."""
    return pa.array(np.array(values, np.float64), from_pandas=True)


def _texts(values: list[Any]) -> Values:
    return Values(pa.array(values, pa.string()), [], [])


def _truths(values: list[Any]) -> Values:
    return Values(pa.array(values, pa.bool_()), [], [])


def _lists(values: list[Any]) -> Values:
    """Lists of numbers, texts or truth values."""
    members = list(chain.from_iterable(filter(None, values)))
    kinds = set(map(type, members))
    if not any(kinds <= same for same in ALIKE):
        counts = Counter(map(type, members))
        commonest = max(ALIKE, key=lambda same: sum(counts[kind] for kind in same))
        found = [set() if value is None else set(map(type, value)) for value in values]
        odd = [i for i, some in enumerate(found) if not any(some <= same for same in ALIKE)]
        other = [i for i, some in enumerate(found) if not some <= commonest and any(some <= same for same in ALIKE)]
        return Values(_lists(_without(values, odd + other)).array, odd, other)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    missing = [value is None for value in values]
    flat = _members(members) if kinds <= ALIKE[0] else _BUILT[kinds.pop()](members).array
    mask = pa.array(missing) if any(missing) else None
    return Values(pa.ListArray.from_arrays(pa.array(offsets), flat, mask=mask), [], [])


def _objects(values: list[Any], points_only: bool = False) -> Values:
    """Points, timestamps or dates."""
    shapes = Counter(frozenset(value) for value in values if value is not None)
    shape, count = shapes.most_common(1)[0] if shapes else (frozenset(), 0)
    other: list[int] = []
    if count < shapes.total():
        other = [i for i, value in enumerate(values) if value is not None and value.keys() != shape]
        values = _without(values, other)
    if shape == {"lon", "lat"}:
        array, odd, _ = _points([None if v is None else (v["lon"], v["lat"]) for v in values])
    elif shape == {"type", "coordinates"}:
        array, odd, _ = _points([None if v is None else _coordinates(**v) for v in values])
    elif shape == {"timestamp"} and not points_only:
        array, odd, _ = _instants(_inside(values, "timestamp"))
    elif shape == {"date"} and not points_only:
        array, odd, _ = _dates(_inside(values, "date"))
    else:
        array, odd = None, [i for i, value in enumerate(values) if value is not None]
    return Values(array, odd, other)


def _inside(values: list[Any], key: str) -> list[Any]:
    """What the objects hold; null inside an object is not a value that is missing, but one that is wrong."""
    return [None if v is None else False if v[key] is None else v[key] for v in values]


def _coordinates(type: Any, coordinates: Any) -> tuple[Any, Any]:
    is_point = type == "Point" and isinstance(coordinates, list) and len(coordinates) >= 2
    return (coordinates[0], coordinates[1]) if is_point else _NO_POINT


def _points(pairs: list[tuple[Any, Any] | None]) -> Values:
    odd = [i for i, p in enumerate(pairs) if p is not None and not (type(p[0]) in _NUMBERS and type(p[1]) in _NUMBERS)]
    pairs = _without(pairs, odd)
    parts = [np.array([None if pair is None else pair[part] for pair in pairs], np.float64) for part in (0, 1)]
    far = (np.abs(parts[0]) > 180) | (np.abs(parts[1]) > 90)
    missing = pa.array([pair is None for pair in pairs], pa.bool_())
    return Values(
        pa.StructArray.from_arrays([pa.array(part) for part in parts], ["lon", "lat"], mask=missing),
        odd + np.flatnonzero(far).tolist(),
        [],
    )


def _instants(values: list[Any], zone: TimeZone | None = None) -> Values:
    """Timestamps, of texts."""
    other = _other_than(str, values)
    found, wrong = read_timestamps(pa.array(_without(values, other), pa.string()), zone)
    return Values(found, other + wrong.tolist(), [])


def _dates(values: list[Any]) -> Values:
    found = [_day(value) if isinstance(value, str) else None for value in values]
    odd = [i for i, (value, day) in enumerate(zip(values, found, strict=True)) if day is None and value is not None]
    return Values(pa.array(found, pa.date32()), odd, [])


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


_NUMBERS = (int, float)
_NO_POINT = (None, None)
#: Kinds of members that a list may have side by side.
ALIKE: tuple[set[type], ...] = ({int, float}, {str}, {bool})
_BUILT: dict[type, Callable[[list[Any]], Values]] = {
    int: _numbers,
    float: _numbers,
    str: _texts,
    bool: _truths,
    list: _lists,
    dict: _objects,
}
