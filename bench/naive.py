"""The rivals of patterns: what one writes by hand, an object per subscription that is given every publication.

``TopK`` and ``Together`` are plain Python and exact: they tell what the engine tells. They know nothing of the engine
and read no expressions; publications come to them in order, as numbers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from heapq import nsmallest
from math import asin, cos, isfinite, radians, sin, sqrt
from typing import NamedTuple

__all__ = ["Range", "Reading", "SortedTopK", "Together", "TopK"]

#: A score and minus the publication's number: of equal scores the later is the better one.
Key = tuple[float, int]
#: When, which publication, its score.
Tell = tuple[int, int, float]


# --- top-k/w --------------------------------------------------------------------------------------------------------


class TopK:
    """The k best of a window: the window as it came, the best of it aside, a look through all when one of them goes.

    One in w/k publications becomes one of the best, so looks through the window are rare enough.
    """

    def __init__(self, k: int, window: int, by_count: bool = False) -> None:
        self._k, self._window, self._by_count = k, window, by_count
        self._arrived: deque[tuple[int, Key | None]] = deque()
        self._best: list[Key] = []
        self._told: set[int] = set()

    def take(self, time: int, number: int, score: float | None) -> list[Tell]:
        """A publication that passed the filter; a score that is None or not finite is none."""
        key = None if score is None or not isfinite(score) else (score, -number)
        arrived, best = self._arrived, self._best
        if self._by_count:
            gone = len(arrived) == self._window and self._forget(arrived.popleft()[1])
            arrived.append((time, key))
            if key is not None and best and key < best[-1]:
                insort(best, key)
                del best[self._k :]
            elif not gone and (key is None or len(best) == self._k):
                return []
            return self._look(time)
        found = self.expire(time) if arrived and arrived[0][0] + self._window <= time else []
        arrived.append((time, key))
        if key is not None and (len(best) < self._k or key < best[-1]):
            insort(best, key)
            del best[self._k :]
            self._told.add(number)
            found.append((time, number, key[0]))
        return found

    def expire(self, now: int) -> list[Tell]:
        """What a clock that has come to ``now`` brings; only for windows of time."""
        arrived, found = self._arrived, []
        while arrived and (moment := arrived[0][0] + self._window) <= now:
            gone = False
            while arrived and arrived[0][0] + self._window == moment:
                gone |= self._forget(arrived.popleft()[1])
            if gone:
                found += self._look(moment)
        return found

    def _forget(self, key: Key | None) -> bool:
        """Let go of a publication; whether it was one of the best."""
        if key is None:
            return False
        self._told.discard(-key[1])
        if not self._best or key > self._best[-1]:
            return False
        self._best.remove(key)
        return True

    def _look(self, time: int) -> list[Tell]:
        if len(self._best) < self._k:
            self._best[:] = nsmallest(self._k, [key for _, key in self._arrived if key is not None])
        found = [(time, -minus, score) for score, minus in self._best if -minus not in self._told]
        self._told.update(number for _, number, _ in found)
        return found


class SortedTopK:
    """The same with the whole window in order of scores. Slower, and so short that it can be seen to be right."""

    def __init__(self, k: int, window: int, by_count: bool = False) -> None:
        self._k, self._window, self._by_count = k, window, by_count
        self._arrived: deque[tuple[int, Key | None]] = deque()
        self._ranked: list[Key] = []
        self._told: set[int] = set()

    def take(self, time: int, number: int, score: float | None) -> list[Tell]:
        """A publication that passed the filter."""
        key = None if score is None or not isfinite(score) else (score, -number)
        found = [] if self._by_count else self.expire(time)
        self._arrived.append((time, key))
        if key is not None:
            insort(self._ranked, key)
        if self._by_count and len(self._arrived) > self._window:
            self._forget()
        return found + self._look(time)

    def expire(self, now: int) -> list[Tell]:
        """What a clock that has come to ``now`` brings."""
        found = []
        while self._arrived and (moment := self._arrived[0][0] + self._window) <= now:
            while self._arrived and self._arrived[0][0] + self._window == moment:
                self._forget()
            found += self._look(moment)
        return found

    def _forget(self) -> None:
        _, key = self._arrived.popleft()
        if key is not None:
            del self._ranked[bisect_left(self._ranked, key)]
            self._told.discard(-key[1])

    def _look(self, time: int) -> list[Tell]:
        found = [(time, -minus, score) for score, minus in self._ranked[: self._k] if -minus not in self._told]
        self._told.update(number for _, number, _ in found)
        return found


# --- together -------------------------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """A publication with one attribute."""

    number: int
    time: int
    source: str
    attribute: str
    value: float
    location: tuple[float, float]


class Range(NamedTuple):
    """A filter: one attribute between two bounds, from one source if that is given."""

    attribute: str
    low: float
    high: float
    source: str | None = None


@lru_cache(maxsize=65_536)
def _metres(a: tuple[float, float], b: tuple[float, float]) -> float:
    phi, phi2 = radians(a[1]), radians(b[1])
    h = sin((phi2 - phi) / 2) ** 2 + cos(phi) * cos(phi2) * sin(radians(b[0] - a[0]) / 2) ** 2
    return 2 * 6_371_008.8 * asin(sqrt(min(h, 1.0)))


class Together:
    """Readings that satisfy all filters within a window: one deque per filter.

    ``box`` (west, south, east, north), boundary excluded, is a condition for all filters; with ``metres`` a
    combination lies within that distance.
    """

    def __init__(
        self,
        window: int,
        filters: Iterable[Range],
        metres: float | None = None,
        box: tuple[float, float, float, float] | None = None,
    ) -> None:
        self._window, self._metres, self._box = window, metres, box
        self._filters = list(filters)
        self._attributes = {filter.attribute for filter in self._filters}
        self._seen: list[deque[Reading]] = [deque() for _ in self._filters]

    def take(self, p: Reading) -> tuple[tuple[int, ...], float | None] | None:
        """The publications of the combination that this one completes, and their distance; None if there is none."""
        if p.attribute not in self._attributes:
            return None
        if self._box is not None:
            lon, lat = p.location
            if not (self._box[0] < lon < self._box[2] and self._box[1] < lat < self._box[3]):
                return None
        serves = []
        for i, (attribute, low, high, source) in enumerate(self._filters):
            if attribute == p.attribute and low <= p.value <= high and (source is None or source == p.source):
                self._seen[i].append(p)
                serves.append(i)
        if not serves:
            return None
        since = p.time - self._window
        for seen in self._seen:
            while seen and seen[0].time <= since:
                seen.popleft()
            if not seen:
                return None
        if self._metres is None:
            return tuple(seen[-1].number for seen in self._seen), None
        chosen = self._search([], p, serves[-1], self._metres)
        if chosen is None:
            return None
        far = max(_metres(a.location, b.location) for a in chosen for b in chosen)
        return tuple(reading.number for reading in chosen), far

    def _search(self, chosen: list[Reading], p: Reading, last: int, metres: float) -> list[Reading] | None:
        """The first combination with p that begins with those chosen; ``last`` is the last filter that p serves."""
        i = len(chosen)
        if i == len(self._seen):
            return chosen
        must = i == last and all(reading is not p for reading in chosen)
        for reading in (p,) if must else reversed(self._seen[i]):
            if all(_metres(reading.location, other.location) < metres for other in chosen):
                found = self._search([*chosen, reading], p, last, metres)
                if found is not None:
                    return found
        return None
