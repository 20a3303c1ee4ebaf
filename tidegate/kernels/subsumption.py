"""Whether a box lies in the union of others: in one of them, in all of them together, or so it seems at random points.

A box has a least and a greatest double in each dimension, both included; ±∞ are points like any other. Boxes are the
rows of ``low`` and ``high``. Next to a bound comes the next double, so that [a, b] and [b⁺, c] leave nothing out
between them. ``covering/subsumption.py`` calls ``in_one``, ``in_union`` and ``seems_in_union``; nothing here knows what
the boxes stand for.
"""

from __future__ import annotations

from math import ceil, exp, inf, log, log1p
from typing import Any

import numpy as np

from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown

__all__ = ["NO", "UNDECIDED", "WRONG", "YES", "in_one", "in_union", "seems_in_union"]

_jit = njit(cache=True, nogil=True, error_model="numpy")

#: The answers. UNDECIDED: the budget was spent first. WRONG: there is no such box, as with a least above the greatest.
NO, YES, UNDECIDED, WRONG = 0, 1, 2, 3

#: Bounds farther than this are as good as infinite where a part of a width is asked for; no such width overflows.
_FAR = 1e300
#: The 64 corners of a box in six dimensions as bits: which of them are at its greatest in each dimension. Beyond six,
#: dimensions take turns; those corners are corners too, only not all.
_GREATEST = np.array(
    [
        0xAAAAAAAAAAAAAAAA, 0xCCCCCCCCCCCCCCCC, 0xF0F0F0F0F0F0F0F0,
        0xFF00FF00FF00FF00, 0xFFFF0000FFFF0000, 0xFFFFFFFF00000000,
    ],
    np.uint64,
)  # fmt: skip
_NONE = np.uint64(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@_jit
def _near(x: float) -> float:
    return min(max(x, -_FAR), _FAR)


@_jit
def _is_box(box_low: Any, box_high: Any) -> bool:
    sound = True
    for k in range(len(box_low)):
        sound &= box_low[k] <= box_high[k]
    return sound


@_jit
def in_one(low: Any, high: Any, box_low: Any, box_high: Any) -> tuple[int, int]:
    """Whether one box contains the tested one: the answer, and how many were looked at."""
    if not _is_box(box_low, box_high):
        return WRONG, 0
    for i in range(len(low)):
        for k in range(low.shape[1]):
            if low[i, k] > box_low[k] or high[i, k] < box_high[k]:
                break
        else:
            return YES, i + 1
    return NO, len(low)


# --- exactly ----------------------------------------------------------------------------------------------------------


@_jit
def _look(
    low: Any, high: Any, piece: Any, pool: Any, first: int, last: int, end: int, scale: Any
) -> tuple[int, int, int, int]:
    """An answer about a piece, if its boxes give one at once, and how many were looked at; else UNDECIDED, the box to
    cut the piece with, and the end of the other boxes that have a part of it, which are written from ``end`` on.

    A corner of the piece that is in no box is a NO. The box to cut with spans the most dimensions of the piece, so that
    it leaves the fewest pieces, and of such boxes it has the largest part of it.
    """
    d = low.shape[1]
    for k in range(d):
        width = _near(piece[1, k]) - _near(piece[0, k])
        scale[k] = 1 / width if width > 1 / _FAR else 0.0
    best, best_at, most = -1, -1, -1.0
    corners = _NONE
    for at in range(first, last):
        i = pool[at]
        held, spanned, part = _ALL, 0, 1.0
        for k in range(d):
            a, b, p, q = piece[0, k], piece[1, k], low[i, k], high[i, k]
            if p > b or q < a:
                break
            if p <= a and q >= b:
                spanned += 1
                continue
            greatest = _GREATEST[k % 6]
            if p > a:
                held &= greatest
            if q < b:
                held &= ~greatest
            part *= (_near(min(q, b)) - _near(max(p, a))) * scale[k]
        else:
            if spanned == d:
                return YES, at + 1 - first, -1, end
            corners |= held
            if spanned + part > most:
                best, best_at, most = i, end, spanned + part
            pool[end] = i
            end += 1
    if corners != _ALL:
        return NO, last - first, -1, end
    pool[best_at] = pool[end - 1]
    return UNDECIDED, last - first, best, end - 1


@_jit
def _copy(box: Any, to: Any) -> None:
    for k in range(box.shape[1]):
        to[0, k], to[1, k] = box[0, k], box[1, k]


@_jit
def _cut(low: Any, high: Any, i: int, pieces: Any, top: int, core: Any, left: Any, order: Any, scale: Any) -> int:
    """Replace the piece at ``top`` by what box ``i`` leaves of it; how many pieces there are then.

    Dimension by dimension the piece is cut at the faces of the box, the dimension first of which most is left: so what
    is cut off later, and cannot be in the largest piece any more, is small. The largest piece comes to lie last and is
    the next to be looked at, because a hole is likeliest there.
    """
    d = low.shape[1]
    count = 0
    for k in range(d):
        a, b, p, q = pieces[top, 0, k], pieces[top, 1, k], low[i, k], high[i, k]
        core[0, k], core[1, k] = a, b
        count += (p > a) + (q < b)
        left[k] = -1.0 if p <= a and q >= b else 1 - (_near(min(q, b)) - _near(max(p, a))) * scale[k]
        at = k
        while at > 0 and left[order[at - 1]] < left[k]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
    at = top + count
    for k in order:
        if low[i, k] > core[0, k]:
            at -= 1
            _copy(core, pieces[at])
            pieces[at, 1, k] = np.nextafter(low[i, k], -inf)
            core[0, k] = low[i, k]
        if high[i, k] < core[1, k]:
            at -= 1
            _copy(core, pieces[at])
            pieces[at, 0, k] = np.nextafter(high[i, k], inf)
            core[1, k] = high[i, k]
    return top + count


@_jit
def in_union(low: Any, high: Any, box_low: Any, box_high: Any, budget: int) -> tuple[int, int, int]:
    """Whether the boxes together contain the tested one: the answer, and how many pieces of it were looked at, and how
    many boxes for them.

    Subtraction: what a box leaves of a piece is cut into at most two pieces a dimension, and each is compared with
    the other boxes that have a part of it. After ``budget`` pieces it is UNDECIDED.
    """
    if not _is_box(box_low, box_high):
        return WRONG, 0, 0
    n, d = low.shape
    # The spans say where in the pool the boxes are that a piece must be compared with. The boxes that have a part of
    # the piece are written after them, or over them, if no other piece has the same span.
    pool = np.empty(4 * n, np.int64)
    for i in range(n):
        pool[i] = i
    pieces, spans = np.empty((8 * d, 2, d)), np.empty((8 * d, 2), np.int64)
    core, left, order, scale = np.empty((2, d)), np.empty(d), np.empty(d, np.int64), np.empty(d)
    for k in range(d):
        pieces[0, 0, k], pieces[0, 1, k] = box_low[k], box_high[k]
    spans[0, 0], spans[0, 1] = 0, n
    top, looked, compared = 1, 0, 0
    while top:
        if looked == budget:
            return UNDECIDED, looked, compared
        top -= 1
        first, last = spans[top, 0], spans[top, 1]
        start = last if top > 0 and spans[top - 1, 0] == first else first
        if len(pool) < start + last - first:
            pool = grown(pool)
        answer, count, best, end = _look(low, high, pieces[top], pool, first, last, start, scale)
        looked += 1
        compared += count
        if answer == NO:
            return NO, looked, compared
        if answer == YES:
            continue
        if len(pieces) < top + 2 * d:
            pieces, spans = grown(pieces), grown(spans)
        before = top
        top = _cut(low, high, best, pieces, top, core, left, order, scale)
        for at in range(before, top):
            spans[at, 0], spans[at, 1] = start, end
    return YES, looked, compared


# --- by chance --------------------------------------------------------------------------------------------------------


@_jit
def _random(state: Any) -> float:
    """A number from 0 up to 1, by SplitMix64 (Steele, Lea, Flood 2014), whose state is one word."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@_jit
def _ends(low: Any, high: Any, box_low: float, box_high: float, k: int) -> tuple[float, float]:
    """Between which ends points are drawn: of a side that is as good as endless, some way beyond the last bound."""
    if box_low >= -_FAR and box_high <= _FAR:
        return box_low, box_high
    least, greatest = inf, -inf
    for i in range(len(low) + 1):
        p, q = (box_low, box_high) if i == len(low) else (low[i, k], high[i, k])
        if abs(p) <= _FAR:
            least, greatest = min(least, p), max(greatest, p)
        if abs(q) <= _FAR:
            least, greatest = min(least, q), max(greatest, q)
    if least > greatest:
        least, greatest = 0.0, 0.0
    beyond = greatest - least if greatest > least else 1.0
    a = least - beyond if box_low < -_FAR else box_low
    b = greatest + beyond if box_high > _FAR else box_high
    return max(min(a, box_high), box_low), min(max(b, box_low), box_high)


@_jit
def seems_in_union(
    low: Any, high: Any, box_low: Any, box_high: Any, error: float, most: int, state: Any
) -> tuple[int, int, int, float]:
    """Whether no random point of the tested box is outside all boxes: the answer, how many points were drawn, how many
    boxes looked at, and the probability that a YES is wrong.

    Ouksel, Jurca, Podnar and Aberer, Middleware 2006, without their reduction of the set beforehand. Let ρ be the part
    of the tested box that a hole has at least; it is estimated as the product over the dimensions of the narrowest
    strip that one of the boxes leaves free there. If no hole is smaller, then all of m points miss it with a
    probability of at most (1 − ρ)ᵐ, and m = ⌈ln error ÷ ln(1 − ρ)⌉ are enough. After ``most`` points it is YES as well,
    with the probability that was reached by then. A NO is certain.
    """
    if not _is_box(box_low, box_high):
        return WRONG, 0, 0, 0.0
    n, d = low.shape
    pool, count = np.empty(n, np.int64), 0
    for i in range(n):
        spanned = 0
        for k in range(d):
            if low[i, k] > box_high[k] or high[i, k] < box_low[k]:
                break
            spanned += low[i, k] <= box_low[k] and high[i, k] >= box_high[k]
        else:
            if spanned == d:
                return YES, 0, i + 1, 0.0
            pool[count] = i
            count += 1
    if count == 0:
        return NO, 0, n, 0.0
    ends, point = np.empty((2, d)), np.empty(d)
    least, narrowest = 1.0, inf
    for k in range(d):
        a, b = _ends(low, high, box_low[k], box_high[k], k)
        ends[0, k], ends[1, k] = a, b
        strip = inf
        for at in range(count):
            below, above = low[pool[at], k] - a, b - high[pool[at], k]
            strip = min(strip, below if below > 0 else inf, above if above > 0 else inf)
        if strip < inf:
            least *= min(strip / (b - a), 1.0) if b > a else 0.0
        narrowest = min(narrowest, strip)
    if narrowest == inf:  # the boxes leave only strips free that lie farther out than any point that is drawn
        least = 0.0
    needed = ceil(max(1.0, min(log(error) / log1p(-least), most + 1.0))) if least > 0 else most + 1
    points, compared = min(needed, most), n
    for drawn in range(points):
        for k in range(d):
            u = _random(state)
            point[k] = min(max(ends[0, k] * (1 - u) + ends[1, k] * u, ends[0, k]), ends[1, k])
        for at in range(count):
            i = pool[at]
            compared += 1
            for k in range(d):
                if not low[i, k] <= point[k] <= high[i, k]:
                    break
            else:
                pool[0], pool[at] = i, pool[0]  # a box that has one point is likely to have the next
                break
        else:
            return NO, drawn + 1, compared, 0.0
    return (YES if needed <= most else UNDECIDED), points, compared, exp(points * log1p(-least))
