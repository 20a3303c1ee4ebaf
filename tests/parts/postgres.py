"""A PostgreSQL server for the tests of one process, reached by a socket in its own directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from signal import SIGQUIT

import psycopg
import pytest

from tests.parts.machine import directory, program, run, server, unprivileged

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Gives the URL of a new, empty schema each time it is called: a database of its own would be 7 MB of files."""
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

        settings = ("listen_addresses=", "fsync=off", "max_connections=60", f"unix_socket_directories={place}")
        command = [binary, "-D", data, *(word for setting in settings for word in ("-c", setting))]
        with server(command, identity, place / "log", is_ready, SIGQUIT):
            numbers = count()

            def new() -> str:
                name = f"tidegate{next(numbers)}"
                with psycopg.connect(where, autocommit=True) as connection:
                    connection.execute(f"CREATE SCHEMA {name}".encode())
                return f"postgresql://tidegate@/postgres?host={place}&options=-csearch_path%3D{name}"

            yield new
