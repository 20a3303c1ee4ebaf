"""Cursors: how far principals have acknowledged their queues, in an SQLite file beside the queues.

The runner writes queues and never cursors; whoever talks to principals writes cursors and never queues. A cursor
belongs to an epoch of a queue, so that a queue that was made anew begins with none acknowledged. The file also has the
records of sessions (``store/session_records.py``).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, select

from tidegate.closing import Closing
from tidegate.errors import SettingError, StoreError, shown
from tidegate.store.database import NUMBER, OPTIONS, Database, run, words
from tidegate.store.database_url import address
from tidegate.store.queue_directory import Queue
from tidegate.store.schema import SchemaPart
from tidegate.store.session_records import SessionRecords, create
from tidegate.store.version_readers import now

__all__ = ["Cursors", "check_number_of"]

TABLES = MetaData()
_CURSORS = Table(
    "tidegate_cursors",
    TABLES,
    Column("epoch", words(64), primary_key=True),
    Column("acknowledged", NUMBER, nullable=False),
    Column("acknowledged_at", NUMBER, nullable=False),
    Column("check_sum", NUMBER, nullable=False),
    **OPTIONS,
)
_PART = SchemaPart("cursors", (TABLES.create_all, create))
#: Cursors never go back.
_ADVANCE = (
    "INSERT INTO tidegate_cursors (epoch, acknowledged, acknowledged_at, check_sum) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (epoch) DO UPDATE SET acknowledged = excluded.acknowledged, check_sum = excluded.check_sum, "
    "acknowledged_at = excluded.acknowledged_at WHERE excluded.acknowledged > acknowledged"
)


class Cursors(Closing):
    """The cursors in a file, which is made if need be. Any number of threads and processes may use it at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        url = address(path)
        if url.get_backend_name() != "sqlite":
            raise SettingError("the path of a file for cursors", shown(os.fspath(path)))
        self._database = Database(url, _PART.prepare)
        self._database.open()
        self.sessions = SessionRecords(self._database)
        """The records of sessions, in the same file."""

    def acknowledge(
        self, upto: Mapping[Queue, tuple[int, int]], along: Callable[[Connection], None] | None = None
    ) -> None:
        """Acknowledge deliveries of queues, all in one commit: for each queue up to a number, and its last number.

        A number beyond the last is refused, and then nothing is acknowledged; one that was acknowledged before changes
        nothing. What ``along`` writes is in the same commit.
        """
        for queue, (number, last) in upto.items():
            check_number_of(queue, number, last)
        moment = now()
        values = [(queue.epoch, number, moment, _check_sum(queue.epoch, number)) for queue, (number, _) in upto.items()]

        def work(connection: Connection) -> None:
            if values:
                run(connection, _ADVANCE, values)
            if along is not None:
                along(connection)

        if values or along is not None:
            self._database.write(work)

    def of(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """The number up to which each queue is acknowledged, 0 for none."""
        wanted = {queue.epoch: queue for queue in queues}
        with self._database.read() as connection:
            if len(wanted) == 1:
                found = connection.execute(select(_CURSORS).where(_CURSORS.c.epoch == next(iter(wanted))))
            else:
                found = connection.execute(select(_CURSORS))
            known = {row.epoch: self._believed(row) for row in found}
        return {queue: known.get(epoch, 0) for epoch, queue in wanted.items()}

    def epochs(self) -> set[str]:
        """The epochs of queues of which anything was ever acknowledged."""
        with self._database.read() as connection:
            return set(connection.execute(select(_CURSORS.c.epoch)).scalars())

    def _believed(self, row: Any) -> int:
        """The number of a row, if it is as it was written: a wrong one would pass over deliveries."""
        number: int = row.acknowledged
        if row.check_sum != _check_sum(row.epoch, number):
            raise StoreError("a cursor as it was written", "another one, by its checksum", str(self._database))
        return number

    def forget(self, epochs: Iterable[str]) -> None:
        """Remove the cursors of queues that have ended, named by their epochs."""
        gone = [(epoch,) for epoch in epochs]
        if gone:
            statement = "DELETE FROM tidegate_cursors WHERE epoch = ?"
            self._database.write(lambda connection: run(connection, statement, gone))

    def close(self) -> None:
        """Close the file. It is opened again when it is used again."""
        self._database.close()


def check_number_of(queue: Queue, number: object, last: int) -> None:
    """Refuse what is no number of a delivery of a queue, whose last number is given."""
    if type(number) is not int or not 0 <= number <= last:
        whose = f"queue {queue.destination} of {queue.principal}"
        raise SettingError(f"a number from 0 to {last}, the last of the queue", shown(number), whose)


def _check_sum(epoch: object, number: object) -> int:
    return zlib.crc32(f"{epoch} {number}".encode())
