"""Filling the tables of a segment: rows of bits per block, column and row, and the summary with one bit per block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.bits import LINE, LINE_BITS
from tidegate.kernels.compiled import njit

__all__ = ["AxisRows", "BlockEntries", "ClauseRanges", "block_entries", "fill"]

_ONE = np.uint64(1)


class ClauseRanges(NamedTuple):
    """Ranges [low, high) of columns; those of clause c are start[c] … start[c + 1], of one column together."""

    start: NDArray[np.int64]
    column: NDArray[np.uint16]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class AxisRows(NamedTuple):
    """The codes and rows of columns (``Axes``), and which columns are bucketed."""

    row_start: NDArray[np.int64]
    row_of_code: NDArray[np.uint16]
    codes: NDArray[np.int32]
    edges: NDArray[np.uint8]
    rows: NDArray[np.int32]


class BlockEntries(NamedTuple):
    """Which columns each block asks about, those that prune most first, and where their rows begin, in words. Those of
    block b are start[b] … start[b + 1]; the last offset is the size of the table.
    """

    start: NDArray[np.int64]
    column: NDArray[np.uint16]
    offset: NDArray[np.int64]


@njit(cache=True, nogil=True)
def block_entries(
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    codes: NDArray[np.int32],
    rows: NDArray[np.int32],
) -> BlockEntries:
    """Which columns each block asks about; ``codes`` and ``rows`` are of columns."""
    clauses = len(start) - 1
    blocks = (clauses + LINE_BITS - 1) // LINE_BITS
    entry_start = np.zeros(blocks + 1, np.int64)
    pruned = np.zeros(len(codes))
    asked = np.empty(len(codes), np.uint16)
    capacity = 16
    entry_column = np.empty(capacity, np.uint16)
    for block in range(blocks):
        n = 0
        for k in range(start[block * LINE_BITS], start[min(clauses, (block + 1) * LINE_BITS)]):
            c = column[k]
            if pruned[c] == 0:
                asked[n] = c
                n += 1
            pruned[c] += 1.0 - 0.999 * (last[k] - first[k]) / codes[c]
        at = entry_start[block]
        entry_start[block + 1] = at + n
        if at + n > capacity:
            capacity = 2 * (at + n)
            larger = np.empty(capacity, np.uint16)
            larger[:at] = entry_column[:at]
            entry_column = larger
        ranked = np.argsort(-pruned[asked[:n]], kind="mergesort")
        for i in range(n):
            entry_column[at + i] = asked[ranked[i]]
        for i in range(n):
            pruned[asked[i]] = 0
    total = entry_start[blocks]
    entry_offset = np.zeros(total + 1, np.int64)
    for e in range(total):
        entry_offset[e + 1] = entry_offset[e] + np.int64(rows[entry_column[e]]) * LINE
    return BlockEntries(entry_start, entry_column[:total].copy(), entry_offset)


@njit(cache=True, nogil=True)
def fill(
    ranges: ClauseRanges,
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    axes: AxisRows,
    entries: BlockEntries,
    table: NDArray[np.uint64],
    summary: NDArray[np.uint64],
) -> None:
    """Set the bits of ``table``, clear those of ``summary``, which come as zeros and as ones.

    ``first`` and ``last`` are the codes that each range reaches, the last one excluded.

    Code q of column c has the row row_of_code[row_start[c] + q] and the summary row row_start[c] + c + 1 + q. Missing
    values have row 0 and the summary row row_start[c] + c. A bucketed column (edges[c] = 1) has a row before the first
    bucket and one after the last, which unbounded ranges reach: every bucket has neighbours, and a range that reaches
    both of them contains it whole.
    """
    start, column, low, high = ranges.start, ranges.column, ranges.low, ranges.high
    row_start, row_of_code, codes, edges, rows = axes.row_start, axes.row_of_code, axes.codes, axes.edges, axes.rows
    entry_start, entry_column, entry_offset = entries.start, entries.column, entries.offset
    clauses = len(start) - 1
    blocks = len(entry_start) - 1
    entry_of = np.empty(len(codes), np.int64)
    asks = np.empty((len(codes), LINE), np.uint64)
    reach = np.empty(len(summary) + 1, np.int32)
    whole = np.empty(LINE, np.uint64)
    for block in range(blocks):
        begin, end = block * LINE_BITS, min(clauses, (block + 1) * LINE_BITS)
        for e in range(entry_start[block], entry_start[block + 1]):
            c = entry_column[e]
            entry_of[c] = e
            asks[c, :] = 0
            reach[row_start[c] + c : row_start[c] + c + codes[c] + 1] = 0
        whole[:] = 0
        for clause in range(begin, end):
            word, bit = (clause - begin) >> 6, _ONE << np.uint64(clause & 63)
            whole[word] |= bit
            for k in range(start[clause], start[clause + 1]):
                c = column[k]
                asks[c, word] |= bit
                if first[k] >= last[k]:
                    continue
                reach[row_start[c] + c + first[k]] += 1
                reach[row_start[c] + c + last[k]] -= 1
                base = entry_offset[entry_of[c]] + word
                if edges[c]:
                    lowest = np.int64(row_of_code[row_start[c] + first[k]]) - (low[k] == -np.inf)
                    highest = np.int64(row_of_code[row_start[c] + last[k] - 1]) + (high[k] == np.inf)
                    for row in range(lowest, highest + 1):
                        table[base + row * LINE] |= bit
                else:
                    for q in range(first[k], last[k]):
                        table[base + np.int64(row_of_code[row_start[c] + q]) * LINE] |= bit
        summary_word, others = block >> 6, ~(_ONE << np.uint64(block & 63))
        for e in range(entry_start[block], entry_start[block + 1]):
            c = entry_column[e]
            someone_free = False
            for word in range(LINE):
                free = whole[word] & ~asks[c, word]
                if free != 0:
                    someone_free = True
                    for row in range(rows[c]):
                        table[entry_offset[e] + row * LINE + word] |= free
            if someone_free:
                continue
            top = row_start[c] + c
            summary[top, summary_word] &= others
            reached = 0
            for q in range(codes[c]):
                reached += reach[top + q]
                if reached == 0:
                    summary[top + 1 + q, summary_word] &= others
