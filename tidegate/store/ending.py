"""Subscriptions that end: those that somebody names, and those whose time of activity is over. Each is a version.

``Registry`` calls these functions within its transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, bindparam, update

from tidegate.errors import UnknownSubscription, shown
from tidegate.store.registry_tables import ROWS, active, living, there, tick
from tidegate.store.stored_subscription import StoredSubscription

__all__ = ["due", "end", "end_due"]


def end(connection: Connection, ids: Sequence[str], check: Callable[[StoredSubscription], None] | None = None) -> int:
    """End subscriptions, each named ``subscriber/id``; all or none. Returns the version from which none is active.
    ``check`` is called with each of them and may raise.
    """
    version = tick(connection, len(ids))
    if check is not None:
        for stored in there(connection, ids).values():
            check(stored)
    sinces, ended = living(connection, ids), list[int]()
    for id in ids:
        since = sinces.pop(id, None)
        if since is None:
            raise UnknownSubscription("the id of a subscription", shown(id))
        ended.append(since)
    _end(connection, ended, version)
    return version


def due(connection: Connection, before: int) -> list[int]:
    """The subscriptions whose ``active_until`` is not after a moment, by the versions that made them."""
    is_over = ROWS.c.active_until <= before
    return list(connection.scalars(active(ROWS.c.since).where(is_over)))


def end_due(connection: Connection, before: int) -> int:
    """End these; returns how many there were."""
    tick(connection, 0)  # nobody else ends them meanwhile
    if ended := due(connection, before):
        _end(connection, ended, tick(connection, len(ended)))
    return len(ended)


def _end(connection: Connection, sinces: Sequence[int], version: int) -> None:
    """End rows at the versions up to this one."""
    ends = [{"ended": since, "version": until} for until, since in enumerate(sinces, version - len(sinces) + 1)]
    statement = update(ROWS).where(ROWS.c.since == bindparam("ended")).values(until=bindparam("version"))
    if ends:
        connection.execute(statement, ends)
