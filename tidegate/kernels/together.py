"""Publications that belong together: one for each filter of a subscription, close in time and maybe in space.

Each publication is looked at once. A subscription that it may complete is found through its filters; whether each of
its filters has a recent publication is one comparison each. Only where distances count is there a search.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown
from tidegate.kernels.score import EARTH_RADIUS, metres

__all__ = ["step_together"]

#: How much squares of chords may differ from what the formula of distances gives, relatively and with room to spare,
#: unless they are so many metres or less.
_MARGIN, _TINY = 1e-6, 0.1

_jit = njit(cache=True, nogil=True, error_model="numpy")
# Inlined into the callers, which call them for everything that is told.
_within = njit(nogil=True, error_model="numpy", inline="always")


@_within
def _square(values: Any, place: Any, p: int, q: int) -> Any:
    """The square of the chord between two publications, on a sphere of radius 1; NaN where one has no place."""
    x = values[p, place[2]] - values[q, place[2]]
    y = values[p, place[3]] - values[q, place[3]]
    z = values[p, place[4]] - values[q, place[4]]
    return x * x + y * y + z * z


@_jit
def _metres(values: Any, place: Any, p: int, q: int) -> Any:
    return metres(values[p, place[0]], values[p, place[1]], values[q, place[0]], values[q, place[1]])


@_within
def _are_near(values: Any, place: Any, p: int, q: int, near: float, square: float) -> Any:
    """Whether two publications are nearer than ``near`` metres; the formula is needed only in close cases."""
    if near < _TINY:
        return _metres(values, place, p, q) < near
    found = _square(values, place, p, q)
    if found < square * (1 - _MARGIN):
        return True
    if not found <= square * (1 + _MARGIN):
        return False
    return _metres(values, place, p, q) < near


@_jit
def _widest(values: Any, place: Any, chosen: Any, size: int, near: float) -> float:
    """The largest distance between two of the chosen publications."""
    margin = 1.0 if near < _TINY else _MARGIN
    top = 0.0
    for d in range(size):
        for e in range(d):
            top = max(top, _square(values, place, chosen[d], chosen[e]))
    widest = 0.0
    if top > 0 or near < _TINY:
        for d in range(size):
            for e in range(d):
                if _square(values, place, chosen[d], chosen[e]) >= top * (1 - margin):
                    widest = max(widest, _metres(values, place, chosen[e], chosen[d]))
    return widest


@_within
def _told(outs: Any, n: int, s: int, t: int, distance: float, chosen: Any, size: int) -> Any:
    """Append one combination to the results."""
    slots, moments, far, item_start, items = outs
    if n == len(slots):
        slots, moments, far, item_start = grown(slots), grown(moments), grown(far), grown(item_start)
    if item_start[n] + size > len(items):
        items = grown(items, item_start[n] + size)
    slots[n], moments[n], far[n] = s, t, distance
    for d in range(size):
        items[item_start[n] + d] = chosen[d]
    item_start[n + 1] = item_start[n] + size
    return (slots, moments, far, item_start, items), n + 1


@_jit
def step_together(
    strict: bool,
    bound: int,
    first_item: int,
    start: NDArray[np.int64],
    hits: NDArray[np.int32],
    first_pair: int,
    time: NDArray[np.int64],
    version: NDArray[np.int64],
    values: NDArray[np.float64],
    place: NDArray[np.int64],
    pair_item: NDArray[np.int64],
    pair_before: NDArray[np.int64],
    passed: NDArray[np.int32],
    before_batch: NDArray[np.int64],
    recent: NDArray[np.int64],
    recent_time: NDArray[np.int64],
    of_filter: NDArray[np.int64],
    member: NDArray[np.int64],
    filter_start: NDArray[np.int64],
    filters: NDArray[np.int32],
    most: int,
    window: NDArray[np.int64],
    near: NDArray[np.float64],
    every: NDArray[np.uint8],
    since: NDArray[np.int64],
    until: NDArray[np.int64],
    closing: NDArray[np.int64],
    stamps: NDArray[np.int64],
    stamp: int,
) -> Any:
    """Find the combinations that a batch completes.

    Returns slots, moments, distances and publications (those of i at items[item_start[i]:item_start[i + 1]]), and how
    many searches ended early because of ``bound``.

    ``recent[f]`` is the filter's last pair. For filters of the batch, which are in ``passed``, it is set back to what
    it was, ``before_batch``, and moved on with each publication. f's subscriptions are
    ``member[of_filter[f]:of_filter[f + 1]]``, the filters of slot s ``filters[filter_start[s]:filter_start[s + 1]]``,
    at most ``most``. ``place`` has the columns of longitude, latitude and the unit vector. ``stamps`` has, for each
    slot, a number less than ``stamp``; that of a publication is ``stamp`` and its place in the batch.
    """
    for d in range(len(passed)):
        recent[passed[d]] = before_batch[d]
    outs = (
        np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64), np.zeros(65, np.int64),
        np.empty(256, np.int64),
    )  # fmt: skip
    n, cut = 0, 0
    at, chosen = np.empty(most, np.int64), np.empty(most, np.int64)
    for p in range(len(start) - 1):
        item = first_item + p
        t = time[item]
        for i in range(start[p], start[p + 1]):
            recent[hits[i]] = first_pair + i
            recent_time[hits[i]] = t
        for i in range(start[p], start[p + 1]):
            f = hits[i]
            if f + 1 >= len(of_filter):
                continue
            for m in range(of_filter[f], of_filter[f + 1]):
                s = member[m]
                if stamps[s] == stamp + p:
                    continue
                stamps[s] = stamp + p
                low, high = filter_start[s], filter_start[s + 1]
                size, oldest = high - low, t - window[s]
                complete = True
                for j in range(low, high):
                    if recent_time[filters[j]] <= oldest:
                        complete = False
                        break
                if not complete or t > closing[s] or (strict and not since[s] <= version[item] < until[s]):
                    continue
                placed = not math.isnan(near[s])
                square = 0.0
                if placed:
                    if math.isnan(values[item, place[0]]):
                        continue
                    half = math.sin(min(near[s] / (2 * EARTH_RADIUS), math.pi / 2))
                    square = 4 * half * half
                # nearly always the most recent of each filter will do
                ok = not every[s]
                for d in range(size):
                    if not ok:
                        break
                    pair = recent[filters[low + d]]
                    ok = pair >= 0
                    if ok:
                        q = pair_item[pair]
                        chosen[d] = q
                        if strict:
                            ok = since[s] <= version[q] < until[s]
                        if placed:
                            ok = ok and not math.isnan(values[q, place[0]])
                            for e in range(d):
                                ok = ok and _are_near(values, place, q, chosen[e], near[s], square)
                if ok:
                    distance = _widest(values, place, chosen, size, near[s]) if placed else np.nan
                    outs, n = _told(outs, n, s, t, distance, chosen, size)
                    continue
                # else depth first, in the order of the filters, from recent to old
                depth, found, tried = 0, 0, 0
                last_own = 0  # the last filter that the publication itself passes: it must be chosen by then
                for j in range(low, high):
                    if recent_time[filters[j]] == t and pair_item[recent[filters[j]]] == item:
                        last_own = j - low
                at[0] = recent[filters[low]]
                while depth >= 0:
                    pair = at[depth]
                    ok = False
                    must = depth == last_own
                    for d in range(depth):
                        must &= chosen[d] != item
                    while pair >= 0:
                        q = pair_item[pair]
                        if time[q] <= oldest or (must and q != item):
                            pair = -1
                            break
                        tried += 1
                        ok = since[s] <= version[q] < until[s]
                        if ok and placed:
                            ok = not math.isnan(values[q, place[0]])
                            if ok and q != item:
                                ok = _are_near(values, place, q, item, near[s], square)
                            for d in range(depth):
                                if not ok:
                                    break
                                if chosen[d] != q:
                                    ok = _are_near(values, place, q, chosen[d], near[s], square)
                        if ok:
                            break
                        pair = pair_before[pair]
                        if tried > 100 * bound:
                            pair = -1
                    if tried > 100 * bound:
                        cut += 1
                        break
                    if not ok or pair < 0:
                        depth -= 1
                        if depth >= 0:
                            at[depth] = pair_before[at[depth]]
                        continue
                    at[depth], chosen[depth] = pair, pair_item[pair]
                    if depth + 1 < size:
                        depth += 1
                        at[depth] = recent[filters[low + depth]]
                        continue
                    if found == bound:
                        cut += 1
                        break
                    distance = _widest(values, place, chosen, size, near[s]) if placed else np.nan
                    outs, n = _told(outs, n, s, t, distance, chosen, size)
                    found += 1
                    if not every[s]:
                        break
                    at[depth] = pair_before[at[depth]]
    slots, moments, far, item_start, items = outs
    return slots[:n], moments[:n], far[:n], item_start[: n + 1], items[: item_start[n]], cut
