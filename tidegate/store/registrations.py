"""Which principals are registered, and since which version: from its first subscription or first read on, until it is
unregistered, which ends all its subscriptions.

``Registry`` calls these functions within its transactions, after ``tick``: so nobody else changes the registry
meanwhile. Knows nothing of sessions and queues, which others keep for whoever is registered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, or_, select, update

from tidegate.errors import SettingError, shown
from tidegate.store.database import CHUNK, insert_new, key
from tidegate.store.registry_tables import REGISTRATIONS, ROWS, findable, registration, tick

__all__ = ["Registration", "between", "register", "registered", "unregister"]


class Registration(NamedTuple):
    """That a principal was registered, or unregistered, at a version."""

    version: int
    principal: str
    is_registered: bool


def registered(connection: Connection, principals: Collection[str]) -> dict[str, int]:
    """Those of the principals that are registered, and the version since which each is."""
    wanted, found = {findable(principal) for principal in principals}, dict[str, int]()
    keys = [key(principal) for principal in wanted]
    fields = select(REGISTRATIONS.c.principal, REGISTRATIONS.c.since).where(REGISTRATIONS.c.until.is_(None))
    for at in range(0, len(keys), CHUNK):
        some = fields.where(REGISTRATIONS.c.principal_key.in_(keys[at : at + CHUNK]))
        found |= {principal: since for principal, since in connection.execute(some) if principal in wanted}
    return found


def register(connection: Connection, since: Mapping[str, int]) -> None:
    """Register each principal that is not registered, at its version, which it shares with no other."""
    there = registered(connection, since)
    insert_new(
        connection,
        REGISTRATIONS,
        [registration(version, principal) for principal, version in since.items() if principal not in there],
    )


def unregister(connection: Connection, principal: str) -> int:
    """End a registration and all subscriptions of its principal at one version, which is returned."""
    version, name = tick(connection, 1), findable(principal)
    mine = REGISTRATIONS.c.principal_key == key(name), REGISTRATIONS.c.principal == name
    end = update(REGISTRATIONS).where(*mine, REGISTRATIONS.c.until.is_(None)).values(until=version)
    if not connection.execute(end).rowcount:
        raise SettingError("a principal that is registered", shown(principal))
    its = ROWS.c.subscriber_key == key(name), ROWS.c.subscriber == name
    connection.execute(update(ROWS).where(*its, ROWS.c.until.is_(None)).values(until=version))
    return version


def between(connection: Connection, after: int, upto: int) -> list[Registration]:
    """What happened after one version and up to another, in order."""
    since, until = REGISTRATIONS.c.since, REGISTRATIONS.c.until
    both = or_((since > after) & (since <= upto), (until > after) & (until <= upto))
    found = []
    for begun, ended, principal in connection.execute(select(since, until, REGISTRATIONS.c.principal).where(both)):
        if after < begun <= upto:
            found.append(Registration(begun, principal, True))
        if ended is not None and after < ended <= upto:
            found.append(Registration(ended, principal, False))
    return sorted(found)
