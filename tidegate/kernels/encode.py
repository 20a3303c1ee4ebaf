"""From points to codes and rows, from texts to ranks, from clauses to signatures.

``index/clauses.py``, ``index/axes.py`` and ``index/segment.py`` call these small loops to build a segment and to read a
batch on its axes, before ``kernels/select.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.bits import LINE
from tidegate.kernels.compiled import njit

__all__ = [
    "canonical",
    "code_ranges",
    "code_signatures",
    "encode",
    "encode_lists",
    "identity",
    "mixed",
    "text_rank",
    "text_ranks",
]


@njit(cache=True, nogil=True)
def mixed(x: np.uint64) -> np.uint64:
    """A 64-bit finaliser with full avalanche (the constants are those of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _code(cuts: NDArray[np.float64], begin: int, end: int, v: float) -> int:
    """How many of the cuts are ≤ v."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if cuts[middle] <= v:
            low = middle + 1
        else:
            high = middle
    return low - begin


@njit(cache=True, nogil=True)
def encode(
    value: NDArray[np.float64],
    cuts: NDArray[np.float64],
    row_start: NDArray[np.int64],
    row_of_code: NDArray[np.uint16],
    code: NDArray[np.int32],
    row: NDArray[np.int64],
) -> None:
    """Codes and row offsets of a matrix of points; NaN is missing. Column c has one cut fewer than codes."""
    publications, columns = value.shape
    for p in range(publications):
        for c in range(columns):
            v = value[p, c]
            if np.isnan(v):
                code[p, c] = -1
                row[p, c] = 0
            else:
                q = _code(cuts, row_start[c] - c, row_start[c + 1] - c - 1, v)
                code[p, c] = q
                row[p, c] = np.int64(row_of_code[row_start[c] + q]) * LINE


@njit(cache=True, nogil=True)
def encode_lists(
    c: int,
    points: NDArray[np.float64],
    cuts: NDArray[np.float64],
    row_start: NDArray[np.int64],
    row_of_code: NDArray[np.uint16],
    list_code: NDArray[np.int32],
    list_row: NDArray[np.int64],
) -> None:
    """``encode`` for the points of one column of lists."""
    for i in range(len(points)):
        q = _code(cuts, row_start[c] - c, row_start[c + 1] - c - 1, points[i])
        list_code[i] = q
        list_row[i] = np.int64(row_of_code[row_start[c] + q]) * LINE


@njit(cache=True, nogil=True)
def code_ranges(
    column: NDArray[np.uint16],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    cuts: NDArray[np.float64],
    row_start: NDArray[np.int64],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
) -> None:
    """The codes first ≤ code < last that a range [low, high) reaches into."""
    for k in range(len(column)):
        c = column[k]
        begin, end = row_start[c] - c, row_start[c + 1] - c - 1
        first[k] = _code(cuts, begin, end, low[k])
        a, b = begin, end
        while a < b:  # how many cuts are < high
            middle = (a + b) >> 1
            if cuts[middle] < high[k]:
                a = middle + 1
            else:
                b = middle
        last[k] = a - begin + 1


@njit(cache=True, nogil=True)
def code_signatures(
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    row_start: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """128 bits per code that are equal for codes which exactly the same clauses admit."""
    signature = np.zeros((row_start[-1] + len(row_start), 2), np.uint64)
    for clause in range(len(start) - 1):
        one = mixed(np.uint64(2 * clause + 1))
        two = mixed(np.uint64(2 * clause + 2))
        for k in range(start[clause], start[clause + 1]):
            if first[k] < last[k]:
                at = row_start[column[k]] + column[k]
                signature[at + first[k], 0] ^= one
                signature[at + first[k], 1] ^= two
                signature[at + last[k], 0] ^= one
                signature[at + last[k], 1] ^= two
    for c in range(len(row_start) - 1):
        for at in range(row_start[c] + c + 1, row_start[c + 1] + c):
            signature[at, 0] ^= signature[at - 1, 0]
            signature[at, 1] ^= signature[at - 1, 1]
    return signature


@njit(cache=True, nogil=True)
def canonical(
    start: NDArray[np.int64], column: NDArray[np.uint16], low: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    """Sort the entries of each clause by column and lower bound, in place."""
    for clause in range(len(start) - 1):
        for k in range(start[clause] + 1, start[clause + 1]):
            c, a, b = column[k], low[k], high[k]
            i = k - 1
            while i >= start[clause] and (column[i] > c or (column[i] == c and low[i] > a)):
                column[i + 1], low[i + 1], high[i + 1] = column[i], low[i], high[i]
                i -= 1
            column[i + 1], low[i + 1], high[i + 1] = c, a, b


@njit(cache=True, nogil=True)
def identity(
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    open_start: NDArray[np.int64],
    open_predicate: NDArray[np.int32],
) -> NDArray[np.uint64]:
    """128 bits per clause in canonical form, equal for equal clauses."""
    lows, highs = low.view(np.uint64), high.view(np.uint64)
    result = np.empty((len(start) - 1, 2), np.uint64)
    for clause in range(len(start) - 1):
        one, two = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
        for k in range(start[clause], start[clause + 1]):
            for word in (np.uint64(column[k]), lows[k], highs[k]):
                one = mixed(one ^ word) + np.uint64(1)
                two = mixed(two + word) ^ np.uint64(0x8CB92BA72F3D8DD7)
        if len(open_start) > 1:
            for k in range(open_start[clause], open_start[clause + 1]):
                one += mixed(np.uint64(2 * open_predicate[k] + 1))  # a sum: their order does not matter
                two += mixed(np.uint64(2 * open_predicate[k] + 2))
        result[clause, 0], result[clause, 1] = one, two
    return result


@njit(cache=True, nogil=True)
def text_rank(
    begin: int,
    end: int,
    letters: NDArray[np.uint8],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
    first: int,
    last: int,
) -> int:
    """How many of the sorted constants first … last are ≤ the text letters[begin:end], in the order of their bytes."""
    low, high, length = first, last, end - begin
    while low < high:
        middle = (low + high) >> 1
        at, size = constant_offsets[middle], constant_offsets[middle + 1] - constant_offsets[middle]
        j = 0
        while j < size and j < length and letters[begin + j] == constant_letters[at + j]:
            j += 1
        # constant ≤ text: a prefix of it, or smaller where they differ
        if j == size or (j < length and constant_letters[at + j] < letters[begin + j]):
            low = middle + 1
        else:
            high = middle
    return low - first


@njit(cache=True, nogil=True)
def text_ranks(
    offsets: NDArray[np.int64],
    letters: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
) -> NDArray[np.float64]:
    """``text_rank`` of each text among all constants; NaN for nulls."""
    ranks = np.full(len(offsets) - 1, np.nan)
    constants = len(constant_offsets) - 1
    for i in range(len(ranks)):
        if valid[i]:
            begin, end = offsets[i], offsets[i + 1]
            ranks[i] = text_rank(begin, end, letters, constant_offsets, constant_letters, 0, constants)
    return ranks
