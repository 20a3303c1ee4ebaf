"""What publishers announce that they could publish, as data in the registry's database: a row per principal and source.

``StoredAnnouncements`` keeps, lists and revokes announcements. What one says is JSON that it does not look into.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Index, MetaData, Select, Table, delete, func, insert, select, update

from tidegate.closing import Closing
from tidegate.errors import StoreError, shown
from tidegate.model import NAME_LENGTH, moment
from tidegate.store.database import NUMBER, OPTIONS, Database, key, words
from tidegate.store.database_url import address
from tidegate.store.principal_tables import prepare as prepare_principals
from tidegate.store.registry import Registry
from tidegate.store.registry_tables import findable, tick
from tidegate.store.schema import SchemaPart
from tidegate.store.version_readers import now

__all__ = ["PART", "Announced", "StoredAnnouncement", "StoredAnnouncements", "TooManyAnnouncements"]

#: Characters of an id and of the name of a principal.
_ID, _NAME = 32, 128

_TABLES = MetaData()
_ROWS = Table(
    "tidegate_announcements",
    _TABLES,
    Column("id", words(_ID), primary_key=True),
    Column("principal", words(_NAME), nullable=False),
    Column("source_key", NUMBER, nullable=False),
    Column("source", words(NAME_LENGTH), nullable=False),
    Column("content", words(), nullable=False),
    Column("announced", NUMBER, nullable=False),
    Index("tidegate_announcements_principal", "principal"),
    Index("tidegate_announcements_source", "source_key"),
    **OPTIONS,
)
_FIELDS = (_ROWS.c.id, _ROWS.c.principal, _ROWS.c.source, _ROWS.c.content, _ROWS.c.announced)
PART = SchemaPart("announcements", (_TABLES.create_all,))


def _prepare(database: Database) -> None:
    """Make the tables of registry, principals and announcements, or bring them to this version."""
    prepare_principals(database)
    PART.prepare(database)


class StoredAnnouncement(NamedTuple):
    """That a principal could publish as a source: what it says of that, and when it said so last."""

    id: str
    principal: str
    source: str
    content: str
    announced: datetime


class Announced(NamedTuple):
    """An announcement that is stored, and whether it was made now."""

    announcement: StoredAnnouncement
    is_new: bool


class TooManyAnnouncements(StoreError):
    """A principal has as many announcements as it may."""


class StoredAnnouncements(Closing):
    """The announcements in the database of a registry, shared by any number of processes and threads."""

    def __init__(self, where: Registry | str | os.PathLike[str], *, clock: Callable[[], int] = now) -> None:
        self._database = Database(address(where.url if isinstance(where, Registry) else where), _prepare)
        self._clock = clock
        self._database.open()

    def __repr__(self) -> str:
        return f"StoredAnnouncements({str(self._database)!r})"

    def close(self) -> None:
        """Close the connections; they are opened again if this is used again."""
        self._database.close()

    def put(self, principal: str, source: str, content: str, most: int) -> Announced:
        """Keep what a principal announces of a source, in place of what it announced of it before, under the same id.

        A principal with ``most`` announcements may make no other.
        """
        mine = _ROWS.c.principal == principal
        same = mine, _ROWS.c.source_key == key(source), _ROWS.c.source == source

        def work(connection: Connection) -> Announced:
            tick(connection, 0)  # nobody else announces meanwhile
            before, announced = connection.execute(select(_ROWS.c.id).where(*same)).scalar_one_or_none(), self._clock()
            if before is not None:
                connection.execute(update(_ROWS).where(*same).values(content=content, announced=announced))
            elif connection.execute(select(func.count()).select_from(_ROWS).where(mine)).scalar_one() >= most:
                raise TooManyAnnouncements(f"at most {most:,} announcements of {principal}", "one more")
            id = before or secrets.token_hex(8)
            if before is None:
                row = {"id": id, "principal": principal, "source_key": key(source), "source": source}
                connection.execute(insert(_ROWS), row | {"content": content, "announced": announced})
            kept = StoredAnnouncement(id, principal, source, content, moment(announced))
            return Announced(kept, before is None)

        return self._database.write(work)

    def find(self, id: str) -> StoredAnnouncement | None:
        """The announcement of that id; None if there is none."""
        with self._database.read() as connection:
            row = connection.execute(select(*_FIELDS).where(_ROWS.c.id == findable(id))).one_or_none()
        return None if row is None else _announcement(row)

    def page(self, principal: str | None, after: str, limit: int) -> list[StoredAnnouncement]:
        """The first announcements behind an id, in the order of their ids: those of a principal, or all."""
        wanted: Select[Any] = select(*_FIELDS).where(_ROWS.c.id > findable(after))
        if principal is not None:
            wanted = wanted.where(_ROWS.c.principal == principal)
        with self._database.read() as connection:
            return [_announcement(row) for row in connection.execute(wanted.order_by(_ROWS.c.id).limit(limit))]

    def remove(self, id: str, principal: str | None = None) -> bool:
        """Remove the announcement of that id, if it is one of this principal; say whether there was one."""
        statement = delete(_ROWS).where(_ROWS.c.id == findable(id))
        if principal is not None:
            statement = statement.where(_ROWS.c.principal == principal)
        return self._database.write(lambda connection: connection.execute(statement).rowcount) > 0


def _announcement(row: Sequence[Any]) -> StoredAnnouncement:
    """The announcement of a row. A row that we cannot have written is an error."""
    id, principal, source, content, announced = row
    try:
        return StoredAnnouncement(id, principal, source, content, moment(announced))
    except (OverflowError, TypeError):
        raise StoreError("a time within the years 0001 to 9999", shown(announced), f"announcement {id}") from None
