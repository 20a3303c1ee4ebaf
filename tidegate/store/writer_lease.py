"""The sole right to write something, held by one process for as long as it needs it. ``History`` uses it.

A process that calls ``WriterLease.take`` while another holds the lease gets ``LeaseTaken`` at once instead of waiting.
The lease ends with its holder, even a killed one: the operating system unlocks the file beside an SQLite database, a
server unlocks what a lost connection held.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, suppress

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from tidegate.errors import StoreError
from tidegate.store.database import Database, key
from tidegate.store.database_url import file
from tidegate.store.fork_safety import watch

__all__ = ["LeaseTaken", "WriterLease"]

#: Seconds after which MariaDB closes a silent connection; its default is eight hours.
_SILENCE = 365 * 86_400


class LeaseTaken(StoreError):
    """Another process or engine holds the lease."""


class WriterLease:
    """A lock by name in a database. On Oracle there is none: only the mark of ``History`` reveals another writer."""

    def __init__(self, database: Database, name: str) -> None:
        self._database, self._name = database, name
        self._descriptor: int | None = None
        self._connection: Connection | None = None
        self._connected = ExitStack()
        self._unlock = ""
        watch(self)

    def take(self, identity: int) -> None:
        """Take the lease, or check that it is still ours; ``LeaseTaken`` if another holds it.

        ``identity`` tells leases of the same name on one server from each other.
        """
        if (here := file(self._database.url)) is not None:
            self._lock_file(f"{os.path.realpath(here)}-{self._name}.lock")
        elif self._database.kind in ("postgresql", "mariadb"):
            self._lock_on_server(key(f"tidegate {self._name} {self._database.url.database} {identity}"))

    def release(self) -> None:
        """Give the lease back, if we hold it."""
        self._unlock_file()
        if self._connection is not None:
            with suppress(SQLAlchemyError):  # a server notices only a moment later that a connection was closed
                self._connection.exec_driver_sql(self._unlock)
        self._disconnect()

    def _unlock_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a program that has inherited the file must not keep the lock
            os.close(descriptor)

    def _disconnect(self) -> None:
        self._connection = None
        with suppress(StoreError):
            self._connected.close()

    def __del__(self) -> None:
        self._unlock_file()
        self._disconnect()

    def _lock_file(self, path: str) -> None:
        if self._descriptor is not None:
            return
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError("a directory in which files can be made", f"{error.strerror}", path) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise self._taken() from None
            raise StoreError("a file that can be locked", f"{error.strerror}", path) from None
        self._descriptor = descriptor

    def _lock_on_server(self, number: int) -> None:
        if self._connection is not None and _answers(self._connection):
            return
        self.release()
        is_postgresql = self._database.kind == "postgresql"
        if is_postgresql:
            take, self._unlock = f"SELECT pg_try_advisory_lock({number})", f"SELECT pg_advisory_unlock({number})"
        else:
            name = f"'tidegate {number}'"
            take, self._unlock = f"SELECT GET_LOCK({name}, 0)", f"SELECT RELEASE_LOCK({name})"
        with ExitStack() as connected:
            connection = connected.enter_context(self._database.read())
            connection.detach()  # out of the pool: closing it then ends the lock
            if not is_postgresql:
                connection.exec_driver_sql(f"SET SESSION wait_timeout = {_SILENCE}")
            if not connection.exec_driver_sql(take).scalar():
                raise self._taken()
            connection.commit()  # the lock belongs to the session, not to the transaction
            self._connection, self._connected = connection, connected.pop_all()

    def _taken(self) -> LeaseTaken:
        return LeaseTaken(
            f"a {self._name} that nobody else writes to", "one that an engine has open", str(self._database)
        )

    # --- forks ------------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Does nothing: the parent keeps the lease."""
        return

    def after_fork(self, is_child: bool) -> None:
        """The lease stays with the parent: a child closes its copy of the file and leaves the connection alone."""
        if not is_child:
            return
        if self._descriptor is not None:
            os.close(self._descriptor)
        _of_the_parent.append((self._connection, self._connected))
        self._descriptor = self._connection = None
        self._connected = ExitStack()


_of_the_parent: list[object] = []


def _answers(connection: Connection) -> bool:
    try:
        is_there = connection.exec_driver_sql("SELECT 1").scalar() == 1
        connection.commit()
    except SQLAlchemyError:
        return False
    return is_there
