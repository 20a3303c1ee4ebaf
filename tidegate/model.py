"""``Publication``, ``Subscription`` and ``Notification``, and the Arrow columns in which notifications are delivered.

Each checks its fields when it is made, so all other modules may trust them. Knows nothing of matching or of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.delivery_options import STREAM, Deliver, Fields, checked_deliver, checked_fields, destination_of
from tidegate.errors import PublicationError, SubscriptionError, TidegateError, shown
from tidegate.foreign_values import plain, point
from tidegate.moments import micros, moment, zoned
from tidegate.principal_names import registered_id
from tidegate.whole_numbers import LEAST, MOST, exact

__all__ = [
    "FLAT",
    "GROUPED",
    "PHASES",
    "RESERVED",
    "Notification",
    "Publication",
    "Subscription",
    "Value",
    "micros",
    "moment",
    "zoned",
]

#: A number, string, truth value, timestamp, point (lon, lat), bag or series.
Value = bool | int | float | str | datetime | date | tuple[float, float] | list[Any]

PHASES = ("START", "END", "INSTANT")

#: Names that are fields of a publication, with the kind of value they hold; every other name is an attribute.
RESERVED: dict[str, str] = {
    "id": "text",
    "source": "text",
    "time": "time",
    "start": "time",
    "end": "time",
    "phase": "text",
    "location": "point",
    "valid_until": "time",
    "event": "interval",
}

#: Another spelling of ``location``, of two names, for flat records and tables; no attribute has such a name.
LOCATION_PARTS = ("location.lon", "location.lat")
#: Attributes that are the location of a publication that has no other.
COORDINATES = ("longitude", "latitude")

FLAT = pa.schema(
    [
        ("notification_id", pa.string()),
        ("subscription_id", pa.string()),
        ("subscriber", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("publication_ids", pa.list_(pa.string())),
        ("score", pa.float64()),
        ("distance", pa.float64()),
    ]
)
GROUPED = pa.schema(
    [
        ("publication_id", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("subscription_ids", pa.list_(pa.string())),
    ]
)

#: Characters of an id, a source or a subscriber.
NAME_LENGTH = 1024
#: Characters of one text value of a publication.
TEXT_LENGTH = 1_048_576
#: Members of one bag or series.
LIST_LENGTH = 1_048_576

_NO_ATTRIBUTES = frozenset({*RESERVED, *LOCATION_PARTS})
_PLAIN = frozenset({bool, int, float, str, datetime, date, tuple, list})


def _name(value: object, what: str, at: str, error: type[TidegateError]) -> str:
    if not isinstance(value, str) or not value:
        raise error(f"a non-empty string as {what}", shown(value), at)
    if len(value) > NAME_LENGTH:
        raise error(f"at most {NAME_LENGTH} characters as {what}", f"{len(value)}", at)
    _encodable(value, what, at, error)
    return value


def _encodable(value: str, what: str, at: str, error: type[TidegateError]) -> None:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise error(f"Unicode text as {what}", f"{shown(value)} with a lone surrogate", at) from None


def _is_plain_name(value: object) -> bool:
    """Whether ``_name`` certainly has nothing against it."""
    return type(value) is str and 0 < len(value) <= NAME_LENGTH and value.isascii()


def _is_plain_time(when: object) -> bool:
    """Whether ``zoned`` certainly has nothing against it."""
    return type(when) is datetime and when.tzinfo is UTC and 1 < when.year < 9999


def _is_plain_point(value: Any) -> bool:
    """Whether ``_point`` certainly has nothing against it."""
    if type(value) is not tuple or len(value) != 2:
        return False
    lon, lat = value
    return type(lon) is float is type(lat) and -180 <= lon <= 180 and -90 <= lat <= 90


def _checked(value: Any, at: str) -> Any:
    """The value as the engine keeps it, or an error that says where it stands."""
    if type(value) not in _PLAIN:
        value = plain(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        number = exact(value) if isinstance(value, int) else value
        if not isfinite(number):
            raise PublicationError("a finite number, None for a missing one", shown(value), at)
        return number
    if isinstance(value, str):
        if len(value) > TEXT_LENGTH:
            raise PublicationError(f"text of at most {TEXT_LENGTH} characters", f"{len(value)} characters", at)
        _encodable(value, "a text", at, PublicationError)
        return value
    if isinstance(value, datetime | np.datetime64):
        return zoned(value, "a timestamp", at, PublicationError)
    if isinstance(value, date):
        return value
    if isinstance(value, tuple):
        return _point(value, at)
    if isinstance(value, list):
        return _list(value, at)
    raise PublicationError("a number, string, truth value, timestamp, point or list", shown(value), at)


def _list(value: list[Any], at: str) -> list[Any]:
    if len(value) > LIST_LENGTH:
        raise PublicationError(f"a list of at most {LIST_LENGTH} members", f"{len(value)}", at)
    kept = []
    for i, item in enumerate(value):
        if type(item) not in _PLAIN:
            item = plain(item)
        if isinstance(item, float):  # also NaN and the infinities: a series may have gaps
            kept.append(item)
            continue
        if isinstance(item, list | tuple | Mapping) or item is None:
            raise PublicationError("a number, string, truth value or timestamp", shown(item), f"{at}[{i}]")
        kept.append(_checked(item, f"{at}[{i}]"))
    return kept


def _point(value: Any, at: str) -> tuple[float, float]:
    parts = value if isinstance(value, tuple | list) else point(value) or plain(value)
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise PublicationError("a point (lon, lat)", shown(value), at)
    lon, lat = parts
    if type(lon) is float is type(lat) and -180 <= lon <= 180 and -90 <= lat <= 90:
        return lon, lat
    lon, lat = plain(lon), plain(lat)
    for part, bound in ((lon, 180), (lat, 90)):
        if isinstance(part, bool) or not isinstance(part, int | float) or not -bound <= part <= bound:
            raise PublicationError("a point (lon, lat) with lon in [-180, 180] and lat in [-90, 90]", shown(value), at)
    return float(lon), float(lat)


def _place(attributes: Mapping[str, Any], here: Callable[[], str]) -> tuple[float, float] | None:
    """The point that ``longitude`` and ``latitude`` give; None if one of them is no number."""
    lon, lat = (attributes.get(name) for name in COORDINATES)
    if isinstance(lon, bool | str) or isinstance(lat, bool | str):
        return None
    return _point((lon, lat), f"{here()}, longitude and latitude") if isinstance(lat, int | float) else None


@dataclass(frozen=True, slots=True)
class Publication:
    """Something that happened: a reading, an event, a log line.

    ``attributes`` holds any number of values; None among them means missing. An event that lasts is published once
    with ``start`` and ``end``, or in two parts of the same source and id, ``phase`` START and END.

    Values may be numpy's, and numbers ``Decimal``, which is rounded to a double, as a whole number of more than 64 bits
    is. A time may be a text of ISO 8601 with its offset from UTC. A point is (lon, lat), GeoJSON, or an object with
    ``__geo_interface__``, such as shapely's. Where no ``location`` is given and the attributes ``longitude`` and
    ``latitude`` are numbers, they are the location.
    """

    id: str
    source: str
    time: datetime
    attributes: Mapping[str, Value | None] = field(default_factory=dict)
    start: datetime | None = None
    end: datetime | None = None
    phase: str | None = None
    location: tuple[float, float] | None = None
    valid_until: datetime | None = None

    def __post_init__(self) -> None:
        if not (_is_plain_name(self.id) and _is_plain_name(self.source) and _is_plain_time(self.time)):
            _name(self.id, "the id", "publication", PublicationError)
            _name(self.source, "the source", self._here(), PublicationError)
            self._set("time", zoned(self.time, "the time", self._here(), PublicationError))
        if not (
            self.location is None
            and self.phase is None
            and self.start is None
            and self.end is None
            and self.valid_until is None
        ):
            self._check_fields()
        if not isinstance(self.attributes, Mapping):
            raise PublicationError("a mapping of attributes", shown(self.attributes), self._here())
        kept: dict[str, Value | None] = {}
        for name, value in self.attributes.items():
            if type(name) is not str or not name or name in _NO_ATTRIBUTES:
                self._check_attribute_name(name)
            kind = type(value)
            if (
                (kind is float and isfinite(value))  # type: ignore[arg-type]
                or kind is bool
                or (kind is int and LEAST <= value <= MOST)  # type: ignore[operator]
                or (kind is str and value.isascii() and len(value) <= TEXT_LENGTH)  # type: ignore[union-attr, arg-type]
            ):
                kept[name] = value
            elif value is not None:
                kept[name] = _checked(value, f"{self._here()}, attribute {shown(name)}")
        if "longitude" in kept and self.location is None:
            self._set("location", _place(kept, self._here))
        self._set("attributes", kept)  # the caller's mapping and lists may change, this may not

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _here(self) -> str:
        """How an error names this publication; made only for one."""
        return f"publication {shown(self.id)}"

    def _check_fields(self) -> None:
        for name in ("start", "end", "valid_until"):
            if (when := getattr(self, name)) is not None and not _is_plain_time(when):
                self._set(name, zoned(when, name, self._here(), PublicationError))
        if self.start is not None and self.end is not None and self.end < self.start:
            got = f"end {self.end.isoformat()}"
            raise PublicationError("an end that is not before the start", got, self._here())
        if self.phase is not None and self.phase not in PHASES:
            raise PublicationError(f"one of {', '.join(PHASES)} as phase", shown(self.phase), self._here())
        if self.location is not None and not _is_plain_point(self.location):
            self._set("location", _point(self.location, f"{self._here()}, location"))

    def _check_attribute_name(self, name: object) -> None:
        if not isinstance(name, str) or not name:
            raise PublicationError("a non-empty string as attribute name", shown(name), self._here())
        if name in _NO_ATTRIBUTES:
            raise PublicationError("attribute names that are not reserved", shown(name), self._here())

    def value(self, name: str) -> Any:
        """What an expression sees under that name: a field of the publication or an attribute; None if missing."""
        return getattr(self, name) if name in RESERVED and name != "event" else self.attributes.get(name)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing question: one CQL2 expression, as text or as a CQL2-JSON dict, and who asks it.

    It sees the publications whose ``time`` is in [active_from, active_until).

    The rest says what its subscriber is sent, where one is sent anything: with ``initial`` also the valid publications
    that were there before the subscription, with ``expired`` also what was valid no longer when it was read; of their
    attributes all, none, or those named by ``fields``; and ``deliver`` is "stream", "mqtt" or {"webhook": name}.
    """

    id: str
    subscriber: str
    where: str | dict[str, Any] | bool
    active_from: datetime | None = None
    active_until: datetime | None = None
    initial: bool = False
    fields: Fields = "all"
    expired: bool = False
    deliver: Deliver = field(default=STREAM, hash=False)

    def __post_init__(self) -> None:
        _name(self.id, "the id", "subscription", SubscriptionError)
        at = f"subscription {shown(self.id)}"
        _name(self.subscriber, "the subscriber", at, SubscriptionError)
        if not isinstance(self.where, str | dict | bool):
            raise SubscriptionError("CQL2 text or a CQL2-JSON dict as where", shown(self.where), at)
        for name in ("active_from", "active_until"):
            if (when := getattr(self, name)) is not None:
                object.__setattr__(self, name, zoned(when, name, at, SubscriptionError))
        if self.active_from is not None and self.active_until is not None and self.active_until <= self.active_from:
            raise SubscriptionError("active_until after active_from", self.active_until.isoformat(), at)
        if not self.is_told_as_usual:
            for name in ("initial", "expired"):
                if not isinstance(flag := getattr(self, name), bool):
                    raise SubscriptionError(f"true or false as {name}", shown(flag), at)
            object.__setattr__(self, "fields", checked_fields(self.fields, at))
            object.__setattr__(self, "deliver", checked_deliver(self.deliver, at))

    @property
    def is_told_as_usual(self) -> bool:
        """Whether ``initial``, ``fields``, ``expired`` and ``deliver`` are what they are unless they are given."""
        words = type(self.fields) is str is type(self.deliver)  # an array has no truth value for ``==`` to give
        return words and (self.initial, self.fields, self.expired, self.deliver) == (False, "all", False, STREAM)

    @property
    def registered_id(self) -> str:
        """``subscriber/id``: what a registry, its notifications and ``tidegate unsubscribe`` call it."""
        return registered_id(self.subscriber, self.id)

    @property
    def destination(self) -> str:
        """``deliver`` as text: ``stream``, ``mqtt`` or ``webhook:NAME``."""
        return destination_of(self.deliver)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Subscription:
            return NotImplemented
        return self._plain_fields() == other._plain_fields() and _same(self.where, other.where)

    def _plain_fields(self) -> tuple[object, ...]:
        """All fields but the expression."""
        times = self.active_from, self.active_until
        return self.id, self.subscriber, *times, self.initial, self.fields, self.expired, self.deliver


def _same(mine: Any, theirs: Any) -> bool:
    """Whether JSON is equal; an array, which has no truth value for ``==`` to give, is the list of its numbers."""
    if isinstance(mine, np.ndarray):
        mine = mine.tolist()
    if isinstance(theirs, np.ndarray):
        theirs = theirs.tolist()
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(_same(value, theirs[key]) for key, value in mine.items())
    if isinstance(mine, list) and isinstance(theirs, list):
        if _SIMPLE.issuperset(map(type, mine)) and _SIMPLE.issuperset(map(type, theirs)):
            return mine == theirs
        return len(mine) == len(theirs) and all(map(_same, mine, theirs))
    return bool(mine == theirs)


_SIMPLE = frozenset({float, int, str, bool})


class Notification(NamedTuple):
    """That a subscription was matched, by which publications, and when.

    The id is derived from the content: the same match delivered twice is recognisably the same.
    """

    id: str
    subscription: str
    subscriber: str
    time: datetime
    publications: tuple[str, ...]
    score: float | None = None
    distance: float | None = None
