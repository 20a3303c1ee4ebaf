"""The index: segments that never change, a draft of what was just added, and a mark on what was removed.

``Index.add`` appends to the draft; the next ``Index.match`` turns the draft into a small segment. Segments of similar
size are merged, small ones at once and large ones in a thread of the index, and the new tuple of segments replaces the
old one by one assignment. ``Index.match`` reads that tuple once and works on it to the end, so it needs no lock; only
methods that change the index take ``_writing``. An index knows its owners as numbers, not as subscriptions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch
from tidegate.index.segment import Segment
from tidegate.index.segment_draft import Draft
from tidegate.kernels.matched_owners import join_rows
from tidegate.predicates.filter import Filter

__all__ = ["Index", "Matches"]

#: A segment is merged with the next smaller one unless it is this many times larger.
_RATIO = 4
#: Merges of more clauses than this run in the thread of the index.
_ASIDE = 16_384


class Matches(NamedTuple):
    """Owners per publication: those of publication p are ``owners[start[p]:start[p + 1]]``, in no particular order."""

    start: NDArray[np.int64]
    owners: NDArray[np.int32]


class Index:
    """Filters by owner, to be matched with batches; an owner is a number from 0 up that the caller gives."""

    def __init__(self, segments: Sequence[Segment] = (), owners: int = 0) -> None:
        self._segments: tuple[Segment, ...] = tuple(segments)
        self._columns = {column for segment in segments for column in segment.clauses.columns}
        self._draft = Draft(self._columns)
        self._dead = np.zeros(max(1024, owners), np.uint8)
        self._some_dead = False
        self._writing = threading.RLock()
        self._aside: ThreadPoolExecutor | None = None
        self._merging: Future[None] | None = None
        self._being_merged = 0

    # --- changing ---------------------------------------------------------------------------------------------------

    def add(self, owner: int, filter: Filter) -> None:
        """Take a filter for an owner that has none yet."""
        with self._writing:
            if owner >= len(self._dead):
                larger = np.zeros(2 * owner, np.uint8)
                larger[: len(self._dead)] = self._dead
                self._dead = larger
            self._draft.add(owner, filter)

    def remove(self, owner: int) -> None:
        """Never match this owner again. Its clauses go when their segment is next merged."""
        with self._writing:
            self._dead[owner] = 1
            self._some_dead = True

    def changed(self, gone: Iterable[int], new: Iterable[tuple[int, Filter]]) -> Index:
        """Another index, without some owners and with some more, ready to match. This one stays as it is."""
        self.wait()
        with self._writing:
            index = Index(self.segments, len(self._dead))
            index._dead[: len(self._dead)] = self._dead
            index._some_dead = self._some_dead
        for owner in gone:
            index.remove(owner)
        for owner, filter in new:
            index.add(owner, filter)
        _ = index.segments
        return index

    def match(self, batch: Batch) -> Matches:
        """The owners of the filters that hold, per publication."""
        if len(self._draft):
            self._take_draft()
        segments, dead, some_dead = self._segments, self._dead, self._some_dead
        start, owners = np.zeros(batch.length + 1, np.int64), np.empty(0, np.int32)
        for segment in segments:
            more = segment.match(batch, dead, some_dead)
            start, owners = join_rows(start, owners, *more) if len(owners) else more
        return Matches(start, owners)

    # --- folding ----------------------------------------------------------------------------------------------------

    def _take_draft(self, merge: bool = True) -> None:
        with self._writing:
            if len(self._draft):
                # in this order: a thread that still sees the draft waits for ``_writing`` and then finds its segment
                self._segments = (*self._segments, Segment.build(self._draft))
                self._draft = Draft(self._columns)
                if merge:
                    self._merge_small()

    def _merge_small(self) -> None:
        """Merge from the small end while neighbours are of similar size; ``_merge_aside`` does a large merge."""
        while True:
            segments = self._segments
            taken = self._being_merged if self._merging is not None and not self._merging.done() else 0
            if len(segments) - taken < 2 or len(segments[-2].clauses) > _RATIO * len(segments[-1].clauses):
                return
            if len(segments[-2].clauses) + len(segments[-1].clauses) > _ASIDE:
                if not taken:
                    self._merge_aside(segments)
                return
            self._segments = (*segments[:-2], Segment.merge(segments[-2:], self._dead))

    def _merge_aside(self, segments: tuple[Segment, ...]) -> None:
        """Merge the last segments, of similar size, in the thread of the index; the result then takes their place."""
        n = len(segments) - 2
        total = len(segments[-1].clauses) + len(segments[-2].clauses)
        while n > 0 and len(segments[n - 1].clauses) <= _RATIO * total:
            n -= 1
            total += len(segments[n].clauses)
        if self._aside is None:
            self._aside = ThreadPoolExecutor(1, thread_name_prefix="tidegate-fold")
        self._being_merged = len(segments)

        def fold() -> None:
            merged = Segment.merge(segments[n:], self._dead)
            with self._writing:
                self._segments = (*segments[:n], merged, *self._segments[len(segments) :])

        self._merging = self._aside.submit(fold)

    def wait(self) -> None:
        """Wait for the merge that runs in the thread of the index; if it failed, its error is raised here."""
        merging = self._merging
        if merging is not None:
            merging.result()

    def compact(self) -> Segment:
        """Everything that is alive as one segment, which becomes the only one."""
        while True:
            self.wait()
            with self._writing:
                if self._merging is not None and not self._merging.done():
                    continue  # an ``add`` of another thread started another merge
                self._take_draft(merge=False)
                if not self._segments:
                    self._segments = (Segment.build(Draft()),)
                elif len(self._segments) > 1 or self._dead[self._segments[0].clauses.owner].any():
                    self._segments = (Segment.merge(self._segments, self._dead),)
                self._some_dead = False
                return self._segments[0]

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments there are now, largest first as a rule."""
        if len(self._draft):
            self._take_draft()
        return self._segments

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self.segments)

    def close(self) -> None:
        """End the thread that merges."""
        if self._aside is not None:
            self._aside.shutdown(wait=True)
            self._aside = None
