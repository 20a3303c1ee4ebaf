"""The subscriptions of a registry that have not ended, by the versions that made them: for who looks at them in no
order of ids. Reads only; knows nothing of what an expression means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from tidegate.closing import Closing
from tidegate.store.database import CHUNK, Database, key
from tidegate.store.database_url import address
from tidegate.store.registry import Registry
from tidegate.store.registry_tables import PART, ROWS, active, as_row, findable, there
from tidegate.store.stored_subscription import StoredSubscription

__all__ = ["ActiveSubscriptions"]


class ActiveSubscriptions(Closing):
    """Those of a registry. Threads may share it."""

    def __init__(self, registry: Registry) -> None:
        self._database = Database(address(registry.url), PART.prepare)
        self._database.open()

    def versions(self, after: int) -> NDArray[np.int64]:
        """The versions after one that made them, in order."""
        with self._database.read() as connection:
            some = active(ROWS.c.since).where(ROWS.c.since > after)
            return np.fromiter(connection.execute(some).scalars(), np.int64)

    def versions_of(self, subscriber: str) -> list[int]:
        """The versions that made those of a subscriber, in order."""
        name = findable(subscriber)
        its = select(ROWS.c.since).where(ROWS.c.subscriber_key == key(name), ROWS.c.subscriber == name)
        with self._database.read() as connection:
            return list(connection.execute(its.where(ROWS.c.until.is_(None)).order_by(ROWS.c.since)).scalars())

    def made_at(self, versions: Iterable[int]) -> list[StoredSubscription]:
        """Those of some versions, in order."""
        wanted, found = sorted({int(one) for one in versions}), list[StoredSubscription]()
        with self._database.read() as connection:
            for at in range(0, len(wanted), CHUNK):
                some = active().where(ROWS.c.since.in_(wanted[at : at + CHUNK]))
                found += map(as_row, connection.execute(some))
        return found

    def named(self, ids: Sequence[str]) -> dict[str, StoredSubscription]:
        """Those of the ids ``subscriber/id`` that there are."""
        with self._database.read() as connection:
            return there(connection, ids)

    def close(self) -> None:
        """Close the connections; they are opened again if this is used again."""
        self._database.close()
