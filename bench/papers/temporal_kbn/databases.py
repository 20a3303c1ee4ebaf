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
from tempfile import TemporaryDirectory
from typing import Any

__all__ = ["Missing", "New", "opened"]

#: Gives the URL of a new, empty database.
New = Callable[[], str]


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
    part: Any = import_module("tests.parts.postgres")
    with part.postgres_server("fsync=on", "shared_buffers=512MB", "max_wal_size=4GB") as new:
        yield lambda: f"postgresql+psycopg:{new()}"


@contextmanager
def _mariadb() -> Iterator[New]:
    part: Any = import_module("tests.parts.mariadb")
    settings = ("--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=1G")
    with part.mariadb_server("utf8mb4", *settings) as new:
        yield lambda: f"mariadb+pymysql:{new()}&local_infile=1"
