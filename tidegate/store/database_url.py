"""Where a database is: a path (an SQLite file) or a URL of SQLite, PostgreSQL or MariaDB. Opens nothing.

A URL of Oracle is accepted only where the caller passes ``oracle=True``; the code for Oracle is untested.
"""

from __future__ import annotations

import os

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tidegate.errors import SettingError, shown

__all__ = ["DRIVERS", "address", "file"]

#: The driver of each kind of database, and the extra that installs it.
DRIVERS = {"sqlite": ("pysqlite", ""), "postgresql": ("psycopg", "postgresql"), "mariadb": ("pymysql", "mariadb")}
DRIVERS["oracle"] = ("oracledb", "oracle")
_KINDS = "a path, or a URL that begins with sqlite:///, postgresql:// or mariadb://"


def address(place: str | os.PathLike[str], *, oracle: bool = False) -> URL:
    """The URL of a place, with the driver that we use; the path of a file is absolute."""
    try:
        text = os.fspath(place)
    except TypeError:
        raise SettingError(_KINDS, shown(place), "the address of a database") from None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise SettingError(_KINDS, shown(text), "the address of a database")
    if "://" not in text:
        return URL.create("sqlite+pysqlite", database=os.path.abspath(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # a port that is no number; the text may hold a password
        raise SettingError(_KINDS, f"a URL of {text.split('://')[0]} that cannot be read", _AT) from None
    kind, _, driver = url.drivername.partition("+")
    kind = "mariadb" if kind == "mysql" else kind  # SQLAlchemy refuses a MySQL server under this name, and so do we
    if kind not in DRIVERS or (kind == "oracle" and not oracle):
        raise SettingError(_KINDS, shown(url.drivername), _AT)
    ours = DRIVERS[kind][0]
    if driver not in ("", ours):
        raise SettingError(f"{kind}+{ours}:// or {kind}://", shown(url.drivername), _AT)
    url = url.set(drivername=f"{kind}+{ours}")
    return _absolute(url) if kind == "sqlite" else url


_AT = "the address of a database"


def _absolute(url: URL) -> URL:
    name = url.database or ""
    if name in ("", ":memory:") or name.startswith("file:"):
        raise SettingError("the path of a file, which other processes can open too", shown(name or ":memory:"), _AT)
    if url.host or url.query:
        raise SettingError("sqlite:/// and a path, nothing else", shown(str(url)), _AT)
    return url.set(database=os.path.abspath(name))


def file(url: URL) -> str | None:
    """The file of an SQLite database; None for a server."""
    return url.database if url.get_backend_name() == "sqlite" else None
