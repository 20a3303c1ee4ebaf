"""Shapes of series: normal forms and their distance, exactly as the language defines them.

Goldin and Kanellakis 1995; Manassiev and Jacobsen 2004, §2.2, equations 4 and 5. Every sum runs from the first number
to the last in doubles, so that plain loops anywhere else give the same bits.
"""

from __future__ import annotations

from math import frexp, isfinite, ldexp, sqrt

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = ["distance_of", "distances", "normal_form", "normal_forms", "pair_distances", "shaped"]

#: ``fastmath`` is named because a caller that is compiled with fast mathematics would otherwise pass it on.
_jit = njit(cache=True, nogil=True, fastmath=False, error_model="numpy")


@_jit
def normal_form(series: NDArray[np.float64], out: NDArray[np.float64]) -> bool:
    """Mean 0 and standard deviation 1; False, and nothing written, where that cannot be."""
    n = len(series)
    most, low, high = 0.0, series[0], series[0]
    for i in range(n):
        x = series[i]
        if not isfinite(x):
            return False
        most, low, high = max(most, abs(x)), min(low, x), max(high, x)
    if low == high:
        return False
    exponent = -frexp(most)[1]  # a power of two, so that nothing but the smallest numbers is rounded
    if exponent < 1024:  # that power is a double: a product is what ldexp gives, and many times as fast
        power = ldexp(1.0, exponent)
        for i in range(n):
            out[i] = series[i] * power
    else:
        for i in range(n):
            out[i] = ldexp(series[i], exponent)
    mean = 0.0
    for i in range(n):
        mean += out[i]
    mean /= n
    error = 0.0
    for i in range(n):
        out[i] -= mean
        error += out[i]
    error /= n  # of the mean, where numbers are large beside their differences
    square = 0.0
    for i in range(n):
        out[i] -= error
        square += out[i] * out[i]
    deviation = sqrt(square / n)
    for i in range(n):
        out[i] /= deviation
    return True


@_jit
def normal_forms(
    offsets: NDArray[np.int64],
    values: NDArray[np.float64],
    rows: NDArray[np.int64],
    out: NDArray[np.float64],
    held: NDArray[np.bool_],
) -> None:
    """``normal_form`` of some rows, all of one length; a row without a shape becomes zeros."""
    for i in range(len(rows)):
        begin = offsets[rows[i]]
        held[i] = normal_form(values[begin : begin + out.shape[1]], out[i])
        if not held[i]:
            out[i] = 0.0


@_jit
def distance_of(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The Euclidean distance."""
    total = 0.0
    for i in range(len(a)):
        total += (a[i] - b[i]) * (a[i] - b[i])
    return sqrt(total)


@_jit
def distances(normals: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance of each of several normal forms from another."""
    found = np.empty(len(normals))
    for i in range(len(normals)):
        found[i] = distance_of(normals[i], other)
    return found


@_jit
def pair_distances(
    a: NDArray[np.float64], a_row: NDArray[np.int64], b: NDArray[np.float64], b_row: NDArray[np.int32]
) -> NDArray[np.float64]:
    """The distances of rows of one matrix from rows of another, pair by pair."""
    found = np.empty(len(a_row))
    for i in range(len(a_row)):
        found[i] = distance_of(a[a_row[i]], b[b_row[i]])
    return found


@_jit
def shaped(offsets: NDArray[np.int64], values: NDArray[np.float64], shortest: int, longest: int) -> int:
    """How many rows have a shape."""
    count = 0
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        if not shortest <= end - begin <= longest:
            continue
        differs = False
        for i in range(begin, end):
            if not isfinite(values[i]):
                differs = False
                break
            differs |= values[i] != values[begin]
        count += differs
    return count
