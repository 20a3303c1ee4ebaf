"""Sessions: what a broker keeps of each principal that subscribes, and its connections. No sockets, a passed clock.

A gateway (a process that accepts connections) has one ``Sessions``; several may share a data directory. It asks
``connect`` for a ``Connection``, calls ``tick`` at least twice a second, and does with each connection that ``tick``
returns what there is to do: greet it, send what it takes, close it. Who is registered is for ``RegisteredSessions``;
this module knows who is connected and what they acknowledge. ``session_states.py`` has all transitions.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from tidegate.broker.connections import Connection, Shared, TakenTogether, taken_together
from tidegate.broker.delivered_items import QueuePosition
from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.presence import SessionPresence, presences
from tidegate.broker.registered_sessions import RegisteredSessions, Registrations, whose
from tidegate.broker.session_states import SESSIONS, ConnectionEvent, ConnectionState, SessionEvent, SessionState, after
from tidegate.closing import Closing
from tidegate.errors import SessionError, shown
from tidegate.runs.config import load
from tidegate.store.queue_directory import Queue
from tidegate.store.registrations import Registration
from tidegate.store.registry import Registry
from tidegate.store.session_records import ConnectionRecord, SessionRecord
from tidegate.store.version_readers import now

__all__ = ["KEEP", "Sessions", "open_sessions"]

#: A session ends when nobody has seen its principal for so long.
KEEP = timedelta(days=30)
#: Microseconds after which acknowledgements are durable, a gateway beats, and what has ended is looked for.
_FLUSH, _BEAT, _TIDY = 400_000, 2_000_000, 60_000_000
#: So many acknowledgements are durable at once.
_MOST_WAITING = 10_000
#: A principal that was noted as seen is not noted again within so many microseconds.
_SEEN = 3_600_000_000


class Sessions(Closing):
    """The sessions of a broker, as one of its processes has them. Threads may share it.

    ``clock`` tells microseconds since 1970. ``queues`` and ``registrations`` are not closed with it.
    """

    def __init__(
        self,
        queues: OpenQueues,
        registrations: Registrations,
        *,
        keep: timedelta = KEEP,
        clock: Callable[[], int] = now,
    ) -> None:
        self._queues, self._records = queues, queues.records
        self._registered = RegisteredSessions(queues, registrations, clock, self._is_connected_here, self._heard)
        self._clock, self._keep = clock, keep // timedelta(microseconds=1)
        self.gateway = secrets.token_hex(8)
        """What tells this process from the others on the directory."""
        #: Held for a moment, over what is in memory; and while the file is written.
        self._lock, self._writing = threading.RLock(), threading.Lock()
        self._connections: dict[str, Connection] = {}
        self._changed: dict[str, Connection] = {}
        #: Connections that have no queue yet; those of each queue by its number; those that may have something to take.
        self._waiting: dict[str, Connection] = {}
        self._of_queue: dict[int, dict[str, Connection]] = {}
        self._behind: dict[str, Connection] = {}
        self._known_changes = -1
        self._numbers: dict[Queue, int] = {}
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._seen: dict[str, int] = {}
        self._unnoted: set[str] = set()
        self._flushed_at = self._beat_at = self._tidied_at = 0
        self._shared = Shared(queues, self._lock, self._note_number, self.acknowledged, self._closed)
        self._registered.follow()

    # --- registered or not ------------------------------------------------------------------------------------------

    def state(self, principal: str) -> SessionState:
        """How the session of a principal stands, in all processes."""
        self._registered.follow()
        return self._registered.state(principal)

    def register(self, principal: str) -> int:
        """Register a principal, which may be registered; return the version of the registry since which it is.

        Its first subscription registers it as well, and its first read should.
        """
        return self._registered.register(principal)

    def unregister(self, principal: str) -> None:
        """End a session: its subscriptions, queues and connections. A later one of the principal begins anew."""
        self._registered.unregister(principal)

    def expire(self) -> list[str]:
        """End the sessions of principals whom nobody has seen for too long, and return their names: without a
        connection, without a token in use, and without acknowledging anything in another way.
        """
        self.flush()
        return self._registered.expire(self._keep)

    def _is_connected_here(self, principal: str) -> bool:
        with self._lock:
            return any(one.principal == principal for one in self._connections.values())

    def _heard(self, said: list[Registration], is_all: bool) -> None:
        """Close the connections of this process whose registration has ended, by what the registry says: all of it, or
        only what is new.
        """
        until = {one.principal: one.version for one in said if not one.is_registered}
        living = {one.version for one in said if one.is_registered} if is_all else None
        with self._lock:
            gone = [
                one
                for one in self._connections.values()
                if until.get(one.principal, -1) > one.registration
                or (living is not None and one.registration not in living)
            ]
        for connection in gone:
            connection.close(ConnectionEvent.UNREGISTERED)

    # --- connections ------------------------------------------------------------------------------------------------

    def connect(
        self,
        principal: str,
        *,
        after: int | str | None = None,
        destination: str = "stream",
        read: str | None = None,
    ) -> Connection:
        """Connect a principal that is registered to one of its queues. It goes on behind ``after``, a number or
        "epoch-number", or else behind what is acknowledged. Until the runner has made the queue, it waits. With a
        ``read`` it is told something only while that is what its principal may read.
        """
        position = None if after is None else QueuePosition.parsed(str(after))
        registration = self._expect(principal, SessionEvent.CONNECT).registration
        record = ConnectionRecord(secrets.token_hex(8), self.gateway, principal, destination, self._clock())
        connection = Connection(record, registration, position, self._shared, read)
        with self._lock:
            self._connections[record.connection] = self._waiting[record.connection] = connection
            self._begun.add(record.connection)
        try:
            self.seen(principal)
            self._begin(connection)
            if self._registered.registration(principal) != registration:  # it was unregistered meanwhile
                connection.close(ConnectionEvent.UNREGISTERED)
        except BaseException:
            connection.close()
            raise
        return connection

    def _expect(self, principal: str, event: SessionEvent) -> SessionRecord:
        """The session of a principal, in which the event is right; with the queues as they are now."""
        self._registered.follow()
        self._queues.refresh()
        session = self._records.session(principal)
        if session is None:  # otherwise all that is asked for is right
            after(SESSIONS, self._registered.state(principal), event, whose(principal))
        assert session is not None
        return session

    def _begin(self, connection: Connection) -> bool:
        """Give a connection that waits its queue, if there is one by now that is of its session."""
        queue = self._queue(connection.principal, connection.record.destination, connection.registration)
        if queue is None:
            return False
        acknowledged = self.acknowledged(queue)
        with self._lock:
            if connection.state is not ConnectionState.WAITING:
                return False
            connection.begin(queue, acknowledged)
            number = connection.record.connection
            self._waiting.pop(number, None)
            self._of_queue.setdefault(queue.number, {})[number] = connection
            self._changed[number] = self._behind[number] = connection
        return True

    def _queue(self, principal: str, destination: str, registration: int) -> Queue | None:
        """A queue of a session. Until the runner has taken up its registration, there may be that of an earlier one."""
        if self._queues.version < registration:  # asked before the queue is looked for: neither goes back
            return None
        return self._queues.find(principal, destination)

    def _closed(self, connection: Connection) -> None:
        number = connection.record.connection
        with self._lock:
            if self._connections.pop(number, None) is not None:
                self._waiting.pop(number, None)
                self._behind.pop(number, None)
                self._leave_queue(connection)
                self._changed[number] = connection
                self._begun.discard(number)
                self._ended.add(number)
                self._unnoted.add(connection.principal)

    def _leave_queue(self, connection: Connection) -> None:
        queue = connection.queue
        if queue is not None:
            others = self._of_queue.get(queue.number, {})
            others.pop(connection.record.connection, None)
            if not others:
                self._of_queue.pop(queue.number, None)

    def seen(self, principal: str) -> None:
        """Note that a token of a principal was used: its session is kept so much longer."""
        moment = self._clock()
        with self._lock:
            if abs(moment - self._seen.get(principal, 0)) >= _SEEN:
                self._seen[principal] = moment
                self._unnoted.add(principal)

    def queue(self, principal: str, destination: str = "stream") -> Queue | None:
        """A queue of a principal that has a session; None as long as the runner has not made it."""
        self._registered.follow()
        self._queues.refresh()
        session = self._records.session(principal)
        return None if session is None else self._queue(principal, destination, session.registration)

    # --- acknowledging ----------------------------------------------------------------------------------------------

    def acknowledge(self, principal: str, upto: int | str, *, destination: str = "stream") -> None:
        """Acknowledge deliveries of a principal up to ``upto``, a number or "epoch-number", without a connection.

        Beyond the end, or of another epoch, it is refused; going back has no effect. Durable with the next flush.
        """
        position = QueuePosition.parsed(str(upto))
        session = self._expect(principal, SessionEvent.ACKNOWLEDGE)
        queue = self._queue(principal, destination, session.registration)
        if queue is None:
            raise SessionError("a session with that queue", "none that the runner has made", whose(principal))
        if position.epoch not in (None, queue.epoch):
            raise SessionError(f"the epoch {queue.epoch}", shown(position.epoch), whose(principal))
        self.seen(principal)
        self._note_number(queue, position.number)

    def acknowledged(self, queue: Queue) -> int:
        """The number up to which a queue is acknowledged, durably or with the next flush."""
        durable = self._queues.acknowledged(queue)
        with self._lock:
            return max(durable, self._numbers.get(queue, 0))

    def _note_number(self, queue: Queue, number: int) -> None:
        self._queues.check(queue, number)
        with self._lock:
            if not self._numbers:
                self._flushed_at = self._clock()
            self._numbers[queue] = max(number, self._numbers.get(queue, 0))
            is_much = len(self._numbers) >= _MOST_WAITING
        if is_much:
            self.flush()

    def flush(self) -> None:
        """Make what was acknowledged durable, and say who is there, all in one commit. If it cannot be written, the
        next flush writes it.
        """
        with self._writing:
            moment = self._clock()
            with self._lock:
                numbers = {queue: number for queue, number in self._numbers.items() if queue in self._queues}
                noted = dict(self._numbers)
                records = [one.record for one in self._connections.values()]
                begun = [one for one in records if one.connection in self._begun]
                ended, seen = list(self._ended), set(self._unnoted)
            self._queues.write(
                numbers,
                lambda connection: self._records.beat(
                    connection, self.gateway, moment, all_open=records, begun=begun, ended=ended, seen=seen
                ),
            )
            with self._lock:
                for queue, number in noted.items():
                    if self._numbers[queue] == number:
                        del self._numbers[queue]
                self._begun.difference_update(one.connection for one in begun)
                self._ended.difference_update(ended)
                self._unnoted -= seen
                self._flushed_at = self._beat_at = moment

    # --- as time passes ---------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Wait until the runner commits something that ``tick`` has not seen, or so long."""
        self._queues.await_commit(seconds)

    def interrupt(self) -> None:
        """End the ``wait`` of another thread."""
        self._queues.interrupt()

    def pages(self, connections: Sequence[Connection], limit: int, most_bytes: int) -> TakenTogether:
        """What connections have to take, read for all of them at once: see ``taken_together``."""
        return taken_together(self._queues, connections, limit, most_bytes)

    def tick(self) -> list[Connection]:
        """Do what is due, and return the connections with which there is something to do: those that have begun, have
        something to take, or were closed. To be called whenever ``wait`` returns, and at least twice a second.
        """
        self._queues.refresh()
        self._registered.follow()
        self._follow_queues()
        moment = self._clock()
        if self._is_due(moment, self._tidied_at, _TIDY):
            self._tidied_at = moment
            self._tidy()
        waits = self._numbers or self._begun or self._ended
        if (waits and self._is_due(moment, self._flushed_at, _FLUSH)) or self._is_due(moment, self._beat_at, _BEAT):
            self.flush()
        with self._lock:
            changed, self._changed = self._changed, {}
            self._behind = {number: one for number, one in self._behind.items() if one.is_behind}
            return list((changed | self._behind).values())

    def _follow_queues(self) -> None:
        """Begin connections whose queue is there by now, close those whose queue is not there any more, and note which
        have something to take. Looks only at those of queues in which something has happened.
        """
        with self._lock:
            waiting = list(self._waiting.values())
        for connection in waiting:
            self._begin(connection)
        changes = self._queues.changes
        if changes != self._known_changes:
            self._known_changes = changes
            with self._lock:
                gone = [one for one in self._connections.values() if one.queue and one.queue not in self._queues]
            for connection in gone:
                connection.close(ConnectionEvent.REPLACED)
        grown = self._queues.grown()
        with self._lock:
            numbers = self._of_queue if grown is None else self._of_queue.keys() & grown.tolist()
            for number in numbers:
                self._behind |= self._of_queue[number]

    @staticmethod
    def _is_due(moment: int, since: int, interval: int) -> bool:
        """Also when the clock was set back."""
        return abs(moment - since) >= interval

    def _tidy(self) -> None:
        """End the sessions that expire, and forget what belongs to queues that have ended."""
        with self._lock:
            moment = self._clock()
            self._seen = {name: at for name, at in self._seen.items() if abs(moment - at) < _SEEN}
        self.expire()
        self._queues.forget_ended()

    # --- who is there -----------------------------------------------------------------------------------------------

    def presence(self, *, after: str = "", limit: int = 100) -> list[SessionPresence]:
        """Sessions by name, those behind ``after``: who is connected since when, and how far behind."""
        self._registered.follow()
        if self._begun or self._ended:
            self.flush()
        return presences(self._queues, self._clock(), after=after, limit=limit)

    def elsewhere(self, principal: str) -> int:
        """How many connections a principal has to other processes, as these have said."""
        found = self._records.connections(self._clock(), [principal])
        return sum(one.gateway != self.gateway for one in found)

    def present(self, principal: str) -> SessionPresence:
        """How the session of one principal stands."""
        self._registered.follow()
        if self._begun or self._ended:
            self.flush()
        for found in presences(self._queues, self._clock(), names=[principal]):
            return found
        raise SessionError("a principal with a session", shown(principal))

    def close(self) -> None:
        """Close all connections, and write what was not written yet."""
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        if self._numbers or self._ended or self._unnoted:
            self.flush()
        if self._beat_at:
            self._queues.write({}, lambda connection: self._records.leave(connection, self.gateway))


@contextmanager
def open_sessions(place: str | os.PathLike[str]) -> Iterator[Sessions]:
    """The sessions of a run that has queues, named by its TOML file or its data directory."""
    with OpenQueues(place) as queues:
        subscriptions = load(Path(place)).subscriptions
        with (
            Registry(subscriptions.registry, storage=subscriptions.storage, create=False) as registry,
            Sessions(queues, registry) as sessions,
        ):
            yield sessions
