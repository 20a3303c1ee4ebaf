"""The rivals of patterns: what one writes by hand, an object per subscription that is given every publication.

``TopK`` and ``Together`` are plain Python; ``TopKScan`` is brute force for top-k/w compiled by numba. All are
exact: they tell what the engine tells. They know nothing of the engine and read no expressions; publications
come to them in order, as numbers. ``Told`` is what either side told, in a form that can be compared.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from math import asin, cos, isfinite, radians, sin, sqrt
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

__all__ = ["Range", "Reading", "SortedTopK", "Together", "Told", "TopK", "TopKScan"]

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


class TopKScan:
    """Brute force, compiled: every publication is scored for every subscription, and the window is looked through when
    one of the k best goes.

    The window is one array for all subscriptions, which is only possible because all have the same filter, and
    subscriptions are gone through one by one with a whole stretch of publications, so that each stays in the
    cache. Both favour the rival.
    """

    def __init__(
        self,
        times: NDArray[np.int64],
        values: NDArray[np.float64],
        operands: NDArray[np.float64],
        *,
        distance: bool,
        k: int,
        window: int,
        by_count: bool = False,
    ) -> None:
        """``values``: x and y of all publications of the run; ``operands``: a centre or two weights by subscription."""
        n = len(operands)
        self._times, self._values = times, np.ascontiguousarray(values)
        self._operands, self._distance = np.ascontiguousarray(operands), distance
        self._k, self._window, self._by_count = k, window, by_count
        if by_count:
            most = window
        else:
            most = int((np.arange(len(times)) - np.searchsorted(times, times - window, "right")).max()) + 1
        words = (most + 1) // 64 + 1
        self._state = np.zeros(n, np.int64), np.zeros((n, k), np.int64), np.zeros((n, k)), np.zeros(n, np.int64)
        self._told = np.zeros((n, words), np.uint64)

    def run(self, begin: int, end: int, until: int | None = None) -> Told:
        """Publications begin … end − 1; then, if ``until`` is given, the clock comes to that moment."""
        clock = np.int64(-(2**62) if until is None else until)
        found = _scan(
            self._times, self._values, self._operands, self._distance, self._k, self._window, self._by_count,
            begin, end, clock, *self._state, self._told,
        )  # fmt: skip
        return Told(*found)


@njit(cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _score(values: Any, operands: Any, i: int, s: int, distance: bool) -> float:
    if distance:
        x, y = values[i, 0] - operands[s, 0], values[i, 1] - operands[s, 1]
        return float(np.sqrt(x * x + y * y))
    return float(operands[s, 0] * values[i, 0] + operands[s, 1] * values[i, 1])


@njit(cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _placed(best: Any, best_score: Any, size: int, k: int, number: int, score: float) -> int:
    """Put a publication among the best, which it belongs to; their number after that."""
    if size == k:
        size -= 1
    at = size
    while at > 0 and (score < best_score[at - 1] or (score == best_score[at - 1] and number > best[at - 1])):
        best[at], best_score[at] = best[at - 1], best_score[at - 1]
        at -= 1
    best[at], best_score[at] = number, score
    return size + 1


@njit(cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _gone(best: Any, best_score: Any, size: int, number: int) -> int:
    """Take a publication out of the best if it is there; their number after that."""
    for at in range(size):
        if best[at] == number:
            for i in range(at, size - 1):
                best[i], best_score[i] = best[i + 1], best_score[i + 1]
            return size - 1
    return size


@njit(cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _next(
    values: Any, operands: Any, s: int, distance: bool, begin: int, end: int, worst: float, last: int
) -> tuple[int, float]:
    """The best of publications begin … end − 1 that comes after one of this score and number."""
    found, found_score = -1, np.inf
    for i in range(begin, end):
        score = _score(values, operands, i, s, distance)
        if score <= found_score and (score > worst or (score == worst and i < last)):
            found, found_score = i, score
    return found, found_score


@njit(cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def _scan(
    times: Any, values: Any, operands: Any, distance: bool, k: int, window: int, by_count: bool,
    begin: int, end: int, until: int, oldest: Any, bests: Any, scores: Any, sizes: Any, told: Any,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """One stretch of publications for all subscriptions: who is told of what, when, and with which score."""
    numbers, moments = np.empty((1024, 2), np.int64), np.empty(1024, np.int64)
    told_scores = np.empty(1024)
    written, slots = 0, 64 * told.shape[1]
    one = np.uint64(1)
    for s in range(len(operands)):
        best, best_score, size, head = bests[s], scores[s], sizes[s], oldest[s]
        for j in range(begin, end + 1):
            if j == end and until < times[0]:
                break
            now = times[j] if j < end else until
            arrives, score = j < end, 0.0
            while True:  # the moments up to now at which publications expire, and then the arrival
                tail, moment, had, alive = j, now, size, head
                if by_count:
                    alive += arrives and j + 1 - head > window
                elif head < j and times[head] + window <= now:
                    moment = times[head] + window
                    while alive < j and times[alive] + window == moment:
                        alive += 1
                expires = alive > head
                for i in range(head, alive):
                    size = _gone(best, best_score, size, i)
                    told[s, i % slots // 64] &= ~(one << np.uint64(i % 64))
                head = alive
                looks = size < had
                steps = arrives and (by_count or not expires)
                if steps:
                    tail = j + 1
                    score = _score(values, operands, j, s, distance)
                    looks |= size < k or score <= best_score[size - 1]
                    if size > 0 and score <= best_score[size - 1]:
                        size = _placed(best, best_score, size, k, j, score)
                while looks and size < k and size < tail - head:
                    worst = best_score[size - 1] if size else -np.inf
                    last = best[size - 1] if size else -1
                    next, next_score = _next(values, operands, s, distance, head, tail, worst, last)
                    best[size], best_score[size] = next, next_score
                    size += 1
                for i in range(size if looks else 0):
                    slot = best[i] % slots
                    if told[s, slot // 64] >> np.uint64(slot % 64) & one:
                        continue
                    told[s, slot // 64] |= one << np.uint64(slot % 64)
                    if written == len(moments):
                        numbers = np.concatenate((numbers, np.empty_like(numbers)))
                        moments = np.concatenate((moments, np.empty_like(moments)))
                        told_scores = np.concatenate((told_scores, np.empty_like(told_scores)))
                    numbers[written, 0], numbers[written, 1] = s, best[i]
                    moments[written], told_scores[written] = moment, best_score[i]
                    written += 1
                if steps or not expires:
                    break
        sizes[s], oldest[s] = size, head
    return numbers[:written, 0].copy(), numbers[:written, 1].copy(), moments[:written], told_scores[:written]


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


# --- what was told --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """Who was told of which publication and when, all as numbers; with scores, NaN where they are not known."""

    subscription: NDArray[np.int64]
    publication: NDArray[np.int64]
    time: NDArray[np.int64]
    score: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of(cls, table: pa.Table) -> Told:
        """What the engine gave, flat or grouped. Ids are a letter and a number; of several publications the first."""
        if "subscription_ids" in table.column_names:
            lists = table.column("subscription_ids").combine_chunks()
            counts = np.diff(lists.offsets.to_numpy()) if len(lists) else np.zeros(0, np.int64)
            subscriptions = lists.flatten()
            publications = np.repeat(_number(table.column("publication_id")), counts)
            times = np.repeat(_micros(table.column("time")), counts)
            return cls(_number(subscriptions), publications, times, np.full(len(times), np.nan))
        firsts = pc.list_element(table.column("publication_ids"), 0)
        score = table.column("score").cast(pa.float64()).fill_null(np.nan).to_numpy()
        return cls(_number(table.column("subscription_id")), _number(firsts), _micros(table.column("time")), score)

    @classmethod
    def joined(cls, parts: list[Told]) -> Told:
        """One after the other."""
        names = ("subscription", "publication", "time", "score")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def among(self, subscriptions: int) -> Told:
        """Only what the first so many subscriptions were told."""
        kept = self.subscription < subscriptions
        return Told(self.subscription[kept], self.publication[kept], self.time[kept], self.score[kept])

    def equals(self, other: Told) -> bool:
        """The same subscriptions were told of the same publications at the same times, with the same scores."""
        if len(self) != len(other):
            return False
        a, b = self._ordered(), other._ordered()
        for name in ("subscription", "publication", "time"):
            if not np.array_equal(getattr(a, name), getattr(b, name)):
                return False
        known = ~(np.isnan(a.score) | np.isnan(b.score))
        return bool(np.allclose(a.score[known], b.score[known], rtol=1e-12, atol=0))

    def _ordered(self) -> Told:
        order = np.lexsort((self.time, self.publication, self.subscription))
        return Told(self.subscription[order], self.publication[order], self.time[order], self.score[order])

    def digest(self) -> tuple[int, int]:
        """How many, and a sum over all that does not depend on their order."""
        mixed = np.zeros(len(self), np.uint64)
        for part in (self.subscription, self.publication, self.time):
            mixed ^= part.astype(np.uint64)
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
        return len(self), int(mixed.sum(dtype=np.uint64))


def _number(ids: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = pc.utf8_slice_codeunits(ids, 1).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _micros(times: pa.ChunkedArray) -> NDArray[np.int64]:
    micros: NDArray[np.int64] = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    return micros
