"""One publication from one JSON object or dict: which names are fields, and which JSON stands for which value.

What a value may be is checked by the model when the ``Publication`` is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from itertools import islice
from typing import Any

import numpy as np

from tidegate.errors import PublicationError, TidegateError, shown
from tidegate.model import LOCATION_PARTS, RESERVED, Publication, zoned
from tidegate.time_zones import TimeZone

__all__ = ["publication", "timestamp"]

#: Types of values that are taken as they are.
_PLAIN = frozenset({str, int, float, bool})


def publication(record: Mapping[str, Any], place: str, zone: TimeZone | None = None) -> Publication:
    """A publication from a JSON object whose attributes stand beside its fields or under ``attributes``.

    Times without a time zone are in ``zone``.
    """
    fields: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    try:
        nested = record.get("attributes")
        flat = record if nested is None else {name: value for name, value in record.items() if name != "attributes"}
        if nested is not None and not isinstance(nested, Mapping):
            raise PublicationError("an object of attributes", shown(nested))
        if LOCATION_PARTS[0] in flat or LOCATION_PARTS[1] in flat:
            flat = _with_location(flat)
        for name, value in flat.items():
            if type(value) in _PLAIN and name not in RESERVED:
                attributes[name] = value
                continue
            if value is None or name == "attributes":
                continue
            if name not in RESERVED or name == "event":
                attributes[name] = _value(value, name, zone)
            elif RESERVED[name] == "time":
                fields[name] = timestamp(value, name, PublicationError, zone)
            else:
                fields[name] = _value(value, name, zone)
        for name in ("id", "source", "time"):
            if name not in fields:
                raise PublicationError(f"a field {name}", _named(flat))
        for name, value in (nested or {}).items():
            attributes[name] = _value(value, name, zone)
        return Publication(**fields, attributes=attributes)
    except TidegateError as error:
        error.at = ", ".join(filter(None, (error.at, place)))
        raise


def _with_location(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The record with ``location.lon`` and ``location.lat`` as its location."""
    rest = dict(flat)
    lon, lat = (rest.pop(name, None) for name in LOCATION_PARTS)
    if lon is None and lat is None:
        return rest
    if lon is None or lat is None or rest.get("location") is not None:
        got = "location as well" if rest.get("location") is not None else "one of them"
        raise PublicationError("location, or both location.lon and location.lat", got)
    rest["location"] = (lon, lat)
    return rest


def _value(value: Any, name: str, zone: TimeZone | None) -> Any:
    """A JSON value as an attribute: objects stand for points, timestamps and dates, as they do in CQL2-JSON."""
    if type(value) in _PLAIN:
        return value
    if type(value) is dict and len(value) == 2 and "lon" in value and "lat" in value:
        return value["lon"], value["lat"]
    if isinstance(value, list):  # a list within it is refused by the model
        return [item if isinstance(item, list) else _value(item, name, zone) for item in value]
    if isinstance(value, datetime | np.datetime64):
        return timestamp(value, name, PublicationError, zone)
    if not isinstance(value, dict):
        return value
    match value:
        case {"lon": lon, "lat": lat} if len(value) == 2:
            return lon, lat
        case {"type": "Point", "coordinates": [lon, lat, *_]} if len(value) == 2:
            return lon, lat
        case {"timestamp": when} if len(value) == 1:
            return timestamp(when, name, PublicationError, zone)
        case {"date": str(text)} if len(value) == 1:
            try:
                return date.fromisoformat(text)
            except ValueError:
                raise PublicationError("a date such as '2026-11-15'", shown(text), name) from None
    wanted = '{"lon": …, "lat": …}, {"type": "Point", …}, {"timestamp": …} or {"date": …}'
    raise PublicationError(f"a value, a list or an object {wanted}", shown(value), name)


def timestamp(given: Any, name: str, error: type[TidegateError], zone: TimeZone | None = None) -> datetime:
    """The instant that a field gives, as text or as a datetime."""
    return zoned(given, name, "", error, zone)


def _named(record: Mapping[str, Any]) -> str:
    text = ", ".join(islice(record, 20)) or "none"
    return text if len(text) <= 200 else f"{text[:200]}…"
