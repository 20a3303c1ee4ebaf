"""``ReadersLimits``: what each principal may read, and how long its queues may be, for readers of queues.

They ask for every page, so the answer is kept while nobody writes to the database. Knows the tables of principals.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

import orjson
from sqlalchemy import or_, select

from tidegate.store.database import Database
from tidegate.store.principal_tables import PRINCIPALS

__all__ = ["ReadersLimits"]

#: A number that SQLite changes with each commit of another connection; it is believed for so many seconds.
_STATE, _BELIEVED = "PRAGMA data_version", 1.0


class ReadersLimits:
    """Reads the limits of all principals that have some, and reads them again once the database may have others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._found: tuple[dict[str, str], dict[str, int]] = {}, {}
        self._since, self._state = -1.0, None

    def limits(self) -> tuple[dict[str, str], dict[str, int]]:
        """By principal: what it may read, if that is not everything, and how many deliveries a queue may have."""
        moment = monotonic()
        state: Any = self._database.poll(_STATE) if self._database.kind == "sqlite" else None
        if state is None or state != self._state or moment > self._since + _BELIEVED:
            self._found, self._since, self._state = self._read(), moment, state
        return self._found

    def _read(self) -> tuple[dict[str, str], dict[str, int]]:
        named = PRINCIPALS.c.name, PRINCIPALS.c.meant, PRINCIPALS.c.quotas
        has_size = PRINCIPALS.c.quotas.contains("queue_size")
        with self._database.read() as connection:
            rows = connection.execute(select(*named).where(or_(PRINCIPALS.c.meant.is_not(None), has_size))).all()
        quotas = {row.name: orjson.loads(row.quotas) for row in rows}
        sizes = {name: max(1, int(one["queue_size"])) for name, one in quotas.items() if "queue_size" in one}
        return {row.name: row.meant for row in rows if row.meant is not None}, sizes
