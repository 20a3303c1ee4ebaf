"""The index: segments that never change, newcomers that are not in one yet, and a mark on what was removed.

``Index.add`` appends to a draft, and ``Index.match`` looks at the clauses of the draft one after the other. When there
are many, the thread of the index makes a segment of the draft, and it merges segments of similar size; publications do
not wait for it. All that a match reads is in one ``_Standing``, which is replaced by one assignment: a match reads it
once and works on it to the end, so it needs no lock; only what changes the index takes ``_writing``. An index knows its
owners as numbers, not as subscriptions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch
from tidegate.index.newcomers import Newcomers
from tidegate.index.publication_points import Layout, PublicationPoints
from tidegate.index.segment import Segment
from tidegate.index.segment_draft import Draft
from tidegate.index.single_segment import OwnersFound, SingleSegment
from tidegate.index.term_kinds import TEXT
from tidegate.index.text_terms import TextTerms
from tidegate.kernels.matched_owners import join_rows
from tidegate.predicates.filter import Filter

__all__ = ["Index", "Matches"]

#: A segment is merged with the next smaller one unless it is this many times larger.
_RATIO = 4
#: A batch of at most so many publications is matched one at a time; for one of at most so many a draft is scanned.
_FEW, _SOME = 8, 256
#: A draft is worth a segment when scanning it takes as long as scanning so many clauses.
_WORTH = 512
#: Seconds after which the thread of the index begins to fold.
_SOON = 0.002
_NOBODY = np.empty(0, np.int32)


class Matches(NamedTuple):
    """Owners per publication: those of publication p are ``owners[start[p]:start[p + 1]]``, in no particular order."""

    start: NDArray[np.int64]
    owners: NDArray[np.int32]


#: What one publication finds that matches nothing.
_NOTHING = Matches(np.zeros(2, np.int64), _NOBODY)


class _Standing(NamedTuple):
    """All that a match reads."""

    segments: tuple[Segment, ...]
    newcomers: tuple[Newcomers, ...] = ()
    """Those of the draft of which a segment is being built, if there is one, and those that have come since."""
    layout: Layout = Layout()
    """The columns of all newcomers and of ``singles``."""
    singles: tuple[SingleSegment, ...] = ()
    """The segments for single publications; none where no single publication has come so far."""

    def with_singles(self) -> _Standing:
        """The same with segments for single publications."""
        layout = self.layout.extended(column for segment in self.segments for column in segment.clauses.columns)
        known = {id(single.segment): single for single in self.singles}
        singles = tuple(known.get(id(segment)) or SingleSegment(segment, layout) for segment in self.segments)
        return self._replace(layout=layout, singles=singles)

    def changed(self, segments: tuple[Segment, ...], newcomers: tuple[Newcomers, ...]) -> _Standing:
        """The same with other segments and newcomers."""
        changed = self._replace(segments=segments, newcomers=newcomers)
        return changed.with_singles() if self.singles else changed


class Index:
    """Filters by owner, to be matched with batches; an owner is a number from 0 up that the caller gives."""

    def __init__(self, segments: Sequence[Segment] = (), owners: int = 0) -> None:
        self._standing = _Standing(tuple(segments))
        self._columns = {column for segment in segments for column in segment.clauses.columns}
        self._draft = Draft(self._columns)
        self._noticed = 0  # so many clauses of the draft are among the newcomers
        self._taken: Draft | None = None  # the draft of which a segment is being built
        self._dead = np.zeros(max(1024, owners), np.uint8)
        self._some_dead = False
        self._writing = threading.RLock()
        self._own = threading.local()
        self._aside: ThreadPoolExecutor | None = None
        self._folding: Future[None] | None = None
        self._is_folding = False

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
        with self._nothing_folding():
            self._take_draft()
            index = Index(self._standing.segments, len(self._dead))
            index._dead[: len(self._dead)] = self._dead
            index._some_dead = self._some_dead
        for owner in gone:
            index.remove(owner)
        for owner, filter in new:
            index.add(owner, filter)
        _ = index.segments
        return index

    # --- matching ---------------------------------------------------------------------------------------------------

    def match(self, batch: Batch) -> Matches:
        """The owners of the filters that hold, per publication."""
        if len(self._draft) == self._noticed:
            return self._match(batch)
        self._notice(batch.length)
        matches = self._match(batch)
        self._fold_aside()
        return matches

    def _match(self, batch: Batch) -> Matches:
        standing, dead, some_dead = self._standing, self._dead, self._some_dead
        if batch.length <= _FEW:
            if standing.segments and not standing.singles:
                standing = self._with_singles()
            return self._match_few(batch, standing, dead, some_dead)
        start, owners = np.zeros(batch.length + 1, np.int64), _NOBODY
        for segment in standing.segments:
            more = segment.match(batch, dead, some_dead)
            start, owners = join_rows(start, owners, *more) if len(owners) else more
        if standing.newcomers:
            scanned = self._match_few(batch, standing._replace(singles=()), dead, some_dead)
            start, owners = join_rows(start, owners, *scanned)
        return Matches(start, owners)

    def _match_few(self, batch: Batch, standing: _Standing, dead: NDArray[np.uint8], some_dead: bool) -> Matches:
        """One publication after the other with the newcomers and the single segments."""
        points, found = self._arrays_of_thread(standing.layout)
        for newcomers in standing.newcomers:
            for attribute in newcomers.series:
                batch.series(attribute)  # counts the publications that have no shape there
        for column in standing.layout.compared:
            batch.points(column)  # counts the bags that are too large
        ends, parts = [0], []
        for i in range(batch.length):
            row = batch.row(i)
            points.read(batch.attributes(i), row)
            found.begin(len(dead))
            for single in standing.singles:
                single.match_one(batch, i, points, dead, some_dead, found)
            for newcomers in standing.newcomers:
                newcomers.match_one(row, points, dead, found)
            ends.append(ends[-1] + found.length)
            parts.append(found.array[: found.length].copy())
        if batch.length == 1:
            return Matches(np.array(ends, np.int64), parts[0]) if found.length else _NOTHING
        return Matches(np.array(ends, np.int64), np.concatenate([*parts, _NOBODY]))

    def _arrays_of_thread(self, layout: Layout) -> tuple[PublicationPoints, OwnersFound]:
        own = self._own.__dict__
        points, found = own.get("points"), own.get("found")
        if points is None or points.layout is not layout:
            points = own["points"] = PublicationPoints(layout)
        if found is None:
            found = own["found"] = OwnersFound()
        return points, found

    def _with_singles(self) -> _Standing:
        """The standing with its segments for single publications."""
        with self._writing:
            self._standing = self._standing.with_singles()
            return self._standing

    # --- folding ----------------------------------------------------------------------------------------------------

    def _notice(self, publications: int) -> None:
        """Let a match see the whole draft: as newcomers or, where a batch or the draft is large, as a segment."""
        with self._writing:
            if publications > _SOME or not self._draft.is_scanned:
                self._take_draft()
            elif len(self._draft) != self._noticed:
                self._notice_draft()

    def _notice_draft(self) -> None:
        standing = self._standing
        layout = standing.layout.extended(self._draft.columns)
        being_built = standing.newcomers[:1] if self._taken is not None else ()
        newcomers = (*being_built, Newcomers(self._draft, layout))
        self._standing = standing._replace(newcomers=newcomers, layout=layout)
        self._noticed = len(self._draft)

    def _take_draft(self) -> None:
        """Make the draft a segment here and now."""
        if len(self._draft):
            segment = Segment.build(self._draft)
            standing = self._standing
            being_built = standing.newcomers[:1] if self._taken is not None else ()
            self._standing = standing.changed((*standing.segments, segment), being_built)
            # Last of all: a thread that still sees the draft waits for ``_writing`` and then finds its segment.
            self._draft, self._noticed = Draft(self._columns), 0

    def _fold_aside(self) -> None:
        """Have the thread of the index build or merge segments if that is worth while."""
        with self._writing:
            if not self._is_folding and (self._draft.work >= _WORTH or self._first_similar() is not None):
                if self._aside is None:
                    self._aside = ThreadPoolExecutor(1, thread_name_prefix="tidegate-fold")
                self._is_folding = True
                self._folding = self._aside.submit(self._fold)

    def _fold(self) -> None:
        """Build a segment of the draft, and merge segments, until neither is worth while; in the thread of the index.

        Only the last steps of each, where the result takes the place of what it was made of, are done with the lock.
        """
        time.sleep(_SOON)  # let the match return that gave us this to do: it would wait for the interpreter's lock
        try:
            while self._build() or self._merge():
                pass
        finally:
            with self._writing:
                self._is_folding = False

    def _build(self) -> bool:
        with self._writing:
            if self._taken is None:
                if self._draft.work < _WORTH:
                    return False
                self._notice_draft()
                self._taken, self._draft, self._noticed = self._draft, Draft(self._columns), 0
            draft = self._taken
        segment = Segment.build(draft)
        with self._writing:
            standing = self._standing
            self._standing = standing.changed((*standing.segments, segment), standing.newcomers[1:])
            self._taken = None
        return True

    def _merge(self) -> bool:
        with self._writing:
            segments, first = self._standing.segments, self._first_similar()
        if first is None:
            return False
        merged = Segment.merge(segments[first:], self._dead)
        with self._writing:
            standing = self._standing
            since = standing.segments[len(segments) :]
            self._standing = standing.changed((*segments[:first], merged, *since), standing.newcomers)
        return True

    def _first_similar(self) -> int | None:
        """The first of the last segments that should be one, as they are of similar size; None if no two should."""
        segments = self._standing.segments
        n = len(segments) - 1
        total = len(segments[n].clauses) if segments else 0
        while n > 0 and len(segments[n - 1].clauses) <= _RATIO * total:
            n -= 1
            total += len(segments[n].clauses)
        return n if n < len(segments) - 1 else None

    def wait(self) -> None:
        """Wait until the thread of the index has nothing to do; if it failed, its error is raised here."""
        folding = self._folding
        if folding is not None:
            folding.result()

    @contextmanager
    def _nothing_folding(self) -> Iterator[None]:
        """Hold the lock while the thread of the index does nothing."""
        while True:
            self.wait()
            with self._writing:
                if self._is_folding:
                    continue  # a match of another thread gave it something to do
                if self._taken is not None:  # it failed
                    self._build()
                yield
                return

    def compact(self) -> Segment:
        """Everything that is alive as one segment, which becomes the only one."""
        with self._nothing_folding():
            self._take_draft()
            segments = self._standing.segments
            if not segments:
                segments = (Segment.build(Draft()),)
            elif len(segments) > 1 or self._dead[segments[0].clauses.owner].any():
                segments = (Segment.merge(segments, self._dead),)
            self._standing = _Standing(segments)
            self._some_dead = False
            return segments[0]

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments there are now, with all that was added in one of them; largest first as a rule."""
        if len(self._draft) or self._is_folding or self._taken is not None:
            with self._nothing_folding():
                self._take_draft()
                self._fold_aside()
                return self._standing.segments
        return self._standing.segments

    @property
    def names(self) -> set[str]:
        """The attributes that some filter asks about: with no others, publications match the same filters."""
        return set[str]().union(*(segment.clauses.names for segment in self.segments))

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def letterless(self) -> int:
        """How many patterns of LIKE have no letter, so that they are compared with every text; by segment."""
        terms = [segment.clauses.terms[TEXT] for segment in self.segments]
        return sum(some.letterless for some in terms if isinstance(some, TextTerms))

    def close(self) -> None:
        """End the thread that merges."""
        if self._aside is not None:
            self._aside.shutdown(wait=True)
            self._aside = None
