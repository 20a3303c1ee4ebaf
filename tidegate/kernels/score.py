"""Scores: one small program for many subscriptions that differ only in their numbers.

A program is a list of steps on a stack. It is run on lanes: for one publication and many subscriptions at once, which
gives their scores, or for one block of subscriptions and many publications, with the block's numbers as intervals,
which gives bounds that no score of the block leaves. Rounding is monotone, so the bounds are safe as they are for
+ − × ÷ and square roots; where a library function is used they are widened.

A score is not finite if any step on the way to it is not: where arithmetic would make a number of infinity or NaN
again (1 ÷ ∞, NaN ^ 0), the result is NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = [
    "ADD",
    "COLUMN",
    "DEPTH",
    "DIV",
    "DIVIDE",
    "EARTH_RADIUS",
    "HAVERSINE",
    "LANES",
    "MOD",
    "MUL",
    "NUMBER",
    "POW",
    "SQRT",
    "SQUARE",
    "STEP",
    "SUB",
    "bounds",
    "metres",
    "scores",
]

#: Push a value of the publication; push a number of the subscription.
COLUMN, NUMBER = 0, 1
ADD, SUB, MUL, DIVIDE, MOD, DIV, POW, SQRT = 2, 3, 4, 5, 6, 7, 8, 9
#: Push the square of the difference of a value (first argument) and a number (second).
SQUARE = 10
#: Push metres between a point of the publication (columns of longitude, latitude and its unit vector) and one of the
#: subscription (five numbers alike).
HAVERSINE = 11

#: Numbers of a step: what to do, a column, the first of the subscription's numbers, four columns more.
STEP = 7
#: Lanes of one run, and how deep the stack may be.
LANES, DEPTH = 64, 32

#: Mean radius of the Earth in metres (IUGG R₁).
EARTH_RADIUS = 6_371_008.8
_SLACK = 1e-9


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def metres(lon: float, lat: float, lon2: float, lat2: float) -> float:
    """The haversine formula on a sphere of the Earth's mean radius."""
    if lon == lon2 and lat == lat2:  # a common case, as most sensors do not move
        return 0.0
    phi, phi2 = math.radians(lat), math.radians(lat2)
    up, across = math.sin((phi2 - phi) / 2), math.sin(math.radians(lon2 - lon) / 2)
    a = up * up + math.cos(phi) * math.cos(phi2) * (across * across)
    return 2 * EARTH_RADIUS * math.asin(math.sqrt(min(a, 1.0)))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _finite(x: float) -> float:
    """The number, or NaN for an infinity."""
    return x if math.isfinite(x) else np.nan


@njit(cache=True, nogil=True, error_model="numpy")
def scores(
    steps: NDArray[np.int32],
    values: NDArray[np.float64],
    row: int,
    numbers: NDArray[np.float64],
    first: int,
    count: int,
    stack: NDArray[np.float64],
) -> None:
    """The scores of ``count`` subscriptions for one publication, in ``stack[0]``.

    ``values[row]`` are the publication's, ``numbers[j, first:first + count]`` the j-th numbers of the subscriptions.
    """
    top = 0
    for q in range(len(steps)):
        op, a, b = steps[q, 0], steps[q, 1], steps[q, 2]
        if op == SQUARE:
            v = values[row, a]
            for i in range(count):
                d = v - numbers[b, first + i]
                stack[top, i] = d * d
            top += 1
        elif op == COLUMN:
            v = values[row, a]
            for i in range(count):
                stack[top, i] = v
            top += 1
        elif op == NUMBER:
            for i in range(count):
                stack[top, i] = numbers[b, first + i]
            top += 1
        elif op == SQRT:
            for i in range(count):
                stack[top - 1, i] = math.sqrt(stack[top - 1, i])
        elif op == HAVERSINE:
            lon, lat = values[row, a], values[row, steps[q, 3]]
            for i in range(count):
                stack[top, i] = metres(lon, lat, numbers[b, first + i], numbers[b + 1, first + i])
            top += 1
        else:
            top -= 1
            if op == ADD:
                for i in range(count):
                    stack[top - 1, i] += stack[top, i]
            elif op == SUB:
                for i in range(count):
                    stack[top - 1, i] -= stack[top, i]
            elif op == MUL:
                for i in range(count):
                    stack[top - 1, i] *= stack[top, i]
            elif op == DIVIDE:
                for i in range(count):
                    stack[top - 1, i] /= _finite(stack[top, i])
            elif op == MOD:
                for i in range(count):
                    stack[top - 1, i] = np.fmod(stack[top - 1, i], _finite(stack[top, i]))
            elif op == DIV:
                for i in range(count):
                    stack[top - 1, i] = np.trunc(stack[top - 1, i] / _finite(stack[top, i]))
            else:
                for i in range(count):
                    x, y = stack[top - 1, i], stack[top, i]
                    stack[top - 1, i] = math.pow(x, y) if math.isfinite(x) and math.isfinite(y) else np.nan


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _product(a: float, b: float, c: float, d: float) -> Any:
    """Bounds of [a, b] × [c, d]; −∞ and ∞ where a product is no number."""
    p, q, r, s = a * c, a * d, b * c, b * d
    low, high = min(min(p, q), min(r, s)), max(max(p, q), max(r, s))
    if p != p or q != q or r != r or s != s:
        return -np.inf, np.inf
    return low, high


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _quotient(a: float, b: float, c: float, d: float) -> Any:
    if c <= 0.0 <= d or not (math.isfinite(c) and math.isfinite(d)):
        return -np.inf, np.inf
    p, q, r, s = a / c, a / d, b / c, b / d
    if p != p or q != q or r != r or s != s:
        return -np.inf, np.inf
    return min(min(p, q), min(r, s)), max(max(p, q), max(r, s))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _power(a: float, b: float, c: float, d: float) -> Any:
    """Bounds of a power with one whole exponent; −∞ and ∞ for any other."""
    if c != d or c != np.floor(c) or c < 0 or c > 64 or not (math.isfinite(a) and math.isfinite(b)):
        return -np.inf, np.inf
    p, q = math.pow(a, c), math.pow(b, c)
    low, high = min(p, q), max(p, q)
    if c % 2 == 0 and a < 0.0 < b:
        low = 0.0
    return low - abs(low) * _SLACK, high + abs(high) * _SLACK


@njit(cache=True, nogil=True, error_model="numpy")
def bounds(
    steps: NDArray[np.int32],
    values: NDArray[np.float64],
    rows: NDArray[np.int64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> None:
    """Bounds of the scores of a block of subscriptions for some publications, in ``low[0]`` and ``high[0]``.

    ``least`` and ``most`` are the bounds of the block's numbers, ``rows`` the publications' rows in ``values``.
    """
    top, count = 0, len(rows)
    for q in range(len(steps)):
        op, a, b = steps[q, 0], steps[q, 1], steps[q, 2]
        if op == SQUARE:
            m, n = least[b], most[b]
            for i in range(count):
                v = values[rows[i], a]
                x, y = v - n, v - m
                xx, yy = x * x, y * y
                low[top, i] = 0.0 if x <= 0.0 <= y else min(xx, yy)
                high[top, i] = max(xx, yy)
            top += 1
        elif op == COLUMN:
            for i in range(count):
                low[top, i] = high[top, i] = values[rows[i], a]
            top += 1
        elif op == NUMBER:
            m, n = least[b], most[b]
            for i in range(count):
                low[top, i] = m
                high[top, i] = n
            top += 1
        elif op == SQRT:
            for i in range(count):
                low[top - 1, i] = math.sqrt(low[top - 1, i])
                high[top - 1, i] = math.sqrt(high[top - 1, i])
        elif op == HAVERSINE:
            for i in range(count):
                square = 0.0
                for axis in range(2, 5):
                    v = values[rows[i], steps[q, 2 + axis]]
                    gap = max(0.0, max(least[b + axis] - v, v - most[b + axis]))  # 0 where there is no point
                    square += gap * gap
                near = 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(square) / 2))
                low[top, i] = np.nan if math.isnan(values[rows[i], a]) else near * (1 - _SLACK) - 1.0
                high[top, i] = math.pi * EARTH_RADIUS * (1 + _SLACK)
            top += 1
        else:
            top -= 1
            if op == ADD:
                for i in range(count):
                    low[top - 1, i] += low[top, i]
                    high[top - 1, i] += high[top, i]
            elif op == SUB:
                for i in range(count):
                    m, n = low[top, i], high[top, i]
                    low[top - 1, i] -= n
                    high[top - 1, i] -= m
            elif op == MUL:
                for i in range(count):
                    m, n = _product(low[top - 1, i], high[top - 1, i], low[top, i], high[top, i])
                    low[top - 1, i], high[top - 1, i] = m, n
            elif op == DIVIDE:
                for i in range(count):
                    m, n = _quotient(low[top - 1, i], high[top - 1, i], low[top, i], high[top, i])
                    low[top - 1, i], high[top - 1, i] = m, n
            elif op == POW:
                for i in range(count):
                    m, n = _power(low[top - 1, i], high[top - 1, i], low[top, i], high[top, i])
                    low[top - 1, i], high[top - 1, i] = m, n
            else:
                for i in range(count):
                    low[top - 1, i], high[top - 1, i] = -np.inf, np.inf
