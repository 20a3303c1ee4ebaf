"""What a broker answers, as frozen objects. An answer that lacks what it must have is a ``BrokerError``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import orjson

from tidegate.client.items import ReceivedPublication, publication_of, time_of
from tidegate.delivery_options import STREAM, Deliver, Fields
from tidegate.errors import BrokerError, TidegateError, shown

__all__ = [
    "ManySubscribed",
    "NewToken",
    "Published",
    "RecentPage",
    "Refused",
    "StoredSubscription",
    "SubscriptionCost",
    "json_of",
    "member",
    "objects",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refused:
    """A publication or a subscription that a broker did not take: its number among those given, and why."""

    index: int
    code: str
    detail: str

    @staticmethod
    def all_of(answer: Mapping[str, Any], first: int) -> tuple[Refused, ...]:
        """Those that an answer names, which counts from the number ``first`` on."""
        return tuple(
            Refused(first + member(one, "index", int), str(one.get("code", "")), str(one.get("detail", "")))
            for one in objects(answer, "refused")
        )


@dataclass(frozen=True, slots=True)
class Published:
    """What became of publications.

    Those that are ``accepted`` or ``duplicates`` are durable; a duplicate was there before, perhaps by an attempt whose
    answer was lost. ``ids`` has those that were made, by the number of the publication; ``position`` is the row of the
    last one accepted, and ``first`` the number of the first publication that this answer is about.
    """

    accepted: int
    duplicates: int = 0
    refused: tuple[Refused, ...] = ()
    ids: Mapping[int, str] = field(default_factory=dict)
    position: int | None = None
    first: int = 0

    @property
    def count(self) -> int:
        """How many publications this answer is about."""
        return self.accepted + self.duplicates + len(self.refused)

    @staticmethod
    def together(parts: Sequence[Published]) -> Published:
        """Several answers as one."""
        return Published(
            sum(part.accepted for part in parts),
            sum(part.duplicates for part in parts),
            tuple(one for part in parts for one in part.refused),
            {number: id for part in parts for number, id in part.ids.items()},
            next((part.position for part in reversed(parts) if part.position is not None), None),
        )

    @staticmethod
    def of(answer: Mapping[str, Any], first: int, ids: Mapping[int, str]) -> Published:
        """What a broker answers to publications from number ``first`` on, for which ``ids`` were made here."""
        refused = Refused.all_of(answer, first)
        position = None if answer.get("position") is None else member(answer, "position", int)
        counted = member(answer, "accepted", int), member(answer, "duplicates", int)
        return Published(*counted, refused, dict(ids), position, first)


@dataclass(frozen=True, slots=True)
class SubscriptionCost:
    """The processor time that a subscription takes, in microseconds per publication."""

    microseconds: float
    measured_at: datetime | None

    @staticmethod
    def of(answer: Any) -> SubscriptionCost | None:
        """What a broker answers; None where it says nothing."""
        if not isinstance(answer, Mapping):
            return None
        return SubscriptionCost(float(answer.get("microseconds", 0.0)), time_of(answer.get("measured_at")))


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A subscription as a broker has it. ``is_new`` says whether a request has just made it."""

    id: str
    where: str | dict[str, Any] | bool
    active_from: datetime | None
    active_until: datetime | None
    initial: bool
    fields: Fields
    expired: bool
    deliver: Deliver
    etag: str | None
    """The tag of its content, for ``if_match``, where the answer says it."""
    is_new: bool = False
    warnings: tuple[str, ...] = ()
    """Doubts whether it is meant as it is written, when it was put."""
    cost: SubscriptionCost | None = None
    """What it takes, where it was asked for by its id and is measured."""

    @staticmethod
    def of(answer: Mapping[str, Any], etag: str | None = None, is_new: bool = False) -> StoredSubscription:
        fields = answer.get("fields", "all")
        return StoredSubscription(
            member(answer, "id", str),
            answer.get("where", True),
            time_of(answer.get("active_from")),
            time_of(answer.get("active_until")),
            bool(answer.get("initial", False)),
            tuple(fields) if isinstance(fields, list) else fields,
            bool(answer.get("expired", False)),
            answer.get("deliver", STREAM),
            answer.get("etag") if etag is None else etag,
            is_new,
            tuple(answer.get("warnings", ())),
            SubscriptionCost.of(answer.get("cost")),
        )


@dataclass(frozen=True, slots=True)
class ManySubscribed:
    """What became of many subscriptions; ``warnings`` has doubts, by the number of the subscription."""

    made: int
    same: int
    replaced: int
    refused: tuple[Refused, ...]
    warnings: Mapping[int, tuple[str, ...]]

    @staticmethod
    def together(answers: Sequence[tuple[int, Mapping[str, Any]]]) -> ManySubscribed:
        """The answers to requests as one, each with the number of its first subscription."""
        made, same, replaced = (
            sum(member(said, name, int) for _, said in answers) for name in ("made", "same", "replaced")
        )
        refused = tuple(one for first, said in answers for one in Refused.all_of(said, first))
        doubts = {
            first + int(number): tuple(texts)
            for first, said in answers
            for number, texts in member(said, "warnings", dict).items()
        }
        return ManySubscribed(made, same, replaced, refused, doubts)


@dataclass(frozen=True, slots=True)
class RecentPage:
    """Recent publications, and what to give for ``after`` to go on."""

    publications: tuple[ReceivedPublication, ...]
    next: str | None

    @staticmethod
    def of(answer: Mapping[str, Any]) -> RecentPage:
        following = answer.get("next")
        made = tuple(made_of(publication_of, one) for one in objects(answer, "publications"))
        return RecentPage(made, None if following is None else str(following))


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was made: its id, and the secret, which is told this once."""

    id: str
    secret: str = field(repr=False)


def made_of(make: Callable[[Mapping[str, Any]], T], record: Mapping[str, Any]) -> T:
    """What a function makes of a part of an answer."""
    try:
        return make(record)
    except (KeyError, TypeError, ValueError, AttributeError, TidegateError) as wrong:
        raise BrokerError("an answer of the API", f"{shown(record)} ({wrong})") from None


def json_of(body: bytes, at: str) -> dict[str, Any]:
    """The JSON object of an answer."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise BrokerError("an answer in JSON", f"{shown(body)}, where {wrong.msg}", at) from None
    if not isinstance(found, dict):
        raise BrokerError("an answer that is a JSON object", shown(found), at)
    return found


def member(answer: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A member that an answer must have."""
    found = answer.get(name)
    if type(found) is not kind:
        raise BrokerError(f"an answer with {name}", shown(dict(answer)))
    return found


def objects(answer: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A member that is a list of objects."""
    found = member(answer, name, list)
    if not all(isinstance(one, dict) for one in found):
        raise BrokerError(f"an answer with objects in {name}", shown(found))
    return found
