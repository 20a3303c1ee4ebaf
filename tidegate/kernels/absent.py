"""Silences: for how long nothing has passed a filter, for a subscription or for each source of it.

A *watch* is a subscription, or a subscription and a source, with the time of the last publication it heard and whether
its silence has been told. Watches are found through ``kernels/hash_table.py``. ``patterns/absent.py`` keeps the arrays
and calls ``step_absent`` for a batch and ``advance_absent`` when only the clock has moved. For every ``BLOCK`` watches
there is a moment before which no silence of them can be told, so that the clock looks only at those that may be due.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.hash_table import spot_of

__all__ = ["BLOCK", "advance_absent", "step_absent"]

_jit = njit(cache=True, nogil=True)
#: How many watches have a moment in common, as a power of two.
BLOCK = 7
_FOREVER = 2**62


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
    due: NDArray[np.int64],
    begin: int,
    begin_hit: int,
    begin_member: int,
) -> Any:
    """Let watches hear a batch, as far as there is room for new watches.

    Returns slots, moments and last publications of the silences that are told, the number of watches, the first moment
    at which a watch that heard something may be due, and where to go on in the batch (publication, hit and member) once
    the caller has made room; the publication is the length of the batch when it is done.
    """
    first = _FOREVER
    slots, moments, items = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    n = 0
    for p in range(begin, len(start) - 1):
        item = first_item + p
        for i in range(max(start[p], begin_hit), start[p + 1]):
            f = hits[i]
            if f + 1 >= len(of_filter):
                continue
            for m in range(max(of_filter[f], begin_member), of_filter[f + 1]):
                s = member[m]
                if not since[s] <= version[item] < until[s]:
                    continue
                one, two = (source[item, 0], source[item, 1]) if by_source[s] else (np.uint64(0), np.uint64(0))
                spot = spot_of(table, s, one, two, watch_slot, watch_source)
                w = table[spot]
                if w < 0:
                    if watches == len(watch_slot) or 2 * watches >= len(table):
                        return slots[:n], moments[:n], items[:n], watches, first, p, i, m
                    w = table[spot] = watches
                    watches += 1
                    watch_slot[w], watch_source[w, 0], watch_source[w, 1] = s, one, two
                elif time[item] < heard[w]:  # it waited, and the silence counts from the moment when it had appeared
                    continue
                elif not told[w] and heard[w] + window[s] <= time[item] and heard[w] + window[s] <= end[s]:
                    if n == len(slots):
                        slots, moments, items = (
                            np.concatenate((slots, slots)), np.concatenate((moments, moments)),
                            np.concatenate((items, items)),
                        )  # fmt: skip
                    slots[n], moments[n], items[n] = s, heard[w] + window[s], watch_item[w]
                    n += 1
                heard[w], watch_item[w], told[w] = time[item], item, 0
                first = min(first, time[item] + window[s])
                due[w >> BLOCK] = min(due[w >> BLOCK], time[item] + window[s])
            begin_member = 0
        begin_hit = 0
    return slots[:n], moments[:n], items[:n], watches, first, len(start) - 1, 0, 0


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
    due: NDArray[np.int64],
) -> Any:
    """Move the clock without a batch; slots, moments and last publications of the silences that are told by it, and the
    first moment at which another may be due. Blocks of watches that are not due by ``due`` are not looked at.
    """
    n, first = 0, _FOREVER
    slots, moments, items = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    for block in range(len(due)):
        if due[block] <= clock:
            next_due = _FOREVER
            for w in range(block << BLOCK, min((block + 1) << BLOCK, watches)):
                s = watch_slot[w]
                when = heard[w] + window[s]
                if told[w] or when > end[s]:
                    continue
                if when > clock:
                    next_due = min(next_due, when)
                    continue
                if n == len(slots):
                    slots, moments, items = (
                        np.concatenate((slots, slots)), np.concatenate((moments, moments)),
                        np.concatenate((items, items)),
                    )  # fmt: skip
                slots[n], moments[n], items[n] = s, when, watch_item[w]
                told[w] = 1
                n += 1
            due[block] = next_due
        first = min(first, due[block])
    return slots[:n], moments[:n], items[:n], first
