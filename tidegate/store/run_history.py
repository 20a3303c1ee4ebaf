"""The history of events that a run writes, batch by batch, so that people can look at them.

Patterns of a run keep what they remember in the state of their shards and never ask this history. It belongs to one
query; a batch is one transaction under its number, so that a batch which is run again changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection

from tidegate.engine.event_history import BegunEvent, EndedEvent, RefusedEvent
from tidegate.errors import StoreError
from tidegate.store import history_reads, history_writes
from tidegate.store.history import History
from tidegate.store.history_tables import HistoryState
from tidegate.store.version_readers import check_query

__all__ = ["RunHistory"]


class RunHistory(History):
    """A history that the run of one query writes. Anybody may look at it with ``History`` meanwhile."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        query: str,
        *,
        keep: timedelta | None = None,
        most: int | None = None,
    ) -> None:
        check_query(query)
        self._query = query
        self.batch = -1
        """The last batch that was written, of those that had anything to be written."""
        self._forgotten = 0
        super().__init__(url, keep=keep, most=most)

    def begin(self) -> None:
        """Take the sole right to write, and note which query has it."""
        self.claim()
        found = self._steady(history_reads.run)
        if found is None:
            self._write(
                lambda state: state,
                lambda connection, before, after: history_writes.begin_run(connection, self._query),
            )
        else:
            self.batch = found[1]

    def _check_writer(self, connection: Connection) -> None:
        """Raise if engines write this history, or another run."""
        found, state = history_reads.run(connection), self._read_state(connection)
        if found is None and (state.last or state.refused):
            raise StoreError("a new history, or that of this run", "one that engines write", self.url)
        if found is not None and found[0] != self._query:
            raise StoreError("a new history, or that of this run", "one of another checkpoint", self.url)

    def running(self) -> list[tuple[int, str, str]]:
        """Number, source and id of each event that is running, in order of the numbers."""
        return self._steady(history_reads.running)

    def remember_batch(
        self,
        batch: int,
        first: Sequence[BegunEvent],
        ended: Sequence[EndedEvent],
        refused: Sequence[RefusedEvent],
    ) -> None:
        """Write what a batch brought, all of it or none; numbers are above ``last``. Durable once this returns."""
        last = max([*(one.seq for one in first), *(one.seq for one in ended)], default=0)

        def change(state: HistoryState) -> HistoryState:
            return state._replace(last=max(state.last, last), refused=state.refused + len(refused))

        def work(connection: Connection, before: HistoryState, after: HistoryState) -> None:
            if history_writes.is_new_batch(connection, batch):
                history_writes.write_events(connection, first)
                history_writes.write_ends(connection, ended)
                if refused:
                    history_writes.write_refused(connection, refused, after.refused)

        self._write(change, work)
        self.batch = batch

    def forget_old(self) -> int:
        """Forget the events that ended and are older than ``keep``, or of whose numbers are ``most`` newer; return how
        many that were. Time is that of the newest publication of an event.
        """
        upto = 0 if self.most is None else self.last - self.most
        if self.keep is not None and (newest := self._steady(history_reads.newest_time)) is not None:
            upto = max(upto, self._before(newest - self.keep // timedelta(microseconds=1)))
        if upto <= self._forgotten:
            return 0
        self._forgotten = upto
        return self.forget(upto)

    def _before(self, time: int) -> int:
        """The number up to which all publications are older than ``time``; times grow with the numbers."""
        last, after = self.last, self._forgotten
        found = self._steady(lambda connection: history_reads.first_since(connection, time, after))
        return last if found is None else found - 1
