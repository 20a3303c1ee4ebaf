"""What somebody wants to publish, one item at a time: from a decoded object to a ``Publication``, or a refusal.

Here is what the API adds to what a publication is anywhere: objects within objects become attributes with dots in
their names, a missing time is that of the arrival, a missing id is made, and there are limits. Knows no form of a body,
and nothing of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from tidegate.errors import PublicationError, TidegateError, shown
from tidegate.model import NAME_LENGTH, RESERVED, Publication
from tidegate.records.record import publication
from tidegate.records.tables import kinds_of

__all__ = ["DEEPEST", "MOST_ATTRIBUTES", "Limit", "Unreadable", "made_publication"]

#: Attributes of one publication, and objects within objects.
MOST_ATTRIBUTES, DEEPEST = 1000, 16
_FIELDS = ("id", "source", "time")
#: The members of objects that are values: points, timestamps and dates.
_VALUES: tuple[Collection[str], ...] = ({"lon", "lat"}, {"type", "coordinates"}, {"timestamp"}, {"date"})


class Limit(TidegateError, ValueError):
    """A publication that is too large in some way."""

    code = "limit"


class Unreadable(NamedTuple):
    """Stands for an item that could not be decoded: a code, and what is wrong with it."""

    code: str
    detail: str


def made_publication(item: Any, arrival: datetime, id: str) -> Publication:
    """The publication that an item is, or a ``TidegateError``. ``id`` is its id if it has none."""
    if not isinstance(item, dict):
        raise PublicationError("an object", shown(item))
    record = item
    if dict in map(type, item.values()):
        record = _flat(item)
    if record.get("time") is None or record.get("id") is None:
        record = {**record}
        if record.get("time") is None:
            record["time"] = arrival
        if record.get("id") is None:
            record["id"] = id
    found = publication(record, "")
    if found.attributes:
        _expect_small(found)
    return found


def _expect_small(found: Publication) -> None:
    """Refuse too many attributes, too long names, and a list that no column can hold."""
    if (count := len(found.attributes)) > MOST_ATTRIBUTES:
        raise Limit(f"at most {MOST_ATTRIBUTES:,} attributes", f"{count:,}", _named(found))
    if (length := max(map(len, found.attributes))) > NAME_LENGTH:
        raise Limit(f"at most {NAME_LENGTH:,} characters as name of an attribute", f"{length:,}", _named(found))
    if list in map(type, found.attributes.values()):
        kinds_of(found, ())


def _named(found: Publication) -> str:
    return f"publication {shown(found.id)}"


def _flat(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item with its attributes beside its fields, and none within another."""
    found: dict[str, Any] = {}
    for name, value in item.items():
        if name == "attributes" and isinstance(value, dict):
            found[name] = inner = dict[str, Any]()
            for each, one in value.items():
                _put(inner, each, one, 1)
        elif type(value) is dict and name not in RESERVED:
            _put(found, name, value, 1)
        else:
            _put_once(found, name, value)
    return found


def _put(found: dict[str, Any], name: str, value: Any, depth: int) -> None:
    """Put a value, or the values of an object, which have its name and a dot before theirs."""
    if type(value) is not dict or value.keys() in _VALUES:
        _put_once(found, name, value)
        return
    if depth > DEEPEST:
        raise Limit(f"at most {DEEPEST} objects within objects", "more", f"attribute {shown(name)}")
    for each, one in value.items():
        _put(found, f"{name}.{each}", one, depth + 1)


def _put_once(found: dict[str, Any], name: str, value: Any) -> None:
    if name in found:
        raise PublicationError("each attribute once", "two", f"attribute {shown(name)}")
    found[name] = value
