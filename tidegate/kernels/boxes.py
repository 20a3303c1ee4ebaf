"""Lists of points in the order they came, and whether one of them lies in a rectangle.

A list lies in a slab, its own stretch of a common pool. Over its points are boxes: the bounds of every 32, 1,024 and
32,768 of them. ``found`` goes from the newest point to the oldest and skips a box that lies outside the rectangle; it
answers at once where the bounds of a box show that one of its points lies inside. For points that came nearly in the
order of one of their numbers, as events do in the order of their ends, and a rectangle that is open on one side, it
looks at a few boxes of each size and no more. A point also has the version at which it appeared.
``kernels/past_atoms.py`` asks, ``kernels/past.py`` writes; nothing here knows what the points are.
"""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

from tidegate.kernels.compiled import njit

__all__ = [
    "BOX", "COUNT", "FIRST", "LEVELS", "LIST", "LOW", "NUMBER", "ONE", "POINT", "REF", "ROOM", "TWO", "VERSION",
    "erase", "found", "give_room", "last", "pack", "put", "unhide",
]  # fmt: skip

_jit = njit(cache=True, nogil=True, error_model="numpy")

#: A point: its two numbers, the version, what it refers to, and its place in the order of all that was remembered.
ONE, TWO, VERSION, REF, NUMBER = 0, 1, 2, 3, 4
POINT = 5
#: A box: least and greatest of the two numbers and of the version.
BOX = 6
#: How many points are in a box of each size, as powers of two; a slab begins where its largest box begins.
LEVELS = (5, 10, 15)
#: A list: where its slab begins, how many points fit, how many there are, and the first that is not forgotten. From
#: ``LIST`` on, the row has columns of the caller.
FIRST, ROOM, COUNT, LOW = 0, 1, 2, 3
LIST = 4

_MASK = (1 << LEVELS[2]) - 1
#: Whether a point of a box is in a rectangle.
_NONE, _MAYBE, _SURELY = 0, 1, 2


# --- boxes ------------------------------------------------------------------------------------------------------------


@_jit
def _stretch(box: Any, at: int, is_first: bool, one: float, two: float, version: float) -> None:
    if is_first:
        box[at, 0], box[at, 1], box[at, 2], box[at, 3], box[at, 4], box[at, 5] = inf, -inf, inf, -inf, inf, -inf
    box[at, 4], box[at, 5] = min(box[at, 4], version), max(box[at, 5], version)
    if isnan(one):
        return
    box[at, 0], box[at, 1] = min(box[at, 0], one), max(box[at, 1], one)
    box[at, 2], box[at, 3] = min(box[at, 2], two), max(box[at, 3], two)


@_jit
def put(
    pool: Any, b5: Any, b10: Any, b15: Any, i: int, one: float, two: float, version: float, ref: int, number: int
) -> None:
    """Write a point after the last one of its list. One without numbers (NaN) is never found."""
    pool[i, 0], pool[i, 1], pool[i, 2], pool[i, 3], pool[i, 4] = one, two, version, ref, number
    _stretch(b5, i >> 5, i & 31 == 0, one, two, version)
    _stretch(b10, i >> 10, i & 1023 == 0, one, two, version)
    _stretch(b15, i >> 15, i & 32767 == 0, one, two, version)


@_jit
def _join(box: Any, at: int, below: Any, low: int, high: int) -> None:
    box[at, 0], box[at, 1], box[at, 2], box[at, 3], box[at, 4], box[at, 5] = inf, -inf, inf, -inf, inf, -inf
    for k in range(low, high):
        for c in range(0, 6, 2):
            box[at, c], box[at, c + 1] = min(box[at, c], below[k, c]), max(box[at, c + 1], below[k, c + 1])


@_jit
def erase(pool: Any, b5: Any, b10: Any, b15: Any, i: int, end: int) -> None:
    """Hide a point from ``found``; ``end`` is where its list ends."""
    pool[i, 0] = nan
    low = i >> 5 << 5
    for k in range(low, min(low + 32, end)):
        _stretch(b5, i >> 5, k == low, pool[k, 0], pool[k, 1], pool[k, 2])
    last = ((end - 1) >> 5) + 1
    low = i >> 10 << 5
    _join(b10, i >> 10, b5, low, min(low + 32, last))
    last = ((end - 1) >> 10) + 1
    low = i >> 15 << 5
    _join(b15, i >> 15, b10, low, min(low + 32, last))


@_jit
def unhide(pool: Any, b5: Any, b10: Any, b15: Any, i: int, one: float) -> None:
    """Undo ``erase``."""
    pool[i, 0] = one
    _stretch(b5, i >> 5, False, one, pool[i, 1], pool[i, 2])
    _stretch(b10, i >> 10, False, one, pool[i, 1], pool[i, 2])
    _stretch(b15, i >> 15, False, one, pool[i, 1], pool[i, 2])


# --- questions --------------------------------------------------------------------------------------------------------


@_jit
def _seen(box: Any, at: int, a: float, b: float, c: float, d: float, since: float) -> int:
    """Whether a point of a box is in the rectangle: ``_NONE``, ``_MAYBE`` or ``_SURELY``."""
    a0, a1, c0, c1 = box[at, 0], box[at, 1], box[at, 2], box[at, 3]
    if a0 > a1 or a0 > b or a1 < a or c0 > d or c1 < c or box[at, 5] < since:
        return _NONE
    if box[at, 4] < since:
        return _MAYBE
    if a <= a0 and a1 <= b and (c <= c0 <= d or c <= c1 <= d):
        return _SURELY
    if c <= c0 and c1 <= d and (a <= a0 <= b or a <= a1 <= b):
        return _SURELY
    return _MAYBE


@_jit
def found(
    pool: Any, b5: Any, b10: Any, b15: Any, low: int, high: int, a: float, b: float, c: float, d: float, since: float
) -> bool:
    """Whether a point at ``low`` or later, before ``high``, has its numbers in [a, b] and [c, d] and its version not
    before ``since``.
    """
    i = high
    while i > low:
        if i & 31 == 0 and i - 32 >= low:
            if i & 1023 == 0 and i - 1024 >= low:
                if i & 32767 == 0 and i - 32768 >= low:
                    seen = _seen(b15, (i >> 15) - 1, a, b, c, d, since)
                    if seen == _SURELY:
                        return True
                    if seen == _NONE:
                        i -= 32768
                        continue
                seen = _seen(b10, (i >> 10) - 1, a, b, c, d, since)
                if seen == _SURELY:
                    return True
                if seen == _NONE:
                    i -= 1024
                    continue
            seen = _seen(b5, (i >> 5) - 1, a, b, c, d, since)
            if seen == _SURELY:
                return True
            if seen == _NONE:
                i -= 32
                continue
        i -= 1
        if a <= pool[i, 0] <= b and c <= pool[i, 1] <= d and pool[i, 2] >= since:
            return True
    return False


@_jit
def last(pool: Any, b5: Any, b10: Any, low: int, high: int, most: int, since: float) -> int:
    """Where the last ``most`` points begin, of those whose version is not before ``since``."""
    i = high
    while i > low and most > 0:
        if i & 31 == 0 and i - 32 >= low:
            if i & 1023 == 0 and i - 1024 >= low and most >= 1024 and b10[(i >> 10) - 1, 4] >= since:
                i -= 1024
                most -= 1024
                continue
            if most >= 32 and b5[(i >> 5) - 1, 4] >= since:
                i -= 32
                most -= 32
                continue
        i -= 1
        if pool[i, 2] >= since:
            most -= 1
    return i


# --- room -------------------------------------------------------------------------------------------------------------


@_jit
def _room(count: int) -> int:
    room = 32
    while room < count:
        room *= 2
    return room


@_jit
def give_room(lists: Any, which: Any, more: Any, end: int, pool: Any, b5: Any, b10: Any, b15: Any, moves: bool) -> int:
    """Make room for ``more[i]`` points in each list ``which[i]``, by moving lists to larger slabs; returns where the
    last slab ends.

    ``end`` is where it ends before. Without ``moves`` the result is only computed, so that the caller can make the pool
    that large first.
    """
    for i in range(len(which)):
        at = which[i]
        count = lists[at, COUNT]
        if count + more[i] <= lists[at, ROOM]:
            continue
        room = _room(count + more[i] + (count >> 1))
        first = (end + min(room, _MASK + 1) - 1) // min(room, _MASK + 1) * min(room, _MASK + 1)
        end = first + room
        if moves:
            old = lists[at, FIRST]
            for k in range(count):
                put(
                    pool, b5, b10, b15, first + k,
                    pool[old + k, 0], pool[old + k, 1], pool[old + k, 2], int(pool[old + k, 3]), int(pool[old + k, 4]),
                )  # fmt: skip
            lists[at, FIRST], lists[at, ROOM] = first, room
    return end


@_jit
def pack(lists: Any, old: Any, pool: Any, b5: Any, b10: Any, b15: Any, holes: Any, place: Any) -> int:
    """Copy all lists from ``old`` to ``pool``, without forgotten points and, where ``holes`` is set, erased ones.

    Returns where the last slab ends. For lists with ``holes``, ``place`` gets the new place of a point, by what the
    point refers to.
    """
    end = 0
    for at in range(len(lists)):
        first, low, count = lists[at, FIRST], lists[at, LOW], lists[at, COUNT]
        kept = 0
        for k in range(first + low, first + count):
            kept += 1 if not (holes[at] and isnan(old[k, 0])) else 0
        room = _room(kept + kept // 2)
        start = (end + min(room, _MASK + 1) - 1) // min(room, _MASK + 1) * min(room, _MASK + 1)
        end = start + room
        n = 0
        for k in range(first + low, first + count):
            if holes[at]:
                if isnan(old[k, 0]):
                    continue
                place[int(old[k, 3])] = n
            put(pool, b5, b10, b15, start + n, old[k, 0], old[k, 1], old[k, 2], int(old[k, 3]), int(old[k, 4]))
            n += 1
        lists[at, FIRST], lists[at, ROOM], lists[at, COUNT], lists[at, LOW] = start, room, n, 0
    return end
