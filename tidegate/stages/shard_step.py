"""One batch of a shard of patterns: ``stepped`` takes a ``Combine`` through a ``StepRecord``.

``CombineStep`` calls it for a batch that comes, ``built`` for one that is done again; the same batch on the same arrays
always gives the same arrays. Where batches are cut must change nothing. So subscriptions see what appeared between the
versions at which they were made and ended, and a batch in which the last subscription to the past ends is taken in
several *spans* of versions, because what ``past`` remembers ends with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.patterns import Combine, Raised
from tidegate.patterns.memory import LONG_AGO, Arrivals
from tidegate.patterns.past import Fates, Past
from tidegate.patterns.pattern import NEVER
from tidegate.stages.shard_parts import Piece, ShardFiles, read_pieces
from tidegate.stages.shard_state import TOGETHER, CombineSettings, PartReference, ShardChanges, StepRecord

__all__ = ["fates_of", "stepped"]

_NO_CHANGES = ShardChanges((), ())


def stepped(shard: Combine, step: StepRecord, files: ShardFiles, ids: bool = False) -> Raised:
    """Take a shard one batch further. The same batch on the same arrays always gives the same arrays."""
    settings = step.settings
    shard.lateness, shard.combinations, shard.keep = settings.lateness, settings.combinations, settings.keep
    changes = _NO_CHANGES if step.changes is None else ShardChanges.unpacked(files.read(step.changes)[1])
    batch = _Span(changes, step.parts, [_pieces(part, files) for part in step.parts])
    raised, fates = list[Raised](), list[Fates]()
    for span in batch.split(_forgets_at(_past(shard), changes)):
        raised.append(_taken(shard, span, settings, ids))
        if (found := fates_of(shard)) is not None:
            fates.append(found)
    if fates:
        _past(shard).fates = Fates.joined(fates)
    return Raised.joined(raised)


def fates_of(shard: Combine) -> Fates | None:
    """What became of the publications of the last batch as parts of events; None if nobody asked about the past."""
    return _past(shard).fates


def _past(shard: Combine) -> Past:
    found = shard.families[Past.name]
    assert isinstance(found, Past)
    return found


def _pieces(part: PartReference, files: ShardFiles) -> list[Piece]:
    return [] if part.file is None else read_pieces(files.read(part.file), f"{files.location}/{part.file}")


def _taken(shard: Combine, span: _Span, settings: CombineSettings, ids: bool) -> Raised:
    """Take a shard through a span of versions, as if that were a batch."""
    facts = shard.arrays.facts
    clocks = _Clocks(span.parts, settings.lateness, facts.newest, facts.wall)
    gone = _changed(shard, span.changes, clocks)
    arrivals = list[Arrivals]()
    for pieces, clock in zip(span.pieces, clocks.before_each(), strict=True):
        arrivals += [piece.taken_by(shard, clock, settings.lateness) for piece in pieces]
    first = clocks.first() if shard.clock is None else None
    _past(shard).fates = None
    raised = shard.take(arrivals, clocks.end, first, ids)
    if clocks.newest is not None:
        facts.newest = clocks.newest
    if clocks.wall is not None:
        facts.wall = clocks.wall
    if len(gone):
        shard.dismiss(gone)
    return raised


def _changed(shard: Combine, changes: ShardChanges, clocks: _Clocks) -> NDArray[np.int64]:
    """Admit the subscriptions that come and note when others ended; the owners to dismiss after the batch."""
    if changes.admitted:
        shard.admit(changes.admitted, [clocks.at(standing.since) for standing in changes.admitted])
    gone = np.array([owner for owner, _ in changes.ended], np.int64)
    if len(gone):
        until = np.array([version for _, version in changes.ended], np.int64)
        at = {int(version): clocks.at(int(version)) for version in np.unique(until)}
        last = [LONG_AGO if (clock := at[int(version)]) is None else clock for version in until]
        shard.end(gone, until, np.array(last, np.int64))
    return gone


# --- spans of versions ----------------------------------------------------------------------------------------------


class _Span(NamedTuple):
    """What came of a batch between two versions: all of it, as a rule."""

    changes: ShardChanges
    parts: Sequence[PartReference]
    pieces: Sequence[Sequence[Piece]]
    """Those of each part."""

    def split(self, at: Sequence[int]) -> Iterator[_Span]:
        """The spans up to each of these versions and the one after the last, which has the time of day."""
        if not at:
            yield self
            return
        for begin, end in pairwise((LONG_AGO, *at, NEVER)):
            changes = ShardChanges(
                [standing for standing in self.changes.admitted if begin <= standing.since < end],
                [(owner, until) for owner, until in self.changes.ended if begin < until <= end],
            )
            parts = [part.between(begin, end) for part in self.parts]
            if end < NEVER:
                parts = [replace(part, wall=None) for part in parts]
            yield _Span(changes, parts, [[piece.between(begin, end) for piece in pieces] for pieces in self.pieces])


def _forgets_at(past: Past, changes: ShardChanges) -> list[int]:
    """The versions of a batch at which the last subscription to the past had ended, and maybe none came yet."""
    ended = dict(changes.ended)
    there = past.owner.used
    if not ended or not np.isin(there, np.array(list(ended))).all():  # as a rule
        return []
    lives = [(since, ended[owner]) for owner, since in zip(there.tolist(), past.since.used.tolist(), strict=True)]
    lives += [(s.since, ended.get(s.owner, NEVER)) for s in changes.admitted if s.family == Past.name]
    found, latest = list[int](), LONG_AGO
    for since, until in sorted(lives):
        if LONG_AGO < latest <= since:
            found.append(latest)
        latest = max(latest, until)
    return [*found, latest] if LONG_AGO < latest < NEVER else found


# --- the clock ------------------------------------------------------------------------------------------------------


class _Clocks:
    """The clock of a shard at each point of a span.

    It is ``lateness`` behind the newest publication so far or, where the source has one and it is later, behind the
    time of day. ``newest`` and ``wall`` are those two after the span.
    """

    def __init__(self, parts: Sequence[PartReference], lateness: int, newest: int | None, wall: int | None) -> None:
        self._parts, self._lateness = parts, lateness
        self._before, self._wall_before = newest, wall
        self._stamped = [stamp for part in parts for stamp in part.versions if stamp[1] > LONG_AGO]
        self._walls = [part.wall for part in parts if part.wall is not None]
        self.newest = _latest(newest, *(top for _, top in self._stamped))
        self.wall = _latest(wall, *self._walls)

    def at(self, version: int) -> int | None:
        """The clock at the moment when the registry came to a version."""
        top = _latest(self._before, *(top for v, top in self._stamped if v < version))
        return self._behind(top, self._wall_before)

    def before_each(self) -> Iterator[int | None]:
        """The clock before each part: that after the parts before it, unless all appeared together."""
        high, at_first = self._before, self.at(-1)
        for part in self._parts:
            clock = at_first
            if high is not None and part.order != TOGETHER:
                clock = _latest(high - self._lateness, at_first)
            yield clock
            high = _latest(high, *(top for _, top in part.versions if top > LONG_AGO))

    @property
    def end(self) -> int | None:
        """The clock after the span."""
        return self._behind(self.newest, self.wall)

    def first(self) -> int | None:
        """The clock before the first publication, for the first batch that moves it."""
        if self.end is None:
            return None
        firsts = [part.first for part in self._parts if part.first is not None]
        if not firsts:
            return min(self._walls) - self._lateness
        in_order = self._parts[0].order not in (None, TOGETHER)
        return (firsts[0] if in_order else min(firsts)) - self._lateness

    def _behind(self, *moments: int | None) -> int | None:
        latest = _latest(*moments)
        return None if latest is None else latest - self._lateness


def _latest(*moments: int | None) -> int | None:
    return max((moment for moment in moments if moment is not None), default=None)
