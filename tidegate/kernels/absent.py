"""Silences: for how long nothing has passed a filter, for a subscription or for each source of it.

A *watch* is a subscription, or a subscription and a source, with the time of the last publication it heard and whether
its silence has been told. Watches are found through ``kernels/hash_table.py``. ``patterns/absent.py`` keeps the arrays
and calls ``step_absent`` for a batch and ``advance_absent`` when only the clock has moved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.hash_table import spot_of

__all__ = ["advance_absent", "step_absent"]

_jit = njit(cache=True, nogil=True)


@_jit
def step_absent(
    first_item: int,
    start: NDArray[np.int64],
    hits: NDArray[np.int32],
    time: NDArray[np.int64],
    version: NDArray[np.int64],
    source: NDArray[np.uint64],
    of_filter: NDArray[np.int64],
    member: NDArray[np.int64],
    window: NDArray[np.int64],
    by_source: NDArray[np.uint8],
    since: NDArray[np.int64],
    until: NDArray[np.int64],
    end: NDArray[np.int64],
    table: NDArray[np.int64],
    watches: int,
    watch_slot: NDArray[np.int64],
    watch_source: NDArray[np.uint64],
    heard: NDArray[np.int64],
    watch_item: NDArray[np.int64],
    told: NDArray[np.uint8],
    begin: int,
    begin_hit: int,
    begin_member: int,
) -> Any:
    """Let watches hear a batch, as far as there is room for new watches.

    Returns slots, moments and last publications of the silences that are told, the number of watches, and where to go
    on in the batch (publication, hit and member) once the caller has made room; the publication is the length of the
    batch when it is done.
    """
    slots, moments, items = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    n = 0
    for p in range(begin, len(start) - 1):
        item = first_item + p
        for i in range(max(start[p], begin_hit), start[p + 1]):
            f = hits[i]
            for m in range(max(of_filter[f], begin_member), of_filter[f + 1]):
                s = member[m]
                if not since[s] <= version[item] < until[s]:
                    continue
                one, two = (source[item, 0], source[item, 1]) if by_source[s] else (np.uint64(0), np.uint64(0))
                spot = spot_of(table, s, one, two, watch_slot, watch_source)
                w = table[spot]
                if w < 0:
                    if watches == len(watch_slot) or 2 * watches >= len(table):
                        return slots[:n], moments[:n], items[:n], watches, p, i, m
                    w = table[spot] = watches
                    watches += 1
                    watch_slot[w], watch_source[w, 0], watch_source[w, 1] = s, one, two
                elif not told[w] and heard[w] + window[s] <= time[item] and heard[w] + window[s] <= end[s]:
                    if n == len(slots):
                        slots, moments, items = (
                            np.concatenate((slots, slots)), np.concatenate((moments, moments)),
                            np.concatenate((items, items)),
                        )  # fmt: skip
                    slots[n], moments[n], items[n] = s, heard[w] + window[s], watch_item[w]
                    n += 1
                heard[w], watch_item[w], told[w] = time[item], item, 0
            begin_member = 0
        begin_hit = 0
    return slots[:n], moments[:n], items[:n], watches, len(start) - 1, 0, 0


@_jit
def advance_absent(
    clock: int,
    watches: int,
    window: NDArray[np.int64],
    end: NDArray[np.int64],
    watch_slot: NDArray[np.int64],
    heard: NDArray[np.int64],
    watch_item: NDArray[np.int64],
    told: NDArray[np.uint8],
) -> Any:
    """Move the clock without a batch; slots, moments and last publications of the silences that are told by it."""
    n = 0
    for w in range(watches):
        s = watch_slot[w]
        if not told[w] and heard[w] + window[s] <= min(clock, end[s]):
            n += 1
    slots, moments, items = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n = 0
    for w in range(watches):
        s = watch_slot[w]
        if not told[w] and heard[w] + window[s] <= min(clock, end[s]):
            slots[n], moments[n], items[n] = s, heard[w] + window[s], watch_item[w]
            told[w] = 1
            n += 1
    return slots, moments, items
