"""From hits, which are clauses per publication and tile, to owners per publication; and the ids of notifications.

``Segment.match`` calls these loops after ``kernels/select.py``; ``index/notification_tables.py`` calls those for ids.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.encode import mixed
from tidegate.kernels.fill import ClauseRanges

__all__ = [
    "EncodedPoints", "join_rows", "notification_ids", "notification_ids_of_one", "open_hits", "owners_of_clauses",
    "owners_of_hits", "ranges_hold", "rows_of_runs", "text_hashes", "text_hashes_of_two",
]  # fmt: skip


class EncodedPoints(NamedTuple):
    """A batch on the axes of a segment: points and codes; a code of −2 − j stands for the list j of points."""

    value: NDArray[np.float64]
    code: NDArray[np.int32]
    list_start: NDArray[np.int64]
    list_value: NDArray[np.float64]


@njit(cache=True, nogil=True)
def open_hits(
    runs: NDArray[np.int64], hits: NDArray[np.int32], open_start: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which hits are clauses with predicates left to settle: (their publications, their positions in ``hits``)."""
    n = 0
    for r in range(len(runs)):
        for i in range(runs[r, 1], runs[r, 2]):
            n += open_start[hits[i] + 1] > open_start[hits[i]]
    publication = np.empty(n, np.int64)
    position = np.empty(n, np.int64)
    n = 0
    for r in range(len(runs)):
        for i in range(runs[r, 1], runs[r, 2]):
            if open_start[hits[i] + 1] > open_start[hits[i]]:
                publication[n] = runs[r, 0]
                position[n] = i
                n += 1
    return publication, position


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


@njit(cache=True, nogil=True)
def _text_hash(begin: int, end: int, letters: NDArray[np.uint8]) -> tuple[np.uint64, np.uint64]:
    one, two = np.uint64(0xCBF29CE484222325), np.uint64(0x9AE16A3B2F90404F)
    for k in range(begin, end):
        one = (one ^ np.uint64(letters[k])) * np.uint64(0x100000001B3)
        two = (two + np.uint64(letters[k])) * np.uint64(0xC6A4A7935BD1E995)
        two ^= two >> np.uint64(29)
    return mixed(one), mixed(two)


@njit(cache=True, nogil=True)
def text_hashes(offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """128 bits per text."""
    result = np.empty((len(offsets) - 1, 2), np.uint64)
    for i in range(len(result)):
        result[i, 0], result[i, 1] = _text_hash(offsets[i], offsets[i + 1], letters)
    return result


@njit(cache=True, nogil=True)
def text_hashes_of_two(one: NDArray[np.uint8], two: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """``text_hashes`` of two texts."""
    result = np.empty((2, 2), np.uint64)
    result[0, 0], result[0, 1] = _text_hash(0, len(one), one)
    result[1, 0], result[1, 1] = _text_hash(0, len(two), two)
    return result


@njit(cache=True, nogil=True)
def _write_id(
    digits: NDArray[np.uint8], subscription: NDArray[np.uint64], one: np.uint64, two: np.uint64, when: np.uint64
) -> None:
    """32 hexadecimal digits of a notification: of a subscription, of the two halves of a publication, and of a time."""
    for half in range(2):
        word = mixed(subscription[half] + mixed((two if half else one) ^ when))
        for d in range(16):
            nibble = (word >> np.uint64(60 - 4 * d)) & np.uint64(15)
            digits[16 * half + d] = nibble + (48 if nibble < 10 else 87)


@njit(cache=True, nogil=True)
def notification_ids(
    start: NDArray[np.int64],
    subscription: NDArray[np.uint64],
    publication: NDArray[np.uint64],
    time: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """32 hexadecimal digits per notification, from the hashes of its subscription and publication and the time.

    Rows as in ``owners_of_hits``: the notifications of publication p are start[p] … start[p + 1].
    """
    digits = np.empty((len(subscription), 32), np.uint8)
    for p in range(len(start) - 1):
        for i in range(start[p], start[p + 1]):
            _write_id(digits[i], subscription[i], publication[p, 0], publication[p, 1], mixed(np.uint64(time[p])))
    return digits


@njit(cache=True)
def notification_ids_of_one(
    key: NDArray[np.uint8], time: int, owners: NDArray[np.int32], hashes: NDArray[np.uint64]
) -> NDArray[np.uint8]:
    """``notification_ids`` of one publication: its key, and the owners it matched with the hashes of all owners."""
    one, two = _text_hash(0, len(key), key)
    digits = np.empty((len(owners), 32), np.uint8)
    for i in range(len(owners)):
        _write_id(digits[i], hashes[owners[i]], one, two, mixed(np.uint64(time)))
    return digits
