"""Temporal conditions as questions about points: which remembered events have a relation to a publication.

A remembered event is the point (start, end) in a list of ``kernels/boxes.py``, a remembered value a point of its own,
and every relation and every comparison is one rectangle or a few. ``kernels/past.py`` calls ``atom_holds``; nothing
here knows how events come to be remembered.
"""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import numpy as np

from tidegate.kernels.boxes import COUNT, FIRST, LOW, found, last
from tidegate.kernels.compiled import njit
from tidegate.kernels.past_records import ENDED, LEFT, LIMIT, OF, OP, RUNNING, TOLERANCE, VALUE_LIST

__all__ = [
    "COMPARISONS", "FALSE", "MISSING", "POINTS", "RELATIONS", "TEXT", "THE_END", "THE_EVENT", "THE_START", "THE_TIME",
    "TIME", "TRUE", "UNSURE", "VALUES", "atom_holds", "rectangles_of", "value_rectangles",
]  # fmt: skip

_jit = njit(cache=True, nogil=True, error_model="numpy")

#: The relations as they are numbered; of a point on the left they are ``POINTS`` further on, comparisons ``VALUES``.
RELATIONS = (
    "t_after", "t_before", "t_contains", "t_disjoint", "t_during", "t_equals", "t_finishedBy", "t_finishes",
    "t_intersects", "t_meets", "t_metBy", "t_overlappedBy", "t_overlaps", "t_startedBy", "t_starts",
)  # fmt: skip
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
POINTS, VALUES = 32, 64
#: What stands on the left of a relation, where it is not a column.
THE_START, THE_END, THE_EVENT, THE_TIME = -1, -2, -3, -4

#: Whether an atom holds: no, yes, or what is on its left is missing. An answer ``UNSURE`` + n says that an event that
#: has left memory may decide: it would lie in one of the first n ``rectangles``.
FALSE, TRUE, MISSING, UNSURE = 0, 1, 2, 3
#: As which kind values are compared: as numbers, as instants, or as the two halves of texts.
NUMBER, TIME, TEXT = 0, 1, 2

#: The relations and the comparisons by name.
(
    _AFTER, _BEFORE, _CONTAINS, _DISJOINT, _DURING, _EQUALS, _FINISHED_BY, _FINISHES, _INTERSECTS, _MEETS, _MET_BY,
    _OVERLAPPED_BY, _OVERLAPS, _STARTED_BY,
) = range(14)  # fmt: skip
_EQUAL, _UNEQUAL, _LESS, _AT_MOST, _GREATER = range(5)


@_jit
def rectangles_of(op: int, s: float, e: float, limit: int, tolerance: int, out: Any) -> int:
    """Write the events Y that [s, e] has a relation to, as rectangles of start and end, to ``out``; how many there are.

    Bounds are included, so that "before" is "up to the next smaller number".
    """
    t = float(tolerance)
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = -inf, inf, -inf, inf
    if op == _AFTER or op == POINTS + _AFTER:
        out[0, 3] = np.nextafter(s + t, -inf)
    elif op == _BEFORE or op == POINTS + _BEFORE:
        out[0, 0] = np.nextafter(e - t, inf)
    elif op == _CONTAINS:
        out[0, 0], out[0, 3] = np.nextafter(s - t, inf), np.nextafter(e + t, -inf)
    elif op == _DISJOINT or op == POINTS + _DISJOINT:  # after or before
        out[0, 3], out[1, 0] = np.nextafter(s + t, -inf), np.nextafter(e - t, inf)
    elif op == _DURING:
        out[0, 1], out[0, 2] = np.nextafter(s + t, -inf), np.nextafter(e - t, inf)
    elif op == _EQUALS or op == POINTS + _EQUALS:
        out[0, 0], out[0, 1], out[0, 2], out[0, 3] = s - t, s + t, e - t, e + t
    elif op == _FINISHED_BY:
        out[0, 0], out[0, 2], out[0, 3] = np.nextafter(s - t, inf), e - t, e + t
    elif op == _FINISHES:
        out[0, 1], out[0, 2], out[0, 3] = np.nextafter(s + t, -inf), e - t, e + t
    elif (
        op == _INTERSECTS or op == POINTS + _DURING or op == POINTS + _INTERSECTS
    ):  # of a point also during, bounds included
        out[0, 1], out[0, 2] = e + t, s - t
    elif op == _MEETS:
        out[0, 0], out[0, 1] = e - t, e + t
    elif op == _MET_BY:
        out[0, 2], out[0, 3] = s - t, s + t
    elif op == _OVERLAPPED_BY:
        out[0, 1], out[0, 2], out[0, 3] = np.nextafter(s + t, -inf), np.nextafter(s - t, inf), np.nextafter(e + t, -inf)
    elif op == _OVERLAPS:
        out[0, 0], out[0, 1], out[0, 2] = np.nextafter(s - t, inf), np.nextafter(e + t, -inf), np.nextafter(e - t, inf)
    elif op == _STARTED_BY:
        out[0, 0], out[0, 1], out[0, 3] = s - t, s + t, np.nextafter(e + t, -inf)
    else:  # starts
        out[0, 0], out[0, 1], out[0, 2] = s - t, s + t, np.nextafter(e - t, inf)
    count = 2 if op == _DISJOINT or op == POINTS + _DISJOINT else 1
    if limit >= 0:
        for k in range(count):
            out[k, 2] = max(out[k, 2], s - limit - t)
    return count


@_jit
def value_rectangles(op: int, x: float, y: float, out: Any) -> int:
    """Write the values v with ``x op v``, as rectangles, to ``out``; y is the other half of a text, or NaN."""
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = -inf, inf, -inf, inf
    if op == _EQUAL:
        out[0, 0] = out[0, 1] = x
        if not isnan(y):
            out[0, 2] = out[0, 3] = y
        return 1
    if op == _UNEQUAL:
        out[0, 1], out[1, 0] = np.nextafter(x, -inf), np.nextafter(x, inf)
        if isnan(y):
            return 2
        out[2, 3], out[3, 2] = np.nextafter(y, -inf), np.nextafter(y, inf)
        return 4
    if op == _LESS:
        out[0, 0] = np.nextafter(x, inf)
    elif op == _AT_MOST:
        out[0, 0] = x
    elif op == _GREATER:
        out[0, 1] = np.nextafter(x, -inf)
    else:
        out[0, 1] = x
    return 1


@_jit
def _any(
    lists: Any, at: int, most: int, gone: int, rectangles: Any, count: int, since: float,
    pool: Any, b5: Any, b10: Any, b15: Any,
) -> bool:  # fmt: skip
    """Whether a point of a list, one of its last ``most``, is in a rectangle."""
    first, low, n = lists[at, FIRST], lists[at, LOW], lists[at, COUNT]
    while low < n and pool[first + low, 4] <= gone:
        low += 1
    lists[at, LOW] = low
    if most < n - low:
        low = n - most if since == -inf else last(pool, b5, b10, first + low, first + n, most, since) - first
    for k in range(count):
        a, b, c, d = rectangles[k, 0], rectangles[k, 1], rectangles[k, 2], rectangles[k, 3]
        if found(pool, b5, b10, b15, first + low, first + n, a, b, c, d, since):
            return True
    return False


@_jit
def atom_holds(
    atom: Any, start: float, end: float, event_start: float, event_end: float, time: int, row: Any,
    recollections: Any, lists: Any, elders: Any, pool: Any, b5: Any, b10: Any, b15: Any, gone: int, since: float,
    rectangles: Any,
) -> int:  # fmt: skip
    """Whether an atom holds of a publication: ``FALSE``, ``TRUE`` or ``MISSING``; or ``UNSURE`` + n where an event
    that has left memory may lie in one of the n ``rectangles`` and decide.
    """
    op = atom[OP]
    if op >= VALUES:
        for kind in range(3):
            at = atom[VALUE_LIST + kind]
            if at < 0:  # the remembered attribute cannot have this type: a value of it counts as missing
                continue
            x = row[atom[LEFT + kind]]
            if isnan(x):
                continue
            y = row[atom[LEFT + 3]] if kind == TEXT else nan
            count = value_rectangles(op - VALUES, x, y, rectangles)
            return int(_any(lists, at, atom[LIMIT], gone, rectangles, count, since, pool, b5, b10, b15))
        return MISSING
    left = atom[LEFT]
    if left == THE_EVENT:
        s, e = event_start, event_end
    else:
        s = start if left == THE_START else end if left == THE_END else float(time) if left == THE_TIME else row[left]
        e = s
    if isnan(s) or isnan(e):
        return MISSING
    count = rectangles_of(op, s, e, atom[LIMIT], atom[TOLERANCE], rectangles)
    of = atom[OF]
    most = 2**62
    if _any(lists, recollections[of, ENDED], most, gone, rectangles, count, since, pool, b5, b10, b15):
        return TRUE
    if _any(lists, recollections[of, RUNNING], most, -1, rectangles, count, since, pool, b5, b10, b15):
        return TRUE
    for k in range(count):
        a, b, c, d = rectangles[k, 0], rectangles[k, 1], rectangles[k, 2], rectangles[k, 3]
        if elders[of, 0] <= b and elders[of, 1] >= a and elders[of, 2] <= d and elders[of, 3] >= c:
            return int(UNSURE + count)
    return FALSE
