"""Subscriptions that are put under their ids: made if there is none, left if they are the same, replaced if that is
wanted. Many are put at once, in one transaction, and one that is refused changes nothing for the others.

``Registry.put`` calls ``put`` in its transaction. One that is replaced ends and is made anew at the same version, so no
publication is matched with both or with neither. Knows nothing of what an expression means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from math import inf
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from tidegate.model import Subscription
from tidegate.store.database import CHUNK, key
from tidegate.store.principal_tables import meanings
from tidegate.store.registrations import register
from tidegate.store.registry_tables import ROWS, active, as_row, findable, record, there, tick
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.store.subscribing import Checked
from tidegate.store.version_readers import now

__all__ = ["Outcome", "Put", "Wanted", "outcome_of", "page", "put"]


class Outcome(StrEnum):
    """What became of a subscription that was put; of the last three, nothing."""

    MADE = "made"
    SAME = "same"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    STALE = "stale"
    BEYOND_QUOTA = "quota"


_TAKEN = (Outcome.MADE, Outcome.REPLACED)


class Wanted(NamedTuple):
    """A subscription that is to be put.

    ``is_expected`` says of what is there under its id, perhaps None, whether it may be replaced; without it, nothing
    that is there and something else may be.
    """

    checked: Checked
    is_expected: Callable[[StoredSubscription | None], bool] | None = None


class Put(NamedTuple):
    """What became of it, and what is there now under its id."""

    outcome: Outcome
    stored: StoredSubscription | None


def put(connection: Connection, subscriber: str, wanted: Sequence[Wanted], most: float | None) -> list[Put]:
    """Put subscriptions of one subscriber, who then has at most so many, in their order."""
    tick(connection, 0)  # nobody else changes anything meanwhile
    ids = [one.checked.subscription.registered_id for one in wanted]
    before, puts, outcomes = there(connection, ids), set[str](), list[Outcome]()
    room = inf if most is None else most - _count(connection, subscriber)
    for id, one in zip(ids, wanted, strict=True):
        outcome = Outcome.CONFLICT if id in puts else outcome_of(one, before.get(id))
        if outcome is Outcome.MADE and room < 1:
            outcome = Outcome.BEYOND_QUOTA
        room -= outcome is Outcome.MADE
        if outcome in _TAKEN:
            puts.add(id)
        outcomes.append(outcome)
    taken = [one.checked for one, outcome in zip(wanted, outcomes, strict=True) if outcome in _TAKEN]
    after = before | _made(connection, subscriber, taken, before)
    return [Put(outcome, after.get(id)) for outcome, id in zip(outcomes, ids, strict=True)]


def page(connection: Connection, subscriber: str, after: int, limit: int) -> list[StoredSubscription]:
    """The subscriptions of a subscriber that were made after a version, in order: the first ``limit`` of them."""
    name = findable(subscriber)
    its = ROWS.c.subscriber_key == key(name), ROWS.c.subscriber == name, ROWS.c.since > after
    return [as_row(row) for row in connection.execute(active().where(*its).limit(limit))]


def outcome_of(one: Wanted, before: StoredSubscription | None) -> Outcome:
    """What becomes of a subscription if ``before`` is what is there, and no quota says otherwise."""
    if one.is_expected is not None and not one.is_expected(before):
        return Outcome.STALE
    if before is None:
        return Outcome.MADE
    if before.subscription == _as_kept(one.checked):
        return Outcome.SAME
    return Outcome.CONFLICT if one.is_expected is None else Outcome.REPLACED


def _as_kept(checked: Checked) -> Subscription:
    """The subscription as it comes back from where it is stored: without shapes of somebody's own."""
    return _row(checked, 0, None).subscription


def _row(checked: Checked, since: int, read: str | None) -> StoredSubscription:
    where, asked = checked.texts
    return StoredSubscription.of(checked.subscription, since, True)._replace(where=where, asked=asked, read=read)


def _made(
    connection: Connection, subscriber: str, taken: Sequence[Checked], before: Mapping[str, StoredSubscription]
) -> dict[str, StoredSubscription]:
    """Make subscriptions, each at a version of its own, at which what it replaces ends; returns them by id."""
    if not taken:
        return {}
    since, created = tick(connection, len(taken)) - len(taken) + 1, now()
    read = meanings(connection, [subscriber]).get(subscriber)
    made = [_row(one, number, read) for number, one in enumerate(taken, since)]
    replaced = [(old.since, new.since) for new in made if (old := before.get(new.index_id)) is not None]
    if replaced:
        end = update(ROWS).where(ROWS.c.since == bindparam("ended")).values(until=bindparam("version"))
        connection.execute(end, [{"ended": old, "version": new} for old, new in replaced])
    rows = [record(number, one.subscription, *one.texts, created, read) for number, one in enumerate(taken, since)]
    for at in range(0, len(rows), CHUNK):
        connection.execute(ROWS.insert(), rows[at : at + CHUNK])
    register(connection, {subscriber: since})
    return {one.index_id: one for one in made}


def _count(connection: Connection, subscriber: str) -> int:
    its = ROWS.c.subscriber_key == key(subscriber), ROWS.c.subscriber == subscriber, ROWS.c.until.is_(None)
    return int(connection.execute(select(func.count()).select_from(ROWS).where(*its)).scalar_one())
