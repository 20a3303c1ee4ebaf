"""Publications on their way into the log: checked, put into the columns that matchers read, cut into batches.

Each call of ``Log.append``, and each lot of ``Log.append_all``, is a ``PendingAppend``, here also called an arrival;
the thread that writes turns all that wait into batches with ``bundles``. Small arrivals that wait for the same commit
are checked together and share a batch. Knows nothing of files, nor of what is known already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import SettingError, shown
from tidegate.index.batch import ArrowBatch
from tidegate.model import Publication
from tidegate.records.given import Given, as_publications
from tidegate.records.integer_marks import marked_names, with_marks
from tidegate.records.made_times import with_made_times
from tidegate.records.tables import apart, kinds_of
from tidegate.records.uniform_rows import record_batch
from tidegate.records.validity import valid_until_of, valid_until_of_objects
from tidegate.store.validity_limits import ValidityLimits
from tidegate.time_zones import TimeZone, Zone

__all__ = ["CheckedBatches", "CheckedLots", "MetAgain", "PendingAppend", "PendingAppends", "bundles"]

#: A batch is not split between workers, so it holds no more rows and hardly more bytes than this.
_ROWS, _BYTES = 32_768, 16 << 20
#: Arrivals of more rows are checked by the thread that brings them, not by the one that writes for all.
_SMALL = 1024
#: Publications that are known sooner from objects than from the columns of their batch.
_FEW = 8


class MetAgain(NamedTuple):
    """Publications of one call whose identities are known: places in what was given, rows of the log, what they say."""

    places: NDArray[np.int64]
    rows: NDArray[np.int64]
    batch: pa.RecordBatch


class PendingAppend:
    """One call of ``Log.append``: the publications it brings, then the row after its last one, or the error.

    ``made`` has the places of those whose times the caller made because they had none.
    """

    __slots__ = ("batches", "ends_at", "error", "made", "met", "position", "publications", "rows")

    def __init__(self, given: Given, timezone: Zone = None, made: Collection[int] = ()) -> None:
        zone = TimeZone.named(timezone)
        publications = as_publications(given, zone)
        if isinstance(publications, pa.RecordBatch):
            publications = pa.Table.from_batches([publications])
        if zone is not None and isinstance(publications, pa.Table):
            publications = pa.table(ArrowBatch(publications, zone=zone).arrays)
        self.publications = publications
        self.rows = len(publications)
        #: The row after its last once it is written, and the same as soon as it is.
        self.ends_at = self.position = -1
        self.error: Exception | None = None
        self.met: list[MetAgain] = []
        self.batches: list[pa.RecordBatch] | None = None
        #: Whether times were made: of none, of all, or which.
        self.made: bool | NDArray[np.bool_] = len(made) > 0 and _marks(made, self.rows)
        if not 0 < self.rows <= _SMALL or not isinstance(self.made, bool):
            self._check()

    @classmethod
    def of_checked(cls, rows: int) -> PendingAppend:
        """One whose publications are some rows of a batch that was checked."""
        found = cls.__new__(cls)
        found.publications, found.rows, found.batches, found.made = [], rows, None, False
        found.ends_at = found.position = -1
        found.error, found.met = None, []
        return found

    def _check(self) -> list[pa.RecordBatch]:
        if self.batches is None:
            self.batches = _noted(_batches(self.publications), self.made)
        return self.batches

    def refuse_validity(self, limits: ValidityLimits, now: int) -> None:
        """Raise if something is valid for too long, or may not be valid at all."""
        if not isinstance(self.publications, pa.Table):
            limits.check(valid_until_of_objects(self.publications), now)
        elif "valid_until" in self.publications.column_names:
            limits.check(np.concatenate([valid_until_of(batch) for batch in self._check()]), now)

    @property
    def is_done(self) -> bool:
        """Whether it is durable or refused."""
        return self.position >= 0 or self.error is not None


class CheckedLots(NamedTuple):
    """Publications of several lots in one batch that was checked: how many rows each lot has, one after the other, and
    which of all have times that were made.
    """

    batch: pa.RecordBatch
    rows: Sequence[int]
    made: bool | NDArray[np.bool_] = False


class PendingAppends:
    """One call of ``Log.append_all``: for each lot its ``PendingAppend``, or why it cannot be one."""

    __slots__ = ("arrivals", "each", "ready")

    def __init__(
        self,
        lots: Iterable[tuple[Given, Collection[int]]],
        checked: Iterable[CheckedLots],
        timezone: Zone,
        limits: ValidityLimits | None,
        clock: Callable[[], int],
    ) -> None:
        self.each: list[PendingAppend | Exception] = []
        for given, made in lots:
            try:
                arrival = PendingAppend(given, timezone, made)
                if limits is not None and arrival.rows:
                    arrival.refuse_validity(limits, clock())
            except Exception as error:
                self.each.append(error)
            else:
                self.each.append(arrival)
        #: Those that have rows to write.
        self.arrivals = [found for found in self.each if isinstance(found, PendingAppend) and found.rows]
        #: The batches of those that were checked together.
        self.ready: list[CheckedBatches] = []
        for some in checked:
            arrivals = [PendingAppend.of_checked(rows) for rows in some.rows]
            self.each += arrivals
            self.ready.append(CheckedBatches(arrivals, _noted(_cut(some.batch), some.made)))

    def all(self) -> Iterator[PendingAppend]:
        """All that has rows to write."""
        yield from self.arrivals
        for some in self.ready:
            yield from some.arrivals

    @property
    def is_done(self) -> bool:
        """Whether all are durable or refused."""
        return all(arrival.is_done for arrival in self.all())


class CheckedBatches(NamedTuple):
    """Arrivals whose rows follow each other in the batches; the same as objects if they are a few."""

    arrivals: list[PendingAppend]
    batches: list[pa.RecordBatch]
    few: Sequence[Publication] = ()


def bundles(arrivals: Sequence[PendingAppend]) -> Iterator[CheckedBatches]:
    """The batches of all arrivals that can be taken; the ``error`` of the others is set."""
    small: dict[Any, list[PendingAppend]] = {}
    for arrival in arrivals:
        if arrival.batches is not None:
            yield CheckedBatches([arrival], arrival.batches)
        else:
            small.setdefault((arrival.made, _columns(arrival.publications)), []).append(arrival)
    for group in small.values():
        if len(group) > 1 and (batches := _together(group)):
            yield CheckedBatches(group, _noted(batches, group[0].made))
            continue
        for arrival in group:
            try:
                batches = _noted(_batches(arrival.publications), arrival.made)
            except Exception as error:  # also Arrow's: a faulty table of one caller must not fail the others
                arrival.error = error
            else:
                is_few = arrival.rows <= _FEW and not isinstance(arrival.publications, pa.Table)
                yield CheckedBatches([arrival], batches, arrival.publications if is_few else ())


def _marks(made: Collection[int], rows: int) -> bool | NDArray[np.bool_]:
    """Which of the rows are meant, or True for all."""
    found = np.zeros(rows, np.bool_)
    try:
        found[list(made)] = True
    except (IndexError, TypeError):
        raise SettingError(f"places among {rows} publications whose times were made", shown(made)) from None
    return found if not found.all() else True


def _noted(batches: list[pa.RecordBatch], made: bool | NDArray[np.bool_]) -> list[pa.RecordBatch]:
    """The batches with a note of which times were made."""
    if made is False:
        return batches
    if made is True:
        return [with_made_times(batch) for batch in batches]
    cuts = np.cumsum([batch.num_rows for batch in batches])[:-1]
    return [with_made_times(batch, some) for batch, some in zip(batches, np.split(made, cuts), strict=True)]


def _columns(publications: pa.Table | list[Publication]) -> Any:
    """What tables must have in common to become one: equal schemas may differ in what is marked."""
    if isinstance(publications, pa.Table):
        return publications.schema, marked_names(publications.schema)
    return None


def _together(group: Sequence[PendingAppend]) -> list[pa.RecordBatch] | None:
    """Batches of several arrivals in their order; None where they do not fit together or one of them is wrong."""
    with suppress(Exception):
        if isinstance(group[0].publications, pa.Table):
            return _checked(pa.concat_tables([arrival.publications for arrival in group]))
        publications = [p for arrival in group for p in arrival.publications]
        if batches := _uniform(publications):
            return batches
        found = _tables(publications)
        return _checked(found[0]) if len(found) == 1 else None
    return None


def _batches(publications: pa.Table | list[Publication]) -> list[pa.RecordBatch]:
    if isinstance(publications, pa.Table):
        return _checked(publications)
    if batches := _uniform(publications):
        return batches
    return [batch for each in _tables(publications) for batch in _checked(each)]


def _uniform(publications: list[Publication]) -> list[pa.RecordBatch]:
    """Batches of publications of one kind, which were checked when they were made; none where they are not."""
    batch = record_batch(publications) if 0 < len(publications) <= _ROWS else None
    return [] if batch is None else _cut(batch)


def _checked(publications: pa.Table) -> list[pa.RecordBatch]:
    """Plain columns, as matchers read them and so as they will be mapped: no dictionaries, no views, one type each."""
    found = ArrowBatch(publications)
    batch = with_marks(pa.record_batch(found.arrays), publications)
    return _cut(batch)


def _cut(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The batch in pieces that are not too large."""
    if batch.num_rows == 1:
        return [batch]
    pieces = max(1, -(-batch.num_rows // _ROWS), min(batch.nbytes // _BYTES, batch.num_rows))
    cuts = [batch.num_rows * i // pieces for i in range(pieces + 1)]
    return [batch.slice(a, b - a) for a, b in pairwise(cuts) if a < b]


def _tables(publications: Sequence[Publication]) -> list[pa.Table]:
    """Publications as tables, in their order: several where values of one name differ in kind from one to the next."""
    kinds = ((row, p, kinds_of(p, None)) for row, p in enumerate(publications))
    return [found for _, found in apart(kinds, None, for_log=True)]
