"""The tables of a history of events, and their rows: what stands in them, how it is written and how it is read.

Rows are put in with the driver's own words, made once: a history is written to once for each publish. Knows nothing of
who may write, nor of transactions.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Index,
    MetaData,
    Select,
    Table,
    bindparam,
    delete,
    func,
    literal,
    null,
    or_,
    select,
    update,
)

from tidegate.engine.event_history import BegunEvent, EndedEvent, RefusedEvent
from tidegate.errors import SettingError, shown
from tidegate.model import NAME_LENGTH, moment
from tidegate.store.database import NUMBER, OPTIONS, key, run, words
from tidegate.store.schema import SchemaPart

__all__ = [
    "HOW_MANY",
    "HOW_MANY_REFUSED",
    "NO_ELDERS",
    "PART",
    "Event",
    "HistoryState",
    "ReplayedPublication",
    "ends",
    "event",
    "events",
    "firsts",
    "forget",
    "has_elder",
    "ids",
    "new_mark",
    "refused",
    "replaced",
    "state",
    "write_elders",
    "write_ends",
    "write_events",
    "write_refused",
]

#: Refused publications that are kept to be looked at, the newest. All are counted.
REFUSED = 10_000
#: Parts of the index of ids. New ids are put at the end of a part, so that writing touches few pages of the index
#: however random the ids are; whoever looks for one id reads one part.
PARTS = 64
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

TABLES = MetaData()
#: One row. ``mark`` is another after each change: whoever finds an unknown one knows that another has written.
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
#: A row per END. An event that is running is one without an ``end_at`` and without a row here.
ENDS = Table(
    "tidegate_ends",
    TABLES,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("first", NUMBER, nullable=False),
    Column("source", words(2 * NAME_LENGTH), nullable=False),
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
#: Times of events that have left an engine's memory, and the last of their numbers, by the filter that remembered them:
#: a key in two halves.
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


PART = SchemaPart("history", (_create,))


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
    end_source: str | None
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
    """A number that nobody else has."""
    return secrets.randbits(63)


# --- in the driver's words ------------------------------------------------------------------------------------------


class _Worded(NamedTuple):
    """Statements in the words of a driver, with values in the order of the columns."""

    replace: str
    inserts: dict[str, str]

    @staticmethod
    def of(dialect: Dialect) -> _Worded:
        marker = {"sqlite": "?", "oracle": ":{}"}.get(dialect.name, "%s")
        quote = dialect.identifier_preparer.quote
        marked = [f"{quote(name)} = {marker.format(i)}" for i, name in enumerate((*HistoryState._fields, "mark"), 1)]
        replace = f"UPDATE {STATE.name} SET {', '.join(marked[:-1])} WHERE {quote('one')} = 1 AND {marked[-1]}"
        inserts = {}
        for table in TABLES.sorted_tables:
            names = ", ".join(quote(column.name) for column in table.c)
            values = ", ".join(marker.format(i) for i in range(1, len(table.c) + 1))
            inserts[table.name] = f"INSERT INTO {table.name} ({names}) VALUES ({values})"
        return _Worded(replace, inserts)


_worded: WeakKeyDictionary[Dialect, _Worded] = WeakKeyDictionary()


def _words_for(connection: Connection) -> _Worded:
    found = _worded.get(connection.dialect)
    if found is None:
        found = _worded[connection.dialect] = _Worded.of(connection.dialect)
    return found


def _insert(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows without a look at each value on the way."""
    if rows:
        run(connection, _words_for(connection).inserts[table.name], rows if len(rows) > 1 else rows[0])


# --- writing --------------------------------------------------------------------------------------------------------


def replaced(connection: Connection, mark: int, state: HistoryState) -> bool:
    """Write the state in the place of the one with that mark; False if there is another."""
    return run(connection, _words_for(connection).replace, (*state, mark)) == 1


def write_events(connection: Connection, first: Iterable[BegunEvent]) -> None:
    """Write the beginnings of events."""
    _insert(
        connection,
        EVENTS,
        [
            (seq, (number := key(id)) % PARTS, number, _kept(id), _kept(source), phase, time, start, end, body)
            for seq, id, source, phase, time, start, end, body in first
        ],
    )


def write_ends(connection: Connection, ended: Iterable[EndedEvent]) -> None:
    """Write the ends of events."""
    _insert(connection, ENDS, [(e.seq, e.first, _kept(e.source), e.time, e.end, e.body) for e in ended])


def write_refused(connection: Connection, refused: Sequence[RefusedEvent], upto: int) -> None:
    """Write those refused, of which the last has the number ``upto``."""
    newest = refused[-REFUSED:]
    numbered = enumerate(newest, upto - len(newest) + 1)
    _insert(connection, REFUSALS, [(n, r.reason, _kept(r.id), r.phase, r.time, r.body) for n, r in numbered])
    connection.execute(_OLD_REFUSALS, {"upto": upto - REFUSED})
    for reason, count in sorted(Counter(r.reason for r in refused).items()):
        if not connection.execute(_COUNT_MORE, {"which": reason, "more": count}).rowcount:
            connection.execute(COUNTS.insert(), {"reason": reason, "count": count})


_OLD_REFUSALS = delete(REFUSALS).where(REFUSALS.c.number <= bindparam("upto"))
_COUNT_MORE = (
    update(COUNTS).where(COUNTS.c.reason == bindparam("which")).values(count=COUNTS.c.count + bindparam("more"))
)


def write_elders(connection: Connection, rows: Iterable[tuple[bytes, int, int, int]], after: int) -> None:
    """Write events that leave memory: key, start, end and last number of each. ``after`` so many that have left."""
    counted = enumerate(rows, after + 1)
    _insert(connection, ELDERS, [(*_halves(k), end, i, start, number) for i, (k, start, end, number) in counted])


def forget(connection: Connection, upto: int) -> int:
    """Forget the ended events whose last number is at most that, in memory or not; how many that were."""
    gone = connection.execute(_OLD_EVENTS, {"upto": upto}).rowcount
    connection.execute(_OLD_ENDS, {"upto": upto})
    connection.execute(_OLD_ELDERS, {"upto": upto})
    return gone


_OLD_ENDS = delete(ENDS).where(ENDS.c.seq <= bindparam("upto"))
_OLD_ELDERS = delete(ELDERS).where(ELDERS.c.number <= bindparam("upto"))
_OLD_EVENTS = delete(EVENTS).where(
    EVENTS.c.seq <= bindparam("upto"),
    or_(EVENTS.c.end_at.is_not(None), EVENTS.c.seq.in_(select(ENDS.c.first).where(ENDS.c.seq <= bindparam("upto")))),
)
#: Forgets all that has left memory.
NO_ELDERS = delete(ELDERS)


# --- reading --------------------------------------------------------------------------------------------------------

HOW_MANY = select(func.count()).select_from(EVENTS)
HOW_MANY_REFUSED = select(COUNTS.c.reason, COUNTS.c.count).order_by(COUNTS.c.reason)
_STATES = select(*(STATE.c[name] for name in HistoryState._fields))


def state(connection: Connection) -> HistoryState | None:
    """The state of the history; None if it has none."""
    row = connection.execute(_STATES).first()
    return None if row is None else HistoryState(*row)


def ids(connection: Connection, low: int, high: int) -> dict[int, str]:
    """The ids of the events that began with those numbers, both included."""
    e = EVENTS.c
    rows = connection.execute(select(e.seq, e.id).where(e.seq >= low, e.seq <= high))
    return {seq: _given(id) for seq, id in rows}


def firsts(connection: Connection, after: int, limit: int) -> list[ReplayedPublication]:
    """The next publications that began an event, in order of their numbers."""
    e = EVENTS.c
    fields = e.seq, e.seq.label("first"), e.id, e.source, e.phase, e.time, e.start_at, e.end_at, e.body
    return _heard(connection, select(*fields).where(e.seq > after).order_by(e.seq).limit(limit))


def ends(connection: Connection, after: int, limit: int) -> list[ReplayedPublication]:
    """The next that ended one."""
    e, x = EVENTS.c, ENDS.c
    fields = x.seq, x.first, e.id, x.source, literal("END"), x.time, null(), x.end_at, x.body
    some = select(*fields).join_from(ENDS, EVENTS, e.seq == x.first).where(x.seq > after)
    return _heard(connection, some.order_by(x.seq).limit(limit))


def _heard(connection: Connection, statement: Select[Any]) -> list[ReplayedPublication]:
    return [
        ReplayedPublication(seq, first, _given(id), _given(source), phase, time, start, end, body)
        for seq, first, id, source, phase, time, start, end, body in connection.execute(statement).all()
    ]


def events(connection: Connection, limit: int, before: int | None, running: bool) -> list[Event]:
    """The newest events first: those whose number is below ``before``, and only those that are running."""
    some = _LISTING.order_by(EVENTS.c.seq.desc()).limit(limit)
    if before is not None:
        some = some.where(EVENTS.c.seq < before)
    if running:
        some = some.where(EVENTS.c.end_at.is_(None), ENDS.c.seq.is_(None))
    return [_event(row) for row in connection.execute(some).all()]


def event(connection: Connection, id: str) -> Event | None:
    """The newest event of that id."""
    number = key(id)
    mine = _LISTING.where(EVENTS.c.id_part == number % PARTS, EVENTS.c.id_key == number)
    rows = connection.execute(mine.order_by(EVENTS.c.seq.desc())).all()
    return next((event for event in map(_event, rows) if event.id == id), None)


_LISTING = select(
    *EVENTS.c,
    ENDS.c.seq.label("end_seq"),
    ENDS.c.source.label("end_source"),
    ENDS.c.time.label("end_time"),
    ENDS.c.end_at.label("known_end"),
    ENDS.c.body.label("end_body"),
).outerjoin_from(EVENTS, ENDS, ENDS.c.first == EVENTS.c.seq)


def _event(row: Any) -> Event:
    end = row.end_at if row.known_end is None else row.known_end
    return Event(
        row.seq,
        _given(row.id),
        _given(row.source),
        row.phase,
        moment(row.time),
        moment(row.start_at),
        None if end is None else moment(end),
        row.body,
        row.end_seq,
        None if row.end_source is None else _given(row.end_source),
        None if row.end_time is None else moment(row.end_time),
        row.end_body,
    )


def refused(connection: Connection, limit: int) -> list[RefusedEvent]:
    """What was refused last, the newest first."""
    fields = [REFUSALS.c[name] for name in RefusedEvent._fields]
    rows = connection.execute(select(*fields).order_by(REFUSALS.c.number.desc()).limit(limit)).all()
    return [RefusedEvent(reason, _given(id), phase, time, body) for reason, id, phase, time, body in rows]


def has_elder(connection: Connection, key: bytes, start: tuple[int, int], end: tuple[int, int], after: int) -> bool:
    """Whether an event of that key has left memory, of a number above ``after``, with start and end in the ranges."""
    one, two = _halves(key)
    bounds = {"end_low": end[0], "end_high": end[1], "start_low": start[0], "start_high": start[1]}
    bounds = {name: min(max(bound, _SMALLEST), _LARGEST) for name, bound in bounds.items()}
    # a bound that is none would only mislead the choice of an index
    bounds = {name: bound for name, bound in bounds.items() if bound != (_SMALLEST if "low" in name else _LARGEST)}
    values = {"one": one, "two": two, "after": after, **bounds}
    return connection.execute(_elder(*bounds), values).first() is not None


@cache
def _elder(*bounds: str) -> Select[Any]:
    e = ELDERS.c
    statement = select(e.serial).where(e.key1 == bindparam("one"), e.key2 == bindparam("two"))
    for name in bounds:
        column = e.end_at if name.startswith("end") else e.start_at
        bound: Any = bindparam(name)
        statement = statement.where(column >= bound if name.endswith("low") else column <= bound)
    return statement.where(e.number > bindparam("after")).limit(1)


# --- values ---------------------------------------------------------------------------------------------------------

_ESCAPES = str.maketrans({"\0": "\x010", "\x01": "\x011"})


def _kept(text: str) -> str:
    """A text as databases can keep it: PostgreSQL has none with the character NUL."""
    return text.translate(_ESCAPES) if "\0" in text or "\x01" in text else text


def _given(text: str) -> str:
    """A text as it was given."""
    return re.sub("\x01[01]", lambda found: "\0" if found[0] == "\x010" else "\x01", text) if "\x01" in text else text


def _halves(key: bytes) -> tuple[int, int]:
    if not isinstance(key, bytes) or len(key) != 16:
        raise SettingError("a key of 16 bytes", shown(key))
    return int.from_bytes(key[:8], "big", signed=True), int.from_bytes(key[8:], "big", signed=True)
