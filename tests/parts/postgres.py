"""A PostgreSQL server for the tests of one process, or for a bench, reached by a socket in its own directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from signal import SIGQUIT

import psycopg
import pytest

from tests.parts.machine import directory, program, run, server, unprivileged

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin")


@contextmanager
def postgres_server(*settings: str) -> Iterator[Callable[[], str]]:
    """A server with further settings. Gives the URL of a new, empty schema each time, without a dialect before it."""
    binary, initdb = (program(name, "postgresql", _PLACES) for name in ("postgres", "initdb"))
    identity = unprivileged("postgres")
    with directory(identity) as place:
        data = str(place / "data")
        options = ["-U", "tidegate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        if problem := run([initdb, "-D", data, *options], identity):
            pytest.skip(problem)
        where = f"host={place} user=tidegate dbname=postgres"

        def is_ready() -> bool:
            try:
                psycopg.connect(where).close()
            except psycopg.OperationalError:
                return False
            return True

        every = ("listen_addresses=", f"unix_socket_directories={place}", *settings)
        command = [binary, "-D", data, *(word for setting in every for word in ("-c", setting))]
        with server(command, identity, place / "log", is_ready, SIGQUIT):
            numbers = count()

            def new() -> str:
                name = f"tidegate{next(numbers)}"
                with psycopg.connect(where, autocommit=True) as connection:
                    connection.execute(f"CREATE SCHEMA {name}".encode())
                return f"//tidegate@/postgres?host={place}&options=-csearch_path%3D{name}"

            yield new


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Gives the URL of a new, empty schema each time it is called: a database of its own would be 7 MB of files."""
    with postgres_server("fsync=off", "max_connections=60") as new:
        yield lambda: f"postgresql:{new()}"
