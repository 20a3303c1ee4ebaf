"""What is right: every pair compared, in doubles, by nothing but numpy and Python. All rivals are held against it."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

__all__ = ["Found", "dismissed", "in_feature_space", "matching", "same", "within"]

Doubles = NDArray[np.float64]
#: Rows of publication p are ``rows[start[p]:start[p + 1]]``.
Found = tuple[NDArray[np.int64], NDArray[np.int32]]

#: Relative; numpy sums in another order than the language says, so what is this near is summed again, one by one.
_NEAR = 1e-9
_CHUNK = 1024


def matching(normals: Doubles, radii: Doubles, publication: Doubles) -> NDArray[np.int64]:
    """The rows within their radius of one publication."""
    parts = [
        begin + within(normals[begin : begin + _CHUNK], radii[begin : begin + _CHUNK], publication)
        for begin in range(0, len(normals), _CHUNK)
    ]
    return np.concatenate([*parts, np.empty(0, np.int64)])


def within(rows: Doubles, radii: Doubles, others: Doubles) -> NDArray[np.int64]:
    """The numbers of those rows that are within their radius of the other row, or of the one other there is."""
    difference = rows - others
    distances = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    held = distances <= radii
    for i in np.flatnonzero(np.abs(distances - radii) <= _NEAR * (1 + radii)):
        total = 0.0
        for d in difference[i].tolist():
            total += d * d
        held[i] = sqrt(total) <= radii[i]
    return np.flatnonzero(held)


def in_feature_space(centres: Doubles, radii: Doubles, points: Doubles) -> Found:
    """The spheres that each point lies in."""
    found = [np.flatnonzero(((centres - point) ** 2).sum(axis=1) <= radii * radii) for point in points]
    start = np.zeros(len(points) + 1, np.int64)
    np.cumsum([len(rows) for rows in found], out=start[1:])
    return start, np.concatenate([*found, np.empty(0, np.int64)]).astype(np.int32)


def dismissed(needed: Found, proposed: Found) -> int:
    """How many needed rows were not proposed."""
    return sum(
        len(np.setdiff1d(needed[1][a:b], proposed[1][c:d], assume_unique=True))
        for a, b, c, d in zip(needed[0][:-1], needed[0][1:], proposed[0][:-1], proposed[0][1:], strict=True)
    )


def same(one: Found, other: Found) -> bool:
    """Whether both found the same rows for the publications that both were asked for."""
    count = min(len(one[0]), len(other[0])) - 1
    return all(np.array_equal(_sorted(one, p), _sorted(other, p)) for p in range(count))


def _sorted(found: Found, p: int) -> NDArray[np.int32]:
    return np.sort(found[1][found[0][p] : found[0][p + 1]])
