"""Sets of points on an ordered axis, as sorted disjoint half-open ranges [low, high).

Numbers, instants and text all live on such an axis, and every comparison, IN, BETWEEN, prefix and their negations
are such a set. Half-open ranges make complement and subset exact: a closed upper bound is written as the open
bound at the point's *successor* (the next double, the next microsecond, the string with a NUL appended), which the
reading of the attribute knows.
"""

from __future__ import annotations

from math import inf
from typing import Any

__all__ = [
    "ALL_NUMBERS",
    "ALL_TEXT",
    "TOP",
    "Point",
    "Ranges",
    "complement",
    "contains",
    "intersect",
    "subset",
    "union",
]


class _Top:
    """Greater than every string: the upper end of the text axis."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "TOP"


TOP = _Top()

#: A place on an axis: a double, a string, or TOP.
Point = Any
Ranges = tuple[tuple[Point, Point], ...]

ALL_NUMBERS: Ranges = ((-inf, inf),)
ALL_TEXT: Ranges = (("", TOP),)


def union(ranges: Ranges) -> Ranges:
    """Sort, drop the empty, merge what touches."""
    merged: list[tuple[Point, Point]] = []
    for low, high in sorted((r for r in ranges if r[0] < r[1]), key=lambda r: r[0]):
        if merged and low <= merged[-1][1]:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """The points in both, by one sweep over the two sorted lists."""
    common: list[tuple[Point, Point]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        low = a[i][0] if a[i][0] > b[j][0] else b[j][0]
        high = a[i][1] if a[i][1] < b[j][1] else b[j][1]
        if low < high:
            common.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def complement(ranges: Ranges, axis: Ranges) -> Ranges:
    """The points of the axis that are not in ``ranges``."""
    (start, end), rest = axis[0], []
    for low, high in ranges:
        if start < low:
            rest.append((start, low))
        start = high
    if start < end:
        rest.append((start, end))
    return tuple(rest)


def subset(inner: Ranges, outer: Ranges) -> bool:
    """Whether every point of ``inner`` is in ``outer``; both are sorted and merged, so one range must hold each."""
    return all(any(low >= start and high <= end for start, end in outer) for low, high in inner)


def contains(ranges: Ranges, point: Point) -> bool:
    """Whether the point is in one of the ranges."""
    return any(low <= point < high for low, high in ranges)
