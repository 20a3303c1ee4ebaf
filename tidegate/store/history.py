"""The history of events in a database: what an engine with ``past`` subscriptions remembers beyond its own life.

``History`` decides who may write and runs the transactions; the statements are in ``history_writes`` and
``history_reads``. Each publication that was remembered has a number of its own, its *seq*. Both tables of publications
only ever get new rows at their end, until old events are forgotten as a whole. One engine writes at a time; any process
may read. Knows nothing of subscriptions, and not what the publications mean.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection

from tidegate.closing import Closing
from tidegate.engine.event_history import BegunEvent, EndedEvent, RefusedEvent
from tidegate.errors import SettingError, StoreError, shown
from tidegate.store import history_reads, history_tables, history_writes
from tidegate.store.database import Database, is_lost
from tidegate.store.database_url import address
from tidegate.store.fork_safety import watch
from tidegate.store.history_tables import Event, HistoryState, ReplayedPublication
from tidegate.store.version_readers import check_number
from tidegate.store.writer_lease import LeaseTaken, WriterLease

__all__ = ["BegunEvent", "EndedEvent", "Event", "History", "RefusedEvent", "ReplayedPublication"]

T = TypeVar("T")

#: Seconds within which a server that has gone away may come back, and seconds before the first new attempt.
_PATIENCE, _FIRST_LOOK = 10.0, 0.05
#: Seconds after which ``claim`` checks that the lease is still ours: a lost connection loses it without any notice.
_SURE = 1.0


class History(Closing):
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
        self._database = Database(address(url, oracle=True), history_tables.PART.prepare)
        self._lease = WriterLease(self._database, "history")
        self._writing = threading.RLock()
        #: None until ``claim`` has taken the lease.
        self._state: HistoryState | None = None
        self._user: object = None
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

    def serves(self, user: object) -> bool:
        """Whether that engine has claimed this history, and it has not been closed since."""
        return self._state is not None and self._user is user

    def release(self, user: object) -> None:
        """End the claim of that engine, so that another engine of this process can claim the history."""
        if self._user is user:
            self._user = None

    def claim(self, user: object = None) -> None:
        """Take the sole right to write, until ``close``; an error if another process or engine has it.

        Every method that writes or replays calls this first. ``user`` is the engine that claims; only one may at a
        time, also within one process.
        """
        with self._writing:
            if user is not None:
                if self._user not in (None, user):
                    raise StoreError("a history that nobody else writes to", "one that an engine has open", self.url)
                self._user = user
            if self._state is None:
                state = self._steady(self._read_state)
                self._steady_call(lambda: self._lease.take(state.identity))
                try:
                    self._steady(self._check_writer)
                    self._state = self._steady(self._read_state)
                except BaseException:
                    self._lease.release()
                    raise
                self._sure_until = time.monotonic() + _SURE
            elif time.monotonic() > self._sure_until:
                self._steady_call(self._reclaim)

    def _check_writer(self, connection: Connection) -> None:
        """Raise if not engines write this history, but a run."""
        if history_reads.run(connection) is not None:
            raise StoreError("a history that engines write", "one that a run writes", self.url)

    def remember(
        self, first: Sequence[BegunEvent], ended: Sequence[EndedEvent], refused: Sequence[RefusedEvent]
    ) -> None:
        """Write publications of events, all of them or none; they are durable once this returns.

        Numbers rise from call to call. A publication whose number is not above ``last`` was written by an earlier call
        that seemed to fail, and is not written again.
        """
        if not first and not ended and not refused:
            return
        numbers = [f[0] for f in first]
        numbers += [e.seq for e in ended]
        lowest, highest = (min(numbers), max(numbers)) if numbers else (0, 0)

        def change(state: HistoryState) -> HistoryState:
            more = 0 if 0 < highest <= state.last else len(refused)
            return HistoryState(
                state.identity, state.mark, max(state.last, highest), state.refused + more, state.elders
            )

        def work(connection: Connection, before: HistoryState, after: HistoryState) -> None:
            new, ends = first, ended
            if before.last and lowest <= before.last:
                self._check_repeated(connection, {f.seq: f.id for f in first if f.seq <= before.last})
                new = [f for f in first if f.seq > before.last]
                ends = [e for e in ended if e.seq > before.last]
            history_writes.write_events(connection, new)
            if ends:
                history_writes.write_ends(connection, ends)
            if after.refused > before.refused:
                history_writes.write_refused(connection, refused, after.refused)

        self._write(change, work)

    def _check_repeated(self, connection: Connection, given: dict[int, str]) -> None:
        for seq, id in history_reads.ids(connection, min(given), max(given)).items() if given else ():
            if id != given.get(seq, id):
                raise StoreError(f"event {shown(id)} as number {seq}, as before", shown(given[seq]), self.url)

    def forget(self, upto: int) -> int:
        """Forget the events that have ended and whose last number is at most ``upto``; return how many that were.

        Events that have left the engine's memory (``retire``) are forgotten too.
        """
        check_number(upto, "a number of a publication")

        return self._write(
            lambda state: state, lambda connection, before, after: history_writes.forget(connection, upto)
        )

    # --- what the engine reads --------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The largest number so far, also of what is forgotten."""
        state = None if self._doubtful else self._state
        return self._steady(self._read_state).last if state is None else state.last

    def replay(self, size: int = 50_000) -> Iterator[list[ReplayedPublication]]:
        """All publications that are remembered, in order of their numbers, in lists of at most ``size``."""
        check_number(size, "a size")
        if not size:
            raise SettingError("a positive size", "0")
        self.claim()
        return self._replayed(size)

    def _replayed(self, size: int) -> Iterator[list[ReplayedPublication]]:
        waiting: list[list[ReplayedPublication]] = [[], []]
        reached, is_over = [0, 0], [False, False]
        while True:
            for i, heard in enumerate((history_reads.firsts, history_reads.ends)):
                if not waiting[i] and not is_over[i]:
                    waiting[i] = self._steady(partial(heard, after=reached[i], limit=size))
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
        """Write down events that leave the engine's memory: key of the inner filter, start, end and last number."""
        if rows:
            self._write(
                lambda state: state._replace(elders=state.elders + len(rows)),
                lambda connection, before, after: history_writes.write_elders(connection, rows, before.elders),
            )

    def has_elder(self, key: bytes, start: tuple[int, int], end: tuple[int, int], after: int = 0) -> bool:
        """Whether an event of that key has left memory, of a number above ``after``, with start and end in the ranges.

        The bounds of both ranges are included.
        """
        return self._steady(lambda connection: history_reads.has_elder(connection, key, start, end, after))

    def named(self, seq: int) -> tuple[str, str] | None:
        """The id and the source of the publication that was remembered under a number; None if there is none."""
        return self._steady(lambda connection: history_reads.named(connection, seq))

    def clear_elders(self) -> None:
        """Forget all that has left memory."""
        self._write(lambda state: state, lambda connection, before, after: connection.execute(history_writes.NO_ELDERS))

    # --- for people -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many events are remembered."""
        return int(self._steady(lambda connection: connection.execute(history_reads.HOW_MANY).scalar_one()))

    def event(self, id: str, source: str | None = None) -> Event | None:
        """The event of that id, and of that source if one is given, the newest if there are several; None if it is not
        remembered.
        """
        if not isinstance(id, str):
            raise SettingError("the id of an event", shown(id))
        if not isinstance(source, str | None):
            raise SettingError("the source of an event, or None", shown(source))
        try:
            return self._steady(lambda connection: history_reads.event(connection, id, source))
        except UnicodeEncodeError:
            return None

    def events(self, limit: int = 100, *, before: int | None = None, running: bool = False) -> list[Event]:
        """The newest events first: those whose number is below ``before``, and only those that are running."""
        check_number(limit, "a limit")
        if before is not None:
            check_number(before, "a number of a publication")
        return self._steady(lambda connection: history_reads.events(connection, limit, before, running))

    def refused(self, limit: int = 100) -> list[RefusedEvent]:
        """What was refused last, the newest first; the last 10,000 are kept."""
        check_number(limit, "a limit")
        return self._steady(lambda connection: history_reads.refused(connection, limit))

    def refused_counts(self) -> dict[str, int]:
        """How many publications were refused ever, by reason."""
        rows = self._steady(lambda connection: connection.execute(history_reads.HOW_MANY_REFUSED).all())
        return {reason: int(count) for reason, count in rows}

    # --- transactions -----------------------------------------------------------------------------------------------

    def _write(
        self,
        change: Callable[[HistoryState], HistoryState],
        work: Callable[[Connection, HistoryState, HistoryState], T],
    ) -> T:
        """Do the work in one transaction, once, even if the answer of the server gets lost on the way.

        Each transaction replaces the mark in the state row, which this process knows, by a new one. If it finds its own
        mark there, an earlier attempt was committed; if it finds a mark that is not ours, another process has written.
        """
        with self._writing:
            self.claim()
            mark = history_tables.new_mark()
            found: list[tuple[HistoryState, T]] = []

            def fenced(connection: Connection) -> None:
                assert self._state is not None
                before = self._state
                while True:
                    after = change(before)._replace(mark=mark)
                    if history_writes.replaced(connection, before.mark, after):
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
        """Take the lease again that was lost with a connection; an error if another process was faster."""
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
                may_pass = is_lost(error) or (
                    is_again and isinstance(error, LeaseTaken)
                )  # the server may not have noticed yet that our own lost connection is gone
                if not may_pass or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause, is_again = min(2 * pause, 1.0), True

    def _read_state(self, connection: Connection) -> HistoryState:
        state = history_reads.state(connection)
        if state is None:
            raise StoreError("a history", "one whose table tidegate_history is empty", self.url)
        return state

    # --- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give up the right to write, and close the connections; they are opened again if the history is used again."""
        with self._writing:
            self._state = self._user = None
            self._doubtful.clear()
            self._lease.release()
            self._database.close()

    def before_fork(self) -> None:
        """Does nothing: the parent goes on as before."""
        return

    def after_fork(self, is_child: bool) -> None:
        """A child process has claimed nothing, and no thread of it is writing."""
        if is_child:
            self._writing = threading.RLock()
            self._state = None
            self._doubtful = set()
