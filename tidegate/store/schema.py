"""The tables of one part of the store, and the steps that upgrade them from each version to the next.

The registry, principals, the notification store and the history each declare a ``SchemaPart``; ``Database`` calls its
``prepare``. Several parts may share a database; each has its row in ``tidegate_schema_version``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, inspect, select
from sqlalchemy.schema import CreateColumn

from tidegate.errors import StoreError
from tidegate.store.database import NUMBER, OPTIONS, Database, words

__all__ = ["SchemaPart", "add_columns"]

_VERSIONS = Table(
    "tidegate_schema_version",
    MetaData(),
    Column("part", words(64), primary_key=True),
    Column("version", NUMBER, nullable=False),
    **OPTIONS,
)


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """A part of the store: step ``i`` turns its tables of version ``i`` into those of version ``i + 1``."""

    name: str
    steps: tuple[Callable[[Connection], None], ...]

    def prepare(self, database: Database) -> None:
        """Make the tables, or bring them to this version."""
        with database.read() as connection:
            there = self._version(connection)
        if there == len(self.steps):
            return
        if there > len(self.steps):
            raise StoreError(
                f"a {self.name} of schema version {len(self.steps)} or older",
                f"version {there}, made by a newer Tidegate",
                str(database),
            )
        if database.kind == "sqlite":  # where a writing transaction excludes all others anyway
            database.write(self._advance)
            return
        with database.exclusive("schema"):
            database.write(self._advance)

    def _advance(self, connection: Connection) -> None:
        there = self._version(connection)
        for step in self.steps[there:]:  # MariaDB commits each: an interrupted step must be able to run again
            step(connection)
        _VERSIONS.create(connection, checkfirst=True)
        connection.execute(_VERSIONS.delete().where(_VERSIONS.c.part == self.name))
        connection.execute(_VERSIONS.insert(), {"part": self.name, "version": len(self.steps)})

    def _version(self, connection: Connection) -> int:
        if not inspect(connection).has_table(_VERSIONS.name):
            return 0
        return connection.scalar(select(_VERSIONS.c.version).where(_VERSIONS.c.part == self.name)) or 0


def add_columns(connection: Connection, table: Table, *wanted: Column[Any]) -> None:
    """Add columns. A table made just now has them already, and an interrupted upgrade may have added some."""
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for column in wanted:
        if column.name not in there:
            declared = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {declared}")
