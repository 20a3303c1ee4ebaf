"""The order of clauses: neighbours should resemble each other, so that whole blocks drop out of a match at once.

A recursive partition in the manner of a k-d tree. At each node the column whose split prunes most is chosen; clauses
that do not ask about it go last, the others are cut at the middle of their ranges. Cuts fall on block boundaries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = ["order"]

_BINS = 4096


@njit(cache=True, nogil=True)
def order(
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    codes: NDArray[np.int32],
    block: int,
) -> NDArray[np.int32]:
    """A permutation of the clauses.

    Clause i has the entries start[i] … start[i + 1]: a column and the codes first ≤ code < last that it admits, out
    of codes[column] there are.
    """
    clauses = len(start) - 1
    columns = len(codes)
    sequence = np.arange(clauses).astype(np.int32)
    scratch = np.empty(clauses, np.int32)
    key = np.empty(clauses, np.int32)
    asking = np.empty(columns)
    width = np.empty(columns)
    least = np.empty(columns)
    most = np.empty(columns)
    position = np.empty(_BINS + 2, np.int64)
    stack = [(0, clauses)]
    while len(stack) > 0:
        begin, end = stack.pop()
        size = end - begin
        if size <= block:
            continue
        asking[:] = 0
        width[:] = 0
        least[:] = np.inf
        most[:] = -np.inf
        for i in range(begin, end):
            clause = sequence[i]
            for k in range(start[clause], start[clause + 1]):
                c = column[k]
                middle = 0.5 * (first[k] + last[k])
                asking[c] += 1
                width[c] += last[k] - first[k]
                least[c] = min(least[c], middle)
                most[c] = max(most[c], middle)
        best = -1
        best_share = 0.999
        for c in range(columns):
            if asking[c] == 0:
                continue
            mean = width[c] / asking[c] / codes[c]
            spread = (most[c] - least[c]) / codes[c]
            if asking[c] == size:
                share = (mean + spread / 2) / (mean + spread)
            else:  # clauses that do not ask about the column let every code through
                share = (asking[c] * min(1.0, mean + spread / 2) + size - asking[c]) / size
            if share < best_share:
                best, best_share = c, share
        if best < 0:
            continue
        low = 2 * least[best]
        scale = min(1.0, (_BINS - 1) / (2 * (most[best] - least[best]) + 1))
        position[:] = 0
        for i in range(begin, end):
            clause = sequence[i]
            bin_ = _BINS
            for k in range(start[clause], start[clause + 1]):
                if column[k] == best:
                    bin_ = int((first[k] + last[k] - low) * scale)
                    break
            key[i] = bin_
            position[bin_ + 1] += 1
        for b in range(_BINS + 1):
            position[b + 1] += position[b]
        for i in range(begin, end):
            scratch[begin + position[key[i]]] = sequence[i]
            position[key[i]] += 1
        sequence[begin:end] = scratch[begin:end]
        with_it = int(asking[best])
        middle_cut = _nearest_cut(begin + with_it // 2, begin, end, block)
        last_cut = end if with_it == size else _nearest_cut(begin + with_it, middle_cut, end, block)
        if middle_cut - begin == size or (middle_cut == begin and last_cut - begin in (0, size)):
            continue
        stack.append((begin, middle_cut))
        stack.append((middle_cut, last_cut))
        stack.append((last_cut, end))
    return sequence


@njit(cache=True, nogil=True)
def _nearest_cut(wanted: int, low: int, high: int, block: int) -> int:
    return min(max((wanted + block // 2) // block * block, low), high)
