"""Initial matches: which valid publications the subscriptions with ``initial`` match that a batch's cut brings.

One pass over the valid set serves all of them, with an index of these subscriptions alone. Parts of the set are matched
in several threads at once, as kernels release the interpreter's lock. Knows nothing of queues.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index import Index
from tidegate.index.batch import ArrowBatch
from tidegate.predicates.filter import Filter
from tidegate.predicates.predicate import Clause
from tidegate.predicates.ranges import Ranges
from tidegate.runs.queue_order import NO_MATCHES, RowMatches
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.store.valid_files import ValidGroup, ValidRows
from tidegate.store.valid_set import ValidSet
from tidegate.subscriptions.bulk import without_garbage_collection

__all__ = ["initial_matches"]

#: Publications that are matched together, about, and threads that do so.
_TOGETHER, _THREADS = 65_536, max(1, min(4, os.cpu_count() or 1))
#: Up to so many clauses are first compared with the numbers of a whole part; so many ranges of a column.
_CLAUSES, _RANGES = 8, 4
#: What a batch must have, whatever is asked of it.
_KEPT = frozenset({"id", "source", "time", "phase"})


def initial_matches(valid: ValidSet, subscriptions: Iterable[StoredSubscription]) -> RowMatches:
    """The matches of subscriptions with what is valid at the cut where the set stands, and was stamped before they were
    made first.
    """
    index, made, first, clauses = Index(), list[int](), list[int](), list[Clause]()
    with without_garbage_collection():
        for owner, subscription in enumerate(subscriptions):
            found = subscription.compiled()
            assert isinstance(found, Filter), "a filter: initial matches are not for patterns"
            index.add(owner, found)
            clauses += found.clauses if len(clauses) <= _CLAUSES else ()
            made.append(subscription.since)
            first.append(subscription.first)
    if not made:
        return NO_MATCHES
    names = _KEPT | index.names
    since, before = np.array(made, np.int64), np.array(first, np.int64)

    def matches(part: ValidGroup) -> RowMatches:
        batch = ArrowBatch.trusted(part.content.select(_known(part.content, names)))
        possible = _possible(batch, clauses)
        begin, owners = index.match(batch if possible is None else batch.picked(possible))
        place = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        place = place if possible is None else possible[place]
        is_new = part.rows.version[place] < before[owners]
        place, owner = place[is_new], owners[is_new]
        if len(place):
            is_valid = valid.is_valid(part.rows)[place]
            place, owner = place[is_valid], owner[is_valid]
        return RowMatches(part.rows.row[place], since[owner])

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="tidegate-initial") as threads:
        parts = list(threads.map(matches, _parts(valid)))
    if not parts:
        return NO_MATCHES
    return RowMatches(np.concatenate([part.row for part in parts]), np.concatenate([part.since for part in parts]))


def _possible(batch: ArrowBatch, clauses: Sequence[Clause]) -> NDArray[np.int64] | None:
    """Publications of a batch among which are all that match; None where these are many, or it would take long to say.

    The ranges of a few clauses take numpy a tenth of the time that an index takes, which does more for each row.
    """
    if len(clauses) > _CLAUSES:
        return None
    found = np.zeros(batch.length, np.bool_)
    for clause in clauses:
        held = [_within(points, ranges) for points, ranges in _hulls(batch, clause)]
        if not held:
            return None
        found |= np.logical_and.reduce(held)
    places = np.flatnonzero(found)
    return places if 4 * len(places) < batch.length else None


def _hulls(batch: ArrowBatch, clause: Clause) -> Iterator[tuple[NDArray[np.float64], Ranges]]:
    """The columns of one number for each publication that a clause is about, with its ranges."""
    for column, ranges in (each for predicate in clause for each in predicate.hull):
        if not (column.how.is_text or column.how.is_many) and len(ranges) <= _RANGES:
            points = batch.points(column)
            if points is None:
                yield np.full(batch.length, np.nan), ranges
            elif isinstance(points, np.ndarray):
                yield points, ranges


def _within(points: NDArray[np.float64], ranges: Ranges) -> NDArray[np.bool_]:
    found = np.zeros(len(points), np.bool_)
    for low, high in ranges:
        found |= (points >= low) & (points < high)
    return found


def _known(content: pa.Table, names: frozenset[str]) -> list[str]:
    return [name for name in content.column_names if name in names]


def _parts(valid: ValidSet) -> Iterator[ValidGroup]:
    """The publications of a set, so many at a time."""
    for content, rows in valid.groups():
        for begin in range(0, len(rows.row), _TOGETHER):
            some = slice(begin, begin + _TOGETHER)
            yield ValidGroup(content.slice(begin, _TOGETHER), ValidRows(*(array[some] for array in rows)))
