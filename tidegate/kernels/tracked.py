"""What one top-k subscription tracks: the best of its window, best first, with whether each was told.

A subscription's part of the common arrays begins at its ``base``; ``kernels/topk.py`` says which facts keep it exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tidegate.kernels.compiled import njit
from tidegate.kernels.score import scores

__all__ = ["FOREVER", "crowded", "deadline", "insert", "purge", "reread", "tell"]

#: A moment, or a place in a filter's sequence, that never comes.
FOREVER = np.int64(2**62)

_jit = njit(cache=True, nogil=True, error_model="numpy")
# Functions called for every publication that counts are inlined: passing thirty arrays takes longer than what they do.
_within = njit(nogil=True, error_model="numpy", inline="always")


@_within
def purge(base: int, n: int, bound: int, score: Any, item: Any, when: Any, told: Any) -> int:
    """Drop what came at ``bound`` or before; how many are left."""
    kept = np.int64(0)
    for i in range(n):
        if when[base + i] > bound:
            if kept != i:
                score[base + kept], item[base + kept] = score[base + i], item[base + i]
                when[base + kept], told[base + kept] = when[base + i], told[base + i]
            kept += 1
    return int(kept)


@_jit
def _drop_beaten(base: int, n: int, k: int, score: Any, item: Any, when: Any, told: Any) -> int:
    """Drop what has k later and better ones before it; how many are left."""
    kept = 0
    for i in range(n):
        better = 0
        for j in range(kept):  # a dropped one is behind k kept ones, which are better than this one too
            if item[base + j] > item[base + i]:
                better += 1
                if better == k:
                    break
        if better < k:
            if kept != i:
                score[base + kept], item[base + kept] = score[base + i], item[base + i]
                when[base + kept], told[base + kept] = when[base + i], told[base + i]
            kept += 1
    return kept


@_within
def insert(base: int, n: int, x: float, what: int, at: int, score: Any, item: Any, when: Any, told: Any) -> int:
    """Insert the newest publication by its score, before those of the same score; its place."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if score[base + middle] < x:
            low = middle + 1
        else:
            high = middle
    for i in range(n, low, -1):
        score[base + i], item[base + i] = score[base + i - 1], item[base + i - 1]
        when[base + i], told[base + i] = when[base + i - 1], told[base + i - 1]
    score[base + low], item[base + low], when[base + low], told[base + low] = x, what, at, 0
    return low


@_jit
def reread(
    base: int,
    n: int,
    room: int,
    pair: int,
    now: int,
    counted: bool,
    bound: int,
    since: int,
    until: int,
    steps: Any,
    values: Any,
    time: Any,
    version: Any,
    pair_item: Any,
    pair_before: Any,
    numbers: Any,
    position: int,
    score: Any,
    item: Any,
    when: Any,
    told: Any,
    stack: Any,
    spare: Any,
    spare_item: Any,
) -> Any:
    """Track the best of the window again, at most ``room``: how many, and the bar.

    ``pair`` is the filter's last pair so far; ``bound`` the last moment, or place, that is not in the window any more.
    """
    for i in range(n):  # at most k − 1 are left, and whether they were told must be kept
        spare_item[i], spare[i] = item[base + i], told[base + i]
    found, seen, left_out = 0, 0, False
    while pair >= 0:
        p = pair_item[pair]
        own = since <= version[p] < until
        at = now - seen if counted else time[p]
        if at <= bound:
            break
        if own:
            seen += 1
            scores(steps, values, p, numbers, position, 1, stack)
            x = stack[0, 0]
            if math.isfinite(x) and (found < room or x < score[base + found - 1]):
                low, high = 0, found  # older than all read so far, so it goes after those of the same score
                while low < high:
                    middle = (low + high) // 2
                    if score[base + middle] <= x:
                        low = middle + 1
                    else:
                        high = middle
                if found == room:
                    found -= 1
                    left_out = True
                for i in range(found, low, -1):
                    score[base + i], item[base + i] = score[base + i - 1], item[base + i - 1]
                    when[base + i], told[base + i] = when[base + i - 1], told[base + i - 1]
                was_told = 0
                for i in range(n):
                    if spare_item[i] == p:
                        was_told = spare[i]
                score[base + low], item[base + low], when[base + low], told[base + low] = x, p, at, was_told
                found += 1
            elif math.isfinite(x):
                left_out = True
        pair = pair_before[pair]
    return found, score[base + found - 1] if left_out else np.inf


@_within
def deadline(base: int, n: int, k: int, width: int, when: Any) -> Any:
    """When the first of the k best leaves the window."""
    first = FOREVER
    for i in range(min(n, k)):
        first = min(first, when[base + i] + width)
    return first


@_within
def tell(
    out: Any, out_score: Any, n: int, slot: int, base: int, best: int, at: int, end: int,
    score: Any, item: Any, told: Any,
) -> int:  # fmt: skip
    """Append those of the k best that were not told yet to ``out``, which has room for k."""
    for i in range(best):
        if told[base + i] == 0:
            told[base + i] = 1
            if at <= end:
                out[n, 0], out[n, 1], out[n, 2], out_score[n] = slot, at, item[base + i], score[base + i]
                n += 1
    return n


@_jit
def crowded(
    base: int, n: int, room: int, k: int, bound: int, bar: float, score: Any, item: Any, when: Any, told: Any
) -> Any:
    """Make room for one more where a subscription tracks as many as it can: how many are left, and the bar."""
    n = purge(base, n, bound, score, item, when, told)
    if n == room:
        n = _drop_beaten(base, n, k, score, item, when, told)
    fewer = max(2 * k, room // 2)
    if n > fewer and 4 * n > 3 * room:
        n, bar = fewer, score[base + fewer - 1]
    return n, bar
