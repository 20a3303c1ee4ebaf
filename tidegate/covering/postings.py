"""Candidates for covering: which filters are wide enough to cover a given one, or narrow enough to be covered by it.

Every filter posts its *facts*, bounds on columns and types of values that hold for all its matches. A filter can
cover another only if each of its facts is also one of the other's, within its bounds; counting facts that fit is all that
is done here, for all filters at once. It knows filters as numbers and facts and may propose too many, never too few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from tidegate.covering.axes import MISSING, Slot, axis
from tidegate.covering.known import Known
from tidegate.predicates.column import Column
from tidegate.predicates.ranges import Point

__all__ = ["Facts", "Postings", "facts_of"]

Numbers = NDArray[np.intp]
#: A column, or a slot and what is known of the type of its value.
Subject = Column | tuple[Slot, str]
#: The least and the greatest point; None for a filter that matches nothing, of which everything holds.
Facts = dict[Subject, tuple[Point, Point]] | None

_ANYWHERE = (0.0, 0.0)
#: Columns a filter must have ranges on to be covered by one that has. Few texts can also be covered by what is asked of
#: them read backwards or folded, so those columns decide nothing.
_DECIDING = ("number", "time", "truth", "order", "lon", "lat", "size")
_LETTERS = 48


def facts_of(clauses: Sequence[Known]) -> Facts:
    """What holds for every match of a filter: the facts that all its clauses have, with the widest of their bounds."""
    common: Facts = None
    for known in clauses:
        facts: dict[Subject, tuple[Point, Point]] = {}
        for slot, kinds in known.kinds.items():
            if MISSING not in kinds:
                facts[slot, "present"] = _ANYWHERE
            if len(kinds) == 1:
                facts[slot, next(iter(kinds))] = _ANYWHERE
        for at, ranges in known.ranges.items():
            if (at.reading in _DECIDING or (at.reading == "text" and isinstance(at.operand, str))) and ranges != axis(at):
                facts[at] = _bound(ranges[0][0]), _bound(ranges[-1][1])
        if common is None:
            common = facts
        else:
            both = common.keys() & facts.keys()
            common = {s: (min(common[s][0], facts[s][0]), max(common[s][1], facts[s][1])) for s in both}
    return common


def _bound(point: Point) -> float | bytes:
    if isinstance(point, float):
        return point
    return point.encode()[:_LETTERS] if isinstance(point, str) else b"\xff" * _LETTERS


def _coarse(bound: float | bytes) -> float:
    """A number in the same order, equal for texts that begin alike."""
    return bound if isinstance(bound, float) else float(int.from_bytes(bound[:6].ljust(6, b"\0"), "big"))


class _Posting:
    """The bounds of all filters that have a fact about one subject."""

    __slots__ = ("high", "low", "numbers", "places", "size")

    def __init__(self, is_text: bool) -> None:
        kind = f"S{_LETTERS}" if is_text else np.float64
        self.low, self.high = np.zeros(8, kind), np.zeros(8, kind)
        self.numbers = np.zeros(8, np.intp)
        self.places: dict[int, int] = {}
        self.size = 0

    def add(self, number: int, low: Point, high: Point) -> None:
        at = self.size
        if at == len(self.numbers):
            for name in ("low", "high", "numbers"):
                setattr(self, name, np.concatenate([getattr(self, name)] * 2))
        self.low[at], self.high[at], self.numbers[at] = low, high, number
        self.places[number] = at
        self.size += 1

    def remove(self, number: int) -> None:
        """The last one takes its place."""
        at, last = self.places.pop(number), self.size - 1
        if at != last:
            moved = int(self.numbers[last])
            self.low[at], self.high[at], self.numbers[at] = self.low[last], self.high[last], moved
            self.places[moved] = at
        self.size = last

    def around(self, low: Point, high: Point) -> Numbers:
        fits = (self.low[: self.size] <= low) & (self.high[: self.size] >= high)
        return self.numbers[: self.size][fits]

    def inside(self, low: Point, high: Point) -> Numbers:
        fits = (self.low[: self.size] >= low) & (self.high[: self.size] <= high)
        return self.numbers[: self.size][fits]


_NOBODY, _NOTHING = -1, 2**31  # instead of a number of facts: no such filter; a filter that matches nothing


class Postings:
    """The facts of many filters, each known by a number; small numbers make small arrays."""

    def __init__(self) -> None:
        self._postings: dict[Subject, _Posting] = {}
        self._counts = np.full(64, _NOBODY, np.int64)
        self._low, self._high = np.zeros(64), np.zeros(64)  # of one column, the first posted of those a filter has

    def add(self, number: int, facts: Facts) -> None:
        while number >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.full(len(self._counts), _NOBODY)])
            self._low, self._high = np.concatenate([self._low] * 2), np.concatenate([self._high] * 2)
        self._counts[number] = _NOTHING if facts is None else len(facts)
        for subject, (low, high) in (facts or {}).items():
            if subject not in self._postings:
                self._postings[subject] = _Posting(isinstance(low, bytes))
            self._postings[subject].add(number, low, high)
        ranges = {subject for subject in facts or () if isinstance(subject, Column)}
        first = next((s for s in self._postings if s in ranges), None) if len(ranges) > 1 else next(iter(ranges), None)
        low, high = (0.0, 0.0) if first is None or facts is None else facts[first]
        self._low[number], self._high[number] = _coarse(low), _coarse(high)

    def remove(self, number: int, facts: Facts) -> None:
        self._counts[number] = _NOBODY
        for subject in facts or ():
            posting = self._postings[subject]
            posting.remove(number)
            if not posting.size:
                del self._postings[subject]

    def wider(self, facts: Facts) -> Iterator[list[int]]:
        """Numbers of the filters that may cover one with these facts, in groups, the narrowest first.

        A filter that is covered by another comes before it or in the same group.
        """
        if facts is None:
            found = np.flatnonzero(self._counts != _NOBODY)
        else:
            found = np.flatnonzero(self._hits(facts, "around") == self._counts)
        while len(found):
            group = found
            for measure in (-self._counts, self._high, -self._low):
                sizes = measure[group]
                group = group[sizes == sizes.min()]
            yield group.tolist()
            found = np.setdiff1d(found, group, assume_unique=True)

    def narrower(self, facts: Facts) -> list[int]:
        """Numbers of the filters that one with these facts may cover."""
        if facts is None:
            return list(np.flatnonzero(self._counts == _NOTHING).tolist())
        fits = (self._hits(facts, "inside") == len(facts)) & (self._counts != _NOBODY)
        return list(np.flatnonzero(fits | (self._counts == _NOTHING)).tolist())

    def _hits(self, facts: dict[Subject, tuple[Point, Point]], side: str) -> Numbers:
        """How many of these facts fit, for each filter."""
        found = [getattr(self._postings[s], side)(*bounds) for s, bounds in facts.items() if s in self._postings]
        return np.bincount(np.concatenate(found) if found else np.zeros(0, np.intp), minlength=len(self._counts))
