"""One publication, an object or a dict, as the JSON object that a broker takes.

What it means is the broker's to judge; here is refused only what JSON would silently make something else. Fields and
attributes may stand side by side in a dict, or attributes under ``attributes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any

import numpy as np

from tidegate.errors import PublicationError, shown
from tidegate.foreign_values import plain
from tidegate.model import RESERVED, Publication, zoned
from tidegate.whole_numbers import LEAST, MOST

__all__ = ["json_record", "stamp"]

_TIMES = frozenset(name for name, kind in RESERVED.items() if kind == "time")
_OBJECTS = frozenset({"timestamp", "date", "lon", "lat", "type", "coordinates"})
_DEPTH = 16


def json_record(given: Publication | Mapping[str, Any], at: str) -> dict[str, Any]:
    """The JSON object of a publication; ``at`` says in an error where it stands."""
    if isinstance(given, Publication):
        fields = {name: getattr(given, name) for name in RESERVED if name != "event"}
        given = {name: value for name, value in fields.items() if value is not None} | {"attributes": given.attributes}
    elif not isinstance(given, Mapping):
        raise PublicationError("a publication or a dict", shown(given), at)
    found = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise PublicationError("names that are texts", shown(name), at)
        if value is not None:
            found[name] = _instant(value, name, at) if name in _TIMES else _value(value, name, at)
    return found


def stamp(when: datetime) -> str:
    """A moment as a text of RFC 3339 in UTC, with microseconds."""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _instant(value: Any, name: str, at: str) -> Any:
    return value if isinstance(value, str) else stamp(zoned(value, name, at, PublicationError))


def _value(value: Any, name: str, at: str, depth: int = 0) -> Any:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is float and isfinite(value):
        return value
    if kind is int:
        return value if LEAST <= value <= MOST else _number(float(value), name, at)
    if isinstance(value, datetime | np.datetime64):
        return {"timestamp": stamp(zoned(value, name, at, PublicationError))}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if depth > _DEPTH:
        raise PublicationError("values that are nested less deeply", shown(value), f"{at}, {name}")
    if isinstance(value, Mapping):
        return {str(inner): _value(member, f"{name}.{inner}", at, depth + 1) for inner, member in value.items()}
    if kind is tuple and len(value) == 2:
        lon, lat = (_value(part, name, at, depth + 1) for part in value)
        return {"lon": lon, "lat": lat}
    if isinstance(value, list | tuple):
        return [_value(member, name, at, depth + 1) for member in value]
    return _foreign(value, name, at, depth)


def _foreign(value: Any, name: str, at: str, depth: int) -> Any:
    """A value of another library, or a number that JSON does not have."""
    found = plain(value)
    if isinstance(found, float):
        return _number(found, name, at)
    if type(found) is type(value):
        raise PublicationError("a number, string, truth value, timestamp, point or list", shown(value), f"{at}, {name}")
    return _value(found, name, at, depth + 1)


def _number(value: float, name: str, at: str) -> float:
    if not isfinite(value):
        expected = "a finite number, None for a missing one; a series with gaps in an Arrow table"
        raise PublicationError(expected, shown(value), f"{at}, {name}")
    return value
