"""The shared memory of patterns: which publications passed which filters lately, as one chain of pairs per filter.

Publications lie in the order in which patterns saw them; a pair is a publication and a filter it passed, with the
number of the pair before it of the same filter. ``patterns/memory.py`` keeps the arrays for one shard; the pattern
families read them. Nothing here knows the families.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = [
    "FilterPairs", "FilterWindows", "by_filters", "chain", "compact_pairs", "log_rows_of", "order_ties", "own_numbers",
    "rows_of", "take_one", "texts_of",
]  # fmt: skip

_jit = njit(cache=True, nogil=True)


@_jit
def _is_before(turn: Any, offsets: Any, letters: Any, phase: Any, source: Any, a: int, b: int) -> bool:
    """Whether publication a comes before b of the same time: by turn, by the bytes of its id, by phase, by the hash of
    its source, by place.
    """
    if turn[a] != turn[b]:
        return bool(turn[a] < turn[b])
    i, j = offsets[a], offsets[b]
    while i < offsets[a + 1] and j < offsets[b + 1]:
        if letters[i] != letters[j]:
            return bool(letters[i] < letters[j])
        i += 1
        j += 1
    if offsets[a + 1] - i != offsets[b + 1] - j:
        return bool(i == offsets[a + 1])
    if phase[a] != phase[b]:
        return bool(phase[a] < phase[b])
    for half in range(2):
        if source[a, half] != source[b, half]:
            return bool(source[a, half] < source[b, half])
    return bool(a < b)


@_jit
def order_ties(
    order: NDArray[np.int64],
    time: NDArray[np.int64],
    turn: NDArray[np.int64],
    offsets: NDArray[np.int64],
    letters: NDArray[np.uint8],
    phase: NDArray[np.uint8],
    source: NDArray[np.uint64],
) -> None:
    """Put publications of the same time in the order of turns, ids, phases and hashes of sources; ``order`` is sorted
    by time already.
    """
    spare = np.empty_like(order)
    begin = 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and time[order[end]] == time[order[begin]]:
            end += 1
        size = 1
        while size < end - begin:  # merge sort: a million publications of one instant must not take forever
            for low in range(begin, end, 2 * size):
                middle, high = min(low + size, end), min(low + 2 * size, end)
                i, j, out = low, middle, low
                while i < middle or j < high:
                    if j >= high or (
                        i < middle and not _is_before(turn, offsets, letters, phase, source, order[j], order[i])
                    ):
                        spare[out] = order[i]
                        i += 1
                    else:
                        spare[out] = order[j]
                        j += 1
                    out += 1
            order[begin:end] = spare[begin:end]
            size *= 2
        begin = end


@_jit
def own_numbers(
    start: NDArray[np.int64], hits: NDArray[np.int32], number: NDArray[np.int32], marks: NDArray[np.int64]
) -> Any:
    """The filters that publications passed, renumbered: those numbered −1 left out, each once per publication.

    ``marks`` has an element for each new number, all −1 before and after.
    """
    fresh_start = np.zeros(len(start), np.int64)
    fresh = np.empty(len(hits), np.int32)
    n = 0
    for p in range(len(start) - 1):
        for i in range(start[p], start[p + 1]):
            f = number[hits[i]]
            if f >= 0 and marks[f] < 0:
                marks[f] = p
                fresh[n] = f
                n += 1
        for i in range(fresh_start[p], n):
            marks[fresh[i]] = -1
        fresh_start[p + 1] = n
    return fresh_start, fresh[:n]


@_jit
def rows_of(start: NDArray[np.int64], hits: NDArray[np.int32], rows: NDArray[np.int64]) -> Any:
    """The hits of some publications, in that order."""
    picked_start = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        picked_start[i + 1] = picked_start[i] + start[rows[i] + 1] - start[rows[i]]
    picked = np.empty(picked_start[-1], np.int32)
    for i in range(len(rows)):
        picked[picked_start[i] : picked_start[i + 1]] = hits[start[rows[i]] : start[rows[i] + 1]]
    return picked_start, picked


class FilterPairs(NamedTuple):
    """Publications that passed filters: for each pair the publication's place in memory, the pair before it of its
    filter (−1: none), which of its filter's it is, and the filter.
    """

    item: NDArray[np.int64]
    before: NDArray[np.int64]
    number: NDArray[np.int64]
    filter: NDArray[np.int32]


class FilterWindows(NamedTuple):
    """For how long and for how many publications what passed a filter is remembered, and the filter's last pair."""

    reach: NDArray[np.int64]
    depth: NDArray[np.int64]
    head: NDArray[np.int64]


@_jit
def chain(
    start: NDArray[np.int64],
    hits: NDArray[np.int32],
    first_item: int,
    first_pair: int,
    head: NDArray[np.int64],
    count: NDArray[np.int64],
    pairs: FilterPairs,
) -> None:
    """Append the pairs of a batch, each linked to the one before it of its filter and numbered within it."""
    pair = first_pair
    for p in range(len(start) - 1):
        for i in range(start[p], start[p + 1]):
            f = hits[i]
            pairs.item[pair] = first_item + p
            pairs.filter[pair] = f
            pairs.before[pair] = head[f]
            pairs.number[pair] = count[f]
            count[f] += 1
            head[f] = pair
            pair += 1


@_jit
def by_filters(
    hits: NDArray[np.int32],
    first_pair: int,
    head: NDArray[np.int64],
    marks: NDArray[np.int64],
    families: NDArray[np.uint8],
) -> Any:
    """The filters that a batch passed, each once, and its pairs by filter, in order.

    The pairs of filter ``filters[d]`` are ``pairs[start[d]:start[d + 1]]``, and ``before[d]`` is its last pair before
    the batch. The last result has a bit for each family that has one of the filters; those beyond the end of
    ``families`` count for all. ``marks`` has an element for each filter, all −1 before and after. It is called before
    ``chain``.
    """
    n, found = 0, 0
    filters, sizes = np.empty(len(hits), np.int32), np.empty(len(hits), np.int64)
    for f in hits:
        d = marks[f]
        if d < 0:
            d = marks[f] = n
            filters[d], sizes[d] = f, 0
            found |= families[f] if f < len(families) else 255
            n += 1
        sizes[d] += 1
    start, before, pairs = np.empty(n + 1, np.int64), np.empty(n, np.int64), np.empty(len(hits), np.int64)
    start[0] = 0
    for d in range(n):
        start[d + 1] = start[d] + sizes[d]
        before[d] = head[filters[d]]
        sizes[d] = start[d]
    for i in range(len(hits)):
        d = marks[hits[i]]
        pairs[sizes[d]] = first_pair + i
        sizes[d] += 1
    for d in range(n):
        marks[filters[d]] = -1
    return filters[:n], start, pairs, before, found


@_jit
def take_one(
    # the publication and its filters
    time: NDArray[np.int64], version: NDArray[np.int64], row: NDArray[np.int64], hash: NDArray[np.uint64],
    source: NDArray[np.uint64], values: NDArray[np.float64], id: NDArray[np.uint8], hits: NDArray[np.int32],
    # memory
    item: int, letter: int, pair: int,
    times: NDArray[np.int64], versions: NDArray[np.int64], log_rows: NDArray[np.int64], hashes: NDArray[np.uint64],
    sources: NDArray[np.uint64], all_values: NDArray[np.float64], text_end: NDArray[np.int64],
    letters: NDArray[np.uint8], head: NDArray[np.int64], count: NDArray[np.int64], pair_item: NDArray[np.int64],
    pair_before: NDArray[np.int64], pair_number: NDArray[np.int64], pair_filter: NDArray[np.int32],
    families: NDArray[np.uint8],
) -> Any:  # fmt: skip
    """Append a single publication and its pairs; the results are the last two of ``by_filters``.

    ``item``, ``letter`` and ``pair`` are the places at which the arrays of memory, which have room, go on.
    """
    times[item], versions[item], log_rows[item] = time[0], version[0], row[0]
    for half in range(2):
        hashes[item, half], sources[item, half] = hash[0, half], source[0, half]
    for c in range(values.shape[1]):
        all_values[item, c] = values[0, c]
    for i in range(len(id)):
        letters[letter + i] = id[i]
    text_end[item + 1] = letter + len(id)
    before, found = np.empty(len(hits), np.int64), 0
    for i in range(len(hits)):
        f = hits[i]
        found |= families[f] if f < len(families) else 255
        before[i] = head[f]
        pair_item[pair + i], pair_filter[pair + i] = item, f
        pair_before[pair + i], pair_number[pair + i] = head[f], count[f]
        count[f] += 1
        head[f] = pair + i
    return before, found


@_jit
def compact_pairs(
    clock: int,
    count: int,
    time: NDArray[np.int64],
    version: NDArray[np.int64],
    windows: FilterWindows,
    pairs: FilterPairs,
    wanted: NDArray[np.uint8],
) -> int:
    """Drop the pairs that no window reaches, in place; how many of ``count`` are left. ``wanted`` marks publications
    that still have a pair.

    A counted window holds the last ``depth`` publications that appeared since its subscription was made. A publication
    that waited to be put in order may have appeared before that and lie among them. So a pair that comes after one of a
    later version may be in the windows of some subscriptions and not of others, and does not count.
    """
    reach, depth, head = windows.reach, windows.depth, windows.head
    newest, last = np.full(len(head), -(2**62)), np.zeros(len(head), np.int64)
    for pair in range(count):
        f, v = pairs.filter[pair], version[pairs.item[pair]]
        if v >= newest[f]:
            newest[f] = v
            last[f] += 1
    last -= depth  # now the number of counting pairs before the last ``depth`` of them
    newest[:] = -(2**62)
    head[:] = -1
    kept = 0
    for pair in range(count):
        f, p = pairs.filter[pair], pairs.item[pair]
        if version[p] >= newest[f]:
            newest[f] = version[p]
            last[f] -= 1
        if clock - time[p] < reach[f] or (last[f] < 0 and depth[f] > 0):
            pairs.item[kept], pairs.filter[kept], pairs.number[kept] = p, f, pairs.number[pair]
            pairs.before[kept] = head[f]
            head[f] = kept
            wanted[p] = 1
            kept += 1
    return kept


@_jit
def log_rows_of(items: NDArray[np.int64], log_rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows in the log of some publications; −1 for −1, and where the source has no rows."""
    found = np.empty(len(items), np.int64)
    for i in range(len(items)):
        found[i] = log_rows[items[i]] if items[i] >= 0 else -1
    return found


@_jit
def texts_of(rows: NDArray[np.int64], offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> Any:
    """The texts of some rows, as offsets and bytes; a row of −1 is an empty one."""
    result = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        size = offsets[rows[i] + 1] - offsets[rows[i]] if rows[i] >= 0 else 0
        result[i + 1] = result[i] + size
    written = np.empty(result[-1], np.uint8)
    for i in range(len(rows)):
        if rows[i] >= 0:
            written[result[i] : result[i + 1]] = letters[offsets[rows[i]] : offsets[rows[i] + 1]]
    return result, written
