"""Near shapes, found in rungs: boxes around blocks of rows, then a few coordinates, then more, the fewest in doubles.

``shapes/cascade.py`` builds the arrays and calls ``find_near`` or, for one point, ``find_near_one``; rows are the
shapes that are looked for, points those of publications. A row's coordinates come most telling first, and each rung has
the norm of those it leaves out, its *rest*. So the distance is known from both sides: D² lies between S + (r − q)² and
S + (r + q)², where S is the squared distance so far and r and q are the rests of row and point. A pair is dropped when
the lower bound is above the tolerance, and taken without another look when the upper bound is below it. All that is in
single precision; the bounds are drawn so that rounding decides nothing (see ``shapes.cascade``), and what they leave
open is decided in doubles.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.bits import trailing_zeros
from tidegate.kernels.compiled import njit
from tidegate.kernels.shape import distance_of
from tidegate.kernels.simd import prefetch, rows_within

__all__ = [
    "BLOCK",
    "FIRST",
    "TILE",
    "NearPairs",
    "PointRungs",
    "RowRungs",
    "Verified",
    "cut_into_rungs",
    "find_near",
    "find_near_one",
    "verify",
]

#: Points that pass a block together, so that it is read from memory once.
TILE = 16
#: Rows of a block, and numbers per row of the first rung: coordinates, and the rest of those it leaves out.
BLOCK, FIRST = 64, 16
#: How many pairs ahead coordinates are prefetched, and numbers in a line of memory.
_AHEAD, _LINE = 16, 16
#: Squares that are summed in single precision at most, before the sum goes on in doubles.
_STRIDE = 256
#: Coordinates that ``verify`` sums before it compares the sum with the limit.
_GIVE_UP = 64
#: A little more than 1: what is subtracted from a sum must not be less than what was added to it.
_MORE = np.float32(1.00001)

#: Sums may be taken in any order: the bounds allow for it.
_fast = njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")


class PointRungs(NamedTuple):
    """Points, cut into rungs; ``rest`` has the norm of what is left after each. The last rung is taken in several
    ``steps``, after the last of which nothing is left. ``normals`` are the points in doubles.
    """

    first: NDArray[np.float32]
    second: NDArray[np.float32]
    third: NDArray[np.float32]
    last: NDArray[np.float32]
    rest: NDArray[np.float32]
    steps: NDArray[np.int64]
    normals: NDArray[np.float64]


class RowRungs(NamedTuple):
    """Rows in blocks, cut into rungs, in the order of their places in the blocks. ``number`` gives the row number of a
    place; ``exact``, the rows in doubles, and ``radius`` are indexed by row number.
    """

    blocks: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    widest: NDArray[np.float32]
    second: NDArray[np.float32]
    third: NDArray[np.float32]
    last: NDArray[np.float32]
    rest: NDArray[np.float32]
    reject: NDArray[np.float32]
    accept: NDArray[np.float32]
    number: NDArray[np.int32]
    exact: NDArray[np.float64]
    radius: NDArray[np.float64]


class NearPairs(NamedTuple):
    """The pairs of a tile of points: places of rows that are still open, how far they are, and rows that are near."""

    place: NDArray[np.int32]
    far: NDArray[np.float32]
    found: NDArray[np.int32]


class Verified(NamedTuple):
    """Points and rows, each whole in single precision and in doubles, and the bounds that rows have."""

    points: NDArray[np.float32]
    normals: NDArray[np.float64]
    rows: NDArray[np.float32]
    reject: NDArray[np.float32]
    accept: NDArray[np.float32]
    exact: NDArray[np.float64]
    radius: NDArray[np.float64]


@_fast
def cut_into_rungs(coordinates: NDArray[np.float64], cuts: NDArray[np.int64], points: Any, begin: int) -> None:
    """Put the coordinates of some points into rungs of ``PointRungs``, from point ``begin`` on.

    ``cuts`` are where the first three rungs end and the steps of the last one do, the width included. Coordinates that
    the first rung has room for and that a point has not must be 0 already.
    """
    first, second, third, last, rest = points.first, points.second, points.third, points.last, points.rest
    a, b, c, width = cuts[0], cuts[1], cuts[2], cuts[-1]
    for r in range(len(coordinates)):
        p = begin + r
        after = 0.0
        for level in range(len(cuts) - 2, -1, -1):  # from the smallest on, so that little is lost
            some = 0.0
            for j in range(cuts[level], cuts[level + 1]):
                some += coordinates[r, j] * coordinates[r, j]
            after += some
            rest[level, p] = sqrt(after)
        for j in range(a):
            first[p, j] = coordinates[r, j]
        first[p, FIRST - 1] = rest[0, p]
        for j in range(a, b):
            second[p, j - a] = coordinates[r, j]
        for j in range(b, c):
            third[p, j - b] = coordinates[r, j]
        for j in range(c, width):
            last[p, j - c] = coordinates[r, j]


@_fast
def _boxes(
    first: NDArray[np.float32],
    p: int,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    out: NDArray[np.float32],
    t: int,
) -> None:
    """Squared distance of a point to each box."""
    n = low.shape[1]
    zero = np.float32(0)
    for b in range(n):
        out[t, b] = zero
    for d in range(FIRST):
        x = first[p, d]
        for b in range(n):
            below, above = low[d, b] - x, x - high[d, b]
            far = below if below > above else above
            far = far if far > zero else zero
            out[t, b] += far * far


@_fast
def _climb(rung: Any, p: int, t: int, count: int, written: int, points: Any, rows: Any, pairs: Any) -> Any:
    """Try the open pairs of a point on one rung: how many are still open, and the new end of ``found``.

    ``rung`` has the coordinates of points and of rows, the level, and the first and last coordinate (excluded) to sum.
    """
    mine, theirs, level, begin, end = rung
    row_rests, reject, accept = rows.rest, rows.reject, rows.accept
    place, far, found = pairs.place, pairs.far, pairs.found
    left = 0
    rest = points.rest[level, p]
    for i in range(count):
        if i + _AHEAD < count:
            ahead = np.int64(place[t, i + _AHEAD]) * theirs.shape[1]
            for j in range(begin, end, _LINE):
                prefetch(theirs, ahead + j)
        r = np.uint64(place[t, i])
        total = np.float64(far[t, i])
        at = begin
        while at < end:
            some = np.float32(0)
            for j in range(np.uint64(at), np.uint64(min(at + _STRIDE, end))):  # unsigned: no sign is checked
                x = theirs[r, j] - mine[p, j]
                some += x * x
            total += some
            at += _STRIDE
        less, more = row_rests[level, r] - rest, row_rests[level, r] + rest
        if total + more * more < accept[r]:
            found[written] = r
            written += 1
        elif total + less * less <= reject[r]:
            place[t, left], far[t, left] = r, np.float32(total)
            left += 1
    return left, written


@_fast
def find_near(
    points: Any, rows: Any, begin: int, end: int, start: NDArray[np.int64], found: NDArray[np.int32], work: Any
) -> Any:
    """Write the rows within their radius of points begin … end to ``found``, point by point; start[p + 1] is the end.

    ``points`` are ``PointRungs`` and ``rows`` are ``RowRungs``. Returns how many there are, and the point to go on with
    when ``found`` is full. ``work`` counts boxes, rows of blocks, pairs at each later rung, and pairs decided in
    doubles.
    """
    first, rest = points.first, points.rest
    blocks, widest, row_rest, reject = rows.blocks, rows.widest, rows.rest, rows.reject
    n_rows, n_blocks = len(rows.number), len(widest)
    together = min(TILE, end - begin)
    boxes = np.empty((together, n_blocks), np.float32)
    sums = np.empty(BLOCK, np.float32)
    place, far = np.empty((together, n_rows), np.int32), np.empty((together, n_rows), np.float32)
    pairs = NearPairs(place, far, found)
    opened = np.empty(together, np.int64)
    written = np.int64(0)
    for tile in range(begin, end, together):
        tiled = min(together, end - tile)
        if written + tiled * n_rows > len(found):
            return written, tile
        for t in range(tiled):
            _boxes(first, tile + t, rows.low, rows.high, boxes, t)
            opened[t] = 0
        work[0] += tiled * n_blocks
        for b in range(n_blocks):
            for t in range(tiled):
                if boxes[t, b] > widest[b]:
                    continue
                work[1] += BLOCK
                bits = rows_within(blocks, b * BLOCK * FIRST, first, (tile + t) * FIRST, reject, b * BLOCK, sums)
                count = opened[t]
                while bits:
                    r = trailing_zeros(bits)
                    bits &= bits - np.uint64(1)
                    at = b * BLOCK + r
                    # The first rung sums the rests as one coordinate more, which later rungs must not find in it.
                    less = (row_rest[0, at] - rest[0, tile + t]) * _MORE
                    place[t, count], far[t, count] = at, max(sums[r] - less * less, np.float32(0))
                    count += 1
                opened[t] = count
        for t in range(tiled):
            written = _climb_all(tile + t, t, opened[t], written, points, rows, pairs, work)
            start[tile + t + 1] = written
    return written, end


@_fast
def find_near_one(
    coordinates: NDArray[np.float64],
    cuts: NDArray[np.int64],
    steps: NDArray[np.int64],
    normals: NDArray[np.float64],
    rows: Any,
) -> NDArray[np.int32]:
    """The rows within their radius of one point, whose coordinates are cut here; ``rows`` are ``RowRungs``.

    The boxes are tested first, for all blocks, so that the next block is on its way while one is looked at.
    """
    blocks, widest, row_rest, reject = rows.blocks, rows.widest, rows.rest, rows.reject
    first, rest = np.zeros((1, FIRST), np.float32), np.zeros((len(row_rest), 1), np.float32)
    second = np.empty((1, rows.second.shape[1]), np.float32)
    third = np.empty((1, rows.third.shape[1]), np.float32)
    last = np.empty((1, rows.last.shape[1]), np.float32)
    points = PointRungs(first, second, third, last, rest, steps, normals)
    cut_into_rungs(coordinates, cuts, points, 0)
    n_blocks = len(widest)
    boxes, kept, blocks_kept = np.empty((1, n_blocks), np.float32), np.empty(n_blocks, np.int64), 0
    _boxes(first, 0, rows.low, rows.high, boxes, 0)
    for b in range(n_blocks):
        if boxes[0, b] <= widest[b]:
            kept[blocks_kept] = b
            blocks_kept += 1
    most = blocks_kept * BLOCK
    pairs = NearPairs(np.empty((1, most), np.int32), np.empty((1, most), np.float32), np.empty(most, np.int32))
    place, far, sums, count = pairs.place, pairs.far, np.empty(BLOCK, np.float32), np.int64(0)
    for i in range(blocks_kept):
        b = kept[i]
        if i + 1 < blocks_kept:
            for j in range(0, BLOCK * FIRST // 2, _LINE):  # the second half is seldom read
                prefetch(blocks, kept[i + 1] * BLOCK * FIRST + j)
        bits = rows_within(blocks, b * BLOCK * FIRST, first, 0, reject, b * BLOCK, sums)
        while bits:
            r = trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            at = b * BLOCK + r
            less = (row_rest[0, at] - rest[0, 0]) * _MORE
            place[0, count], far[0, count] = at, max(sums[r] - less * less, np.float32(0))
            count += 1
    n = _climb_all(0, 0, count, 0, points, rows, pairs, np.empty(6, np.int64))
    return pairs.found[:n]


@_fast
def _climb_all(p: int, t: int, count: int, written: int, points: Any, rows: Any, pairs: Any, work: Any) -> int:
    """Try the open pairs of point p, which is t in its tile, on all rungs but the first: the new end of ``found``."""
    steps, number, place, found = points.steps, rows.number, pairs.place, pairs.found
    n = written
    work[2] += count
    rung = (points.second, rows.second, 1, 0, rows.second.shape[1])
    count, n = _climb(rung, p, t, count, n, points, rows, pairs)
    work[3] += count
    rung = (points.third, rows.third, 2, 0, rows.third.shape[1])
    count, n = _climb(rung, p, t, count, n, points, rows, pairs)
    work[4] += count
    for level in range(3, len(points.rest)):
        rung = (points.last, rows.last, level, steps[level - 3], steps[level - 2])
        count, n = _climb(rung, p, t, count, n, points, rows, pairs)
    work[5] += count
    for i in range(written, n):
        found[i] = number[found[i]]
    for i in range(count):
        r = number[place[t, i]]
        if distance_of(rows.exact[r], points.normals[p]) <= rows.radius[r]:
            found[n] = r
            n += 1
    return int(n)


@_fast
def verify(
    pairs: Any,
    start: NDArray[np.int64],
    candidates: NDArray[np.int32],
    begin: int,
    end: int,
    sizes: NDArray[np.int64],
    found: NDArray[np.int32],
) -> int:
    """Write the candidates of points begin … end that are near to ``found``; a pair is given up once it is too far.

    Manassiev and Jacobsen 2004, §5.2, 64 coordinates at a time. ``pairs`` are ``Verified``. Returns how many there are.
    """
    points, rows, reject, accept = pairs.points, pairs.rows, pairs.reject, pairs.accept
    normals, exact, radius = pairs.normals, pairs.exact, pairs.radius
    width = rows.shape[1]
    n = 0
    for p in range(begin, end):
        before = n
        for i in range(start[p], start[p + 1]):
            r = np.uint64(candidates[i])
            total, at = np.float64(0), 0
            while at < width and total <= reject[r]:
                some = np.float32(0)
                for j in range(np.uint64(at), np.uint64(min(at + _GIVE_UP, width))):
                    x = rows[r, j] - points[p, j]
                    some += x * x
                total += some
                at += _GIVE_UP
            if total < accept[r] or (total <= reject[r] and distance_of(exact[r], normals[p]) <= radius[r]):
                found[n] = candidates[i]
                n += 1
        sizes[p] = n - before
    return n
