"""The history of events in a database: what an engine with ``past`` subscriptions remembers beyond its own life.

Each publication that was remembered has a number of its own, its *seq*. Both tables of publications only ever get new
rows at their end, until old events are forgotten as a whole. One engine writes at a time; anybody may look. Knows
nothing of subscriptions, and not what the publications mean.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Index,
    MetaData,
    Select,
    Table,
    delete,
    func,
    literal,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from tidegate.errors import SettingError, StoreError, shown
from tidegate.model import NAME_LENGTH, moment
from tidegate.remembering import Ended, First, Refused
from tidegate.store.address import address
from tidegate.store.database import NUMBER, OPTIONS, Database, key, words
from tidegate.store.forking import watch
from tidegate.store.lease import Lease, Taken
from tidegate.store.readers import check_number
from tidegate.store.schema import Part

__all__ = ["Ended", "Event", "First", "Heard", "History", "Refused"]

T = TypeVar("T")

#: Refused publications that are kept to be looked at, the newest. All are counted.
REFUSED = 10_000
#: Seconds within which a server that has gone away may come back, and those before we look for the first time.
_PATIENCE, _FIRST_LOOK = 10.0, 0.05
#: Seconds after which we look whether the lock is still ours: it goes unnoticed with a connection.
_SURE = 1.0
#: Parts of the index of ids. New ids are put at the end of a part, so that writing touches few pages of the index
#: however random the ids are; whoever looks for one id reads one part.
_PARTS = 64
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

TABLES = MetaData()
#: One row. ``mark`` is another after each change: whoever finds an unknown one knows that another has written.
_STATE = Table(
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
_EVENTS = Table(
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
_ENDS = Table(
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
_REFUSED = Table(
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
_COUNTS = Table(
    "tidegate_refused_counts",
    TABLES,
    Column("reason", words(64), primary_key=True),
    Column("count", NUMBER, nullable=False),
    **OPTIONS,
)
#: Times of events that have left an engine's memory, and the last of their numbers, by the filter that remembered them:
#: a key in two halves.
_ELDERS = Table(
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
    if not connection.scalar(select(func.count()).select_from(_STATE)):
        first = {"one": 1, "identity": _number(), "mark": _number(), "last": 0, "refused": 0, "elders": 0}
        connection.execute(_STATE.insert(), first)


_PART = Part("history", (_create,))


class Heard(NamedTuple):
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


class _State(NamedTuple):
    """The one row of the history as this process knows it."""

    identity: int
    mark: int
    last: int
    refused: int
    elders: int


class History:
    """Events in a database, remembered by one engine at a time.

    ``url`` is the path of an SQLite file, which is made if need be, or the URL of a PostgreSQL, MariaDB or Oracle
    database; Oracle is untested. The rest is for the engine: ``keep``, how long after its last publication an event is
    remembered; ``most``, how many publications back; ``memory``, how many ended events each inner filter has in memory
    rather than in the database.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        keep: timedelta | None = None,
        most: int | None = None,
        memory: int | None = None,
    ) -> None:
        if keep is not None and (not isinstance(keep, timedelta) or keep <= timedelta()):
            raise SettingError("a positive timedelta as keep, or None", shown(keep))
        for name, number in (("most", most), ("memory", memory)):
            if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
                raise SettingError(f"a positive number as {name}, or None", shown(number))
        self.keep, self.most, self.memory = keep, most, memory
        self._connect(url)
        self._database.open()

    def _connect(self, url: str | os.PathLike[str]) -> None:
        self._database = Database(address(url, oracle=True), _PART.prepare)
        self._lease = Lease(self._database, "history")
        self._writing = threading.RLock()
        #: None as long as we have not claimed it.
        self._state: _State | None = None
        self._sure_until = 0.0
        #: Marks of our own changes of which we do not know whether they were committed.
        self._doubtful: set[int] = set()
        watch(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "url": self._database.url.render_as_string(hide_password=False),
            "keep": self.keep,
            "most": self.most,
            "memory": self.memory,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.keep, self.most, self.memory = state["keep"], state["most"], state["memory"]
        self._connect(state["url"])

    def __repr__(self) -> str:
        return f"History({self.url!r})"

    @property
    def url(self) -> str:
        """The address of the database, without its password."""
        return str(self._database)

    # --- what the engine writes -------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Be the one that writes, until ``close``; an error if another is. Whoever writes or replays claims first."""
        with self._writing:
            if self._state is None:
                state = self._steady(self._read_state)
                self._steady_call(lambda: self._lease.take(state.identity))
                self._state = self._steady(self._read_state)
                self._sure_until = time.monotonic() + _SURE
            elif time.monotonic() > self._sure_until:
                self._steady_call(self._reclaim)

    def remember(self, first: Sequence[First], ended: Sequence[Ended], refused: Sequence[Refused]) -> None:
        """Write down what was heard: all of it or nothing, and for good once this returns.

        Numbers rise from call to call. What has a number that is not above ``last`` was written by an earlier call
        that seemed to fail, and is not written again.
        """
        if not first and not ended and not refused:
            return
        highest = max([f.seq for f in first] + [e.seq for e in ended], default=0)

        def change(state: _State) -> _State:
            is_repeated = 0 < highest <= state.last
            return state._replace(
                last=max(state.last, highest), refused=state.refused + (0 if is_repeated else len(refused))
            )

        def work(connection: Connection, before: _State, after: _State) -> None:
            new, ends = first, ended
            if before.last and any(f.seq <= before.last for f in first):
                self._check_repeated(connection, [f for f in first if f.seq <= before.last])
                new = [f for f in first if f.seq > before.last]
            if before.last and any(e.seq <= before.last for e in ended):
                ends = [e for e in ended if e.seq > before.last]
            _insert(connection, _EVENTS, [_event_row(f) for f in new])
            _insert(connection, _ENDS, [(e.seq, e.first, _kept(e.source), e.time, e.end, e.body) for e in ends])
            if after.refused > before.refused:
                _write_refused(connection, refused, after.refused)

        self._write(change, work)

    def _check_repeated(self, connection: Connection, given: Sequence[First]) -> None:
        ids = {f.seq: f.id for f in given}
        some = select(_EVENTS.c.seq, _EVENTS.c.id).where(_EVENTS.c.seq >= min(ids), _EVENTS.c.seq <= max(ids))
        for seq, kept in connection.execute(some):
            if (id := _given(kept)) != ids.get(seq, id):
                raise StoreError(f"event {shown(id)} as number {seq}, as before", shown(ids[seq]), self.url)

    def forget(self, upto: int) -> int:
        """Forget the events that have ended and whose last number is at most ``upto``; how many that were.

        Those that have left memory are forgotten too.
        """
        check_number(upto, "a number of a publication")

        def work(connection: Connection, before: _State, after: _State) -> int:
            ended = select(_ENDS.c.first).where(_ENDS.c.seq <= upto)
            gone = connection.execute(
                delete(_EVENTS).where(
                    _EVENTS.c.seq <= upto, or_(_EVENTS.c.end_at.is_not(None), _EVENTS.c.seq.in_(ended))
                )
            ).rowcount
            connection.execute(delete(_ENDS).where(_ENDS.c.seq <= upto))
            connection.execute(delete(_ELDERS).where(_ELDERS.c.number <= upto))
            return gone

        return self._write(lambda state: state, work)

    # --- what the engine reads --------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The largest number so far, also of what is forgotten."""
        state = None if self._doubtful else self._state
        return self._steady(self._read_state).last if state is None else state.last

    def replay(self, size: int = 50_000) -> Iterator[list[Heard]]:
        """All publications that are remembered, in order of their numbers, in lists of at most ``size``."""
        check_number(size, "a size")
        if not size:
            raise SettingError("a positive size", "0")
        self.claim()
        return self._replayed(size)

    def _replayed(self, size: int) -> Iterator[list[Heard]]:
        waiting: list[list[Heard]] = [[], []]
        reached, is_over = [0, 0], [False, False]
        while True:
            for i, heard in enumerate((_firsts, _ends)):
                if not waiting[i] and not is_over[i]:
                    waiting[i] = self._steady(partial(_heard, heard(reached[i]).limit(size)))
                    is_over[i] = len(waiting[i]) < size
                    if waiting[i]:
                        reached[i] = waiting[i][-1].seq
            if not waiting[0] and not waiting[1]:
                return
            if waiting[0] and waiting[1]:
                both = sorted(waiting[0] + waiting[1])
                upto = min([both[-1].seq, *(reached[i] for i in (0, 1) if not is_over[i])])
                some = [heard for heard in both if heard.seq <= upto]
                waiting = [[heard for heard in part if heard.seq > upto] for part in waiting]
            else:
                some = waiting[0] or waiting[1]
                waiting = [[], []]
            for at in range(0, len(some), size):
                yield some[at : at + size]

    # --- what has left the engine's memory --------------------------------------------------------------------------

    def retire(self, rows: Sequence[tuple[bytes, int, int, int]]) -> None:
        """Write down events that leave memory: the key of what remembered it, start, end and last number of each."""
        if not rows:
            return

        def work(connection: Connection, before: _State, after: _State) -> None:
            counted = enumerate(rows, before.elders + 1)
            _insert(
                connection, _ELDERS, [(*_halves(k), end, i, start, number) for i, (k, start, end, number) in counted]
            )

        self._write(lambda state: state._replace(elders=state.elders + len(rows)), work)

    def has_elder(self, key: bytes, start: tuple[int, int], end: tuple[int, int], after: int = 0) -> bool:
        """Whether an event of that key has left memory, of a number above ``after``, with start and end in the ranges.

        Their bounds are included.
        """
        one, two = _halves(key)
        statement = select(_ELDERS.c.serial).where(_ELDERS.c.key1 == one, _ELDERS.c.key2 == two)
        for column, (low, high) in ((_ELDERS.c.end_at, end), (_ELDERS.c.start_at, start)):
            if low > _SMALLEST:  # a bound that is none would only mislead the choice of an index
                statement = statement.where(column >= min(low, _LARGEST))
            if high < _LARGEST:
                statement = statement.where(column <= max(high, _SMALLEST))
        statement = statement.where(_ELDERS.c.number > after).limit(1)
        return self._steady(lambda connection: connection.execute(statement).first()) is not None

    def clear_elders(self) -> None:
        """Forget all that has left memory."""
        self._write(lambda state: state, lambda connection, before, after: connection.execute(delete(_ELDERS)))

    # --- for people -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many events are remembered."""
        return int(self._steady(lambda c: c.execute(select(func.count()).select_from(_EVENTS)).scalar_one()))

    def event(self, id: str) -> Event | None:
        """The event of that id, the newest if there are several; None if it is not remembered."""
        if not isinstance(id, str):
            raise SettingError("the id of an event", shown(id))
        try:
            number = key(id)
        except UnicodeEncodeError:
            return None
        mine = _listing().where(_EVENTS.c.id_part == number % _PARTS, _EVENTS.c.id_key == number)
        rows = self._steady(lambda connection: connection.execute(mine.order_by(_EVENTS.c.seq.desc())).all())
        return next((event for event in map(_event, rows) if event.id == id), None)

    def events(self, limit: int = 100, *, before: int | None = None, running: bool = False) -> list[Event]:
        """The newest events first: those whose number is below ``before``, and only those that are running."""
        check_number(limit, "a limit")
        some = _listing().order_by(_EVENTS.c.seq.desc()).limit(limit)
        if before is not None:
            check_number(before, "a number of a publication")
            some = some.where(_EVENTS.c.seq < before)
        if running:
            some = some.where(_EVENTS.c.end_at.is_(None), _ENDS.c.seq.is_(None))
        return [_event(row) for row in self._steady(lambda connection: connection.execute(some).all())]

    def refused(self, limit: int = 100) -> list[Refused]:
        """What was refused last, the newest first; the last 10,000 are kept."""
        check_number(limit, "a limit")
        fields = [_REFUSED.c[name] for name in Refused._fields]
        newest = select(*fields).order_by(_REFUSED.c.number.desc()).limit(limit)
        rows = self._steady(lambda connection: connection.execute(newest).all())
        return [Refused(reason, _given(id), phase, time, body) for reason, id, phase, time, body in rows]

    def refused_counts(self) -> dict[str, int]:
        """How many publications were refused ever, by reason."""
        counts = select(_COUNTS.c.reason, _COUNTS.c.count).order_by(_COUNTS.c.reason)
        rows = self._steady(lambda connection: connection.execute(counts).all())
        return {reason: int(count) for reason, count in rows}

    # --- transactions -----------------------------------------------------------------------------------------------

    def _write(self, change: Callable[[_State], _State], work: Callable[[Connection, _State, _State], T]) -> T:
        """Do the work in one transaction, once, even if the answer of the server gets lost on the way.

        Each transaction puts a new mark of its own in the place of the one that is known. If it finds its own mark it
        was committed by an earlier attempt; if it finds one that is not ours, another has written.
        """
        with self._writing:
            self.claim()
            mark = _number()
            found: list[tuple[_State, T]] = []

            def fenced(connection: Connection) -> None:
                assert self._state is not None
                before = self._state
                while True:
                    after = change(before)._replace(mark=mark)
                    if _replaced(connection, before.mark, after):
                        break
                    there = self._read_state(connection)
                    if there.mark == mark and found:
                        return
                    if there.mark not in self._doubtful:
                        raise StoreError(
                            "a history that nobody else writes to", "one that another engine has written to", self.url
                        )
                    before = there
                found[:] = [(after, work(connection, before, after))]

            self._doubtful.add(mark)
            self._steady_call(lambda: self._database.write(fenced), self._reclaim)
            self._state, outcome = found[0]
            self._doubtful.clear()
            return outcome

    def _reclaim(self) -> None:
        """Take the lock again that went with a lost connection, unless another was faster."""
        assert self._state is not None
        self._lease.take(self._state.identity)
        self._sure_until = time.monotonic() + _SURE

    def _steady(self, read: Callable[[Connection], T]) -> T:
        def call() -> T:
            with self._database.read() as connection:
                return read(connection)

        return self._steady_call(call)

    def _steady_call(self, call: Callable[[], T], before_again: Callable[[], None] = lambda: None) -> T:
        """The outcome of the call, made again for a while if the server has gone away."""
        deadline, pause, is_again = time.monotonic() + _PATIENCE, _FIRST_LOOK, False
        while True:
            try:
                if is_again:
                    before_again()
                return call()
            except StoreError as error:
                may_pass = _is_lost(error) or (is_again and isinstance(error, Taken))  # by what is left of ourselves
                if not may_pass or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause, is_again = min(2 * pause, 1.0), True

    def _read_state(self, connection: Connection) -> _State:
        row = connection.execute(select(*(_STATE.c[name] for name in _State._fields))).first()
        if row is None:
            raise StoreError("a history", "one whose table tidegate_history is empty", self.url)
        return _State(*row)

    # --- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let others write, and close the connections; they are opened again if the history is used again."""
        with self._writing:
            self._state = None
            self._doubtful.clear()
            self._lease.release()
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def before_fork(self) -> None:
        """Nothing: the parent goes on."""
        return

    def after_fork(self, is_child: bool) -> None:
        """A child has claimed nothing, and nobody in it is writing."""
        if is_child:
            self._writing = threading.RLock()
            self._state = None
            self._doubtful = set()


# --- rows -----------------------------------------------------------------------------------------------------------


def _number() -> int:
    return secrets.randbits(63)


def _insert(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows, whose values are in the order of the columns, without a look at each value on the way."""
    if rows:
        marker = {"sqlite": "?", "oracle": ":{}"}.get(connection.dialect.name, "%s")
        quote = connection.dialect.identifier_preparer.quote
        names = ", ".join(quote(column.name) for column in table.c)
        values = ", ".join(marker.format(i) for i in range(1, len(table.c) + 1))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({values})", list(rows))


def _replaced(connection: Connection, mark: int, state: _State) -> bool:
    """Write the state in the place of the one with that mark; False if there is another."""
    replace = update(_STATE).where(_STATE.c.one == 1, _STATE.c.mark == mark).values(**state._asdict())
    return connection.execute(replace).rowcount == 1


def _event_row(f: First) -> tuple[Any, ...]:
    number = key(f.id)
    return f.seq, number % _PARTS, number, _kept(f.id), _kept(f.source), f.phase, f.time, f.start, f.end, f.body


def _write_refused(connection: Connection, refused: Sequence[Refused], upto: int) -> None:
    """Write those refused, of which the last has the number ``upto``."""
    newest = refused[-REFUSED:]
    numbered = enumerate(newest, upto - len(newest) + 1)
    _insert(connection, _REFUSED, [(n, r.reason, _kept(r.id), r.phase, r.time, r.body) for n, r in numbered])
    connection.execute(delete(_REFUSED).where(_REFUSED.c.number <= upto - REFUSED))
    for reason, count in sorted(Counter(r.reason for r in refused).items()):
        more = update(_COUNTS).where(_COUNTS.c.reason == reason).values(count=_COUNTS.c.count + count)
        if not connection.execute(more).rowcount:
            connection.execute(_COUNTS.insert(), {"reason": reason, "count": count})


def _firsts(after: int) -> Select[Any]:
    e = _EVENTS.c
    fields = e.seq, e.seq.label("first"), e.id, e.source, e.phase, e.time, e.start_at, e.end_at, e.body
    return select(*fields).where(e.seq > after).order_by(e.seq)


def _ends(after: int) -> Select[Any]:
    e, x = _EVENTS.c, _ENDS.c
    fields = x.seq, x.first, e.id, x.source, literal("END"), x.time, null(), x.end_at, x.body
    return select(*fields).join_from(_ENDS, _EVENTS, e.seq == x.first).where(x.seq > after).order_by(x.seq)


def _heard(statement: Select[Any], connection: Connection) -> list[Heard]:
    return [
        Heard(seq, first, _given(id), _given(source), phase, time, start, end, body)
        for seq, first, id, source, phase, time, start, end, body in connection.execute(statement).all()
    ]


def _listing() -> Select[Any]:
    ends = (
        _ENDS.c.seq.label("end_seq"),
        _ENDS.c.source.label("end_source"),
        _ENDS.c.time.label("end_time"),
        _ENDS.c.end_at.label("known_end"),
        _ENDS.c.body.label("end_body"),
    )
    return select(*_EVENTS.c, *ends).outerjoin_from(_EVENTS, _ENDS, _ENDS.c.first == _EVENTS.c.seq)


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


def _is_lost(error: StoreError) -> bool:
    """Whether a server has gone away, rather than refused something. A file does not."""
    cause = error.__context__
    if not isinstance(cause, DBAPIError) or "sqlite" in type(cause.orig).__module__:
        return False
    said = cause.orig.args[0] if cause.orig is not None and cause.orig.args else None
    return cause.connection_invalidated or cause.statement is None or said == 1053  # MariaDB, on its way out
