"""What a subscription would have sent over a part of the log: matched anew, with limits on time and rows.

``rehearsed`` says again and again how far it is, so that whoever has to end it early has an answer all the same. It
runs in a process of its own (``rehearsal_process``). Knows no principals: what one may read is part of the expression.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.engine import Engine
from tidegate.gateway.rehearsal_states import RehearsalState, RehearsalTask
from tidegate.index import ArrowBatch, Index
from tidegate.index.dated_ahead import is_dated_ahead
from tidegate.index.expiry import had_expired
from tidegate.language import DEFAULT_LIMITS, Attribute, Limits, walk
from tidegate.language.limits import NO_LIMITS
from tidegate.model import COORDINATES, RESERVED, Publication, Subscription, moment
from tidegate.overlay.messages import Publish
from tidegate.overlay.wire import decode
from tidegate.predicates import Filter
from tidegate.store.log_frames import Frame, Slice, read, read_with
from tidegate.store.log_reader import LogReader
from tidegate.store.log_rows import LogRows
from tidegate.subscriptions import compile_subscription, expression_of

__all__ = ["rehearsed"]

_HOUR = 3_600_000_000
#: Rows that are matched together, about.
_TOGETHER = 65_536
#: Bytes of all samples, as JSON.
_LARGEST = 4 << 20
_ID = "subscription"
#: No frame has it: reading with it gives tombstones only.
_NO_COLUMN = "\0"
#: Checked before: only what patterns may remember is limited.
_LIMITS = Limits(
    **{name: getattr(NO_LIMITS, name) for name in Limits.__slots__ if name not in ("combinations", "window")},
    combinations=DEFAULT_LIMITS.combinations,
    window=DEFAULT_LIMITS.window,
)


class _Rows(NamedTuple):
    """Publications of one columns and one hour, with their rows, and when they were appended."""

    table: pa.Table
    rows: NDArray[np.int64]
    appended: NDArray[np.int64]


class _Sent(NamedTuple):
    """The event times of what was sent, and a function that gives the first few of it."""

    times: NDArray[np.int64]
    samples: Callable[[int], list[dict[str, Any]]]


class _Matcher(ABC):
    """Matches publications in the order of the log."""

    @abstractmethod
    def match(self, some: _Rows) -> _Sent:
        """What is sent of these."""


class _FilterMatcher(_Matcher):
    def __init__(self, task: RehearsalTask, found: Filter, contents: LogRows) -> None:
        self._index, self._fields, self._contents = Index(), task.fields, contents
        self._index.add(0, found)

    def match(self, some: _Rows) -> _Sent:
        batch = ArrowBatch.trusted(some.table)
        start, _ = self._index.match(batch)
        found = np.flatnonzero(np.diff(start))
        return _Sent(batch.times()[found], lambda count: self._samples(some.rows[found[:count]]))

    def _samples(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        found = self._contents.publications(rows, self._fields)
        return [{"time": one.get("time"), "publication": one} for one in found]


class _PatternMatcher(_Matcher):
    def __init__(self, task: RehearsalTask) -> None:
        keep = None if task.keep is None else timedelta(microseconds=task.keep)
        self.engine = Engine(
            [_subscription(task)], lateness=timedelta(microseconds=task.lateness), limits=_LIMITS, keep=keep
        )

    def match(self, some: _Rows) -> _Sent:
        found = self.engine.publish(some.table)
        times = found.column("time").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        return _Sent(times, lambda count: [_sample(row) for row in found.slice(0, count).to_pylist()])


def _sample(row: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: row[name] for name in ("score", "distance") if row.get(name) is not None}
    return {"time": row["time"].isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "publications": row["publication_ids"], **numbers}  # fmt: skip


def rehearsed(task: RehearsalTask, clock: Callable[[], float] = monotonic) -> Iterator[RehearsalState]:
    """Do a task, and say after each part of the log how far it is. The last one says that it is over."""
    began, state, samples = clock(), RehearsalState(task.begin), task.samples
    yield state
    with LogReader(Path(task.log)) as log, LogRows(task.log) as contents:
        withdrawn = _withdrawn(log, task)
        found = compile_subscription(_subscription(task), _LIMITS)
        matcher = _FilterMatcher(task, found, contents) if isinstance(found, Filter) else _PatternMatcher(task)
        left = task.rows
        for some in _in_order(log, task):
            if left <= 0 or clock() - began > task.seconds:
                break
            left -= len(some.rows)
            seen = _seen(some, task, withdrawn, isinstance(found, Filter))
            if len(seen.rows):
                samples = _add(state, matcher.match(seen), int(some.appended[-1]), samples)
            state.reached = int(some.appended[-1])
            yield state
        else:
            state.is_complete, state.reached = True, task.end
            if isinstance(matcher, _PatternMatcher):
                _finish(state, matcher.engine, task, samples)
    state.is_over = True
    yield state


def _subscription(task: RehearsalTask) -> Subscription:
    times = task.active_from, task.active_until  # texts, which the model reads
    return Subscription(_ID, "principal", task.where, *times)  # type: ignore[arg-type]


def _finish(state: RehearsalState, engine: Engine, task: RehearsalTask, samples: int) -> None:
    """What the clock still tells of patterns; or what is to be explained, if that is what was asked."""
    if task.explained is not None:
        state.explanation = engine.explain(_ID, _published(task.explained)).to_json()
        return
    told = engine.advance(moment(task.end - task.lateness))
    times = np.array([round(one.time.timestamp() * 1e6) for one in told], np.int64)
    rows = [{**one._asdict(), "publication_ids": list(one.publications)} for one in told]
    _add(state, _Sent(times, lambda count: [_sample(row) for row in rows[:count]]), task.end - 1, samples)


def _published(explained: str) -> Publication:
    found = decode(explained.encode(), sys.maxsize)
    assert isinstance(found, Publish), "a publication"
    return found.publication


def _add(state: RehearsalState, sent: _Sent, appended: int, samples: int) -> int:
    """Add what was sent, and some of it while there are fewer than so many samples; how many there may be from now on:
    no more, once the next would be too large with the others.
    """
    count = len(sent.times)
    if not count:
        return samples
    first, last = int(sent.times.min()), int(sent.times.max())
    state.first = first if state.first is None else min(first, state.first)
    state.last = last if state.last is None else max(last, state.last)
    state.notifications += count
    hour = appended // _HOUR * _HOUR
    state.hours[hour] = state.hours.get(hour, 0) + count
    if (room := samples - len(state.samples)) > 0:
        size = len(msgspec.json.encode(state.samples))
        for one in sent.samples(room):
            size += len(msgspec.json.encode(one))
            if size > _LARGEST:
                return len(state.samples)
            state.samples.append(one)
    return samples


def _seen(some: _Rows, task: RehearsalTask, withdrawn: NDArray[np.int64], is_filter: bool) -> _Rows:
    """The publications that the runner would match: a filter sees none that had expired or was unpublished since, and
    nothing sees what is dated too far ahead.
    """
    batch = ArrowBatch.trusted(some.table)
    wrong = [None if task.ahead is None else is_dated_ahead(batch, some.appended, task.ahead)]
    if is_filter:
        wrong.append(np.isin(some.rows, withdrawn, assume_unique=True))
        wrong.append(None if task.expired else had_expired(batch, some.appended))
    there = [one for one in wrong if one is not None and one.any()]
    if not there:
        return some
    kept = np.flatnonzero(~np.logical_or.reduce(there))
    return _Rows(some.table.take(pa.array(kept)), some.rows[kept], some.appended[kept])


def _in_order(log: LogReader, task: RehearsalTask) -> Iterator[_Rows]:
    """The publications of the task's part of the log, so many at a time, with the columns that it asks about."""
    wanted = {*RESERVED, *COORDINATES}
    wanted |= {node.name for node in walk(expression_of(_subscription(task), _LIMITS)) if isinstance(node, Attribute)}
    at, end = log.since(task.begin), log.end
    until = end if task.explained_row is None else min(end, task.explained_row)
    waiting = list[Frame]()
    for frame in _frames(log, at, until):
        if frame.appended >= task.end or frame.first_row >= until:
            break
        count = sum(one.batch.num_rows for one in waiting)
        if waiting and (count >= _TOGETHER or not _belongs(frame, waiting[0])):
            yield _together(waiting, wanted, until)
            waiting = []
        waiting.append(frame)
    if waiting:
        yield _together(waiting, wanted, until)


def _withdrawn(log: LogReader, task: RehearsalTask) -> NDArray[np.int64]:
    """The rows of what was unpublished since: tombstones are behind them. Of other frames only headers are read."""
    found, end = [np.empty(0, np.int64)], log.end
    for slice in _slices(log, log.since(task.begin), end):
        found += [frame.batch.column("rows").flatten().to_numpy() for frame in read_with(slice, _NO_COLUMN)]
    return np.unique(np.concatenate(found))


def _slices(log: LogReader, at: int, until: int) -> Iterator[Slice]:
    while at < until:
        to = log.cut(at, _TOGETHER)
        yield from log.slices(at, to, 1)
        at = to


def _frames(log: LogReader, at: int, until: int) -> Iterator[Frame]:
    for slice in _slices(log, at, until):
        yield from read(slice)


def _belongs(frame: Frame, first: Frame) -> bool:
    return frame.appended // _HOUR == first.appended // _HOUR and frame.batch.schema == first.batch.schema


def _together(frames: Sequence[Frame], wanted: set[str], until: int) -> _Rows:
    names = [name for name in frames[0].batch.schema.names if name in wanted]
    table = pa.Table.from_batches([frame.batch.select(names) for frame in frames])
    rows = np.concatenate([np.arange(frame.first_row, frame.first_row + frame.batch.num_rows) for frame in frames])
    sizes = [frame.batch.num_rows for frame in frames]
    appended = np.repeat(np.array([frame.appended for frame in frames], np.int64), sizes)
    count = int(np.searchsorted(rows, until))
    return _Rows(table.slice(0, count), rows[:count], appended[:count])
