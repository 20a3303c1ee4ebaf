"""The tables of a history of events, and the types of their rows.

``store/history_writes.py`` writes them and ``store/history_reads.py`` reads them. Knows nothing of who may write, nor
of transactions.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Connection, Index, MetaData, Table, func, inspect, select, text

from tidegate.errors import SettingError, shown
from tidegate.model import NAME_LENGTH
from tidegate.store.database import NUMBER, OPTIONS, words
from tidegate.store.schema import SchemaPart
from tidegate.store.version_readers import QUERY_LENGTH

__all__ = [
    "COUNTS", "ELDERS", "ENDS", "EVENTS", "PART", "PARTS", "REFUSALS", "RUN", "STATE", "TABLES", "Event",
    "HistoryState", "ReplayedPublication", "as_given", "as_kept", "halves", "new_mark",
]  # fmt: skip

#: Parts of the index of ids. New ids are put at the end of a part, so that writing touches few pages of the index
#: however random the ids are; a search for one id reads one part.
PARTS = 64

TABLES = MetaData()
#: One row. Every change sets a new ``mark``; a ``History`` that finds an unknown one knows that another has written.
STATE = Table(
    "tidegate_history",
    TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("identity", NUMBER, nullable=False),
    Column("mark", NUMBER, nullable=False),
    Column("last", NUMBER, nullable=False),
    Column("refused", NUMBER, nullable=False),
    Column("elders", NUMBER, nullable=False),
    **OPTIONS,
)
#: The run that writes the history, by the name of its query, and the last batch that it wrote; no row if engines do.
RUN = Table(
    "tidegate_history_run",
    TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("query", words(QUERY_LENGTH), nullable=False),
    Column("batch", NUMBER, nullable=False),
    **OPTIONS,
)
#: A row per publication that began an event.
EVENTS = Table(
    "tidegate_events",
    TABLES,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("id_part", NUMBER, nullable=False),
    Column("id_key", NUMBER, nullable=False),
    Column("id", words(2 * NAME_LENGTH), nullable=False),
    Column("source", words(2 * NAME_LENGTH), nullable=False),
    Column("phase", words(16)),
    Column("time", NUMBER, nullable=False),
    Column("start_at", NUMBER, nullable=False),
    Column("end_at", NUMBER),
    Column("body", words(), nullable=False),
    Index("tidegate_events_id", "id_part", "seq", "id_key"),
    **OPTIONS,
)
#: A row per END, which has the source and the id of its event. An event that is running is one without an ``end_at``
#: and without a row here.
ENDS = Table(
    "tidegate_ends",
    TABLES,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("first", NUMBER, nullable=False),
    Column("time", NUMBER, nullable=False),
    Column("end_at", NUMBER, nullable=False),
    Column("body", words(), nullable=False),
    Index("tidegate_ends_first", "first", unique=True),
    **OPTIONS,
)
REFUSALS = Table(
    "tidegate_refused",
    TABLES,
    Column("number", NUMBER, primary_key=True, autoincrement=False),
    Column("reason", words(64), nullable=False),
    Column("id", words(2 * NAME_LENGTH), nullable=False),
    Column("phase", words(16)),
    Column("time", NUMBER, nullable=False),
    Column("body", words(), nullable=False),
    **OPTIONS,
)
COUNTS = Table(
    "tidegate_refused_counts",
    TABLES,
    Column("reason", words(64), primary_key=True),
    Column("count", NUMBER, nullable=False),
    **OPTIONS,
)
#: Elders: times of events that have left an engine's memory, and the last of their numbers, by the key (in two halves)
#: of the inner filter that remembered them.
ELDERS = Table(
    "tidegate_elders",
    TABLES,
    Column("key1", NUMBER, primary_key=True, autoincrement=False),
    Column("key2", NUMBER, primary_key=True, autoincrement=False),
    Column("end_at", NUMBER, primary_key=True, autoincrement=False),
    Column("serial", NUMBER, primary_key=True, autoincrement=False),
    Column("start_at", NUMBER, nullable=False),
    Column("number", NUMBER, nullable=False),
    Index("tidegate_elders_start", "key1", "key2", "start_at", "end_at"),
    Index("tidegate_elders_number", "number"),
    sqlite_with_rowid=False,
    **OPTIONS,
)


def _create(connection: Connection) -> None:
    TABLES.create_all(connection)
    if not connection.scalar(select(func.count()).select_from(STATE)):
        first = {"one": 1, "identity": new_mark(), "mark": new_mark(), "last": 0, "refused": 0, "elders": 0}
        connection.execute(STATE.insert(), first)


def _ends_of_the_source(connection: Connection) -> None:
    """Version 1 let any source end an event, so its table of ENDs had a source. What has ended stays so."""
    if any(column["name"] == "source" for column in inspect(connection).get_columns(ENDS.name)):
        quote = connection.dialect.identifier_preparer.quote
        connection.execute(text(f"ALTER TABLE {ENDS.name} DROP COLUMN {quote('source')}"))


def _runs(connection: Connection) -> None:
    """Only engines wrote histories of version 2."""
    RUN.create(connection, checkfirst=True)


PART = SchemaPart("history", (_create, _ends_of_the_source, _runs))


class ReplayedPublication(NamedTuple):
    """A publication as it is replayed. Of an END ``first`` is the number of its START, else its own."""

    seq: int
    first: int
    id: str
    source: str
    phase: str | None
    time: int
    start: int | None
    end: int | None
    body: str


class Event(NamedTuple):
    """An event in a listing for people; without an end as long as it is running."""

    seq: int
    id: str
    source: str
    phase: str | None
    time: datetime
    start: datetime
    end: datetime | None
    body: str
    end_seq: int | None
    end_time: datetime | None
    end_body: str | None


class HistoryState(NamedTuple):
    """The one row of the history as this process knows it."""

    identity: int
    mark: int
    last: int
    refused: int
    elders: int


def new_mark() -> int:
    """A random number, which no other process will have drawn."""
    return secrets.randbits(63)


# --- values ---------------------------------------------------------------------------------------------------------

_ESCAPES = str.maketrans({"\0": "\x010", "\x01": "\x011"})


def as_kept(text: str) -> str:
    """A text as databases can keep it: PostgreSQL takes none with the character NUL."""
    return text.translate(_ESCAPES) if "\0" in text or "\x01" in text else text


def as_given(text: str) -> str:
    """The text that ``as_kept`` was given."""
    return re.sub("\x01[01]", lambda found: "\0" if found[0] == "\x010" else "\x01", text) if "\x01" in text else text


def halves(key: bytes) -> tuple[int, int]:
    """The key of a recollection as the two numbers that databases keep."""
    if not isinstance(key, bytes) or len(key) != 16:
        raise SettingError("a key of 16 bytes", shown(key))
    return int.from_bytes(key[:8], "big", signed=True), int.from_bytes(key[8:], "big", signed=True)
