"""What somebody wants to publish, one item at a time: from a decoded object to a ``Publication``, or a refusal.

Here is what the API adds to what a publication is anywhere: objects within objects become attributes with dots in
their names, and there are limits. Knows no form of a body, and nothing of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from tidegate.errors import PublicationError, TidegateError, shown
from tidegate.model import NAME_LENGTH, RESERVED, Publication
from tidegate.records.record import publication
from tidegate.records.tables import kinds_of

__all__ = ["DEEPEST", "MOST_ATTRIBUTES", "Limit", "Unreadable", "made_publication"]

#: Attributes of one publication, and objects within objects.
MOST_ATTRIBUTES, DEEPEST = 1000, 16
#: Names of one object at most, fields and what is null included.
_MOST_NAMES_GIVEN = MOST_ATTRIBUTES + 50
#: The members of objects that are values: points, timestamps and dates.
_VALUES: tuple[Collection[str], ...] = ({"lon", "lat"}, {"type", "coordinates"}, {"timestamp"}, {"date"})


#: Names of attributes that were looked at and are not too long, and how many are remembered.
_short_names = set[str]()
_MOST_NAMES = 10_000


class Limit(TidegateError, ValueError):
    """A publication that is too large in some way."""

    code = "limit"


class Unreadable(NamedTuple):
    """Stands for an item that could not be decoded or is too large: a code, and what is wrong with it."""

    code: str
    detail: str


def made_publication(item: Any) -> Publication:
    """The publication that an item is, or a ``TidegateError``."""
    if not isinstance(item, dict):
        raise PublicationError("an object", shown(item))
    _expect_few(item)
    if isinstance(inner := item.get("attributes"), dict):
        _expect_few(inner)
    record = item
    if dict in map(type, item.values()) and _is_nested(item):
        record = _flat(item)
    found = publication(record, "")
    if found.attributes:
        _expect_small(found)
    return found


def _expect_few(given: Mapping[str, Any]) -> None:
    """Refuse very many names before anything is done with each of them."""
    if len(given) > _MOST_NAMES_GIVEN:
        raise Limit(f"at most {MOST_ATTRIBUTES:,} attributes", f"{len(given):,} names")


def _expect_small(found: Publication) -> None:
    """Refuse too many attributes, too long names, and a list that no column can hold."""
    if (count := len(found.attributes)) > MOST_ATTRIBUTES:
        raise Limit(f"at most {MOST_ATTRIBUTES:,} attributes", f"{count:,}", _named(found))
    if not _short_names >= found.attributes.keys():
        _expect_short(found)
    if list in map(type, found.attributes.values()):
        kinds_of(found, ())


def _expect_short(found: Publication) -> None:
    if (length := max(map(len, found.attributes))) > NAME_LENGTH:
        raise Limit(f"at most {NAME_LENGTH:,} characters as name of an attribute", f"{length:,}", _named(found))
    if len(_short_names) > _MOST_NAMES:
        _short_names.clear()
    _short_names.update(found.attributes)


def _named(found: Publication) -> str:
    return f"publication {shown(found.id)}"


def _is_nested(item: Mapping[str, Any]) -> bool:
    """Whether there is an object that is no value."""
    for name, value in item.items():
        if type(value) is not dict or name in RESERVED:
            continue
        if name != "attributes" and value.keys() not in _VALUES:
            return True
        if name == "attributes" and any(type(one) is dict and one.keys() not in _VALUES for one in value.values()):
            return True
    return False


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
    _expect_few(found)
