"""Sessions in the file of the cursors: who is registered, who was seen when, and which connections there are now.

The registry decides who is registered; ``follow`` notes here what it says, so that a gateway finds a session by one
look. Every process that has connections is a *gateway* here and beats; the connections of one that stopped beating
vanish. ``broker/sessions.py`` decides, this only keeps. Knows nothing of queues but their epochs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Index, MetaData, Table, func, select

from tidegate.errors import StoreError
from tidegate.store.database import NUMBER, OPTIONS, Database, run, words
from tidegate.store.registrations import Registration

__all__ = ["LOST", "ConnectionRecord", "SessionRecord", "SessionRecords", "create"]

#: A gateway whose last beat is so many microseconds away is no more: before or after, as the clock may be set back.
LOST = 10_000_000
#: So much of the time between two beats is counted at most: while no broker runs, nobody can be seen.
_COUNTED = 60_000_000

_TABLES = MetaData()
_SESSIONS = Table(
    "tidegate_sessions",
    _TABLES,
    Column("principal", words(128), primary_key=True),
    Column("registration", NUMBER, nullable=False),
    Column("registered_at", NUMBER, nullable=False),
    Column("check_sum", NUMBER, nullable=False),
    **OPTIONS,
)
_SEEN = Table(
    "tidegate_seen",
    _TABLES,
    Column("principal", words(128), primary_key=True),
    Column("seen_at", NUMBER, nullable=False),
    Column("counted", NUMBER, nullable=False),
    Column("check_sum", NUMBER, nullable=False),
    **OPTIONS,
)
_GATEWAYS = Table(
    "tidegate_gateways",
    _TABLES,
    Column("gateway", words(32), primary_key=True),
    Column("beat_at", NUMBER, nullable=False),
    **OPTIONS,
)
_CONNECTIONS = Table(
    "tidegate_connections",
    _TABLES,
    Column("connection", words(32), primary_key=True),
    Column("gateway", words(32), nullable=False),
    Column("principal", words(128), nullable=False),
    Column("destination", words(), nullable=False),
    Column("since", NUMBER, nullable=False),
    Column("check_sum", NUMBER, nullable=False),
    Index("tidegate_connections_gateway", "gateway"),
    Index("tidegate_connections_principal", "principal"),
    **OPTIONS,
)
#: One row: the version of the registry up to which registrations are noted; the time that was counted, and until when.
_CLOCK = Table(
    "tidegate_session_clock",
    _TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("version", NUMBER, nullable=False),
    Column("counted", NUMBER, nullable=False),
    Column("counted_at", NUMBER, nullable=False),
    Column("check_sum", NUMBER, nullable=False),
    **OPTIONS,
)


#: Those who only publish have no session.
_NOTE_SEEN = (
    "INSERT OR REPLACE INTO tidegate_seen SELECT ?, ?, ?, ? "
    "WHERE EXISTS (SELECT 1 FROM tidegate_sessions WHERE principal = ?)"
)
#: So many sessions expire at once at most.
_MOST = 1000


def create(connection: Connection) -> None:
    """Make the tables."""
    _TABLES.create_all(connection)


class SessionRecord(NamedTuple):
    """A session: the version of the registry that registered it, when that was noted (µs since 1970), and when its
    principal was last seen.
    """

    principal: str
    registration: int
    registered_at: int
    seen_at: int


class ConnectionRecord(NamedTuple):
    """A connection, of whom to which destination, and since when (µs since 1970)."""

    connection: str
    gateway: str
    principal: str
    destination: str
    since: int


class _Clock(NamedTuple):
    version: int
    counted: int
    counted_at: int


class SessionRecords:
    """The records in a database of cursors, which ``Cursors`` opens. Any number of processes may use it at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def exclusive(self) -> AbstractContextManager[None]:
        """While it is held nobody else registers or unregisters. It ends with the process."""
        return self._database.exclusive("sessions")

    # --- who is registered ------------------------------------------------------------------------------------------

    def session(self, principal: str) -> SessionRecord | None:
        """The session of a principal; None if there is none."""
        return next(iter(self.sessions(names=[principal])), None)

    def sessions(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int | None = None
    ) -> list[SessionRecord]:
        """Sessions by the names of their principals: those of ``names``, or from behind a name on."""
        seen = _SEEN.c.seen_at, _SEEN.c.counted, _SEEN.c.check_sum.label("seen_check_sum")
        joined = _SESSIONS.outerjoin(_SEEN, _SEEN.c.principal == _SESSIONS.c.principal)
        wanted = select(_SESSIONS, *seen).select_from(joined).order_by(_SESSIONS.c.principal).limit(limit)
        if names is not None:
            wanted = wanted.where(_SESSIONS.c.principal.in_(names))
        if after:
            wanted = wanted.where(_SESSIONS.c.principal > after)
        with self._database.read() as connection:
            return [self._session(row) for row in connection.execute(wanted)]

    def _session(self, row: Any) -> SessionRecord:
        self._believe(row.check_sum, row.principal, row.registration, row.registered_at)
        if row.seen_check_sum is None:
            raise self._damaged()
        self._believe(row.seen_check_sum, row.principal, row.seen_at, row.counted)
        return SessionRecord(row.principal, row.registration, row.registered_at, row.seen_at)

    @property
    def count(self) -> int:
        """How many sessions there are."""
        with self._database.read() as connection:
            return connection.scalar(select(func.count()).select_from(_SESSIONS)) or 0

    @property
    def version(self) -> int:
        """The version of the registry up to which registrations are noted."""
        with self._database.read() as connection:
            return self._clock(connection).version

    def follow(self, said: Iterable[Registration], version: int, moment: int) -> None:
        """Note what the registry says up to a version, in its order. What was noted before changes nothing."""

        def work(connection: Connection) -> None:
            clock = self._clock(connection)
            for registration in said:
                if clock.version < registration.version <= version:
                    if registration.is_registered:
                        self._add(connection, registration, clock, moment)
                    else:
                        self._remove(connection, registration.principal)
            if version > clock.version:
                self._set_clock(connection, clock._replace(version=version))

        self._database.write(work)

    def follow_anew(self, said: Iterable[Registration], version: int, moment: int) -> None:
        """Note all that the registry says, from its first version on, in place of what is here: some of what happened
        may not be kept any more, or the registry is an older copy.
        """

        def work(connection: Connection) -> None:
            clock = self._clock(connection)
            living = dict[str, Registration]()
            for one in said:
                if one.is_registered:
                    living[one.principal] = one
                else:
                    living.pop(one.principal, None)
            there = select(_SESSIONS.c.principal, _SESSIONS.c.registration)
            known = {row.principal: row.registration for row in connection.execute(there)}
            for principal in known.keys() - living.keys():
                self._remove(connection, principal)
            for principal, one in living.items():
                if known.get(principal) != one.version:
                    self._add(connection, one, clock, moment)
            self._set_clock(connection, clock._replace(version=version))

        self._database.write(work)

    def _add(self, connection: Connection, one: Registration, clock: _Clock, moment: int) -> None:
        facts = one.principal, one.version, moment
        statement = "INSERT OR REPLACE INTO tidegate_sessions VALUES (?, ?, ?, ?)"
        run(connection, statement, (*facts, _check_sum(*facts)))
        self._note_seen(connection, [one.principal], clock, moment)

    def _remove(self, connection: Connection, principal: str) -> None:
        for table in ("tidegate_sessions", "tidegate_seen"):
            run(connection, f"DELETE FROM {table} WHERE principal = ?", (principal,))

    # --- who is there -----------------------------------------------------------------------------------------------

    def beat(
        self,
        connection: Connection,
        gateway: str,
        moment: int,
        *,
        all_open: Sequence[ConnectionRecord],
        begun: Sequence[ConnectionRecord],
        ended: Sequence[str],
        seen: Iterable[str],
    ) -> None:
        """Say, within a transaction, that a gateway is there, with its connections: those that were begun and ended
        since its last beat. If others took it for lost meanwhile, all that are open are noted again.
        """
        before = self._clock(connection)
        passed = min(max(moment - before.counted_at, 0), _COUNTED) if before.counted_at else 0
        clock = _Clock(before.version, before.counted + passed, moment)
        self._set_clock(connection, clock)
        change = "UPDATE tidegate_gateways SET beat_at = ? WHERE gateway = ?"
        if not run(connection, change, (moment, gateway)):
            run(connection, "INSERT INTO tidegate_gateways VALUES (?, ?)", (gateway, moment))
            begun = all_open
        if begun:
            rows = [(*record, _check_sum(*record)) for record in begun]
            run(connection, "INSERT OR REPLACE INTO tidegate_connections VALUES (?, ?, ?, ?, ?, ?)", rows)
        if ended:
            gone = [(record,) for record in ended]
            run(connection, "DELETE FROM tidegate_connections WHERE connection = ?", gone)
        self._note_seen(connection, [*seen, *self._remove_lost(connection, moment)], clock, moment)

    def _remove_lost(self, connection: Connection, moment: int) -> list[str]:
        """Remove gateways that stopped beating, and return the principals of their connections: seen until now, since
        nobody knows better.
        """
        known = connection.execute(select(_GATEWAYS)).all()
        lost = [row.gateway for row in known if abs(row.beat_at - moment) > LOST]
        seen: list[str] = []
        for gateway in lost:
            of = select(_CONNECTIONS.c.principal).where(_CONNECTIONS.c.gateway == gateway).distinct()
            seen += connection.execute(of).scalars()
            self._remove_gateway(connection, gateway)
        return seen

    def leave(self, connection: Connection, gateway: str) -> None:
        """Note, within a transaction, that a gateway and its connections are no more."""
        self._remove_gateway(connection, gateway)

    def _remove_gateway(self, connection: Connection, gateway: str) -> None:
        for table in ("tidegate_connections", "tidegate_gateways"):
            run(connection, f"DELETE FROM {table} WHERE gateway = ?", (gateway,))

    def note_seen(self, connection: Connection, principals: Iterable[str], moment: int) -> None:
        """Note, within a transaction, that principals were seen."""
        self._note_seen(connection, principals, self._clock(connection), moment)

    def _note_seen(self, connection: Connection, principals: Iterable[str], clock: _Clock, moment: int) -> None:
        facts = [(principal, moment, clock.counted) for principal in principals]
        if facts:
            rows = [(*fact, _check_sum(*fact), fact[0]) for fact in facts]
            run(connection, _NOTE_SEEN, rows)

    def connections(self, moment: int, names: Sequence[str] | None = None) -> list[ConnectionRecord]:
        """The connections of gateways that beat, the oldest first."""
        wanted = select(_CONNECTIONS, _GATEWAYS.c.beat_at).join(
            _GATEWAYS, _GATEWAYS.c.gateway == _CONNECTIONS.c.gateway
        )
        wanted = wanted.order_by(_CONNECTIONS.c.since, _CONNECTIONS.c.connection)
        if names is not None:
            wanted = wanted.where(_CONNECTIONS.c.principal.in_(names))
        with self._database.read() as connection:
            rows = [row for row in connection.execute(wanted) if abs(row.beat_at - moment) <= LOST]
        for row in rows:
            self._believe(row.check_sum, *row[:5])
        return [ConnectionRecord(*row[:5]) for row in rows]

    def unseen(self, keep: int, principal: str | None = None) -> list[SessionRecord]:
        """Sessions without a connection, or of them that of one principal, whom nobody has seen for so long: in
        microseconds of the time in which a gateway was there to see them.
        """
        with self._database.read() as connection:
            some = select(_SEEN.c.principal).where(_SEEN.c.counted <= self._clock(connection).counted - keep)
            if principal is not None:
                some = some.where(_SEEN.c.principal == principal)
            there = select(_CONNECTIONS.c.principal)
            found = connection.execute(some.where(_SEEN.c.principal.not_in(there)).limit(_MOST)).scalars().all()
        return self.sessions(names=found) if found else []

    # --- what is believed -------------------------------------------------------------------------------------------

    def _clock(self, connection: Connection) -> _Clock:
        row = connection.execute(select(_CLOCK)).one_or_none()
        if row is None:
            return _Clock(0, 0, 0)
        self._believe(row.check_sum, row.version, row.counted, row.counted_at)
        return _Clock(row.version, row.counted, row.counted_at)

    def _set_clock(self, connection: Connection, clock: _Clock) -> None:
        statement = "INSERT OR REPLACE INTO tidegate_session_clock VALUES (1, ?, ?, ?, ?)"
        run(connection, statement, (*clock, _check_sum(*clock)))

    def _believe(self, check_sum: object, *facts: object) -> None:
        """Refuse a row that is not as it was written."""
        if check_sum != _check_sum(*facts):
            raise self._damaged()

    def _damaged(self) -> StoreError:
        return StoreError("a session as it was written", "another one, by its checksum", str(self._database))


def _check_sum(*facts: object) -> int:
    return zlib.crc32(" ".join(map(str, facts)).encode())
