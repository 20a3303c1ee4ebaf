"""``Trial``: what one subscription would be told if a publication came next, found out without changing anything.

``PatternShards`` and the pipeline make one for ``explain``. A copy of the shard takes the publication, which gives
exactly the notifications that publishing it would; the reasons are read from the state at the publication's turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tidegate.patterns.combine import Combine
from tidegate.patterns.memory import Arrivals
from tidegate.patterns.pattern import Family
from tidegate.patterns.raised import Raised
from tidegate.patterns.reason import Asked, Coming, Reason, when

__all__ = ["Trial"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A publication that came next, for one subscription."""

    raised: Raised
    """All that the subscription is told when it comes."""
    notes: tuple[str, ...]
    """What is to be said of the publication before anything else: that it is late or waits, say."""
    is_seen: bool
    """Whether patterns see it, now or later: it is neither late nor refused."""
    _family: Family
    _slot: int
    _coming: Coming

    @staticmethod
    def of(shard: Combine, owner: int, arrival: Arrivals, clock: int, first: int | None) -> Trial:
        """The trial of a subscription, by its owner, and a publication; ``clock`` and ``first`` as ``take`` has them.

        ``arrival`` has one publication, which may have passed no filter.
        """
        family, slot = _found(shard, owner)
        here = (arrival,) if len(arrival.hits) else ()
        raised = shard.copied().take(here, clock, first).of(owner)
        time = int(arrival.time[0])
        is_late = time < int(arrival.clock[0])
        state = shard if is_late else shard.before(arrival)
        coming = Coming(arrival, is_late, _place(shard, arrival), 0, shard.keep, shard.most)
        at_turn = raised
        if shard.lateness and here and not is_late:
            turn = state.copied()
            turn.lateness = 0
            at_turn = turn.take(here, time, None if shard.clock is not None else time).of(owner)
        coming = replace(coming, raised=len(at_turn))
        family = state.families[family.name]
        refusal = None if is_late else family.unseen(slot, coming)
        notes = tuple(_notes(coming, refusal, shard))
        return Trial(raised, notes, not is_late and refusal is None, family, slot, coming)

    def reason(self, asked: Asked) -> Reason:
        """Why the pattern, or a condition of it, tells or does not tell of the publication."""
        return self._family.reason(self._slot, self._coming, asked)


def _notes(coming: Coming, refusal: str | None, shard: Combine) -> Iterator[str]:
    """What is to be said of a publication before anything else."""
    if coming.is_late:
        clock = f"as the clock is at {when(int(coming.arrival.clock[0]))}"
        if coming.place >= 0:
            yield f"patterns have seen it already; if it came again it would be late, {clock}"
        else:
            yield f"it comes too late, {clock}: patterns do not see it"
        return
    if refusal is not None:
        yield refusal
    if coming.place >= 0:
        yield "patterns have seen it already, and this is as if it came again"
    elif shard.has_waiting(coming.arrival):
        yield "it waits already, and this is as if it came again"
    if shard.lateness and len(coming.arrival.hits):
        until = when(coming.time + shard.lateness)
        yield f"it waits for others that may still come before it, until the time is after {until}"


def _found(shard: Combine, owner: int) -> tuple[Family, int]:
    """The family of a subscription of the shard, and its slot."""
    for family in shard.families.values():
        slots = np.flatnonzero(family.owner.used == owner)
        if len(slots):
            return family, int(slots[0])
    raise KeyError(owner)


def _place(shard: Combine, arrival: Arrivals) -> int:
    """Where in memory the same publication is; −1 if patterns have not seen it, or it is not remembered any more."""
    memory = shard.memory
    same = (memory.hash.used == arrival.hash[0]).all(axis=1) & (memory.time.used == arrival.time[0])
    places = np.flatnonzero(same)
    return int(places[-1]) if len(places) else -1
