"""The tables of webhooks: the endpoints of principals and how each stands, what was given up, what is to be sent again.

``StoredWebhooks`` uses them; they stand beside those of a registry in one database. This module makes the tables and
turns rows into objects. Knows nothing of HTTP, and of secrets only that no text of an object has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Index,
    MetaData,
    Table,
    delete,
    inspect,
    select,
    update,
)

from tidegate.store.database import NUMBER, OPTIONS, Database, insert_new, words
from tidegate.store.principal_tables import prepare as prepare_principals
from tidegate.store.schema import SchemaPart

__all__ = [
    "CHANGES",
    "DEAD",
    "ENDPOINTS",
    "NAME_LENGTH",
    "PART",
    "REPLAYS",
    "STATES",
    "Batch",
    "DeadLetters",
    "Progress",
    "Replay",
    "Webhook",
    "dead_letters_of",
    "next_change",
    "prepare",
    "remove_endpoints",
    "remove_webhooks_of",
    "replay_of",
    "webhook_of",
]

#: How an endpoint may stand; ``webhooks/endpoint_states.py`` says what leads from one to another.
STATES = ("unverified", "active", "failing", "disabled")
#: Characters of the name of a principal, of an endpoint, of an epoch, and of the id of a replay.
_PRINCIPAL, NAME_LENGTH, _EPOCH, _ID = 128, 64, 64, 32

_TABLES = MetaData()
#: ``revision`` is the number of the change that made the endpoint what it is. From ``state`` on it is how it stands,
#: which only the sender writes, but for what a change sets back.
ENDPOINTS = Table(
    "tidegate_webhooks",
    _TABLES,
    Column("principal", words(_PRINCIPAL), primary_key=True),
    Column("name", words(NAME_LENGTH), primary_key=True),
    Column("url", words(), nullable=False),
    Column("batch_items", NUMBER),
    Column("batch_bytes", NUMBER),
    Column("secret", words(), nullable=False),
    Column("old_secret", words()),
    Column("old_until", NUMBER),
    Column("created", NUMBER, nullable=False),
    Column("revision", NUMBER, nullable=False),
    Column("state", words(16), nullable=False),
    Column("failures", NUMBER, nullable=False),
    Column("failing_since", NUMBER),
    Column("retry_at", NUMBER),
    Column("reason", words()),
    Column("tried_at", NUMBER),
    Column("answered_at", NUMBER),
    Column("gave_up", NUMBER, nullable=False),
    **OPTIONS,
)
#: A row per range of numbers that were given up.
DEAD = Table(
    "tidegate_webhook_dead",
    _TABLES,
    Column("principal", words(_PRINCIPAL), primary_key=True),
    Column("name", words(NAME_LENGTH), primary_key=True),
    Column("epoch", words(_EPOCH), primary_key=True),
    Column("begin", NUMBER, primary_key=True, autoincrement=False),
    Column("upto", NUMBER, nullable=False),
    Column("reason", words(), nullable=False),
    Column("given_up_at", NUMBER, nullable=False),
    **OPTIONS,
)
#: A row per range that is to be sent again, from ``position`` on.
REPLAYS = Table(
    "tidegate_webhook_replays",
    _TABLES,
    Column("id", words(_ID), primary_key=True),
    Column("principal", words(_PRINCIPAL), nullable=False),
    Column("name", words(NAME_LENGTH), nullable=False),
    Column("epoch", words(_EPOCH), nullable=False),
    Column("position", NUMBER, nullable=False),
    Column("upto", NUMBER, nullable=False),
    Column("asked_at", NUMBER, nullable=False),
    Index("tidegate_webhook_replays_endpoint", "principal", "name"),
    **OPTIONS,
)
#: One row: how often anything was changed that the sender must hear of.
_CHANGES = Table(
    "tidegate_webhook_changes",
    _TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("number", NUMBER, nullable=False),
    **OPTIONS,
)
#: What gives that number.
CHANGES = "SELECT number FROM tidegate_webhook_changes"


def _create(connection: Connection) -> None:
    _TABLES.create_all(connection)
    insert_new(connection, _CHANGES, [{"one": 1, "number": 0}])


PART = SchemaPart("webhooks", (_create,))


def prepare(database: Database) -> None:
    """Make the tables of registry, principals and webhooks, or bring them to this version."""
    prepare_principals(database)
    PART.prepare(database)


def next_change(connection: Connection) -> int:
    """Note within a transaction that something is changed; the number of the change."""
    connection.execute(update(_CHANGES).values(number=_CHANGES.c.number + 1))
    return int(connection.execute(select(_CHANGES.c.number)).scalar_one())


def remove_endpoints(connection: Connection, which: ColumnElement[bool]) -> bool:
    """Remove endpoints within a transaction, with all that is noted of them; whether there were any."""
    gone = connection.execute(select(ENDPOINTS.c.principal, ENDPOINTS.c.name).where(which)).all()
    for principal, name in gone:
        for table in (DEAD, REPLAYS, ENDPOINTS):
            connection.execute(delete(table).where(table.c.principal == principal, table.c.name == name))
    if gone:
        next_change(connection)
    return bool(gone)


def remove_webhooks_of(connection: Connection, principal: str) -> bool:
    """Remove all endpoints of a principal within a transaction; whether there were any. In a database that no broker
    has used there are no tables of webhooks.
    """
    is_there = inspect(connection).has_table(ENDPOINTS.name)
    return is_there and remove_endpoints(connection, ENDPOINTS.c.principal == principal)


class Batch(NamedTuple):
    """How many items one request may have, and how many bytes of them."""

    items: int
    bytes: int


class Progress(NamedTuple):
    """How an endpoint stands; times are microseconds since 1970.

    ``failures`` are those in a row, ``failing_since`` is when the first of them was, ``retry_at`` when the next try may
    be, and ``reason`` what the last failure was. ``gave_up`` says that a delivery was given up since the last answer.
    """

    state: str = "unverified"
    failures: int = 0
    failing_since: int | None = None
    retry_at: int | None = None
    reason: str | None = None
    tried_at: int | None = None
    answered_at: int | None = None
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint of a principal. Its secrets are in no text of this object; until ``old_until`` the old one signs."""

    principal: str
    name: str
    url: str
    batch: Batch | None
    secret: str = field(repr=False)
    old_secret: str | None = field(repr=False)
    old_until: int | None
    created: int
    revision: int
    progress: Progress

    def secrets_at(self, moment: int) -> tuple[str, ...]:
        """The secrets with which a delivery is signed at a moment."""
        if self.old_secret is None or self.old_until is None or moment >= self.old_until:
            return (self.secret,)
        return self.secret, self.old_secret


class DeadLetters(NamedTuple):
    """Deliveries of consecutive numbers that were given up, why, and when (µs since 1970)."""

    epoch: str
    begin: int
    upto: int
    reason: str
    given_up_at: int


class Replay(NamedTuple):
    """Deliveries that are to be sent again: those behind ``position`` up to a number, and when that was asked for."""

    id: str
    principal: str
    name: str
    epoch: str
    position: int
    upto: int
    asked_at: int


def webhook_of(row: Any) -> Webhook:
    """The endpoint of a row."""
    batch = None if row.batch_items is None else Batch(row.batch_items, row.batch_bytes)
    times = row.failing_since, row.retry_at, row.reason, row.tried_at, row.answered_at
    progress = Progress(row.state, row.failures, *times, bool(row.gave_up))
    secrets = row.secret, row.old_secret, row.old_until
    return Webhook(row.principal, row.name, row.url, batch, *secrets, row.created, row.revision, progress)


def dead_letters_of(row: Any) -> DeadLetters:
    """The dead letters of a row."""
    return DeadLetters(row.epoch, row.begin, row.upto, row.reason, row.given_up_at)


def replay_of(row: Sequence[Any]) -> Replay:
    """The replay of a row."""
    return Replay(*row)
