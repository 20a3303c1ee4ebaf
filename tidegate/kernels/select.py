"""Select: which clauses hold for which publications of a batch. ``Segment.match`` calls it.

Three steps a publication and a block of 512 clauses must pass, each cheaper per clause than the next: the summary (one
bit for the whole block), the rows (one bit per clause and column, 512 at a time, with an early exit), and for the
clauses that bucketed rows leave open, the ranges themselves. Blocks are taken in tiles whose tables stay in the
second-level cache while the whole batch passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.bits import LINE, LINE_BITS, and_lines, copy_line, count_ones, trailing_zeros
from tidegate.kernels.compiled import njit

__all__ = ["admit_blocks", "select"]

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_ALL = ~np.uint64(0)
#: Above this many candidates in a block it pays to find out first which of them need no verification.
_MANY = 6


@njit(cache=True, nogil=True)
def admit_blocks(
    summary: NDArray[np.uint64],
    top: NDArray[np.int64],
    code: NDArray[np.int32],
    list_start: NDArray[np.int64],
    list_code: NDArray[np.int32],
    blocks: int,
) -> NDArray[np.uint64]:
    """For each publication one bit per block: whether some clause of it may hold.

    ``code[p, c]`` is a code, −1 for a missing value, or −2 − j for the list j of codes. Columns that the whole batch
    misses are ANDed once.
    """
    publications, columns = code.shape
    words = summary.shape[1]
    everywhere = np.empty(words, np.uint64)
    everywhere[:] = ~np.uint64(0)
    if blocks & 63:
        everywhere[words - 1] = (_ONE << np.uint64(blocks & 63)) - _ONE
    asked = np.ones(columns, np.bool_)
    for c in range(columns):
        for p in range(publications):
            if code[p, c] != -1:
                break
        else:
            asked[c] = False
            everywhere &= summary[top[c]]
    admitted = np.empty((publications, words), np.uint64)
    for p in range(publications):  # element by element: a view per publication would take longer than all the rest
        for w in range(words):
            admitted[p, w] = everywhere[w]
        for c in range(columns):
            q = code[p, c]
            if not asked[c]:
                continue
            if q >= -1:
                line = top[c] + 1 + q
                for w in range(words):
                    admitted[p, w] &= summary[line, w]
            else:
                for w in range(words):
                    some = summary[top[c], w]
                    for k in range(list_start[-2 - q], list_start[-1 - q]):
                        some |= summary[top[c] + 1 + list_code[k], w]
                    admitted[p, w] &= some
    return admitted


@njit(cache=True, nogil=True)
def _verified(
    clause: int,
    publication: int,
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    bucketed: NDArray[np.uint8],
    value: NDArray[np.float64],
    code: NDArray[np.int32],
    list_start: NDArray[np.int64],
    list_value: NDArray[np.float64],
) -> bool:
    """Whether the clause's ranges hold; consecutive entries of one column are alternatives."""
    k, end = start[clause], start[clause + 1]
    while k < end:
        c = column[k]
        if not bucketed[c]:  # the bits of its row have decided
            k += 1
            continue
        held = False
        q = code[publication, c]
        while k < end and column[k] == c:
            if q >= -1:
                v = value[publication, c]
                held |= low[k] <= v < high[k]
            else:
                for i in range(list_start[-2 - q], list_start[-1 - q]):
                    held |= low[k] <= list_value[i] < high[k]
            k += 1
        if not held:
            return False
    return True


@njit(cache=True, nogil=True)
def select(
    admitted: NDArray[np.uint64],
    row: NDArray[np.int64],
    code: NDArray[np.int32],
    value: NDArray[np.float64],
    list_start: NDArray[np.int64],
    list_row: NDArray[np.int64],
    list_value: NDArray[np.float64],
    entry_start: NDArray[np.int64],
    entry_column: NDArray[np.uint16],
    entry_offset: NDArray[np.int64],
    table: NDArray[np.uint64],
    bucketed: NDArray[np.uint8],
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
    tile: int,
    first_tile: int,
    first_publication: int,
    hits: NDArray[np.int32],
    runs: NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Write the clauses that hold, or their owners, to ``hits``; returns (next tile, next publication, hits, runs).

    A run (publication, begin, end) names the hits of one publication in one tile; ``room`` is the most there can be.
    When ``hits`` might overflow, the call ends early and is continued from the tile and publication it returns; it is
    done when the tile is past the end.

    ``row[p, c]`` is the offset in words of the publication's row among the column's rows. ``doubtful`` has a bit for
    each clause that ``sure`` cannot speak for: several ranges on a bucketed column.
    """
    publications = admitted.shape[0]
    blocks = len(entry_start) - 1
    written = 0
    noted = 0
    line = np.empty(LINE, np.uint64)
    sure = np.empty(LINE, np.uint64)
    scratch = np.empty(2 * LINE, np.uint64)
    no_lists = len(list_start) == 1
    one_owner = as_owners and len(owner) == len(owner_start) - 1
    p = first_publication
    for begin in range(first_tile, blocks, tile):
        width = min(tile, 64)
        mask = _ALL >> np.uint64(64 - width) << np.uint64(begin & 63)
        while p < publications:
            if written + room > len(hits) or noted == len(runs):
                return begin, p, written, noted
            blocks_left = admitted[p, begin >> 6] & mask
            if blocks_left == 0:
                p += 1
                continue
            run = written
            mine = row[p]
            while blocks_left != 0:
                block = (begin & ~63) + trailing_zeros(blocks_left)
                blocks_left &= blocks_left - _ONE
                copy_line(line, alive, np.uint64(block * LINE))
                left = _ONE
                e, end = np.uint64(entry_start[block]), np.uint64(entry_start[block + 1])
                while e < end and left != 0:
                    other = e + _ONE if e + _ONE < end else e
                    a, b = entry_column[e], entry_column[other]
                    if no_lists or (code[p, a] >= -1 and code[p, b] >= -1):
                        first = np.uint64(entry_offset[e] + mine[a])
                        left = and_lines(line, table, first, np.uint64(entry_offset[other] + mine[b]))
                    else:
                        _gather(scratch[:LINE], table, entry_offset[e], code[p, a], mine[a], list_start, list_row)
                        _gather(scratch[LINE:], table, entry_offset[other], code[p, b], mine[b], list_start, list_row)
                        left = and_lines(line, scratch, np.uint64(0), np.uint64(LINE))
                    e += _TWO
                if left == 0:
                    continue
                candidates = 0
                for w in range(LINE):
                    candidates += count_ones(line[w])
                if candidates > _MANY:
                    _decide(
                        sure, block, p, entry_start, entry_column, entry_offset, table, bucketed, doubtful, code, row
                    )
                else:
                    sure[:] = 0
                everyone = _ALL
                for w in range(LINE):
                    unsure = line[w] & ~sure[w]
                    while unsure != 0:
                        bit = unsure & (~unsure + _ONE)
                        unsure ^= bit
                        clause = np.uint64(block * LINE_BITS + (w << 6) + trailing_zeros(bit))
                        if not _verified(
                            clause, p, start, column, low, high, bucketed, value, code, list_start, list_value
                        ):
                            line[w] ^= bit
                    everyone &= line[w]
                if everyone == _ALL and as_owners:  # all 512 clauses: their owners are neighbours too
                    their_first, their_last = owner_start[block * LINE_BITS], owner_start[(block + 1) * LINE_BITS]
                    hits[written : written + their_last - their_first] = owner[their_first:their_last]
                    written += their_last - their_first
                    continue
                for w in range(LINE):
                    word = line[w]
                    base = block * LINE_BITS + (w << 6)
                    if word == _ALL and as_owners:
                        their_first, their_last = owner_start[base], owner_start[base + 64]
                        hits[written : written + their_last - their_first] = owner[their_first:their_last]
                        written += their_last - their_first
                        continue
                    while word != 0:
                        clause = np.uint64(base + trailing_zeros(word))
                        word &= word - _ONE
                        if one_owner:
                            hits[np.uint64(written)] = owner[clause]
                            written += 1
                        elif as_owners:
                            k, last = np.uint64(owner_start[clause]), np.uint64(owner_start[clause + _ONE])
                            while k < last:
                                hits[np.uint64(written)] = owner[k]
                                written += 1
                                k += _ONE
                        else:
                            hits[np.uint64(written)] = clause
                            written += 1
            if written > run:
                runs[noted, 0] = p
                runs[noted, 1] = run
                runs[noted, 2] = written
                noted += 1
            p += 1
        p = 0
    return blocks + tile, 0, written, noted


@njit(cache=True, nogil=True)
def _gather(
    target: NDArray[np.uint64],
    table: NDArray[np.uint64],
    offset: int,
    code: int,
    row: int,
    list_start: NDArray[np.int64],
    list_row: NDArray[np.int64],
) -> None:
    """The publication's row of a column: one row, or the OR of the rows of a list (none: that of a missing value)."""
    if code >= -1:
        copy_line(target, table, np.uint64(offset + row))
        return
    copy_line(target, table, np.uint64(offset))
    for k in range(list_start[-2 - code], list_start[-1 - code]):
        for w in range(LINE):
            target[w] |= table[offset + list_row[k] + w]


@njit(cache=True, nogil=True)
def _decide(
    sure: NDArray[np.uint64],
    block: int,
    p: int,
    entry_start: NDArray[np.int64],
    entry_column: NDArray[np.uint16],
    entry_offset: NDArray[np.int64],
    table: NDArray[np.uint64],
    bucketed: NDArray[np.uint8],
    doubtful: NDArray[np.uint64],
    code: NDArray[np.int32],
    row: NDArray[np.int64],
) -> None:
    """Candidates that need no verification: one range that reaches both neighbours of a bucket contains the bucket."""
    for w in range(LINE):
        sure[w] = ~doubtful[block * LINE + w]
    for e in range(entry_start[block], entry_start[block + 1]):
        c = entry_column[e]
        if bucketed[c] == 0:
            continue
        if code[p, c] < 0:  # missing or a list: only clauses that do not ask are sure, and those are in the missing row
            at = np.uint64(entry_offset[e])
            and_lines(sure, table, at, at)
        else:
            at = np.uint64(entry_offset[e] + row[p, c])
            and_lines(sure, table, at - np.uint64(LINE), at + np.uint64(LINE))
