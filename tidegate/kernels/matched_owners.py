"""From hits, which are clauses per publication and tile, to owners per publication.

``Segment.match`` calls these loops after ``kernels/select.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.fill import ClauseRanges

__all__ = [
    "EncodedPoints", "OpenPairs", "join_rows", "open_pairs", "owners_of_clauses", "owners_of_hits", "ranges_hold",
    "rows_of_runs",
]  # fmt: skip


class EncodedPoints(NamedTuple):
    """A batch on the axes of a segment: points and codes; a code of −2 − j stands for the list j of points."""

    value: NDArray[np.float64]
    code: NDArray[np.int32]
    list_start: NDArray[np.int64]
    list_value: NDArray[np.float64]


class OpenPairs(NamedTuple):
    """Open predicates of hits: each is of a publication and of the hit at a position, has a number, may be negated.

    Those that are no terms are 0 … start[1], and the terms of kind k are start[k + 1] … start[k + 2].
    """

    start: NDArray[np.int64]
    publication: NDArray[np.int64]
    position: NDArray[np.int64]
    number: NDArray[np.int64]
    negated: NDArray[np.bool_]


@njit(cache=True, nogil=True)
def open_pairs(
    runs: NDArray[np.int64],
    hits: NDArray[np.int32],
    open_start: NDArray[np.int64],
    open_predicate: NDArray[np.int32],
    kinds: int,
) -> OpenPairs:
    """What is left to settle of hits, those of one kind together; the codes of terms have room for so many kinds."""
    start = np.zeros(kinds + 2, np.int64)
    for r in range(len(runs)):
        for i in range(runs[r, 1], runs[r, 2]):
            for k in range(open_start[hits[i]], open_start[hits[i] + 1]):
                code = open_predicate[k]
                start[1 if code >= 0 else 2 + ((-1 - code) >> 1) % kinds] += 1
    for kind in range(kinds + 1):
        start[kind + 1] += start[kind]
    filled = start.copy()
    publication, position = np.empty(start[-1], np.int64), np.empty(start[-1], np.int64)
    number, negated = np.empty(start[-1], np.int64), np.zeros(start[-1], np.bool_)
    for r in range(len(runs)):
        for i in range(runs[r, 1], runs[r, 2]):
            for k in range(open_start[hits[i]], open_start[hits[i] + 1]):
                code = open_predicate[k]
                kind = 0 if code >= 0 else 1 + ((-1 - code) >> 1) % kinds
                at = filled[kind]
                filled[kind] += 1
                publication[at], position[at] = runs[r, 0], i
                number[at] = code if code >= 0 else (-1 - code) // (2 * kinds)
                negated[at] = code < 0 and (-1 - code) & 1 == 1
    return OpenPairs(start, publication, position, number, negated)


@njit(cache=True, nogil=True)
def ranges_hold(
    publication: NDArray[np.int64],
    clause: NDArray[np.int32],
    points: EncodedPoints,
    ranges: ClauseRanges,
) -> NDArray[np.bool_]:
    """Whether the ranges of clauses hold for publications, pair by pair."""
    value, code, list_start, list_value = points.value, points.code, points.list_start, points.list_value
    start, column, low, high = ranges.start, ranges.column, ranges.low, ranges.high
    held = np.ones(len(publication), np.bool_)
    for i in range(len(publication)):
        p, k, end = publication[i], start[clause[i]], start[clause[i] + 1]
        while k < end and held[i]:
            c = column[k]
            some = False
            while k < end and column[k] == c:
                if code[p, c] <= -2:  # a list: one of its points is enough
                    number = -2 - code[p, c]
                    for j in range(list_start[number], list_start[number + 1]):
                        some |= low[k] <= list_value[j] < high[k]
                else:
                    some |= low[k] <= value[p, c] < high[k]
                k += 1
            held[i] = some
    return held


@njit(cache=True, nogil=True)
def rows_of_runs(publications: int, runs: NDArray[np.int64], hits: NDArray[np.int32]) -> tuple[Any, Any]:
    """Runs of owners as rows (start, owners): the owners of publication p are start[p] … start[p + 1]."""
    start = np.zeros(publications + 1, np.int64)
    in_order = True
    for r in range(len(runs)):
        start[runs[r, 0] + 1] += runs[r, 2] - runs[r, 1]
        in_order &= r == 0 or runs[r, 0] > runs[r - 1, 0]
    for p in range(publications):
        start[p + 1] += start[p]
    if in_order:
        return start, hits
    owners = np.empty(start[publications], np.int32)
    filled = start[:publications].copy()
    for r in range(len(runs)):
        p, begin, end = runs[r]
        owners[filled[p] : filled[p] + end - begin] = hits[begin:end]
        filled[p] += end - begin
    return start, owners


@njit(cache=True, nogil=True)
def owners_of_hits(
    publications: int,
    runs: NDArray[np.int64],
    hits: NDArray[np.int32],
    owner_start: NDArray[np.int64],
    owner: NDArray[np.int32],
    dead: NDArray[np.uint8],
    stamps: NDArray[np.int32],
) -> tuple[Any, Any]:
    """The living owners of runs of clauses, each once, as rows (start, owners).

    A hit of −1 was refuted. Where owners may have several clauses, ``stamps`` (zeros, one per owner) keeps each from
    being listed twice; it is empty where every owner has one clause.
    """
    once = len(stamps) > 0
    most = 0
    for i in range(len(hits)):
        if hits[i] >= 0:
            most += owner_start[hits[i] + 1] - owner_start[hits[i]]
    owners = np.empty(most, np.int32)
    start = np.zeros(publications + 1, np.int64)
    n = 0
    before = 0
    for r in np.argsort(runs[:, 0].copy(), kind="mergesort"):  # the runs of a publication together
        p = runs[r, 0]
        start[before + 1 : p + 1] = n
        before = p
        for i in range(runs[r, 1], runs[r, 2]):
            if hits[i] < 0:
                continue
            for k in range(owner_start[hits[i]], owner_start[hits[i] + 1]):
                who = owner[k]
                if dead[who] or (once and stamps[who] == p + 1):
                    continue
                if once:
                    stamps[who] = p + 1
                owners[n] = who
                n += 1
    start[before + 1 :] = n
    return start, owners[:n]


@njit(cache=True)
def owners_of_clauses(
    clauses: NDArray[np.int32],
    owner_start: NDArray[np.int64],
    owner: NDArray[np.int32],
    dead: NDArray[np.uint8],
    stamps: NDArray[np.int32],
    stamp: int,
    found: int,
    target: NDArray[np.int32],
) -> int:
    """Write the living owners of clauses, each once, to ``target`` from ``found`` on; how many there are then.

    An owner that has the stamp was found before. −1 where there is not enough room; then nothing is stamped.
    """
    most = found
    for clause in clauses:
        most += owner_start[clause + 1] - owner_start[clause]
    if most > len(target):
        return -1
    for clause in clauses:
        for k in range(owner_start[clause], owner_start[clause + 1]):
            who = owner[k]
            if not dead[who] and stamps[who] != stamp:
                stamps[who] = stamp
                target[found] = who
                found += 1
    return found


@njit(cache=True, nogil=True)
def join_rows(
    start: NDArray[np.int64], owners: NDArray[np.int32], start_2: NDArray[np.int64], owners_2: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Two results for the same publications, one after the other in each row."""
    joined = start + start_2
    result = np.empty(len(owners) + len(owners_2), np.int32)
    for p in range(len(start) - 1):
        at = joined[p]
        first = start[p + 1] - start[p]
        result[at : at + first] = owners[start[p] : start[p + 1]]
        result[at + first : joined[p + 1]] = owners_2[start_2[p] : start_2[p + 1]]
    return joined, result
