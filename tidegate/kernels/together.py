"""Publications that belong together: one for each filter of a subscription, close in time and maybe in space.

Each publication is looked at once. A subscription that it may complete is found through its filters; whether each of
its filters has a recent publication is one comparison each. Only where distances count is there a search.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tidegate.kernels.score import metres

__all__ = ["step_together"]

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def _grown_items(array: Any, needed: int) -> Any:
    larger = np.empty(max(2 * len(array), needed), np.int64)
    larger[: len(array)] = array
    return larger


@_jit
def step_together(
    bound: int,
    first_item: int,
    start: NDArray[np.int64],
    hits: NDArray[np.int32],
    first_pair: int,
    time: NDArray[np.int64],
    version: NDArray[np.int64],
    lon: NDArray[np.float64],
    lat: NDArray[np.float64],
    pair_item: NDArray[np.int64],
    pair_before: NDArray[np.int64],
    recent: NDArray[np.int64],
    recent_time: NDArray[np.int64],
    of_filter: NDArray[np.int64],
    member: NDArray[np.int64],
    filter_start: NDArray[np.int64],
    filters: NDArray[np.int32],
    window: NDArray[np.int64],
    near: NDArray[np.float64],
    every: NDArray[np.uint8],
    since: NDArray[np.int64],
    until: NDArray[np.int64],
    end: NDArray[np.int64],
    stamps: NDArray[np.int64],
) -> Any:
    """Slots, moments, distances and publications (those of i at items[item_start[i]:item_start[i + 1]]), and the cuts.

    ``recent[f]`` is the filter's last pair so far, moved on here; those of f's subscriptions are
    ``member[of_filter[f]:of_filter[f + 1]]``; the filters of slot s are ``filters[filter_start[s]:filter_start[s + 1]]``.
    """
    slots, moments, far = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024)
    item_start, items = np.zeros(1025, np.int64), np.empty(4096, np.int64)
    n, cut = 0, 0
    stamps[:] = -1
    most = 1
    for s in range(len(window)):
        most = max(most, filter_start[s + 1] - filter_start[s])
    at, chosen = np.empty(most, np.int64), np.empty(most, np.int64)
    for p in range(len(start) - 1):
        item = first_item + p
        t = time[item]
        for i in range(start[p], start[p + 1]):
            recent[hits[i]] = first_pair + i
            recent_time[hits[i]] = t
        for i in range(start[p], start[p + 1]):
            f = hits[i]
            for m in range(of_filter[f], of_filter[f + 1]):
                s = member[m]
                if stamps[s] == item:
                    continue
                stamps[s] = item
                low, high = filter_start[s], filter_start[s + 1]
                oldest = t - window[s]
                complete = True
                for j in range(low, high):
                    if recent_time[filters[j]] <= oldest:
                        complete = False
                        break
                if not complete or not since[s] <= version[item] < until[s] or t > end[s]:
                    continue
                placed = not math.isnan(near[s])
                if placed and math.isnan(lon[item]):
                    continue
                # the first combination, or all: depth first, in the order of the filters, from recent to old
                size = high - low
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
                            ok = not math.isnan(lon[q])
                            if ok and q != item:
                                ok = metres(lon[q], lat[q], lon[item], lat[item]) < near[s]
                            for d in range(depth):
                                if not ok:
                                    break
                                if chosen[d] != q:
                                    ok = metres(lon[q], lat[q], lon[chosen[d]], lat[chosen[d]]) < near[s]
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
                    if n == len(slots):
                        slots, moments = _grown_items(slots, 0), _grown_items(moments, 0)
                        far = np.concatenate((far, np.empty_like(far)))
                        item_start = _grown_items(item_start, 0)
                    if item_start[n] + size > len(items):
                        items = _grown_items(items, item_start[n] + size)
                    widest = 0.0
                    if placed:
                        for d in range(size):
                            for e in range(d):
                                if chosen[d] != chosen[e]:
                                    x, y = chosen[e], chosen[d]
                                    widest = max(widest, metres(lon[x], lat[x], lon[y], lat[y]))
                    slots[n], moments[n], far[n] = s, t, widest if placed else np.nan
                    for d in range(size):
                        items[item_start[n] + d] = chosen[d]
                    item_start[n + 1] = item_start[n] + size
                    n += 1
                    found += 1
                    if not every[s]:
                        break
                    at[depth] = pair_before[at[depth]]
    return slots[:n], moments[:n], far[:n], item_start[: n + 1], items[: item_start[n]], cut
