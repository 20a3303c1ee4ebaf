"""How subscriptions are taken: what is checked, which texts are stored of each expression, and the rows.

``Registry.subscribe`` calls ``expressions`` before its transaction and ``add`` in it. A gateway calls ``checked`` for
each subscription that it puts under its id, by ``replacing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from tidegate.errors import SubscriptionError, TidegateError, shown
from tidegate.index.catalogue import stored
from tidegate.language import Limits
from tidegate.model import NAME_LENGTH, Subscription
from tidegate.principal_names import EXPECTED, is_principal_name
from tidegate.store.database import CHUNK
from tidegate.store.principal_tables import meanings
from tidegate.store.registrations import register
from tidegate.store.registry_tables import ROWS, living, record, tick
from tidegate.store.version_readers import now
from tidegate.subscriptions import compile_subscription
from tidegate.subscriptions.doubts import doubts, warn
from tidegate.subscriptions.expansion import self_contained

__all__ = ["Checked", "Texts", "add", "checked", "expressions", "one_by_one"]

#: An expression as it is stored and, where an ontology has expanded it, as it was asked.
Texts = tuple[str, str | None]


class Checked(NamedTuple):
    """A subscription that can be taken: the texts to store of its expression, and doubts whether it is meant so."""

    subscription: Subscription
    texts: Texts
    doubts: tuple[str, ...]


def one_by_one(given: Iterable[Subscription | Iterable[Subscription]]) -> list[Subscription]:
    """All that is given, as one list."""
    found: list[Subscription] = []
    for one in given:
        if isinstance(one, Iterable) and not isinstance(one, str | bytes | Mapping):
            found += one
        else:
            found.append(one)  # type: ignore[arg-type]  # what is no subscription is refused by ``expressions``
    return found


def expressions(subscriptions: Sequence[Subscription], limits: Limits) -> list[Texts]:
    """The texts of each expression; or an error. Warns of doubts."""
    ids, found = set[str](), list[Texts]()
    for subscription in subscriptions:
        _check_names(subscription)
        try:
            warn(subscription, compile_subscription(subscription, limits), limits)
        except TidegateError as error:
            name = shown(subscription.id)
            error.at = f"{error.at} of subscription {name}" if error.at else name
            raise
        name = subscription.registered_id
        if name in ids:
            raise SubscriptionError("each id once", f"{shown(name)} twice")
        ids.add(name)
        found.append(_texts(subscription, limits))
    return found


def checked(subscription: Subscription, limits: Limits) -> Checked:
    """A subscription with what is stored of it; or an error, whose place is one in its expression. Warns of nothing."""
    _check_names(subscription)
    doubtful = tuple(doubts(subscription, compile_subscription(subscription, limits), limits))
    return Checked(subscription, _texts(subscription, limits), doubtful)


def _texts(subscription: Subscription, limits: Limits) -> Texts:
    meant, asked = self_contained(subscription, limits)
    found = stored(meant), None if asked is None else stored(asked)
    for text in (subscription.id, *found, subscription.destination):  # fields are JSON, which writes NUL otherwise
        if text is not None and "\0" in text:  # PostgreSQL takes no text with NUL
            raise SubscriptionError("text without the character NUL", shown(text), shown(subscription.id))
    return found


def add(connection: Connection, subscriptions: Sequence[Subscription], texts: Sequence[Texts]) -> int:
    """Take subscriptions with their texts, and return the version from which all are active.

    Subscribers who are not registered are so from the version of their first one.
    """
    version = tick(connection, len(subscriptions))
    for taken in living(connection, [s.registered_id for s in subscriptions]):
        raise SubscriptionError("an id that is not in use", shown(taken))
    created, since = now(), version - len(subscriptions) + 1
    firsts = {s.subscriber: number for number, s in reversed([*enumerate(subscriptions, since)])}
    reads = meanings(connection, firsts)
    for at in range(0, len(subscriptions), CHUNK):
        some = zip(subscriptions[at : at + CHUNK], texts[at : at + CHUNK], strict=True)
        rows = [
            record(number, s, *told, created, reads.get(s.subscriber))
            for number, (s, told) in enumerate(some, since + at)
        ]
        connection.execute(ROWS.insert(), rows)
    register(connection, firsts)
    return version


def _check_names(subscription: object) -> None:
    if not isinstance(subscription, Subscription):
        raise SubscriptionError("a Subscription", shown(subscription))
    at = f"subscription {shown(subscription.id)}"
    if not is_principal_name(subscription.subscriber):
        raise SubscriptionError(f"{EXPECTED}, as the subscriber", shown(subscription.subscriber), at)
    if (length := len(subscription.registered_id)) > NAME_LENGTH:
        raise SubscriptionError(f"at most {NAME_LENGTH} characters as subscriber/id", f"{length}", at)
