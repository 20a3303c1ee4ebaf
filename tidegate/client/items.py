"""What a broker tells a subscriber: items of a queue, as frozen objects with times and whole numbers as they are.

``item_of`` makes them from the JSON of a message. Each knows the numbers of its queue that it stands for, and the
position behind it. Knows nothing of connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, NoReturn, TypeAlias

from tidegate.errors import BrokerError, TidegateError, shown
from tidegate.model import RESERVED, zoned

__all__ = [
    "ITEM_TYPES",
    "DeliveredNotification",
    "Gap",
    "Item",
    "ReceivedPublication",
    "Retraction",
    "Skipped",
    "item_of",
]

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class ReceivedPublication:
    """A publication as a broker tells of it.

    ``attributes`` has those that the subscriptions want. Where ``gone``, the broker keeps its content no longer, and of
    a publication that is known only by its id the rest is None.
    """

    id: str | None
    source: str | None
    time: datetime | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    start: datetime | None = None
    end: datetime | None = None
    phase: str | None = None
    location: tuple[float, float] | None = None
    valid_until: datetime | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbered:
    """What all items have: the epoch of the queue, and the number that the item ends with."""

    epoch: str
    number: int

    @property
    def first(self) -> int:
        """The first number that the item stands for."""
        return self.number

    @property
    def position(self) -> str:
        """What to give for ``after`` to go on behind this item, in whatever process."""
        return f"{self.epoch}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredNotification(_Numbered):
    """Subscriptions were matched, by one publication, or for a pattern by several."""

    type: Literal["notification"] = "notification"
    subscriptions: tuple[str, ...]
    """The ids of the subscriptions, as they were when they matched."""
    time: datetime | None
    matched_at: datetime | None
    publications: tuple[ReceivedPublication, ...]
    initial: bool = False
    """Whether the publication was there before the subscription."""
    score: float | None = None
    distance: float | None = None
    detail: Any = None

    @property
    def publication(self) -> ReceivedPublication:
        """The publication; of a pattern the last one that it was told."""
        return self.publications[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction(_Numbered):
    """A publication that was told with the number ``retracts`` has been withdrawn."""

    type: Literal["retracted"] = "retracted"
    retracts: int
    publication: ReceivedPublication | None
    matched_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(_Numbered):
    """The numbers from ``since`` to ``number`` are left out on purpose: expired, unpublished, not to be read."""

    type: Literal["skipped"] = "skipped"
    since: int
    reason: str

    @property
    def first(self) -> int:
        return self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(_Numbered):
    """The numbers from ``since`` to ``number`` cannot be told any more: the queue is kept from ``oldest`` on.

    Where the reason is ``epoch`` the queue is another than before, and its numbers begin anew: the broker was restored
    from a backup, or the session was ended. There may be no numbers between.
    """

    type: Literal["gap"] = "gap"
    since: int
    oldest: int
    reason: str

    @property
    def first(self) -> int:
        return self.since


Item: TypeAlias = DeliveredNotification | Retraction | Skipped | Gap


_Maker: TypeAlias = Callable[[Mapping[str, Any], str], Item]


def item_of(message: Mapping[str, Any], epoch: str) -> Item:
    """The item of a message of these types."""
    try:
        return _MAKERS[message["type"]](message, epoch)
    except (KeyError, TypeError, ValueError, AttributeError, TidegateError) as wrong:
        _nonsense(message, wrong)


def _nonsense(message: object, wrong: Exception) -> NoReturn:
    raise BrokerError("an item of a queue", f"{shown(message)} ({type(wrong).__name__}: {wrong})") from None


def _notification(message: Mapping[str, Any], epoch: str) -> DeliveredNotification:
    several = message.get("publications")
    publications = [message["publication"]] if several is None else several
    return DeliveredNotification(
        epoch=epoch,
        number=_number(message["number"]),
        subscriptions=tuple(map(str, message.get("subscriptions") or ())),
        time=time_of(message.get("time")),
        matched_at=time_of(message.get("matched_at")),
        publications=tuple(map(publication_of, publications)),
        initial=message.get("initial") is True,
        score=message.get("score"),
        distance=message.get("distance"),
        detail=message.get("detail"),
    )


def _retraction(message: Mapping[str, Any], epoch: str) -> Retraction:
    told = message.get("publication")
    return Retraction(
        epoch=epoch,
        number=_number(message["number"]),
        retracts=_number(message["retracts"]),
        publication=None if told is None else publication_of(told),
        matched_at=time_of(message.get("matched_at")),
    )


def _skipped(message: Mapping[str, Any], epoch: str) -> Skipped:
    since, number = _number(message["from"]), _number(message["number"])
    return Skipped(epoch=epoch, number=number, since=since, reason=str(message["reason"]))


def _gap(message: Mapping[str, Any], epoch: str) -> Gap:
    numbers = {name: _number(message[name]) for name in ("from", "to", "oldest")}
    reason = str(message["reason"])
    return Gap(epoch=epoch, number=numbers["to"], since=numbers["from"], oldest=numbers["oldest"], reason=reason)


_MAKERS: dict[str, _Maker] = {"notification": _notification, "retracted": _retraction, "skipped": _skipped, "gap": _gap}
#: The types of messages that are items.
ITEM_TYPES = frozenset(_MAKERS)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{shown(value)} is no number of a queue")
    return value


def time_of(value: Any) -> datetime | None:
    """The time of a text of RFC 3339."""
    return None if value is None else zoned(value, "a time", "an answer", BrokerError)


def publication_of(record: Mapping[str, Any]) -> ReceivedPublication:
    """A publication of an answer."""
    fields: dict[str, Any] = {name: record.get(name) for name in RESERVED if name != "event"}
    for name, kind in RESERVED.items():
        if kind == "time":
            fields[name] = time_of(fields[name])
    if (place := fields["location"]) is not None:
        fields["location"] = (float(place["lon"]), float(place["lat"]))
    attributes = {name: _value(value) for name, value in (record.get("attributes") or _NOTHING).items()}
    return ReceivedPublication(**fields, attributes=attributes, gone=record.get("gone") is True)


def _value(value: Any) -> Any:
    """The value of an attribute; in JSON, objects stand for times, dates and points."""
    if type(value) is list:
        return [_value(member) for member in value] if any(type(member) is dict for member in value) else value
    if type(value) is not dict:
        return value
    match value:
        case {"timestamp": str(text)} if len(value) == 1:
            return time_of(text)
        case {"date": str(text)} if len(value) == 1:
            return date.fromisoformat(text)
        case {"lon": lon, "lat": lat} if len(value) == 2:
            return lon, lat
        case {"gap": str(text)} if len(value) == 1:
            return float(text)
    return value
