"""Which versions of the registry running queries still need, so that ``Registry.prune`` can delete older ones.

``Registry`` passes on what a query says through ``pin``, ``needs`` and ``forget``; ``Readers`` keeps it in tables.
Knows queries by their names and versions by their numbers, nothing of subscriptions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Connection, MetaData, Table, delete, func, select, union_all, update

from tidegate.errors import SettingError, shown
from tidegate.model import moment
from tidegate.store.database import NUMBER, OPTIONS, Database, insert_new, words

__all__ = ["Reader", "Readers", "check_number", "check_query", "now"]

#: Characters of the name of a query.
QUERY_LENGTH = 255
#: A need that is repeated within so many microseconds is not written again.
_SEEN = 10_000_000
_LARGEST = 2**63 - 1

TABLES = MetaData()
_NEEDS = Table(
    "tidegate_needs",
    TABLES,
    Column("query", words(QUERY_LENGTH), primary_key=True),
    Column("version", NUMBER, nullable=False),
    Column("seen_at", NUMBER, nullable=False),
    **OPTIONS,
)
_PINS = Table(
    "tidegate_pins",
    TABLES,
    Column("query", words(QUERY_LENGTH), primary_key=True),
    Column("batch", NUMBER, primary_key=True, autoincrement=False),
    Column("version", NUMBER, nullable=False),
    Column("seen_at", NUMBER, nullable=False),
    **OPTIONS,
)
#: One row, used as a lock: shared by queries that write what they need, exclusive for removing what none needs.
_HORIZON = Table(
    "tidegate_horizon",
    TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("oldest", NUMBER, nullable=False),
    **OPTIONS,
)


class Reader(NamedTuple):
    """A query, the oldest version that it may still need, and when it last said so."""

    query: str
    needs: int
    seen_at: datetime


class Pin(NamedTuple):
    """The version for a batch, and when it was chosen, in µs since 1970: not before that of an earlier batch."""

    version: int
    at: int


class Readers:
    """The versions that queries need. ``current`` gives the newest version within a transaction."""

    def __init__(self, database: Database, current: Callable[[Connection], int]) -> None:
        self._database, self._current = database, current

    @staticmethod
    def create(connection: Connection) -> None:
        """Make the tables."""
        TABLES.create_all(connection)
        insert_new(connection, _HORIZON, [{"one": 1, "oldest": 0}])

    def pin(self, query: str, batch: int, version: int | None) -> Pin:
        check_query(query)
        check_number(batch, "a batch number")
        if version is not None:
            check_number(version, "a version")
        mine = select(_PINS.c.version, _PINS.c.seen_at).where(_PINS.c.query == query, _PINS.c.batch == batch)
        with self._database.read() as connection:
            found = connection.execute(mine).one_or_none()
        if found is not None:
            return Pin(*found)

        def work(connection: Connection) -> Pin:
            self._hold(connection)
            chosen = self._current(connection) if version is None else version
            before = connection.scalar(select(func.max(_PINS.c.seen_at)).where(_PINS.c.query == query))
            pin = Pin(chosen, max(now(), before or 0))
            row = {"query": query, "batch": batch, "version": pin.version, "seen_at": pin.at}
            if not insert_new(connection, _PINS, [row]):
                return Pin(*connection.execute(mine).one())
            connection.execute(delete(_PINS).where(_PINS.c.query == query, _PINS.c.batch < batch - 2))
            return pin

        return self._database.write(work)

    def needs(self, query: str, version: int) -> None:
        check_query(query)
        check_number(version, "a version")
        seen = now()
        with self._database.read() as connection:
            there = connection.execute(
                select(_NEEDS.c.version, _NEEDS.c.seen_at).where(_NEEDS.c.query == query)
            ).one_or_none()
        if there is not None and there.version >= version and 0 <= seen - there.seen_at < _SEEN:
            return

        def work(connection: Connection) -> None:
            self._hold(connection)
            insert_new(connection, _NEEDS, [{"query": query, "version": version, "seen_at": seen}])
            mine = update(_NEEDS).where(_NEEDS.c.query == query)
            connection.execute(mine.values(seen_at=seen))
            connection.execute(mine.where(_NEEDS.c.version < version).values(version=version))

        self._database.write(work)

    def forget(self, query: str) -> None:
        check_query(query)

        def work(connection: Connection) -> None:
            for table in (_NEEDS, _PINS):
                connection.execute(delete(table).where(table.c.query == query))

        self._database.write(work)

    def oldest_needed(self, connection: Connection) -> int:
        asked = union_all(select(_NEEDS.c.version), select(_PINS.c.version)).subquery()
        current = self._current(connection)  # read first: a need that is written later is not older
        oldest = connection.scalar(select(func.min(asked.c.version)))
        return current if oldest is None else int(oldest)

    def all(self) -> list[Reader]:
        with self._database.read() as connection:
            rows = connection.execute(
                union_all(
                    select(_NEEDS.c.query, _NEEDS.c.version, _NEEDS.c.seen_at),
                    select(_PINS.c.query, _PINS.c.version, _PINS.c.seen_at),
                )
            ).all()
        oldest: dict[str, tuple[int, int]] = {}
        for query, version, seen in rows:
            before = oldest.get(query, (version, seen))
            oldest[query] = min(before[0], version), max(before[1], seen)
        return [Reader(query, version, moment(seen)) for query, (version, seen) in sorted(oldest.items())]

    def raise_horizon(self, connection: Connection) -> int:
        """Make the oldest version that is needed the oldest that is kept. Queries in ``_hold`` wait for the commit."""
        connection.execute(select(_HORIZON.c.oldest).with_for_update()).scalar_one()
        oldest = self.oldest_needed(connection)
        connection.execute(update(_HORIZON).where(_HORIZON.c.oldest < oldest).values(oldest=oldest))
        return oldest

    @staticmethod
    def horizon(connection: Connection) -> int:
        return int(connection.execute(select(_HORIZON.c.oldest)).scalar_one())

    @staticmethod
    def _hold(connection: Connection) -> None:
        """Keep ``raise_horizon`` from removing a version before this transaction has written that it is needed."""
        connection.execute(select(_HORIZON.c.oldest).with_for_update(read=True)).scalar_one()


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def check_query(query: object) -> None:
    """Refuse what is no name of a query."""
    expected = f"a name of 1 to {QUERY_LENGTH} characters as the query"
    if not isinstance(query, str) or not 0 < len(query) <= QUERY_LENGTH or "\0" in query:
        raise SettingError(expected, shown(query))
    try:
        query.encode()
    except UnicodeEncodeError:
        raise SettingError(expected, f"{shown(query)} with a lone surrogate") from None


def check_number(number: object, what: str) -> None:
    """Refuse what no column of 64 bits holds."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _LARGEST:
        raise SettingError(f"{what}, which is a whole number from 0", shown(number))
