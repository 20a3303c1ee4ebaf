"""The tables of a registry: a row per subscription, from the version that made it to the one that ended it; the clock.

Says how they are made, how those of an older Tidegate become these, and how a subscription becomes a row and a row a
subscription. Knows nothing of what an expression means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Index, MetaData, Select, Table, inspect, select, update
from sqlalchemy.schema import CreateColumn

from tidegate.model import NAME_LENGTH, Subscription, micros, moment
from tidegate.store.database import NUMBER, OPTIONS, insert_new, key, words
from tidegate.store.schema import SchemaPart
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.store.version_readers import Readers

__all__ = ["FIELDS", "PART", "ROWS", "active", "as_row", "current", "record", "tick"]

_TABLES = MetaData()
_CLOCK = Table(
    "tidegate_clock",
    _TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("version", NUMBER, nullable=False),
    **OPTIONS,
)
#: ``expression`` is what is matched. ``asked`` is what it was made of, where that may come to mean something else.
ROWS = Table(
    "tidegate_subscriptions",
    _TABLES,
    Column("since", NUMBER, primary_key=True, autoincrement=False),
    Column("until", NUMBER),
    Column("id_key", NUMBER, nullable=False),
    Column("id", words(NAME_LENGTH), nullable=False),
    Column("subscriber_key", NUMBER, nullable=False),
    Column("subscriber", words(NAME_LENGTH), nullable=False),
    Column("expression", words(), nullable=False),
    Column("active_from", NUMBER),
    Column("active_until", NUMBER),
    Column("created", NUMBER, nullable=False),
    Column("asked", words()),
    Index("tidegate_subscriptions_id", "id_key"),
    Index("tidegate_subscriptions_until", "until"),
    Index("tidegate_subscriptions_subscriber", "subscriber_key"),
    **OPTIONS,
)
#: What ``as_row`` reads.
FIELDS = (
    ROWS.c.since,
    ROWS.c.until,
    ROWS.c.id,
    ROWS.c.subscriber,
    ROWS.c.expression,
    ROWS.c.active_from,
    ROWS.c.active_until,
    ROWS.c.asked,
)


# --- versions of the tables -----------------------------------------------------------------------------------------


def _create(connection: Connection) -> None:
    _TABLES.create_all(connection)
    Readers.create(connection)
    insert_new(connection, _CLOCK, [{"one": 1, "version": 0}])


def _keep_what_was_asked(connection: Connection) -> None:
    """Tables that were just made have the column already, and so may some of a step that was cut short."""
    if ROWS.c.asked.name not in {column["name"] for column in inspect(connection).get_columns(ROWS.name)}:
        column = CreateColumn(ROWS.c.asked).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {ROWS.name} ADD COLUMN {column}")


PART = SchemaPart("registry", (_create, _keep_what_was_asked))


# --- the clock ------------------------------------------------------------------------------------------------------


def current(connection: Connection) -> int:
    """The version of now."""
    return int(connection.execute(select(_CLOCK.c.version)).scalar_one())


def tick(connection: Connection, changes: int) -> int:
    """Take numbers for so many changes. Whoever else wants some waits until this transaction ends."""
    connection.execute(update(_CLOCK).values(version=_CLOCK.c.version + changes))
    return current(connection)


# --- rows -----------------------------------------------------------------------------------------------------------


def active(*fields: Column[Any]) -> Select[Any]:
    """The rows of subscriptions that have not ended, in the order they came."""
    return select(*(fields or FIELDS)).where(ROWS.c.until.is_(None)).order_by(ROWS.c.since)


def record(since: int, subscription: Subscription, expression: str, asked: str | None, created: int) -> dict[str, Any]:
    """A subscription as it is inserted."""
    s = subscription
    return {
        "since": since,
        "id_key": key(s.id),
        "id": s.id,
        "subscriber_key": key(s.subscriber),
        "subscriber": s.subscriber,
        "expression": expression,
        "active_from": None if s.active_from is None else micros(s.active_from),
        "active_until": None if s.active_until is None else micros(s.active_until),
        "created": created,
        "asked": asked,
    }


def as_row(fields: Sequence[Any]) -> StoredSubscription:
    """A subscription as it is read."""
    since, until, id, subscriber, expression, begin, end, asked = fields
    times = (None if begin is None else moment(begin), None if end is None else moment(end))
    return StoredSubscription(since, until, id, subscriber, expression, *times, asked)
