"""What subscriptions cost, as it was measured: ``costs.db`` of a data directory, which can be measured again.

So a file that is damaged, missing or of another format is simply made anew, and nothing waits for the disk. The process
that measures writes it, and gateways do, of what they measure when it is put; several may at once. Knows nothing of
what a subscription is but the version that made it, its subscriber and its id.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import StoreError
from tidegate.store.database_file import locked_file

__all__ = ["Cost", "Costs", "PrincipalCost"]

T = TypeVar("T")

_LOG = logging.getLogger("tidegate.costs")
_FORMAT = 1
#: Seconds to wait for others that write.
_PATIENCE = 10.0
#: Whole numbers, so that sums are exact however often something is added and taken off.
_PICOSECONDS = 1_000_000

_TABLES = f"""
CREATE TABLE costs (
    since INTEGER PRIMARY KEY, principal TEXT NOT NULL, id TEXT NOT NULL,
    picoseconds INTEGER NOT NULL, measured_at INTEGER NOT NULL, is_quick INTEGER NOT NULL
);
CREATE INDEX costs_by_age ON costs (is_quick, measured_at);
CREATE INDEX costs_by_size ON costs (picoseconds);
CREATE INDEX costs_by_principal ON costs (principal);
CREATE TABLE sums (principal TEXT PRIMARY KEY, picoseconds INTEGER NOT NULL, subscriptions INTEGER NOT NULL);
CREATE INDEX sums_by_size ON sums (picoseconds);
CREATE TRIGGER cost_added AFTER INSERT ON costs BEGIN
    INSERT INTO sums VALUES (new.principal, new.picoseconds, 1) ON CONFLICT (principal) DO UPDATE
        SET picoseconds = picoseconds + excluded.picoseconds, subscriptions = subscriptions + 1;
END;
CREATE TRIGGER cost_taken_off AFTER DELETE ON costs BEGIN
    UPDATE sums SET picoseconds = picoseconds - old.picoseconds, subscriptions = subscriptions - 1
        WHERE principal = old.principal;
    DELETE FROM sums WHERE principal = old.principal AND subscriptions = 0;
END;
PRAGMA user_version = {_FORMAT};
"""
_FIELDS = "SELECT since, principal, id, picoseconds, measured_at, is_quick FROM costs"
_DEAREST = "SELECT principal, picoseconds, subscriptions FROM sums ORDER BY picoseconds DESC, principal LIMIT ?"


class Cost(NamedTuple):
    """What a subscription costs: ``microseconds`` of processor time per publication. ``since`` is the version that made
    it, ``measured_at`` is in microseconds since 1970, and ``is_quick`` says that it was only measured as it was put.
    """

    since: int
    principal: str
    id: str
    microseconds: float
    measured_at: int
    is_quick: bool = False


class PrincipalCost(NamedTuple):
    """What the subscriptions of a principal cost together, of those that were measured."""

    principal: str
    microseconds: float
    subscriptions: int


class Costs:
    """The file at a path, which is made when something is written. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    # --- writing ------------------------------------------------------------------------------------------------------

    def note(self, costs: Sequence[Cost]) -> None:
        """Keep what was measured; of the same subscription it takes the place of what was kept. A quick figure takes
        that of a quick one only.
        """
        rows = [
            (one.since, one.principal, one.id, round(one.microseconds * _PICOSECONDS), one.measured_at, one.is_quick)
            for one in costs
        ]

        def work(connection: sqlite3.Connection) -> None:
            worse = [(one.since, one.is_quick) for one in costs]
            connection.executemany("DELETE FROM costs WHERE since = ? AND is_quick >= ?", worse)
            connection.executemany("INSERT OR IGNORE INTO costs VALUES (?, ?, ?, ?, ?, ?)", rows)

        if rows:
            self._write(work)

    def remove(self, sinces: Iterable[int]) -> None:
        """Forget the subscriptions that were made at these versions."""
        rows = [(int(since),) for since in sinces]
        if rows and self._path.exists():
            self._write(lambda connection: connection.executemany("DELETE FROM costs WHERE since = ?", rows))

    # --- reading ------------------------------------------------------------------------------------------------------

    def of(self, since: int) -> Cost | None:
        """What one costs; None if it was not measured."""
        return next(iter(self._costs(f"{_FIELDS} WHERE since = ?", (since,))), None)

    def of_principal(self, principal: str) -> dict[int, Cost]:
        """What those of a principal cost, by the versions that made them."""
        return {one.since: one for one in self._costs(f"{_FIELDS} WHERE principal = ?", (principal,))}

    def dearest(self, count: int) -> list[Cost]:
        """Those that cost most."""
        return self._costs(f"{_FIELDS} ORDER BY picoseconds DESC, since LIMIT ?", (count,))

    def dearest_principals(self, count: int) -> list[PrincipalCost]:
        """The principals whose subscriptions cost most together."""
        rows = self._rows(_DEAREST, (count,))
        return [PrincipalCost(name, taken / _PICOSECONDS, many) for name, taken, many in rows]

    def measured(self) -> NDArray[np.int64]:
        """The versions that made those that were measured, other than as they were put."""
        return self._versions("SELECT since FROM costs WHERE NOT is_quick")

    def known(self) -> NDArray[np.int64]:
        """The versions that made all of which something is kept."""
        return self._versions("SELECT since FROM costs")

    def _versions(self, statement: str) -> NDArray[np.int64]:
        def work(connection: sqlite3.Connection) -> NDArray[np.int64]:
            return np.fromiter((since for (since,) in connection.execute(statement)), np.int64)

        return self._read(work, np.empty(0, np.int64))

    def oldest(self, count: int, before: int) -> list[int]:
        """The versions of those that were measured longest ago, before a moment."""
        statement = "SELECT since FROM costs WHERE is_quick = 0 AND measured_at < ? ORDER BY measured_at LIMIT ?"
        return [since for (since,) in self._rows(statement, (before, count))]

    def _costs(self, statement: str, values: tuple[object, ...]) -> list[Cost]:
        return [
            Cost(since, name, id, taken / _PICOSECONDS, at, bool(quick))
            for since, name, id, taken, at, quick in self._rows(statement, values)
        ]

    def _rows(self, statement: str, values: tuple[object, ...]) -> list[Any]:
        return self._read(lambda connection: connection.execute(statement, values).fetchall(), list[Any]())

    # --- the file -----------------------------------------------------------------------------------------------------

    def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What ``work`` finds; where there is no file that can be read, nothing is known."""
        if not self._path.exists():
            return otherwise
        try:
            with self._opened() as connection:
                return work(connection) if _is_whole(connection) else otherwise
        except sqlite3.Error as error:
            _LOG.warning("%s cannot be read: %s", self._path.name, error)
            return otherwise

    def _write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do it in one transaction, in a file that is made anew where it cannot be used."""
        try:
            try:
                self._in_transaction(work)
            except (sqlite3.DatabaseError, _Unusable) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self._make()
                self._in_transaction(work)
        except (sqlite3.Error, _Unusable) as error:
            raise StoreError("a file for what was measured that can be written", f"{error}", str(self._path)) from None

    def _in_transaction(self, work: Callable[[sqlite3.Connection], object]) -> None:
        if not self._path.exists():
            raise _Unusable("none")
        with self._opened() as connection:
            if not _is_whole(connection):
                raise _Unusable("another format")
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                work(connection)

    def _make(self) -> None:
        """Make the file, unless somebody else has made it meanwhile. It is complete as soon as it has its name."""
        with locked_file(f"{self._path}-lock"):
            with suppress(sqlite3.Error):
                if self._path.exists():
                    with self._opened() as connection:
                        if _is_whole(connection) and _is_sound(connection):
                            return
                    _LOG.warning("%s cannot be used and is made anew", self._path.name)
            aside = self._path.with_name(f".{self._path.name}")
            aside.unlink(missing_ok=True)
            with closing(sqlite3.connect(aside)) as connection:
                connection.executescript(_TABLES)
            for left in ("-journal", "-wal", "-shm"):
                Path(f"{self._path}{left}").unlink(missing_ok=True)
            os.replace(aside, self._path)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            yield connection


class _Unusable(Exception):
    """A file that is not there, or is of another format."""


def _is_whole(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == _FORMAT)


def _is_sound(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
