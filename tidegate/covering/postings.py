"""Candidates for covering: which filters are wide enough to cover a given one, or narrow enough to be covered by it.

The *facts* of a filter are bounds on columns and types of values that hold for all its matches. A filter can cover
another only if each of its facts is one of the other's too, with narrower bounds. ``Postings`` keeps the facts of all
filters of a ``Forest``, which it knows as numbers, and finds those whose facts fit. It may propose too many, never too
few; the forest then tests each with ``clauses_cover``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.covering.implied import Implied
from tidegate.covering.possible_points import MISSING, Slot, axis, place_of
from tidegate.predicates.column import Column
from tidegate.predicates.ranges import Point

__all__ = ["Facts", "Postings", "facts_of"]

Bounds = dict[Column, tuple[Point, Point]]
#: A slot, and the type its value has (or ``present``, if it may have several).
Kind = tuple[Slot, str]

#: Readings of columns that decide: a filter with ranges on such a column covers only filters with ranges on it too.
#: Texts read backwards or folded do not: a filter with ranges on them may also cover one that admits only a few texts.
_DECIDING = ("number", "time", "truth", "order", "lon", "lat", "size", "compared")
_LETTERS = 48


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds for every match of a filter."""

    bounds: Bounds
    kinds: frozenset[Kind]

    @property
    def needed(self) -> list[Kind]:
        """The types that follow from no bounds and no other type; the others need not be compared."""
        bounded = {place_of(at)[0] for at in self.bounds}
        kinds = [kind for kind in self.kinds if kind[0] not in bounded]
        typed = {slot for slot, kind in kinds if kind != "present"}
        return [(slot, kind) for slot, kind in kinds if kind != "present" or slot not in typed]


def facts_of(clauses: Sequence[Implied]) -> Facts | None:
    """The facts that all clauses of a filter have, with the widest bounds; None if there is no clause, so no match."""
    common: Facts | None = None
    for known in clauses:
        kinds = {(slot, next(iter(types))) for slot, types in known.kinds.items() if len(types) == 1}
        kinds |= {(slot, "present") for slot, types in known.kinds.items() if MISSING not in types}
        bounds = {
            at: (_bound(ranges[0][0]), _bound(ranges[-1][1]))
            for at, ranges in known.ranges.items()
            if _decides(at) and ranges != axis(at)
        }
        if common is not None:
            kinds &= common.kinds
            both = [(at, bounds[at], common.bounds[at]) for at in bounds if at in common.bounds]
            bounds = {at: (min(a[0], b[0]), max(a[1], b[1])) for at, a, b in both}
        common = Facts(bounds, frozenset(kinds))
    return common


def _decides(at: Column) -> bool:
    return at.reading in _DECIDING or (at.reading == "text" and isinstance(at.operand, str))


def _bound(point: Point) -> Point:
    """A number as a double, or the first bytes of a text; both are in the same order, or the same."""
    if isinstance(point, float | int):
        return float(point)
    return point.encode()[:_LETTERS] if isinstance(point, str) else b"\xff" * _LETTERS


def _coarse(bound: Point) -> float:
    return bound if isinstance(bound, float) else float(int.from_bytes(bound[:6].ljust(6, b"\0"), "big"))


class _Posting:
    """The numbers of all filters that have a fact about one subject, and their bounds."""

    __slots__ = ("high", "low", "numbers", "places", "size")

    def __init__(self, low: Point) -> None:
        dtype = f"S{_LETTERS}" if isinstance(low, bytes) else "f8"
        self.low, self.high, self.numbers = np.zeros(8, dtype), np.zeros(8, dtype), np.zeros(8, np.int64)
        self.places: dict[int, int] = {}
        self.size = 0

    def add(self, number: int, low: Point, high: Point) -> None:
        at = self.size
        if at == len(self.numbers):
            self.low, self.high = np.repeat(self.low, 2), np.repeat(self.high, 2)
            self.low[:at], self.high[:at] = self.low[::2], self.high[::2]
            self.numbers = np.concatenate([self.numbers, self.numbers])
        self.low[at], self.high[at], self.numbers[at] = low, high, number
        self.places[number] = at
        self.size += 1

    def remove(self, number: int) -> None:
        """Remove a filter; the last one of the arrays takes its place."""
        at, last = self.places.pop(number), self.size - 1
        if at != last:
            moved = int(self.numbers[last])
            self.low[at], self.high[at], self.numbers[at] = self.low[last], self.high[last], moved
            self.places[moved] = at
        self.size = last

    def around(self, low: Point, high: Point) -> NDArray[np.int64]:
        fits = (self.low[: self.size] <= low) & (self.high[: self.size] >= high)
        return np.asarray(self.numbers[: self.size][fits])

    def inside(self, low: Point, high: Point) -> NDArray[np.int64]:
        fits = (self.low[: self.size] >= low) & (self.high[: self.size] <= high)
        return np.asarray(self.numbers[: self.size][fits])


Subject = Column | tuple[str, Slot, str]
Asked = dict[Subject, tuple[Point, Point]]
_ANYWHERE = (0.0, 0.0)
_NOBODY, _NOTHING = -1, 2**31  # instead of a number of facts: no such filter; a filter that matches nothing


def _asked(facts: Facts, side: str, kinds: Iterable[Kind]) -> Asked:
    """Bounds and types as subjects: a type is posted as one that a filter ``needs`` and as one that it ``has``."""
    asked: Asked = {}
    asked.update(facts.bounds.items())
    asked.update(((side, *kind), _ANYWHERE) for kind in kinds)
    return asked


class Postings:
    """The facts of many filters, each known by a number; small numbers make small arrays."""

    def __init__(self) -> None:
        self._postings: dict[Subject, _Posting] = {}
        self._counts = np.full(64, _NOBODY, np.int64)
        self._low, self._high = np.zeros(64), np.zeros(64)  # on one column, the same for all filters with these columns

    def add(self, number: int, facts: Facts | None) -> None:
        if number >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.full(len(self._counts), _NOBODY)])
            self._low, self._high = np.concatenate([self._low] * 2), np.concatenate([self._high] * 2)
        self._counts[number] = _NOTHING
        self._low[number] = self._high[number] = 0
        if facts is None:
            return
        needs = _asked(facts, "needs", facts.needed)
        self._counts[number] = len(needs)
        for subject, (low, high) in (needs | _asked(facts, "has", facts.kinds)).items():
            if subject not in self._postings:
                self._postings[subject] = _Posting(low)
            self._postings[subject].add(number, low, high)
        if facts.bounds:
            low, high = facts.bounds[min(facts.bounds, key=hash)]
            self._low[number], self._high[number] = _coarse(low), _coarse(high)

    def remove(self, number: int, facts: Facts | None) -> None:
        self._counts[number] = _NOBODY
        if facts is None:
            return
        for subject in _asked(facts, "needs", facts.needed) | _asked(facts, "has", facts.kinds):
            posting = self._postings[subject]
            posting.remove(number)
            if not posting.size:
                del self._postings[subject]

    def wider(self, facts: Facts | None) -> Iterator[list[int]]:
        """Numbers of the filters that may cover one with these facts, in groups, the narrowest first.

        A filter that is covered by another comes before it or in the same group.
        """
        if facts is None:
            found = np.flatnonzero(self._counts != _NOBODY)
        else:
            found = np.flatnonzero(self._hits(_asked(facts, "needs", facts.kinds), "around") == self._counts)
        while len(found):
            places = np.arange(len(found))
            for measure, sign in ((self._counts, -1), (self._high, 1), (self._low, -1)):
                sizes = measure[found[places]] * sign
                places = places[sizes == sizes.min()]
            yield found[places].tolist()
            found = np.delete(found, places)

    def narrower(self, facts: Facts | None) -> NDArray[np.bool_]:
        """For each number whether that filter may be covered by one with these facts."""
        if facts is None:
            return np.asarray(self._counts == _NOTHING)
        asked = _asked(facts, "has", facts.needed)
        fits = (self._hits(asked, "inside") == len(asked)) & (self._counts != _NOBODY)
        return np.asarray(fits | (self._counts == _NOTHING))

    def _hits(self, asked: Asked, side: str) -> NDArray[np.int64]:
        """How many of these facts fit, for each number."""
        found = [getattr(self._postings[s], side)(*bounds) for s, bounds in asked.items() if s in self._postings]
        return np.bincount(np.concatenate(found) if found else np.zeros(0, np.int64), minlength=len(self._counts))
