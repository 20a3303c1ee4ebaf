"""What ``History`` writes into its tables, each function within the transaction of its caller.

Rows are inserted by SQL in the driver's own form, which is made once per dialect, because an engine writes to its
history at each publish and SQLAlchemy would take too long. Knows nothing of who may write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Dialect, Table, bindparam, delete, or_, select, update

from tidegate.engine.event_history import BegunEvent, EndedEvent, RefusedEvent
from tidegate.store.database import key, run
from tidegate.store.history_tables import (
    COUNTS,
    ELDERS,
    ENDS,
    EVENTS,
    PARTS,
    REFUSALS,
    RUN,
    STATE,
    TABLES,
    HistoryState,
    as_kept,
    halves,
)

__all__ = [
    "NO_ELDERS",
    "begin_run",
    "forget",
    "is_new_batch",
    "replaced",
    "write_elders",
    "write_ends",
    "write_events",
    "write_refused",
]

#: Refused publications that are kept to be looked at, the newest. All are counted.
REFUSED = 10_000


# --- in the driver's words ------------------------------------------------------------------------------------------


class _Worded(NamedTuple):
    """SQL statements in a driver's own form, with values in the order of the columns."""

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
    """Insert rows without SQLAlchemy's processing of each value."""
    if rows:
        run(connection, _words_for(connection).inserts[table.name], rows if len(rows) > 1 else rows[0])


# --- rows -----------------------------------------------------------------------------------------------------------


def replaced(connection: Connection, mark: int, state: HistoryState) -> bool:
    """Write the state in place of the one with that mark; False if the table has another mark."""
    return run(connection, _words_for(connection).replace, (*state, mark)) == 1


def write_events(connection: Connection, first: Iterable[BegunEvent]) -> None:
    """Write the beginnings of events."""
    _insert(
        connection,
        EVENTS,
        [
            (seq, (number := key(id)) % PARTS, number, as_kept(id), as_kept(source), phase, time, start, end, body)
            for seq, id, source, phase, time, start, end, body in first
        ],
    )


def write_ends(connection: Connection, ended: Iterable[EndedEvent]) -> None:
    """Write the ends of events."""
    _insert(connection, ENDS, [(e.seq, e.first, e.time, e.end, e.body) for e in ended])


def write_refused(connection: Connection, refused: Sequence[RefusedEvent], upto: int) -> None:
    """Write the refused publications, the last of which gets the number ``upto``, and count them by reason."""
    newest = refused[-REFUSED:]
    numbered = enumerate(newest, upto - len(newest) + 1)
    _insert(connection, REFUSALS, [(n, r.reason, as_kept(r.id), r.phase, r.time, r.body) for n, r in numbered])
    connection.execute(_OLD_REFUSALS, {"upto": upto - REFUSED})
    for reason, count in sorted(Counter(r.reason for r in refused).items()):
        if not connection.execute(_COUNT_MORE, {"which": reason, "more": count}).rowcount:
            connection.execute(COUNTS.insert(), {"reason": reason, "count": count})


_OLD_REFUSALS = delete(REFUSALS).where(REFUSALS.c.number <= bindparam("upto"))
_COUNT_MORE = (
    update(COUNTS).where(COUNTS.c.reason == bindparam("which")).values(count=COUNTS.c.count + bindparam("more"))
)


def begin_run(connection: Connection, query: str) -> None:
    """Note that a run of this query writes the history from now on."""
    connection.execute(RUN.insert(), {"one": 1, "query": query, "batch": -1})


def is_new_batch(connection: Connection, batch: int) -> bool:
    """Note that the run has written a batch; False if it had written that one, or a later one, already."""
    return connection.execute(_NEXT_BATCH, {"given": batch}).rowcount == 1


_NEXT_BATCH = update(RUN).where(RUN.c.batch < bindparam("given")).values(batch=bindparam("given"))


def write_elders(connection: Connection, rows: Iterable[tuple[bytes, int, int, int]], after: int) -> None:
    """Write events that leave memory: key, start, end and last number of each. ``after`` is how many left before."""
    counted = enumerate(rows, after + 1)
    _insert(connection, ELDERS, [(*halves(k), end, i, start, number) for i, (k, start, end, number) in counted])


def forget(connection: Connection, upto: int) -> int:
    """Forget the ended events whose last number is at most ``upto``, in memory or not; return how many that were."""
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
#: Deletes all events that have left memory.
NO_ELDERS = delete(ELDERS)
