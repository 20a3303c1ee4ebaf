"""A rival of top-k/w: brute force over a window, compiled by numba. Knows nothing of the engine; exact as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.notification_arrays import Told

__all__ = ["TopKScan"]


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
