"""One shard of patterns: ``Combine`` takes publications as they appear, puts them in order, and lets each family step.

The same code runs in the engine in process (``PatternShards``) and in the combine step on Spark. The caller passes the
time in; nothing here reads a clock. Results (``Raised``) name subscriptions by the numbers with which the caller
admitted them, their owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.identity import digests
from tidegate.language.limits import DEFAULT_LIMITS
from tidegate.patterns.arrays import Arrays
from tidegate.patterns.memory import LONG_AGO, Arrivals, Memory, rowless
from tidegate.patterns.pattern import FAMILIES, NEVER, Admission, Family, FamilyResult
from tidegate.patterns.raised import SILENCE, Raised

__all__ = ["KEEP", "Combine", "Standing"]


#: How long events are remembered by default: microseconds of the longest window.
KEEP = DEFAULT_LIMITS.window * 1_000_000


class Standing(NamedTuple):
    """A subscription with a pattern, as a shard takes it."""

    owner: int
    since: int
    """The version at which it was made: it sees what appeared at that version or later."""
    until: int
    """The version at which it ended."""
    family: str
    form: str
    numbers: Sequence[float]
    filters: Sequence[bytes]
    """Keys of its filters."""
    begins: int | None
    ends: int | None


class Combine:
    """The patterns of one shard and all that they remember."""

    def __init__(
        self,
        lateness: int = 0,
        directory: Path | None = None,
        combinations: int = DEFAULT_LIMITS.combinations,
        keep: int = KEEP,
    ) -> None:
        self.arrays = Arrays(directory)
        self.lateness, self.combinations = lateness, combinations
        self.keep, self.most = keep, NEVER
        self._begin()

    def _begin(self) -> None:
        """Make memory and families over the arrays, which hold a new or another state."""
        self.memory = Memory(self.arrays)
        self.families: dict[str, Family] = {name: kind(self.arrays, self.memory) for name, kind in FAMILIES.items()}
        self._waiting = _Waiting(self.arrays)
        self._note_filters()

    def _note_filters(self) -> None:
        """Write down which families have which filter, so that ``take`` asks only families that are concerned."""
        self.memory.families = np.zeros(self.memory.key.length, np.uint8)
        for number, family in enumerate(self.families.values()):
            self.memory.families[family.filters()] |= np.uint8(1 << number)

    # --- time -------------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> int | None:
        """The moment up to which everything has been processed; None before the first publication appeared."""
        return self.arrays.facts.clock

    @property
    def late(self) -> int:
        """Publications that came too late for patterns."""
        return self.arrays.facts.late

    @property
    def counts(self) -> dict[str, int]:
        """The counters of this shard and its families, such as publications that came too late."""
        more = {name: n for family in self.families.values() for name, n in family.counts.items()}
        return {"late": self.late, **more}

    @property
    def waiting(self) -> int:
        """Publications that wait for others that may still come before them."""
        return len(self._waiting)

    def sizes(self) -> dict[str, int]:
        """Subscriptions per family."""
        return {name: family.owner.length for name, family in self.families.items()}

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def admit(self, standing: Iterable[Standing], clocks: Sequence[int | None] | None = None) -> None:
        """Take subscriptions. ``clocks`` says how far the clock was when each was made, by default as far as now."""
        now = self.clock
        groups: dict[str, list[Admission]] = {}
        for number, s in enumerate(standing):
            clock = now if clocks is None else clocks[number]
            made_at = None if clock is None else clock + self.lateness
            filters = self.memory.numbered(s.filters)
            window = FAMILIES[s.family].window(s.form, s.numbers)
            for array, needed in zip((self.memory.reach, self.memory.depth), window, strict=True):
                array.data[filters] = np.maximum(array.data[filters], needed)
            begins = LONG_AGO if s.begins is None else s.begins
            ends = NEVER if s.ends is None else s.ends - 1
            groups.setdefault(s.family, []).append(
                Admission(s.owner, s.since, s.until, s.form, s.numbers, filters, made_at, begins, ends)
            )
        for name, admissions in groups.items():
            self.families[name].add(admissions)
        self._note_filters()

    def owners(self) -> NDArray[np.int64]:
        """The owners of all subscriptions of the shard."""
        return np.concatenate([family.owner.used for family in self.families.values()])

    def end(self, owners: NDArray[np.int64], versions: NDArray[np.int64], clocks: NDArray[np.int64]) -> None:
        """Note that subscriptions ended at these versions and clocks; ``dismiss`` removes them later."""
        place = np.argsort(owners)
        sorted_owners = owners[place]
        for family in self.families.values():
            found = np.searchsorted(sorted_owners, family.owner.used)
            found[found == len(owners)] = 0
            slots = np.flatnonzero(sorted_owners[found] == family.owner.used) if len(owners) else found[:0]
            which = place[found[slots]]
            # with lateness, publications of exactly the clock's time still wait
            stepped = clocks[which] - (1 if self.lateness else 0)
            family.close(slots, versions[which], clocks[which], stepped)

    def dismiss(self, owners: NDArray[np.int64]) -> None:
        """Remove subscriptions."""
        for family in self.families.values():
            slots = np.flatnonzero(np.isin(family.owner.used, owners))
            if len(slots):
                family.remove(slots)
        self._note_filters()

    # --- publications -----------------------------------------------------------------------------------------------

    def take(
        self, arrivals: Sequence[Arrivals], clock: int | None, first: int | None = None, ids: bool = True
    ) -> Raised:
        """Take the publications that appeared, let the clock run to ``clock``, and return what that raises.

        ``first`` is the first moment of the clock, given only when the clock begins to run. Without ``ids`` only the
        publication that raised a notification is named, which is all that its grouped form has.
        """
        facts = self.arrays.facts
        before = facts.clock
        if not arrivals and self.is_idle:  # no subscription and no publication that the clock could concern
            clock = first if clock is None else clock
            if clock is not None:
                facts.clock = clock if before is None else max(before, clock)
            return SILENCE
        if before is None and first is not None:
            for family in self.families.values():
                family.wake(first + self.lateness)
            facts.clock = before = first
        moves = clock is not None and (before is None or clock >= before)
        if not arrivals and not len(self._waiting) and not (moves and self._is_due(clock)):
            if moves:
                facts.clock = clock
            return SILENCE
        told: list[tuple[Family, list[FamilyResult]]] = [(family, []) for family in self.families.values()]
        ready = self._ordered(arrivals, clock)
        if len(ready):
            self._step(ready, told)
        if clock is not None and moves:
            facts.clock = clock
            for family, parts in told:
                if family.due <= clock and (more := family.advance(clock)) is not None:
                    parts.append(more)
        result = self._raised(told, ids)
        if self.memory.is_large:
            named = [items for family in self.families.values() for items in family.items()]
            self.memory.forget(LONG_AGO if facts.clock is None else facts.clock, named)
        return result

    def _step(self, ready: Arrivals, told: list[tuple[Family, list[FamilyResult]]]) -> None:
        """Let families step through publications that are in order, and append what they raise."""
        oldest = int(ready.version.min())
        strict = any(family.may_not_see(oldest) for family in self.families.values())
        step = self.memory.take(ready, strict, self.combinations, self.keep, self.most)
        for number, (family, parts) in enumerate(told):
            if family.owner.length and step.families >> number & 1:
                parts.append(family.step(step))

    def _is_due(self, clock: int | None) -> bool:
        """Whether a family may raise something, or let it go, up to that moment."""
        if clock is not None:
            for family in self.families.values():
                if family.due <= clock:
                    return True
        return False

    def replay(self, arrivals: Sequence[Arrivals], families: Sequence[str]) -> None:
        """Let some families take publications of a history, in the order of their turns, and drop what they raise."""
        everything = Arrivals.joined(arrivals)
        if len(everything):
            ready = everything.picked(np.argsort(everything.turn, kind="stable"))
            step = self.memory.take(ready, True, self.combinations, self.keep, self.most)
            for name in families:
                self.families[name].step(step)
            self.memory.forget(LONG_AGO, [])

    @property
    def is_idle(self) -> bool:
        """Whether no subscription is here, and nothing waits."""
        for family in self.families.values():
            if family.owner.length:
                return False
        return not len(self._waiting)

    def _ordered(self, arrivals: Sequence[Arrivals], clock: int | None) -> Arrivals:
        """The publications that families may step through now, in order; later ones wait, late ones are counted."""
        if len(arrivals) == 1 and len(arrivals[0]) == 1 and not self.lateness and not len(self._waiting):
            only = arrivals[0]
            if only.time[0] >= only.clock[0]:
                return only
        here = []
        for part in arrivals:
            is_late = part.time < part.clock
            if late := int(np.count_nonzero(is_late)):
                self.arrays.facts.late += late
                part = part.picked(np.flatnonzero(~is_late))
            if len(part):
                here.append(part)
        width = self.memory.values.data.shape[1]
        here = [*self._waiting.all(width), *here]
        if not here:
            return _nothing(width)
        everything = Arrivals.joined(here)
        rows = everything.in_order(by_turn=not self.lateness)
        if not self.lateness:
            ready = everything.picked(rows)
            if len(self._waiting):  # from a state with a lateness
                self._waiting.replace(_nothing(width))
            return ready
        n = int(np.searchsorted(everything.time[rows], LONG_AGO if clock is None else clock, "left"))
        # Copies, because ``replace`` overwrites the arrays in which the publications that waited lie.
        ready, rest = everything.picked(rows[:n]), everything.picked(rows[n:])
        self._waiting.replace(rest)
        return ready

    def _raised(self, told: list[tuple[Family, list[FamilyResult]]], ids: bool) -> Raised:
        """The results of the families with ids in place of places in memory; those of one subscription are in order."""
        some = [(family, [part for part in parts if len(part.slot)]) for family, parts in told if parts]
        parts = [(family, part) for family, theirs in some if theirs for part in family.raised(theirs)]
        if not parts:
            return SILENCE
        memory, owner = self.memory, _joined([f.owner.data[part.slot] for f, part in parts])
        moment, score, distance, raised, items = (
            _joined([getattr(part, name) for _, part in parts])
            for name in ("moment", "score", "distance", "raised", "items")
        )
        if not ids:
            texts, hashes = memory.texts(raised), memory.hashes(raised)
            return replace(
                SILENCE, owner=owner, moment=moment, raised=texts, raised_row=memory.rows(raised), raised_hash=hashes
            )
        start = parts[0][1].start
        if len(parts) > 1:
            sizes = np.concatenate([np.diff(part.start) for _, part in parts])
            start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        digest = digests(start, items, memory.hash.data)
        return Raised(
            owner, moment, score, distance, start, memory.texts(items), memory.rows(items),
            memory.texts(raised), memory.rows(raised), memory.hashes(raised), digest,
        )  # fmt: skip

    # --- trials -----------------------------------------------------------------------------------------------------

    def copied(self) -> Combine:
        """Another shard in the same state, on the heap: what it takes does not change this one."""
        copy = Combine(self.lateness, None, self.combinations, self.keep)
        copy.most = self.most
        copy.restore(self.arrays.copied())
        for name, family in copy.families.items():
            family.connect(self.families[name])
        return copy

    def has_waiting(self, arrival: Arrivals) -> bool:
        """Whether the same publication, known by its hash and its time, waits already."""
        return self._waiting.has(arrival)

    def before(self, arrival: Arrivals) -> Combine:
        """The shard as it would be at the turn of a publication that came now, if nothing else came before it."""
        width = self.memory.values.data.shape[1]
        if not len(self._waiting):
            return self
        everything = Arrivals.joined([*self._waiting.all(width), arrival])
        rows = everything.in_order(by_turn=False)
        turn = int(np.flatnonzero(rows == len(everything) - 1)[0])
        copy = self.copied()
        copy._waiting.replace(_nothing(width))
        if turn:
            copy._step(everything.picked(rows[:turn]), [(family, []) for family in copy.families.values()])
        return copy

    # --- keeping ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """A copy of the whole state, as flat arrays."""
        return self.arrays.copied()

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a snapshot."""
        self.arrays.restore(arrays)
        self._begin()

    def adopt(self, token: str) -> bool:
        """Go on from what another process of this machine has published, if it is of that state."""
        if not self.arrays.adopt(token):
            return False
        self._begin()
        return True


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class _Waiting:
    """Publications that wait until none can come before them, in the arrays of the state."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        get = arrays.get
        self._flat = {
            "time": get("waiting-time", np.int64), "clock": get("waiting-clock", np.int64),
            "turn": get("waiting-turn", np.int64), "version": get("waiting-version", np.int64),
            "row": get("waiting-row", np.int64), "offsets": get("waiting-offsets", np.int64),
            "letters": get("waiting-letters", np.uint8), "phase": get("waiting-phase", np.uint8),
            "hash": get("waiting-hash", np.uint64, 2), "source": get("waiting-source", np.uint64, 2),
            "values": get("waiting-values", np.float64, 0), "start": get("waiting-start", np.int64),
            "hits": get("waiting-hits", np.int32),
        }  # fmt: skip
        if self._flat["row"].length < len(self):  # a state from before publications had rows
            self._flat["row"].extend(rowless(len(self) - self._flat["row"].length))

    def __len__(self) -> int:
        return self._flat["time"].length

    def all(self, width: int) -> list[Arrivals]:
        """All of them, with so many columns of values."""
        if not len(self):
            return []
        found = Arrivals(**{name: array.used for name, array in self._flat.items()})
        if found.values.shape[1] != width:
            wider = np.full((len(found), width), np.nan)
            wider[:, : found.values.shape[1]] = found.values
            found = replace(found, values=wider)
        return [found]

    def has(self, arrival: Arrivals) -> bool:
        """Whether one of them is the one publication of ``arrival``."""
        same = (self._flat["hash"].used == arrival.hash[0]).all(axis=1)
        return bool((same & (self._flat["time"].used == arrival.time[0])).any())

    def replace(self, arrivals: Arrivals) -> None:
        """Let these publications wait, and no others."""
        for name, array in self._flat.items():
            array.replace(getattr(arrivals, name))


def _nothing(width: int) -> Arrivals:
    none, pairs = np.empty(0, np.int64), np.empty((0, 2), np.uint64)
    zero, bytes_ = np.zeros(1, np.int64), np.empty(0, np.uint8)
    values, hits = np.empty((0, width)), np.empty(0, np.int32)
    return Arrivals(none, none, none, none, none, zero, bytes_, bytes_, pairs, pairs, values, zero, hits)
