"""What ``History`` reads from its tables: its state, its events in order or for people, and those that left memory.

Each function takes the connection to read on. Knows nothing of transactions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, literal, null, select

from tidegate.engine.event_history import RefusedEvent
from tidegate.model import moment
from tidegate.store.database import key
from tidegate.store.history_tables import (
    COUNTS,
    ELDERS,
    ENDS,
    EVENTS,
    PARTS,
    REFUSALS,
    RUN,
    STATE,
    Event,
    HistoryState,
    ReplayedPublication,
    as_given,
    halves,
)

__all__ = [
    "HOW_MANY",
    "HOW_MANY_REFUSED",
    "ends",
    "event",
    "events",
    "first_since",
    "firsts",
    "has_elder",
    "ids",
    "named",
    "newest_time",
    "refused",
    "run",
    "running",
    "state",
]

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
HOW_MANY = select(func.count()).select_from(EVENTS)
HOW_MANY_REFUSED = select(COUNTS.c.reason, COUNTS.c.count).order_by(COUNTS.c.reason)
_STATES = select(*(STATE.c[name] for name in HistoryState._fields))


def state(connection: Connection) -> HistoryState | None:
    """The state of the history; None if it has none."""
    row = connection.execute(_STATES).first()
    return None if row is None else HistoryState(*row)


def run(connection: Connection) -> tuple[str, int] | None:
    """The run that writes the history and the last batch that it wrote; None if engines write it."""
    row = connection.execute(select(RUN.c.query, RUN.c.batch)).first()
    return None if row is None else (row.query, int(row.batch))


def running(connection: Connection) -> list[tuple[int, str, str]]:
    """Number, source and id of each event that is running, in order of the numbers."""
    e = EVENTS.c
    some = select(e.seq, e.source, e.id).outerjoin_from(EVENTS, ENDS, ENDS.c.first == e.seq).order_by(e.seq)
    rows = connection.execute(some.where(e.end_at.is_(None), ENDS.c.seq.is_(None)))
    return [(int(seq), as_given(source), as_given(id)) for seq, source, id in rows]


def newest_time(connection: Connection) -> int | None:
    """The time of the publication with the largest number; None if there is none."""
    newest = [
        connection.execute(select(table.c.seq, table.c.time).order_by(table.c.seq.desc()).limit(1)).first()
        for table in (EVENTS, ENDS)
    ]
    return max(((row.seq, int(row.time)) for row in newest if row is not None), default=(0, None))[1]


def first_since(connection: Connection, time: int, after: int) -> int | None:
    """The smallest number above ``after`` of a publication that is not older than ``time``; None if there is none."""
    found = [
        connection.execute(
            select(table.c.seq).where(table.c.seq > after, table.c.time >= time).order_by(table.c.seq).limit(1)
        ).scalar()
        for table in (EVENTS, ENDS)
    ]
    return min((int(seq) for seq in found if seq is not None), default=None)


def ids(connection: Connection, low: int, high: int) -> dict[int, str]:
    """The ids of the events that began with those numbers, both included."""
    e = EVENTS.c
    rows = connection.execute(select(e.seq, e.id).where(e.seq >= low, e.seq <= high))
    return {seq: as_given(id) for seq, id in rows}


def firsts(connection: Connection, after: int, limit: int) -> list[ReplayedPublication]:
    """The next publications that began an event, in order of their numbers."""
    e = EVENTS.c
    fields = e.seq, e.seq.label("first"), e.id, e.source, e.phase, e.time, e.start_at, e.end_at, e.body
    return _heard(connection, select(*fields).where(e.seq > after).order_by(e.seq).limit(limit))


def ends(connection: Connection, after: int, limit: int) -> list[ReplayedPublication]:
    """The next publications that ended an event, in order of their numbers."""
    e, x = EVENTS.c, ENDS.c
    fields = x.seq, x.first, e.id, e.source, literal("END"), x.time, null(), x.end_at, x.body
    some = select(*fields).join_from(ENDS, EVENTS, e.seq == x.first).where(x.seq > after)
    return _heard(connection, some.order_by(x.seq).limit(limit))


def named(connection: Connection, seq: int) -> tuple[str, str] | None:
    """The id and the source of the publication of that number; None if the history has none."""
    for one in (*firsts(connection, seq - 1, 1), *ends(connection, seq - 1, 1)):
        if one.seq == seq:
            return one.id, one.source
    return None


def _heard(connection: Connection, statement: Select[Any]) -> list[ReplayedPublication]:
    return [
        ReplayedPublication(seq, first, as_given(id), as_given(source), phase, time, start, end, body)
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


def event(connection: Connection, id: str, source: str | None) -> Event | None:
    """The newest event of that id, and of that source if there is one."""
    number = key(id)
    some = _LISTING.where(EVENTS.c.id_part == number % PARTS, EVENTS.c.id_key == number)
    rows = connection.execute(some.order_by(EVENTS.c.seq.desc())).all()
    mine = (event for event in map(_event, rows) if event.id == id and source in (None, event.source))
    return next(mine, None)


_LISTING = select(
    *EVENTS.c,
    ENDS.c.seq.label("end_seq"),
    ENDS.c.time.label("end_time"),
    ENDS.c.end_at.label("known_end"),
    ENDS.c.body.label("end_body"),
).outerjoin_from(EVENTS, ENDS, ENDS.c.first == EVENTS.c.seq)


def _event(row: Any) -> Event:
    end = row.end_at if row.known_end is None else row.known_end
    return Event(
        row.seq,
        as_given(row.id),
        as_given(row.source),
        row.phase,
        moment(row.time),
        moment(row.start_at),
        None if end is None else moment(end),
        row.body,
        row.end_seq,
        None if row.end_time is None else moment(row.end_time),
        row.end_body,
    )


def refused(connection: Connection, limit: int) -> list[RefusedEvent]:
    """What was refused last, the newest first."""
    fields = [REFUSALS.c[name] for name in RefusedEvent._fields]
    rows = connection.execute(select(*fields).order_by(REFUSALS.c.number.desc()).limit(limit)).all()
    return [RefusedEvent(reason, as_given(id), phase, time, body) for reason, id, phase, time, body in rows]


def has_elder(connection: Connection, key: bytes, start: tuple[int, int], end: tuple[int, int], after: int) -> bool:
    """Whether an event of that key has left memory, of a number above ``after``, with start and end in the ranges."""
    one, two = halves(key)
    bounds = {"end_low": end[0], "end_high": end[1], "start_low": start[0], "start_high": start[1]}
    bounds = {name: min(max(bound, _SMALLEST), _LARGEST) for name, bound in bounds.items()}
    # a bound that excludes nothing would only mislead the database when it chooses an index
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
