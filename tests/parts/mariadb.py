"""A MariaDB server for the tests of one process, or for a bench, reached by a socket in its own directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from signal import SIGKILL
from socket import AF_UNIX
from socket import socket as Socket

import pymysql
import pytest

from tests.parts.machine import alone, directory, program, run, server, unprivileged

_PLACES = ("/usr/sbin", "/usr/libexec", "/usr/bin", "/usr/local/bin")


@contextmanager
def mariadb_server(characters: str, *settings: str) -> Iterator[Callable[[], str]]:
    """A server with further settings. Gives the URL of a new, empty database each time, without a dialect before it."""
    binary, install = (program(name, "mariadb-server", _PLACES) for name in ("mariadbd", "mariadb-install-db"))
    identity = unprivileged("mysql")
    with directory(identity) as place:
        socket, options = str(place / "socket"), ("--auth-root-authentication-method=normal", "--skip-test-db")
        with alone("mariadb"):  # two that make their files at once have been seen to fail
            for data in (f"--datadir={place / name}" for name in ("data", "again")):
                problem = run([install, "--no-defaults", data, *options], identity)
                if not problem:
                    break
        if problem:
            pytest.skip(problem)

        def is_ready() -> bool:
            with Socket(AF_UNIX) as probe:  # pymysql leaves one open when it is refused
                return probe.connect_ex(socket) == 0

        every = (f"--socket={socket}", f"--pid-file={place / 'pid'}", "--skip-networking", "--skip-log-bin", *settings)
        with server([binary, "--no-defaults", data, *every], identity, place / "log", is_ready, SIGKILL):
            numbers = count()

            def new() -> str:
                name = f"tidegate{next(numbers)}"
                with pymysql.connect(unix_socket=socket, user="root") as connection, connection.cursor() as cursor:
                    cursor.execute(f"CREATE DATABASE {name} CHARACTER SET {characters}")
                return f"//root@localhost/{name}?unix_socket={socket}"

            yield new


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Callable[[], str]]:
    """Gives the URL of a new, empty database each time it is called; ours must not depend on its characters."""
    with mariadb_server("latin1", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M") as new:
        yield lambda: f"mariadb:{new()}"
