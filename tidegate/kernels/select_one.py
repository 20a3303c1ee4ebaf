"""Select for one publication: what ``encode``, ``admit_blocks`` and ``select`` do for a batch, in one compiled call.

``Segment.match_one`` calls ``select_one`` and ``Newcomers.match_one`` calls ``scan_one``, each with the publication as
``PublicationPoints`` has laid it out. All arguments are plain arrays, because tuples of arrays take longer to pass than
a small segment takes to match. ``select_one_aside`` is for large segments: it releases the interpreter's lock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit, releasing
from tidegate.kernels.encode import encode, encode_lists, text_rank
from tidegate.kernels.fill import ClauseRanges
from tidegate.kernels.matched_owners import EncodedPoints, ranges_hold
from tidegate.kernels.select import admit_blocks, select

__all__ = ["NUMBER", "NUMBERS", "TEXT", "TEXTS", "driven_one", "scan_one", "select_one", "select_one_aside"]

#: What stands in ``value`` for a column: its point, the number of its text, or of its list of points or texts.
NUMBER, TEXT, NUMBERS, TEXTS = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def _point(
    kind: int,
    v: float,
    text_end: NDArray[np.int64],
    letters: NDArray[np.uint8],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
    first: int,
    last: int,
) -> float:
    """A point as it is; a text as its rank among the column's constants first … last."""
    if kind in (NUMBER, NUMBERS):
        return v
    t = np.int64(v)
    begin = text_end[t - 1] if t else 0
    return float(text_rank(begin, text_end[t], letters, constant_offsets, constant_letters, first, last))


@njit(cache=True, nogil=True)
def _on_axes(
    value: NDArray[np.float64],
    kind: NDArray[np.uint8],
    text_end: NDArray[np.int64],
    letters: NDArray[np.uint8],
    list_end: NDArray[np.int64],
    list_item: NDArray[np.float64],
    place: NDArray[np.int64],
    constant_start: NDArray[np.int64],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]:
    """The points of the clauses' columns: single ones; which are lists (−2 − number, else 0); lists, their points."""
    columns = len(place)
    point = np.empty((1, columns))
    many = np.zeros((1, columns), np.int32)
    listed, items = 0, 0
    for c in range(columns):
        v = value[place[c]]
        if kind[place[c]] >= NUMBERS and v == v:
            listed += 1
            n = np.int64(v)
            items += list_end[n] - (list_end[n - 1] if n else 0)
    start = np.zeros(listed + 1, np.int64)
    of_list = np.empty(items)
    listed, items = 0, 0
    for c in range(columns):
        v, k = value[place[c]], kind[place[c]]
        first, last = constant_start[c], constant_start[c + 1]
        if v != v or k < NUMBERS:
            point[0, c] = (
                v if v != v else _point(k, v, text_end, letters, constant_offsets, constant_letters, first, last)
            )
            continue
        n = np.int64(v)
        for i in range(list_end[n - 1] if n else 0, list_end[n]):
            of_list[items] = _point(k, list_item[i], text_end, letters, constant_offsets, constant_letters, first, last)
            items += 1
        point[0, c] = np.nan
        many[0, c] = -2 - listed
        listed += 1
        start[listed] = items
    return point, many, start, of_list


@njit(cache=True)
def select_one(
    value: NDArray[np.float64],
    kind: NDArray[np.uint8],
    text_end: NDArray[np.int64],
    letters: NDArray[np.uint8],
    list_end: NDArray[np.int64],
    list_item: NDArray[np.float64],
    place: NDArray[np.int64],
    constant_start: NDArray[np.int64],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
    cuts: NDArray[np.float64],
    row_start: NDArray[np.int64],
    row_of_code: NDArray[np.uint16],
    bucketed: NDArray[np.uint8],
    top: NDArray[np.int64],
    summary: NDArray[np.uint64],
    entry_start: NDArray[np.int64],
    entry_column: NDArray[np.uint16],
    entry_offset: NDArray[np.int64],
    table: NDArray[np.uint64],
    alive: NDArray[np.uint64],
    doubtful: NDArray[np.uint64],
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    owner_start: NDArray[np.int64],
    owner: NDArray[np.int32],
    as_owners: bool,
    room: int,
    found: int,
    target: NDArray[np.int32],
) -> int:
    """Write the clauses of a segment that hold, or their owners, to ``target`` from ``found`` on; how many there are
    then. −1 where they might not fit: ``room`` is the most that 64 blocks can give.
    """
    point, many, list_start, list_value = _on_axes(
        value, kind, text_end, letters, list_end, list_item, place, constant_start, constant_offsets, constant_letters
    )
    columns = len(place)
    code, row = np.empty((1, columns), np.int32), np.empty((1, columns), np.int64)
    encode(point, cuts, row_start, row_of_code, code, row)
    list_code, list_row = np.empty(len(list_value), np.int32), np.empty(len(list_value), np.int64)
    if len(list_start) > 1:
        for c in range(columns):
            if many[0, c]:
                code[0, c] = many[0, c]
                a, b = list_start[-2 - many[0, c]], list_start[-1 - many[0, c]]
                encode_lists(c, list_value[a:b], cuts, row_start, row_of_code, list_code[a:b], list_row[a:b])
    admitted = admit_blocks(summary, top, code, list_start, list_code, len(entry_start) - 1)
    runs = np.empty((1 + (len(entry_start) >> 6), 3), np.int64)
    next_tile, _, n, _ = select(
        admitted, row, code, point, list_start, list_row, list_value, entry_start, entry_column, entry_offset, table,
        bucketed, alive, doubtful, start, column, low, high, owner_start, owner, as_owners, room, 64, 0, 0,
        target[found:], runs,
    )  # fmt: skip
    return found + n if next_tile >= len(entry_start) - 1 else -1


select_one_aside = releasing(select_one, "select_one_aside")


@njit(cache=True, nogil=True)
def _not_after(
    constant: int,
    t: int,
    text_end: NDArray[np.int64],
    letters: NDArray[np.uint8],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
) -> bool:
    """Whether a constant is ≤ a text."""
    begin = text_end[t - 1] if t else 0
    rank = text_rank(begin, text_end[t], letters, constant_offsets, constant_letters, constant, constant + 1)
    return bool(rank == 1)


@njit(cache=True, nogil=True)
def _within(
    kind: int,
    v: float,
    low: float,
    high: float,
    text_end: NDArray[np.int64],
    letters: NDArray[np.uint8],
    first: int,
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
) -> bool:
    """Whether a point is in a range; bounds of texts are numbers of constants, counted from ``first``."""
    if kind in (NUMBER, NUMBERS):
        return low <= v < high
    t = np.int64(v)
    if low != -np.inf and not _not_after(
        first + np.int64(low), t, text_end, letters, constant_offsets, constant_letters
    ):
        return False
    return high == np.inf or not _not_after(
        first + np.int64(high), t, text_end, letters, constant_offsets, constant_letters
    )


@njit(cache=True)
def scan_one(
    value: NDArray[np.float64],
    kind: NDArray[np.uint8],
    text_end: NDArray[np.int64],
    letters: NDArray[np.uint8],
    list_end: NDArray[np.int64],
    list_item: NDArray[np.float64],
    place: NDArray[np.int64],
    constant_start: NDArray[np.int64],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    owner: NDArray[np.int32],
    dead: NDArray[np.uint8],
    found: int,
    target: NDArray[np.int32],
) -> int:
    """Write the living owners of clauses that hold, looked at one after the other, to ``target`` from ``found`` on; how
    many there are then. The clauses of an owner follow each other; the constants of column c, in no order, are those
    from ``constant_start[c]`` on.
    """
    first = found
    for clause in range(len(start) - 1):
        k, end = start[clause], start[clause + 1]
        held = not (dead[owner[clause]] or (found > first and target[found - 1] == owner[clause]))
        while k < end and held:
            c = column[k]
            v, how = value[place[c]], kind[place[c]]
            held = False
            while k < end and column[k] == c:  # alternatives
                if v == v and not held:
                    if how < NUMBERS:
                        held = _within(
                            how, v, low[k], high[k], text_end, letters, constant_start[c], constant_offsets,
                            constant_letters,
                        )  # fmt: skip
                    else:
                        n = np.int64(v)
                        for i in range(list_end[n - 1] if n else 0, list_end[n]):
                            held |= _within(
                                how, list_item[i], low[k], high[k], text_end, letters, constant_start[c],
                                constant_offsets, constant_letters,
                            )  # fmt: skip
                k += 1
        if held:
            target[found] = owner[clause]
            found += 1
    return found


@njit(cache=True)
def driven_one(
    value: NDArray[np.float64],
    kind: NDArray[np.uint8],
    text_end: NDArray[np.int64],
    letters: NDArray[np.uint8],
    list_end: NDArray[np.int64],
    list_item: NDArray[np.float64],
    place: NDArray[np.int64],
    constant_start: NDArray[np.int64],
    constant_offsets: NDArray[np.int64],
    constant_letters: NDArray[np.uint8],
    term: NDArray[np.int64],
    drives: NDArray[np.int64],
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    open_start: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The clauses that terms lead to and whose ranges hold: those with other open predicates, and those without.

    Term t leads to the clauses drives[t] … drives[t + 1].
    """
    count = 0
    has_ranges = False
    for t in term:
        count += drives[t + 1] - drives[t]
        has_ranges |= start[drives[t + 1]] > start[drives[t]]
    clause = np.empty(count, np.int32)
    count = 0
    for t in term:
        for c in range(drives[t], drives[t + 1]):
            clause[count] = c
            count += 1
    held = np.ones(count, np.bool_)
    if has_ranges:
        point, many, list_start, list_value = _on_axes(
            value, kind, text_end, letters, list_end, list_item, place, constant_start, constant_offsets,
            constant_letters,
        )  # fmt: skip
        points = EncodedPoints(point, many, list_start, list_value)
        held = ranges_hold(np.zeros(count, np.int64), clause, points, ClauseRanges(start, column, low, high))
    several = np.zeros(count, np.bool_)
    for i in range(count):
        several[i] = open_start[clause[i] + 1] - open_start[clause[i]] > 1
    return clause[held & several], clause[held & ~several]
