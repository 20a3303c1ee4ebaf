"""Feeds: functions that turn the record batches which Spark hands to a Python worker into publications.

There are four, and ``streams.py`` or ``tg.match`` chooses one by what the source gives. ``rows`` takes publications as
columns, maybe with a JSON column ``attributes``; ``texts`` takes JSON objects, one per row; ``slices`` takes references
to the log and ``files`` takes paths, both opened by the worker itself, so that publications never pass through the JVM.
The runner in process, where there is none, hands references to ``references`` as they are. A row that is no publication
becomes a fault, with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index.batch import ArrowBatch, sift
from tidegate.index.dated_ahead import NO_STAMP, is_dated_ahead, why_refused
from tidegate.index.small_tables import SmallTableBatch, trusted_batch
from tidegate.index.versioned import View
from tidegate.model import COORDINATES
from tidegate.records import expand, expand_attributes
from tidegate.rejected_row import QuarantinedRow, RejectedRow
from tidegate.runs.cut import Cut
from tidegate.runs.publication_files import publications
from tidegate.runs.sinks import WorkerHalf
from tidegate.stages.log_planner import REFERENCE
from tidegate.store.log import Frame, Slice, read
from tidegate.time_zones import TimeZone

__all__ = ["Arrived", "Feed", "Versions", "fed_for", "files", "references", "rows", "slices", "texts"]

#: How many publications are matched together, about: enough for the index's fixed costs to be small, few enough for
#: memory.
SIZE = 65_536


class Arrived(NamedTuple):
    """Publications that are matched together, the view they are matched with, and the rows that are no publications."""

    batch: ArrowBatch | SmallTableBatch
    view: View
    versions: int | NDArray[np.int64]
    """The version at which all of them appeared, or one for each of them."""
    faults: list[QuarantinedRow]
    sizes: NDArray[np.int64] | None = None
    """How many of them appeared together each time, in order; None where all of a batch appear together."""
    rows: NDArray[np.int64] | None = None
    """The row of each in the log; None where the source is no log. They grow."""
    clock: int | None = None
    """The time of day that they came with, where the source has a clock."""
    taken: NDArray[np.int64] | None = None
    """When the source took each of them, in microseconds since 1970; None where no source says so."""
    ahead: int = 0
    """How many were refused because they are dated too far ahead of that."""
    cut: Cut | None = None
    """The cut of the batch, where the source makes it; it comes before the publications."""

    def timely(self, ahead: int) -> Arrived:
        """Without the publications that are dated more than ``ahead`` after they were taken, which become faults."""
        wrong = None if self.taken is None else is_dated_ahead(self.batch, self.taken, ahead)
        if wrong is None or self.taken is None:
            return self
        kept, gone, sizes = np.flatnonzero(~wrong), np.flatnonzero(wrong), self.sizes
        versions, rows = self.versions, self.rows
        if sizes is not None:
            sizes = np.add.reduceat((~wrong).astype(np.int64), np.cumsum(sizes) - sizes)
            sizes = sizes[sizes > 0]
        if isinstance(versions, np.ndarray):
            versions = versions[kept]
        reasons = map(str, why_refused(self.batch, gone, self.taken, ahead))
        faults = list(map(QuarantinedRow, reasons, _told(pa.table(self.batch.picked(gone).arrays))))
        return self._replace(
            batch=self.batch.picked(kept), versions=versions, faults=[*self.faults, *faults], sizes=sizes,
            rows=None if rows is None else rows[kept], taken=self.taken[kept], ahead=len(faults),
        )  # fmt: skip


class Versions(Protocol):
    """What a feed may ask about versions of the registry; ``select.Subscriptions`` answers it."""

    def of_task(self) -> int:
        """The version for all publications of this task, where the source does not stamp them."""

    def view(self, oldest: int, version: int) -> View:
        """The view of the index for a range of versions."""


class Feed(Protocol):
    """Turns what a source gives, Spark's record batches as a rule, into publications, with only the attributes that
    some subscription asks about.
    """

    def __call__(self, given: Iterable[Any], versions: Versions, /) -> Iterator[Arrived]: ...


def rows(
    batches: Iterable[pa.RecordBatch],
    versions: Versions,
    zone: TimeZone | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[Arrived]:
    """Publications as columns; a column ``attributes`` of JSON objects is expanded to the names that are wanted.

    Here as in ``texts`` and ``files`` times without a time zone are in ``zone``. ``names`` are those of the columns, if
    Spark does not have them.
    """
    version = versions.of_task()
    view = versions.view(version, version)
    for table in _gathered(batches):
        if names is not None:
            table = table.rename_columns(list(names))
        parts, faults = [table], list[QuarantinedRow]()
        if "attributes" in table.column_names:
            found, wrong = expand_attributes(table, "attributes", _wanted(view), zone)
            faults = _quarantined(wrong, table)
            parts = [part for _, part in found]
        yield from _sifted(parts, view, version, faults, zone)


def texts(
    batches: Iterable[pa.RecordBatch], versions: Versions, zone: TimeZone | None = None, whole: bool = False
) -> Iterator[Arrived]:
    """JSON objects in the column ``value``, as bytes: a row that is not UTF-8 is a fault, and the rest is matched.

    Here as in ``files`` publications come with all their attributes if ``whole``.
    """
    version = versions.of_task()
    view = versions.view(version, version)
    for table in _gathered(batches):
        values = table.column("value").to_pylist()
        found, wrong = expand(values, None if whole else _wanted(view), zone)
        faults = [QuarantinedRow(fault.reason, (values[fault.row] or b"").decode(errors="replace")) for fault in wrong]
        taken = _taken(table, [rows for rows, _ in found])
        yield from _sifted([part for _, part in found], view, version, faults, zone, taken)


def files(
    batches: Iterable[pa.RecordBatch], versions: Versions, zone: TimeZone | None = None, whole: bool = False
) -> Iterator[Arrived]:
    """Paths of files in the column ``path``."""
    version = versions.of_task()
    view = versions.view(version, version)
    for batch in batches:
        for path in batch.column("path").to_pylist():
            for part in publications(path, None if whole else _wanted(view), SIZE, zone):
                yield from _sifted(part.tables, view, version, part.faults, zone)


def fed_for(halves: Iterable[WorkerHalf], feed: Feed, has_rows: bool) -> Feed:
    """The feed that worker halves need: of whole publications for one that sends references, unless these lead to rows
    that can be read again.
    """
    if has_rows or not any(half.form == "references" for half in halves):
        return feed
    return partial(cast(Any, feed), whole=True)  # a feed of ``texts`` or ``files``


def slices(batches: Iterable[pa.RecordBatch], versions: Versions) -> Iterator[Arrived]:
    """References to the log, as Spark hands them over."""
    given = (row for batch in batches for row in batch.to_pylist())
    return references((tuple(row[name] for name in REFERENCE) for row in given), versions)


def references(given: Iterable[tuple[Any, ...]], versions: Versions) -> Iterator[Arrived]:
    """References to the log, as ``LogPlanner`` makes them. Publications were checked before they were written."""
    for *where, clock, row, version, time in given:
        slice = Slice(*where)
        view = versions.view(slice.oldest_version, slice.newest_version)
        if row is not None:
            yield Arrived(_NOTHING, view, version, [], clock=clock, cut=Cut(row, version, time))
        if not slice.rows:
            continue
        for frames in _together(read(slice)):
            names = [name for name in frames[0].batch.schema.names if name in _KEPT or name in view.names]
            table = pa.Table.from_batches([frame.batch.select(names) for frame in frames])
            stamps = np.array([frame.version for frame in frames], np.int64)
            sizes = np.array([frame.batch.num_rows for frame in frames], np.int64)
            each = np.repeat(stamps, sizes)
            taken = np.repeat(np.array([frame.appended for frame in frames], np.int64), sizes)
            yield Arrived(
                trusted_batch(table), view, each, [], sizes[sizes > 0], rows=_rows(frames, sizes), taken=taken
            )


def _rows(frames: Sequence[Frame], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of each publication of some frames. There may be rows between two of them, of frames that were lost."""
    firsts, ends = np.array([frame.first_row for frame in frames], np.int64), np.cumsum(sizes)
    return np.repeat(firsts - (ends - sizes), sizes) + np.arange(ends[-1])


_KEPT = frozenset({"id", "source", "time", "phase", "valid_until"})
_NOTHING = ArrowBatch.trusted(
    pa.table(
        {
            "id": pa.array([], pa.string()),
            "source": pa.array([], pa.string()),
            "time": pa.array([], pa.timestamp("us", "UTC")),
        }
    )
)


def _wanted(view: View) -> Collection[str]:
    """The attributes that subscriptions ask about, and those that may be the location."""
    return {*view.names, *COORDINATES}


def _sifted(
    tables: Iterable[pa.Table],
    view: View,
    version: int,
    faults: list[QuarantinedRow],
    zone: TimeZone | None = None,
    taken: Sequence[NDArray[np.int64] | None] = (),
) -> Iterator[Arrived]:
    """What is in the tables, of whose rows ``taken`` says when the source took them, and the faults."""
    for table, stamps in zip_longest(tables, taken):
        batch, found = sift(table, zone)
        told = _quarantined(found, table)
        if stamps is not None and batch.kept is not None:
            stamps = stamps[batch.kept]
        yield Arrived(batch, view, version, told, taken=stamps)
    if faults:  # they are yielded with a table, so there must be one
        yield Arrived(_NOTHING, view, version, faults)


def _taken(table: pa.Table, parts: Sequence[Any]) -> list[NDArray[np.int64] | None]:
    """When Kafka took the rows of each part, where its time is that of appending and not one that producers gave."""
    if "timestamp" not in table.column_names:
        return [None] * len(parts)
    times = np.asarray(table.column("timestamp").cast(pa.int64()))
    taken = np.where(np.asarray(table.column("timestampType")) == _LOG_APPEND_TIME, times, NO_STAMP)
    return [taken[rows] for rows in parts]


def _quarantined(faults: Sequence[RejectedRow], table: pa.Table) -> list[QuarantinedRow]:
    if not faults:
        return []
    rows = _told(table.take(pa.array([fault.row for fault in faults], pa.int64())))
    return [QuarantinedRow(fault.reason, row) for fault, row in zip(faults, rows, strict=True)]


#: Kafka's code for a topic whose ``message.timestamp.type`` is ``LogAppendTime``.
_LOG_APPEND_TIME = 1


def _told(table: pa.Table) -> list[str]:
    """The rows as people read them in the quarantine."""
    return [str({name: value for name, value in row.items() if value is not None}) for row in table.to_pylist()]


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Spark's batches put together to tables of about SIZE rows: they are smaller than is good for the index."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
        if count >= SIZE:
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _together(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    """Frames of one schema that are matched together."""
    waiting: list[Frame] = []
    count = 0
    for frame in frames:
        if waiting and (count + frame.batch.num_rows > SIZE or frame.batch.schema != waiting[0].batch.schema):
            yield waiting
            waiting, count = [], 0
        waiting.append(frame)
        count += frame.batch.num_rows
    if waiting:
        yield waiting
