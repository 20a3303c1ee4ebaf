"""Events between an engine and its history: written before notifications are returned, and read back at the start.

``PatternShards`` calls ``written``, ``retired``, ``knows`` and ``replayed``. The history itself, ``store.History``, is
a database in a package above the engine; the protocol ``EventHistory`` lists the methods that the engine calls. Knows
nothing of databases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import ceil, floor
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import StoreError, TidegateError
from tidegate.index.batch import ArrowBatch, Batch, ObjectBatch
from tidegate.index.patterns import Passed
from tidegate.kernels.past_records import BEGINS_EVENT, ENDS_EVENT, NOT_REMEMBERED, REFUSALS
from tidegate.patterns.past import Elder, Fates, Leaving
from tidegate.records.json_values import listed
from tidegate.records.stored_bodies import of_publications, of_table, tables

__all__ = [
    "BegunEvent",
    "EndedEvent",
    "EventHistory",
    "RefusedEvent",
    "check_replayed",
    "events_of_table",
    "knows",
    "replayed",
    "retired",
    "written",
]


class BegunEvent(NamedTuple):
    """A publication that begins an event: START, a whole one, or INSTANT. Times in microseconds; no end: running."""

    seq: int
    id: str
    source: str
    phase: str | None
    time: int
    start: int
    end: int | None
    body: str


class EndedEvent(NamedTuple):
    """An END of the event whose first publication has the number ``first``, and so is of the same source and id."""

    first: int
    seq: int
    time: int
    end: int
    body: str


class RefusedEvent(NamedTuple):
    """A publication that was refused, and why."""

    reason: str
    id: str
    phase: str | None
    time: int
    body: str


class EventHistory(Protocol):
    """A durable history of events, as ``tidegate.store.History`` is one."""

    @property
    def keep(self) -> timedelta | None: ...
    @property
    def most(self) -> int | None: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def last(self) -> int: ...
    def serves(self, user: object) -> bool: ...
    def release(self, user: object) -> None: ...
    def claim(self, user: object = None) -> None: ...
    def remember(
        self, first: Sequence[BegunEvent], ended: Sequence[EndedEvent], refused: Sequence[RefusedEvent]
    ) -> None: ...
    def replay(self) -> Iterator[list[Any]]: ...
    def forget(self, upto: int) -> int: ...
    def refused_counts(self) -> dict[str, int]: ...
    def retire(self, rows: Sequence[tuple[bytes, int, int, int]]) -> None: ...
    def has_elder(self, key: bytes, start: tuple[int, int], end: tuple[int, int], after: int) -> bool: ...
    def clear_elders(self) -> None: ...
    def named(self, seq: int) -> tuple[str, str] | None: ...


def written(history: EventHistory, batch: Batch, found: Passed, taken: NDArray[np.bool_], fates: Fates) -> None:
    """Write to the history which publications of a batch began or ended an event or were refused; durable on return.

    ``taken`` says which of those in ``found`` were given to the shard that asks about the past.
    """
    fated = np.flatnonzero(fates.fate != NOT_REMEMBERED)
    if not len(fated):
        return
    rows = _rows(found, taken, fates)[fated]
    if isinstance(batch, ObjectBatch):
        history.remember(*_events_of_objects(batch, rows.tolist(), fates, fated.tolist()))
    else:
        history.remember(*events_of_table(batch, rows, fates, fated))


def events_of_table(
    batch: Batch, rows: NDArray[np.int64], fates: Fates, fated: NDArray[np.int64]
) -> tuple[list[BegunEvent], list[EndedEvent], list[RefusedEvent]]:
    """What is to be written of these rows of a table, column by column; ``fated`` are their places in ``fates``."""
    fate, times = fates.fate[fated], batch.times()[rows]
    first: list[BegunEvent] = []
    ended: list[EndedEvent] = []
    refused: list[RefusedEvent] = []
    if (some := fate == BEGINS_EVENT).any():
        at = fated[some]
        ids, sources, phases, bodies = _given(batch, rows[some])
        starts, ends = _whole(fates.times[at, 0]), fates.times[at, 1]
        ends = [None if end != end else int(end) for end in ends.tolist()] if np.isnan(ends).any() else _whole(ends)
        numbers = fates.number[at].tolist()
        first = list(map(BegunEvent, numbers, ids, sources, phases, times[some].tolist(), starts, ends, bodies))
    if (some := fate == ENDS_EVENT).any():
        at = fated[some]
        *_, bodies = _given(batch, rows[some])
        numbers, began, ends = fates.number[at].tolist(), fates.first[at].tolist(), _whole(fates.times[at, 1])
        ended = list(map(EndedEvent, began, numbers, times[some].tolist(), ends, bodies))
    if (some := fate < NOT_REMEMBERED).any():
        ids, _, phases, bodies = _given(batch, rows[some], whole=True)
        reasons = [REFUSALS[what] for what in fate[some].tolist()]
        refused = list(map(RefusedEvent, reasons, ids, phases, times[some].tolist(), bodies))
    return first, ended, refused


def _events_of_objects(
    batch: ObjectBatch, rows: list[int], fates: Fates, fated: list[int]
) -> tuple[list[BegunEvent], list[EndedEvent], list[RefusedEvent]]:
    """What is to be written of these publications, one after the other."""
    first: list[BegunEvent] = []
    ended: list[EndedEvent] = []
    refused: list[RefusedEvent] = []
    for row, i in zip(rows, fated, strict=True):
        p, time, fate = batch.publications[row], batch.micros[row], int(fates.fate[i])
        (body,) = of_publications([p], whole=fate < NOT_REMEMBERED)
        if fate < NOT_REMEMBERED:
            refused.append(RefusedEvent(REFUSALS[fate], p.id, p.phase, time, body))
            continue
        number, (start, end) = int(fates.number[i]), fates.times[i].tolist()
        if fate == BEGINS_EVENT:
            until = None if end != end else int(end)
            first.append(BegunEvent(number, p.id, p.source, p.phase, time, int(start), until, body))
        else:
            ended.append(EndedEvent(int(fates.first[i]), number, time, int(end), body))
    return first, ended, refused


def _given(
    batch: Batch, rows: NDArray[np.int64], *, whole: bool = False
) -> tuple[list[str], list[str], list[str | None], list[str]]:
    """Ids, sources, phases and bodies (``stored_bodies``) of some rows of a batch."""
    assert isinstance(batch, ArrowBatch)
    arrays = batch.arrays
    if not np.array_equal(rows, np.arange(batch.length)):
        wanted = pa.array(rows)
        arrays = {name: array.take(wanted) for name, array in arrays.items()}
    phases = listed(arrays["phase"]) if "phase" in arrays else [None] * len(rows)
    return listed(arrays["id"]), listed(arrays["source"]), phases, of_table(arrays, whole=whole)


def _whole(times: NDArray[np.float64]) -> list[int]:
    found: list[int] = times.astype(np.int64).tolist()
    return found


def retired(history: EventHistory, leaving: Sequence[Leaving]) -> None:
    """Write to the history the events that leave memory."""
    history.retire(
        [
            (group.key, start, end, number)
            for group in leaving
            for start, end, number in zip(*(array.tolist() for array in group[1:]), strict=True)
        ]
    )


def knows(history: EventHistory, asked: Elder) -> bool:
    """Whether the history has an event that left memory and is what the question asks for."""
    start, end = ((ceil(max(low, -_FAR)), floor(min(high, _FAR - 1))) for low, high in (asked.start, asked.end))
    return history.has_elder(asked.key, start, end, asked.after)


#: Beyond any moment.
_FAR = 2**63


def _rows(found: Passed, taken: NDArray[np.bool_], fates: Fates) -> NDArray[np.int64]:
    """The row in the batch of each publication that has a fate.

    Those that were taken and are not late, and so before all others, have one each. Both sides are put in one order;
    publications with the same source, id, phase and time keep the order in which they came, on both sides.
    """
    if len(found.rows) == 1:
        return found.rows
    here = np.flatnonzero(taken & (found.time >= fates.time.min()))
    ours = here[np.lexsort((found.time[here], *found.hash[here].T))]
    rows = np.empty(len(fates.fate), np.int64)
    rows[np.lexsort((fates.time, *fates.hash.T))] = found.rows[ours]
    return rows


def replayed(history: EventHistory) -> Iterator[list[tuple[Batch, NDArray[np.int64]]]]:
    """All publications of a history, in order, as batches with the numbers of their publications.

    The batches of one list must be replayed together: they are several only because no one table holds them all.
    """
    for heard in history.replay():
        try:
            numbers = np.array([one.seq for one in heard], np.int64)
            batches: list[tuple[Batch, NDArray[np.int64]]] = [
                (ObjectBatch(given) if isinstance(given, list) else ArrowBatch(given), numbers[rows])
                for rows, given in tables(heard)
            ]
        except (TidegateError, ArithmeticError, KeyError, TypeError, ValueError) as error:  # Arrow's are ValueErrors
            raise StoreError("a history that is whole", f"{type(error).__name__}: {error}", "the history") from None
        yield batches


def check_replayed(fates: Fates) -> None:
    """Raise if a replayed publication was refused: then the history is damaged."""
    wrong = fates.fate[fates.fate < NOT_REMEMBERED]
    if len(wrong):
        raise StoreError("a history of whole events", f"an {REFUSALS[int(wrong[0])]}", "the history")
