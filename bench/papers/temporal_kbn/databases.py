"""The three databases of a run, each of which makes sure that what was committed survives a power cut.

The servers are found or installed as for the tests, and stopped at the end. One that cannot be had is left out, and the
results say why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path
from signal import SIGKILL, SIGQUIT
from socket import AF_UNIX
from socket import socket as Socket
from tempfile import TemporaryDirectory
from typing import Any

__all__ = ["Missing", "New", "opened"]

#: Gives the URL of a new, empty database.
New = Callable[[], str]
_POSTGRES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin")
_MARIADB = ("/usr/sbin", "/usr/libexec", "/usr/bin", "/usr/local/bin")


class Missing(Exception):
    """Why there is no such database here."""


@contextmanager
def opened(name: str) -> Iterator[New]:
    """One of them by name."""
    import pytest  # the tests' parts say with it that a server cannot be had

    try:
        with {"sqlite": _sqlite, "postgresql": _postgresql, "mariadb": _mariadb}[name]() as new:
            yield new
    except pytest.skip.Exception as skipped:
        raise Missing(str(skipped)) from None


@contextmanager
def _sqlite() -> Iterator[New]:
    numbers = count()
    with TemporaryDirectory(prefix="tidegate-") as place:
        yield lambda: f"sqlite:///{Path(place) / f'{next(numbers)}.db'}"


@contextmanager
def _postgresql() -> Iterator[New]:
    import psycopg

    machine: Any = import_module("tests.parts.machine")
    binary, initdb = (machine.program(name, "postgresql", _POSTGRES) for name in ("postgres", "initdb"))
    identity = machine.unprivileged("postgres")
    with machine.directory(identity) as place:
        data = str(place / "data")
        options = ["-U", "tidegate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        if problem := machine.run([initdb, "-D", data, *options], identity):
            raise Missing(problem)
        where = f"host={place} user=tidegate dbname=postgres"

        def is_ready() -> bool:
            try:
                psycopg.connect(where).close()
            except psycopg.OperationalError:
                return False
            return True

        sizes = ("shared_buffers=512MB", "max_wal_size=4GB")
        settings = ("listen_addresses=", "fsync=on", f"unix_socket_directories={place}", *sizes)
        command = [binary, "-D", data, *(word for setting in settings for word in ("-c", setting))]
        with machine.server(command, identity, place / "log", is_ready, SIGQUIT):
            numbers = count()

            def new() -> str:
                name = f"bench{next(numbers)}"
                with psycopg.connect(where, autocommit=True) as connection:
                    connection.execute(f"CREATE SCHEMA {name}".encode())
                return f"postgresql+psycopg://tidegate@/postgres?host={place}&options=-csearch_path%3D{name}"

            yield new


@contextmanager
def _mariadb() -> Iterator[New]:
    pymysql: Any = import_module("pymysql")
    machine: Any = import_module("tests.parts.machine")
    binary, install = (machine.program(n, "mariadb-server", _MARIADB) for n in ("mariadbd", "mariadb-install-db"))
    identity = machine.unprivileged("mysql")
    with machine.directory(identity) as place:
        socket, data = str(place / "socket"), f"--datadir={place / 'data'}"
        options = ("--auth-root-authentication-method=normal", "--skip-test-db")
        with machine.alone("mariadb"):
            if problem := machine.run([install, "--no-defaults", data, *options], identity):
                raise Missing(problem)

        def is_ready() -> bool:
            with Socket(AF_UNIX) as probe:  # pymysql leaves one open when it is refused
                return probe.connect_ex(socket) == 0

        settings = ("--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=1G")
        pid = f"--pid-file={place / 'pid'}"
        command = [binary, "--no-defaults", data, f"--socket={socket}", pid, "--skip-networking", "--skip-log-bin"]
        with machine.server([*command, *settings], identity, place / "log", is_ready, SIGKILL):
            numbers = count()

            def new() -> str:
                name = f"bench{next(numbers)}"
                with pymysql.connect(unix_socket=socket, user="root") as connection, connection.cursor() as cursor:
                    cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
                return f"mariadb+pymysql://root@localhost/{name}?unix_socket={socket}&local_infile=1"

            yield new
