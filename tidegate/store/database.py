"""A database that holds tables of ours: SQLite, PostgreSQL or MariaDB, opened by path or URL, shared by threads.

``Database`` is the connection of ``Registry``, ``Principals``, ``NotificationStore`` and ``History``. What differs
between the three kinds of database is in this module and nowhere else: locks, transactions, drivers, error messages.
The code for Oracle is untested. Knows nothing of what the tables mean.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection, Engine, Integer, Table, Text, create_engine, event
from sqlalchemy.dialects import mysql, oracle, postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.sql.dml import Insert
from sqlalchemy.types import TypeEngine

from tidegate.errors import SettingError, StoreError
from tidegate.store.database_file import identity, locked_file
from tidegate.store.database_url import DRIVERS, file
from tidegate.store.fork_safety import refuse_inherited, watch

__all__ = ["CHUNK", "NUMBER", "OPTIONS", "Database", "insert_new", "is_lost", "key", "run", "words"]

T = TypeVar("T")

#: Rows in one statement.
CHUNK = 5_000
#: Seconds to wait for another transaction that is writing.
_PATIENCE = 60
_FOREVER = 365 * 86_400
#: A transaction that lost to another by deadlock is tried again so many times,
_ATTEMPTS = 5
#: after up to so many seconds, so that the other gets the locks that it was waiting for.
_GIVES_WAY = 0.1

#: 64 bits; in SQLite the type whose primary key is the rowid.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")
#: Options of every table of ours.
OPTIONS: dict[str, Any] = {"mariadb_charset": "utf8mb4", "mariadb_engine": "InnoDB"}
_MARIADB_COLLATION = "utf8mb4_nopad_bin"  # capitals, accents and trailing spaces count, as elsewhere
_ORACLE_LONGEST = 1000  # characters, of four bytes at most; a VARCHAR2 has 4000


def words(length: int | None = None) -> TypeEngine[str]:
    """Text of at most that many characters, compared by its bytes on all databases."""
    kind = mysql.VARCHAR(length) if length else mysql.LONGTEXT()
    kind.collation = _MARIADB_COLLATION
    there = oracle.VARCHAR2(length) if length and length <= _ORACLE_LONGEST else oracle.CLOB()
    text = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    return text.with_variant(kind, "mysql", "mariadb").with_variant(there, "oracle")


def key(name: str) -> int:
    """64 bits of a name, to be indexed in its place: names of 1024 characters are too long for an index of MariaDB."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def insert_new(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> int:
    """Insert the rows whose primary key is not in the table yet, and return how many that were."""
    statement: Insert
    match connection.dialect.name:
        case "sqlite":
            statement = sqlite.insert(table).on_conflict_do_nothing()
        case "postgresql":
            statement = postgresql.insert(table).on_conflict_do_nothing()
        case _:
            statement = mysql.insert(table).prefix_with("IGNORE")
    return sum(
        connection.execute(statement, rows[at : at + CHUNK], execution_options={"preserve_rowcount": True}).rowcount
        for at in range(0, len(rows), CHUNK)
    )


def run(connection: Connection, statement: str, values: tuple[Any, ...] | list[tuple[Any, ...]]) -> int:
    """Run a statement in the SQL of the driver, once or for each of a list, and return how many rows it touched.

    Only within a transaction that writes. On SQLite the driver is called directly, because SQLAlchemy takes longer
    than the statement.
    """
    driver = connection.connection.dbapi_connection
    if isinstance(driver, sqlite3.Connection):
        there = driver.executemany if isinstance(values, list) else driver.execute
        return there(statement, values).rowcount
    return connection.exec_driver_sql(statement, values).rowcount


class Database:
    """One database, whose connections are made when they are needed and never shared with a child process.

    ``prepare`` makes or upgrades the tables. It is called each time the database is opened, before any other use.
    Without ``create`` an SQLite file must be there.
    """

    def __init__(self, url: URL, prepare: Callable[[Database], None], create: bool = True) -> None:
        self.url = url
        self._prepare, self._create = prepare, create
        self._engine: Engine | None = None
        self._poller: Any = None
        self._lost: list[weakref.finalize[..., Database]] = []
        #: Device and inode of an SQLite file, as it was when it was opened.
        self._identity: tuple[int, int] | None = None
        #: Held while a connection is opened, during ``poll``, and during a fork.
        self._gate = threading.RLock()
        watch(self)

    def __str__(self) -> str:
        return file(self.url) or self.url.render_as_string(hide_password=True)

    @property
    def kind(self) -> str:
        """``sqlite``, ``postgresql``, ``mariadb`` or ``oracle``."""
        return self.url.get_backend_name()

    def open(self) -> None:
        """Open it now rather than when it is first used."""
        with self._translated():
            self._opened()

    # --- transactions -----------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection on which to read. Each statement sees what was committed when it began."""
        with self._translated(), self._connected(writes=False) as connection:
            yield connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do the work in one transaction; it is tried again when the server chose it as the victim of a deadlock."""
        for left in reversed(range(_ATTEMPTS)):
            with self._translated():
                try:
                    with self._connected(writes=True) as connection, connection.begin():
                        return work(connection)
                except DBAPIError as error:
                    if not left or not _is_conflict(error):
                        raise
            time.sleep(random.uniform(_GIVES_WAY / 2, _GIVES_WAY))
        raise AssertionError

    def poll(self, statement: str) -> Any:
        """The first value that a statement gives, None if it gives none, over a connection kept open for it: for
        frequent polling.
        """
        with self._gate:
            self._refuse_another_file()
            if self._poller is not None:
                with suppress(self._driver_error()):
                    return self._ask(statement)
                self._stop_polling()  # the server may have been restarted since: ask once more
            with self._translated():
                try:
                    self._poller = self._kept_cursor()
                    return self._ask(statement)
                except self._driver_error() as error:
                    self._stop_polling()
                    raise StoreError("a database that answers", _said(error), str(self)) from None

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold a lock that no other process or thread holds, and that ends with the process. Does nothing on Oracle."""
        if self.kind == "oracle":  # its locks by name need a right that few have
            yield
            return
        here = file(self.url)
        if here is not None:
            with locked_file(f"{here}-{name}.lock"):
                yield
            return
        number = key(f"tidegate {self.url.database} {name}")  # MariaDB's locks are the server's, not the database's
        if self.kind == "postgresql":
            take, give = f"SET lock_timeout = 0; SELECT pg_advisory_lock({number})", "SELECT pg_advisory_unlock_all()"
            give = f"{give}; SET lock_timeout = '{_PATIENCE}s'"
        else:
            take, give = f"SELECT GET_LOCK('tidegate {number}', {_FOREVER})", "SELECT RELEASE_ALL_LOCKS()"
        with self._translated(), self._connected(writes=False) as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql(take)
            try:
                yield
            finally:
                connection.exec_driver_sql(give)

    def close(self) -> None:
        """Close all connections. They are opened again when the database is used again."""
        with self._gate:
            self._stop_polling()
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None
            self._identity = None
            self._forget_lost()

    # --- connections ------------------------------------------------------------------------------------------------

    def _opened(self) -> Engine:
        with self._gate:
            if self._engine is None:
                here = file(self.url)
                if here is not None:
                    refuse_inherited(here)
                    if not self._create and identity(here) is None:
                        raise StoreError("the file of a database", "none", here)
                self._engine = _engine(self.url)
                self._when_lost(self._engine.dispose)
                try:
                    self._prepare(self)
                except BaseException:
                    self.close()
                    raise
                self._identity = None if here is None else identity(here)
            return self._engine

    def _refuse_another_file(self) -> None:
        """Refuse to go on with an SQLite file that is not the one that was opened.

        SQLite itself would not notice: it goes on with the file that has no name any more, and makes another one.
        """
        if self._identity is not None and (found := identity(str(self))) != self._identity:
            got = "none any more" if found is None else "another one in its place"
            raise StoreError("the file of the database that was opened", got, str(self))

    @contextmanager
    def _connected(self, writes: bool) -> Iterator[Connection]:
        with self._gate:
            engine = self._opened()
            self._refuse_another_file()
            pool, connection = engine.pool, engine.connect()
        with connection:
            try:
                yield connection.execution_options(writes=writes)
            finally:
                if engine.pool is not pool and not connection.invalidated:
                    connection.detach()  # a fork has put another pool in place of its own: nobody else would close it

    def _kept_cursor(self) -> Any:
        pooled = self._opened().raw_connection()
        connection: Any = pooled.dbapi_connection
        pooled.detach()
        match self.kind:
            case "postgresql":
                connection.rollback()
                connection.autocommit = True
            case "mariadb":
                connection.autocommit(True)
        cursor = connection.cursor()
        if self.kind == "postgresql":
            connection.prepare_threshold = 0  # prepare at the first use
        self._when_lost(connection.close)
        return cursor

    def _when_lost(self, close: Callable[[], None]) -> None:
        """Close what is open also when nobody closes the database and nothing refers to it any more."""
        lost = weakref.finalize(self, close)
        lost.atexit = False  # the end of a process closes everything
        self._lost.append(lost)

    def _ask(self, statement: str) -> Any:
        self._poller.execute(statement)
        found = self._poller.fetchall()  # all of it: an SQLite statement that is not at its end holds a lock
        return found[0][0] if found else None

    def _stop_polling(self) -> None:
        if self._poller is not None:
            with suppress(self._driver_error()):
                self._poller.connection.close()
            self._poller = None

    def _forget_lost(self) -> None:
        while self._lost:
            self._lost.pop().detach()

    def _driver_error(self) -> type[Exception]:
        driver: Any = self._opened().dialect.dbapi
        error: type[Exception] = driver.Error
        return error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what SQLAlchemy and the drivers raise into one sentence of ours."""
        try:
            yield
        except DBAPIError as error:
            raise StoreError("a database that answers", _said(error.orig or error), str(self)) from None
        except UnicodeDecodeError:
            raise StoreError("texts of a database as they were written", "other bytes", str(self)) from None
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise StoreError("a database that answers", _said(error), str(self)) from None

    # --- forks ------------------------------------------------------------------------------------------------------

    def before_fork(self) -> str | None:
        """Close idle connections to a file; those to a server are left to the parent."""
        self._gate.acquire()
        here = file(self.url)
        if here is None or self._engine is None:
            return None
        self._stop_polling()
        is_busy = self._engine.pool.checkedout() > 0  # type: ignore[attr-defined]
        self._engine.dispose()
        return here if is_busy else None

    def after_fork(self, is_child: bool) -> None:
        """Forget the connections of the parent without closing them: closing would end the parent's session too."""
        if is_child:
            _of_the_parent.append((self._engine, self._poller))
            self._engine = self._poller = None
            self._forget_lost()
        self._gate.release()


_of_the_parent: list[object] = []


def _engine(url: URL) -> Engine:
    kind = url.get_backend_name()
    driver, extra = DRIVERS[kind]
    settings: dict[str, Any] = {"pool_size": 2, "max_overflow": -1}
    if kind == "sqlite":
        settings |= {"connect_args": {"timeout": _PATIENCE}}
    else:
        name = "tcp_connect_timeout" if kind == "oracle" else "connect_timeout"
        patience = {} if name in url.query else {name: 10}
        settings |= {"connect_args": patience, "pool_pre_ping": True, "isolation_level": "READ COMMITTED"}
    try:
        engine = create_engine(url, **settings)
    except ImportError as error:
        raise SettingError(f"the package {driver}: pip install tidegate[{extra}]", f"{error}", kind) from None
    if kind == "sqlite":
        event.listen(engine, "connect", _sqlite_connected)
        event.listen(engine, "begin", _sqlite_begun)
    elif kind == "postgresql":
        event.listen(engine, "connect", _postgresql_connected)
    return engine


def _sqlite_connected(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    _use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = FULL")  # what was acknowledged survives a power cut
    connection.execute("PRAGMA cache_size = -65536")  # 64 MiB: many rows in one transaction touch every index page


def _use_write_ahead_log(connection: Any) -> None:
    """Switch the file, for good, to a write-ahead log, so that readers and a writer do not wait for each other."""
    deadline = time.monotonic() + _PATIENCE
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:  # of two connections that switch at once, one fails without waiting
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _sqlite_begun(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    driver: Any = connection.connection.dbapi_connection
    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql_connected(connection: Any, _: object) -> None:
    connection.execute(f"SET lock_timeout = '{_PATIENCE}s'")
    connection.commit()


def is_lost(error: StoreError) -> bool:
    """Whether the server has gone away, rather than refused something. Never true of an SQLite file."""
    cause = error.__context__
    if not isinstance(cause, DBAPIError) or "sqlite" in type(cause.orig).__module__:
        return False
    said = cause.orig.args[0] if cause.orig is not None and cause.orig.args else None
    return cause.connection_invalidated or cause.statement is None or said == 1053  # MariaDB, on its way out


def _is_conflict(error: DBAPIError) -> bool:
    """Whether the server undid a transaction in favour of another: PostgreSQL's states, MariaDB's numbers."""
    number = error.orig.args[0] if error.orig is not None and error.orig.args else None
    return getattr(error.orig, "sqlstate", None) in ("40001", "40P01") or number in (1020, 1213)


def _said(error: BaseException) -> str:
    """The first line of what a driver says, without the number that MariaDB's puts before it."""
    said = str(error.args[-1] if error.args else error).strip() or type(error).__name__
    return said.splitlines()[0][:300]
