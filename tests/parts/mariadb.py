"""A MariaDB server for the tests of one process, reached by a socket in its own directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from signal import SIGKILL
from socket import AF_UNIX
from socket import socket as Socket

import pymysql
import pytest

from tests.parts.machine import alone, directory, program, run, server, unprivileged

_PLACES = ("/usr/sbin", "/usr/libexec", "/usr/bin", "/usr/local/bin")


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Callable[[], str]]:
    """Gives the URL of a new, empty database each time it is called."""
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

        def connect() -> pymysql.Connection:
            return pymysql.connect(unix_socket=socket, user="root")

        def is_ready() -> bool:
            with Socket(AF_UNIX) as probe:  # pymysql leaves one open when it is refused
                return probe.connect_ex(socket) == 0

        settings = ("--skip-networking", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M")
        pid = f"--pid-file={place / 'pid'}"
        command = [binary, "--no-defaults", data, f"--socket={socket}", pid, "--skip-log-bin", *settings]
        with server(command, identity, place / "log", is_ready, SIGKILL):
            numbers = count()

            def new() -> str:
                name = f"tidegate{next(numbers)}"
                with connect() as connection, connection.cursor() as cursor:
                    cursor.execute(f"CREATE DATABASE {name} CHARACTER SET latin1")  # ours must not depend on it
                return f"mariadb://root@localhost/{name}?unix_socket={socket}"

            yield new
