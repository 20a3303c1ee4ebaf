"""A segment matched with one publication at a time.

``Segment.match`` takes a batch column by column, which costs a hundred microseconds before anything is matched.
``SingleSegment`` holds the same arrays in the order of the arguments of ``select_one``, which matches one publication
in one call. Only what ranges do not decide, and what terms lead to, comes back to Python.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch
from tidegate.index.clauses import joined
from tidegate.index.publication_points import Layout, PublicationPoints
from tidegate.index.segment import Segment, predicate_of
from tidegate.index.terms import MOST_KINDS, FoundTerms
from tidegate.kernels.bits import LINE_BITS
from tidegate.kernels.matched_owners import open_pairs, owners_of_clauses
from tidegate.kernels.select_one import driven_one, select_one, select_one_aside
from tidegate.predicates.column import Row

__all__ = ["OwnersFound", "SingleSegment"]

#: Owners for which there is room at first.
_ROOM = 1 << 16
#: Clauses from which a match takes so long that other threads had better run meanwhile.
_LARGE = 1 << 18


class OwnersFound:
    """The owners that one publication was found to match, in an array that a thread uses again and again."""

    def __init__(self) -> None:
        self.length = 0
        self.array = np.empty(_ROOM, np.int32)
        self.stamps = np.zeros(0, np.int32)
        """By owner, the last ``stamp`` with which it was found."""
        self.stamp = 0

    def begin(self, owners: int) -> None:
        """Forget what was found; there are so many owners."""
        self.length = 0
        if self.stamp == _LAST_STAMP or len(self.stamps) < owners:
            self.stamps, self.stamp = np.zeros(owners, np.int32), 0
        self.stamp += 1

    def grow(self, room: int) -> None:
        """Make room for so many more."""
        larger = np.empty(2 * (self.length + room), np.int32)
        larger[: self.length] = self.array[: self.length]
        self.array = larger


_LAST_STAMP = np.iinfo(np.int32).max


class SingleSegment:
    """A segment and the places of its columns in a layout."""

    def __init__(self, segment: Segment, layout: Layout) -> None:
        self.segment = segment
        self._place = layout.places_of(segment.clauses.columns)
        self._in_batches_only = any(lookup is not None and lookup.in_batches_only for lookup in segment.lookups)
        self._select = select_one if len(segment.clauses) < _LARGE else select_one_aside

    @cached_property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        segment, axes, clauses = self.segment, self.segment.axes, self.segment.clauses
        texts = [clauses.texts.get(c) for c in range(len(clauses.columns))]
        starts = np.cumsum([0, *(0 if t is None else len(t.offsets) - 1 for t in texts)], dtype=np.int64)
        offsets, letters = joined([t for t in texts if t is not None])
        return (
            self._place, starts, offsets, letters, axes.cuts, axes.row_start, axes.row_of_code, axes.bucketed,
            axes.row_start[:-1] + np.arange(len(clauses.columns)), segment.summary,
            segment.entry_start, segment.entry_column, segment.entry_offset, segment.table, segment.alive,
            segment.doubtful, clauses.start, clauses.column, clauses.low, clauses.high, clauses.owner_start,
            clauses.owner,
        )  # fmt: skip

    @cached_property
    def _room(self) -> int:
        """The most owners, or clauses, that 64 blocks can give."""
        clauses, width = self.segment.clauses, 64 * LINE_BITS
        edges = clauses.owner_start[np.minimum(np.arange(0, len(clauses) + width, width), len(clauses))]
        return max(int(np.diff(edges).max(initial=0)), width)

    def match_one(
        self,
        batch: Batch,
        i: int,
        points: PublicationPoints,
        dead: NDArray[np.uint8],
        some_dead: bool,
        found: OwnersFound,
    ) -> None:
        """Find the living owners of the clauses that hold for publication i of the batch, which has these points."""
        segment = self.segment
        if self._in_batches_only:
            start, owners = segment.match(batch, dead, some_dead)
            mine = owners[start[i] : start[i + 1]]
            if found.length + len(mine) > len(found.array):
                found.grow(len(mine))
            found.array[found.length : found.length + len(mine)] = mine
            found.length += len(mine)
            return
        clauses = segment.clauses
        plain = not (some_dead or segment.repeats or clauses.any_open)  # every hit is a match of all its owners
        n = found.length
        while segment.drivers.tabled:
            n = self._select(*points.arrays, *self._arrays, plain, self._room, found.length, found.array)
            if n >= 0:
                break
            found.grow(len(found.array) + self._room)
        if plain:
            found.length = n
            return
        hits = found.array[found.length : n].copy()
        if clauses.any_open:
            hits = self._with_terms(hits, points, batch.row(i))
        if len(hits):
            found.length = self._owned(hits, dead, found)

    def _with_terms(self, hits: NDArray[np.int32], points: PublicationPoints, row: Row) -> NDArray[np.int32]:
        """The hits whose remaining predicates hold, with those that terms led to."""
        segment, clauses = self.segment, self.segment.clauses
        terms = [None if lookup is None else lookup.alone(row) for lookup in segment.lookups]
        settled: list[NDArray[np.int32]] = []
        for drives, found in zip(segment.drivers.starts, terms, strict=True):
            if found is not None and len(term := found.pairs[1]):
                with_more, without = driven_one(
                    *points.arrays, *self._arrays[:4], term, drives,
                    clauses.start, clauses.column, clauses.low, clauses.high, clauses.open_start,
                )  # fmt: skip
                hits = np.concatenate([hits, with_more]) if len(with_more) else hits
                settled.append(without)
        if len(hits):
            settled.append(self._settled(hits, row, terms))
        return settled[0] if len(settled) == 1 else np.concatenate([*settled, hits[:0]])

    def _owned(self, hits: NDArray[np.int32], dead: NDArray[np.uint8], found: OwnersFound) -> int:
        clauses = self.segment.clauses
        while True:
            n = owners_of_clauses(
                hits, clauses.owner_start, clauses.owner, dead, found.stamps, found.stamp, found.length, found.array
            )
            if n >= 0:
                return int(n)
            found.grow(2 * len(found.array))

    def _settled(self, hits: NDArray[np.int32], row: Row, terms: list[FoundTerms | None]) -> NDArray[np.int32]:
        """The hits whose remaining predicates hold."""
        clauses = self.segment.clauses
        one_run = np.array([[0, 0, len(hits)]])
        pairs = open_pairs(one_run, hits, clauses.open_start, clauses.open_predicate, MOST_KINDS)
        start = pairs.start.tolist()
        kept = np.ones(len(hits), np.bool_)
        for kind, found in enumerate(terms):
            if found is not None and start[kind + 1] < start[kind + 2]:
                mine = slice(start[kind + 1], start[kind + 2])
                held = found.holds(pairs.publication[mine], pairs.number[mine], pairs.negated[mine])
                kept[pairs.position[mine][~held]] = False
        known: dict[int, bool] = {}
        for k, number in zip(pairs.position[: start[1]].tolist(), pairs.number[: start[1]].tolist(), strict=True):
            if kept[k]:
                is_held = known.get(number)
                if is_held is None:
                    is_held = known[number] = predicate_of(clauses.predicates[number]).holds(row)
                kept[k] = is_held
        return hits[kept]
