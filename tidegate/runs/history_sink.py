"""The sink ``history``: writes which publications began or ended an event, or were refused, into a database.

The worker half sends the fates of publications by their rows in the log, as ``past`` patterns of a shard judged them.
The driver half unites what the shards say, numbers it, reads the publications from the log, and writes a batch in one
transaction. Patterns remember events in their own state; nothing here is asked by them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.engine.event_history import BegunEvent, EndedEvent, RefusedEvent, events_of_table
from tidegate.index.batch import ArrowBatch
from tidegate.kernels.past_records import BEGINS_EVENT, END_WITHOUT_START, ENDS_EVENT, NOT_REMEMBERED
from tidegate.patterns.past import Fates
from tidegate.records.json_values import listed
from tidegate.runs.sinks import DriverSink, Notifications, Receipt, Receipts
from tidegate.store.log_rows import LogRows
from tidegate.store.run_history import RunHistory

__all__ = ["HistorySink", "united"]

_LOG = logging.getLogger("tidegate")
_KIND = "fates"
_SENT = ("hash", "row", "time", "fate", "times")

#: An event to the history: its source and its id.
EventKey = tuple[str, str]


# --- the worker half ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FateSender:
    """The worker half: it sends the fates to the driver."""

    form: str = "fates"

    def writer(self, batch: int, part: int) -> _FateWriter:
        return _FateWriter()


class _FateWriter:
    def __init__(self) -> None:
        self._receipts: list[Receipt] = []

    def take(self, found: Notifications) -> None:
        if found.fates is None:
            return
        fates = found.fates
        some = np.flatnonzero((fates.fate != NOT_REMEMBERED) & (fates.row >= 0))
        if len(some):
            self._receipts.append((_KIND, array_bundle.packed({name: getattr(fates, name)[some] for name in _SENT})))

    def close(self) -> Iterator[Receipt]:
        return iter(self._receipts)


# --- the driver half ------------------------------------------------------------------------------------------------


class HistorySink(DriverSink):
    """The driver half. ``directory`` is that of the log; events are kept for ``keep``, and of the newest ``most``."""

    half = FateSender()

    def __init__(
        self,
        url: str | os.PathLike[str],
        directory: str | os.PathLike[str],
        *,
        keep: timedelta | None = None,
        most: int | None = None,
    ) -> None:
        self._url, self._directory, self._keep, self._most = url, directory, keep, most
        self._history: RunHistory | None = None
        self._rows: LogRows | None = None
        self._running: dict[EventKey, tuple[int, ...]] = {}
        """The numbers of the running events of each source and id: one, unless shards saw different STARTs, or patterns
        forgot an event because nobody asked about the past any more.
        """

    def begin(self, query: str) -> None:
        self._history = RunHistory(self._url, query, keep=self._keep, most=self._most)
        self._history.begin()
        self._rows = LogRows(self._directory)
        for number, *names in self._history.running():
            source, id = names
            self._running[source, id] = (*self._running.get((source, id), ()), number)

    @property
    def history(self) -> RunHistory:
        """The history, while the run lasts."""
        assert self._history is not None, "a sink that was begun"
        return self._history

    def commit(self, batch: int, receipts: Receipts) -> None:
        if batch <= self.history.batch:
            return
        parts = [array_bundle.unpacked(data)[0] for data in receipts.of(_KIND)]
        if parts:
            self._write(batch, united(parts))

    def _write(self, batch: int, fates: Fates) -> None:
        """Write what became of the publications of a batch."""
        assert self._rows is not None, "a sink that was begun"
        tables = [(places, ArrowBatch.trusted(table)) for places, table in self._rows.tables(fates.row)]
        keys: list[EventKey | None] = [None] * len(fates.row)
        for places, given in tables:
            named = zip(listed(given.arrays["source"]), listed(given.arrays["id"]), strict=True)
            for place, key in zip(places.tolist(), named, strict=True):
                keys[place] = key
        if (lost := keys.count(None)) > 0:
            _LOG.warning("%d publications of events are not in the history: the log has dropped them", lost)
        numbered, at, running = self._numbered(fates, keys)
        events = _events(numbered, at, tables)
        self.history.remember_batch(batch, *events)
        self._running |= running
        for key in [key for key, numbers in running.items() if not numbers]:
            del self._running[key]

    def _numbered(
        self, fates: Fates, keys: Sequence[EventKey | None]
    ) -> tuple[Fates, NDArray[np.int64], dict[EventKey, tuple[int, ...]]]:
        """What is to be written, with numbers; the place in ``fates`` of each; and the running events that changed.

        An END ends all events of its source and id that run. One whose event the history does not have, because it
        began before the run had this sink, is left out.
        """
        last, at, numbers, firsts = self.history.last, list[int](), list[int](), list[int]()
        running: dict[EventKey, tuple[int, ...]] = {}
        is_open = np.isnan(fates.times[:, 1]).tolist()
        for place, (fate, key) in enumerate(zip(fates.fate.tolist(), keys, strict=True)):
            if key is None:
                continue
            if fate == ENDS_EVENT:
                begun = running.get(key, self._running.get(key, ()))
                running[key] = ()
            else:
                begun = (last + 1 if fate == BEGINS_EVENT else 0,)
                if fate == BEGINS_EVENT and is_open[place]:
                    running[key] = (*running.get(key, self._running.get(key, ())), last + 1)
            for first in begun:
                last += fate > NOT_REMEMBERED
                at.append(place)
                numbers.append(last)
                firsts.append(first)
        places = np.array(at, np.int64)
        hash, row, time, fate, times = (getattr(fates, name)[places] for name in _SENT)
        return Fates(hash, row, time, fate, np.array(numbers), np.array(firsts), times), places, running

    def tidy(self) -> None:
        self.history.forget_old()

    def close(self) -> None:
        if self._history is not None:
            self._history.close()
        if self._rows is not None:
            self._rows.close()


def _events(
    fates: Fates, at: NDArray[np.int64], tables: Sequence[tuple[NDArray[np.int64], ArrowBatch]]
) -> tuple[list[BegunEvent], list[EndedEvent], list[RefusedEvent]]:
    """What is to be written, with the publications of these tables; ``at`` has the place of each."""
    first: list[BegunEvent] = []
    ended: list[EndedEvent] = []
    refused: dict[int, RefusedEvent] = {}
    position = np.full(int(at.max(initial=-1)) + 1, -1)
    for places, given in tables:
        position[:] = -1
        known = places < len(position)
        position[places[known]] = np.flatnonzero(known)
        fated = np.flatnonzero(position[at] >= 0)
        more, ends, wrong = events_of_table(given, position[at[fated]], fates, fated)
        first += more
        ended += ends
        refused |= zip(fated[fates.fate[fated] < NOT_REMEMBERED].tolist(), wrong, strict=True)
    return first, ended, [refused[place] for place in sorted(refused)]


# --- what shards say ------------------------------------------------------------------------------------------------


def united(parts: Sequence[dict[str, NDArray[Any]]]) -> Fates:
    """What became of the publications of a batch, of which each shard has judged those that it wants; each once.

    An event began if it began in any shard, and ended if it ended in any. A publication is refused if no shard took it,
    for the reason of the shard that knows most of the event. They are in order of time; at one time what begins events
    comes before what ends them, and then the row decides.
    """
    hash, row, time, fate, times = (np.concatenate([part[name] for part in parts]) for name in _SENT)
    ignorance = np.where(fate > NOT_REMEMBERED, -1, np.where(fate == END_WITHOUT_START, 99, -fate.astype(np.int64)))
    order = np.lexsort((ignorance, row))
    order = order[np.diff(row[order], prepend=-1) > 0]
    order = order[np.lexsort((row[order], fate[order] == ENDS_EVENT, time[order]))]
    hash, row, time, fate, times = (array[order] for array in (hash, row, time, fate, times))
    none = np.zeros(len(row), np.int64)
    return Fates(hash, row, time, fate, none, none, times)
