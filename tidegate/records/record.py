"""One publication from one JSON object: which names are fields, and which JSON stands for which value.

What a value may be is checked by the model when the ``Publication`` is made.
"""

from __future__ import annotations

from datetime import date, datetime
from itertools import islice
from typing import Any

from tidegate.errors import PublicationError, TidegateError, shown
from tidegate.language import instant
from tidegate.model import RESERVED, Publication, moment

__all__ = ["publication", "timestamp"]


def publication(record: dict[str, Any], place: str) -> Publication:
    """A publication from a JSON object whose attributes stand beside its fields or under ``attributes``."""
    fields: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    try:
        nested = record.get("attributes")
        flat = record if nested is None else {name: value for name, value in record.items() if name != "attributes"}
        if nested is not None and not isinstance(nested, dict):
            raise PublicationError("an object of attributes", shown(nested))
        for name, value in flat.items():
            if value is None or name == "attributes":
                continue
            if name not in RESERVED or name == "event":
                attributes[name] = _value(value, name)
            elif RESERVED[name] == "time":
                fields[name] = timestamp(value, name, PublicationError)
            else:
                fields[name] = _value(value, name)
        for name in ("id", "source", "time"):
            if name not in fields:
                raise PublicationError(f"a field {name}", _named(flat))
        for name, value in (nested or {}).items():
            attributes[name] = _value(value, name)
        return Publication(**fields, attributes=attributes)
    except TidegateError as error:
        error.at = ", ".join(filter(None, (error.at, place)))
        raise


def _value(value: Any, name: str) -> Any:
    """A JSON value as an attribute: objects stand for points, timestamps and dates, as they do in CQL2-JSON."""
    if isinstance(value, list):  # a list within it is refused by the model
        return [item if isinstance(item, list) else _value(item, name) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"lon": lon, "lat": lat} if len(value) == 2:
            return lon, lat
        case {"type": "Point", "coordinates": [lon, lat, *_]} if len(value) == 2:
            return lon, lat
        case {"timestamp": text} if len(value) == 1:
            return timestamp(text, name, PublicationError)
        case {"date": str(text)} if len(value) == 1:
            try:
                return date.fromisoformat(text)
            except ValueError:
                raise PublicationError("a date such as '2026-11-15'", shown(text), name) from None
    wanted = '{"lon": …, "lat": …}, {"type": "Point", …}, {"timestamp": …} or {"date": …}'
    raise PublicationError(f"a value, a list or an object {wanted}", shown(value), name)


def timestamp(given: Any, name: str, error: type[TidegateError]) -> datetime:
    """The instant that a field gives as text, with its offset from UTC."""
    try:
        micros, is_date = instant(given) if isinstance(given, str) else (0, True)
    except TidegateError as wrong:
        raise error(wrong.expected, wrong.got, name) from None
    if is_date:
        raise error("a timestamp such as '2026-11-15T08:00:00Z'", shown(given), name)
    return moment(micros)


def _named(record: dict[str, Any]) -> str:
    text = ", ".join(islice(record, 20)) or "none"
    return text if len(text) <= 200 else f"{text[:200]}…"
