"""Axes: how the points of each column fall into codes, and the codes into rows of bits.

A column with few distinct bounds gets a code for each elementary interval between them, and codes that the same
clauses admit share a row; its rows decide whether a clause holds. A column with many gets codes at the quantiles of its
bounds and a handful of buckets as rows; these only propose clauses, and the select kernel then looks at the ranges
themselves. ``Segment`` fits its ``Axes`` when it is built; they know ranges of columns, not predicates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.encode import code_ranges, code_signatures

__all__ = ["Axes"]

#: Codes of a column: what the summary distinguishes.
MOST_CODES = 512
#: Rows of a column that decide: so many always, and more where a block asks about few columns. Each row takes a bit
#: for every clause of every block that asks about the column.
MOST_ROWS, ROW_BITS = 128, 2048
#: Buckets of a column whose rows only propose: fewer where clauses are many and rows are long.
FEW_BUCKETS, MANY_BUCKETS, MANY_CLAUSES = 16, 64, 65_536
_SAMPLE = 65_536


@dataclass(frozen=True, slots=True)
class Axes:
    """All columns of a segment: arrays one after the other, column c in row_start[c] … row_start[c + 1]."""

    cuts: NDArray[np.float64]
    """Where codes change: code q holds the points v with cuts[q − 1] ≤ v < cuts[q]."""
    row_start: NDArray[np.int64]
    row_of_code: NDArray[np.uint16]
    rows: NDArray[np.int32]
    """Rows per column, the one of missing values and the two edges of bucketed columns included."""
    bucketed: NDArray[np.uint8]

    @property
    def codes(self) -> NDArray[np.int32]:
        return np.diff(self.row_start).astype(np.int32)

    @staticmethod
    def fit(
        start: NDArray[np.int64],
        column: NDArray[np.uint16],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        columns: int,
    ) -> tuple[Axes, NDArray[np.int32], NDArray[np.int32]]:
        """Axes for the ranges of these clauses, and the codes (first, last) each range reaches into."""
        by_column = np.argsort(column, kind="stable")
        begins = np.searchsorted(column[by_column], np.arange(columns + 1))
        predicates = len(column) / max(len(start) - 1, 1)
        most_rows = max(MOST_ROWS, ROW_BITS // max(1, min(columns, round(predicates**2))))
        cuts, complete = [], []
        for c in range(columns):
            mine = by_column[begins[c] : begins[c + 1]]
            found, all_of_them = _cuts(low[mine], high[mine], max(MOST_CODES, most_rows))
            cuts.append(found)
            complete.append(all_of_them)
        row_start = np.zeros(columns + 1, np.int64)
        np.cumsum([len(found) + 1 for found in cuts], out=row_start[1:])
        joined = np.concatenate([*cuts, np.empty(0)])
        first, last = np.empty(len(column), np.int32), np.empty(len(column), np.int32)
        code_ranges(column, low, high, joined, row_start, first, last)
        signature = code_signatures(start, column, first, last, row_start)
        row_of_code = np.empty(row_start[-1], np.uint16)
        rows = np.empty(columns, np.int32)
        bucketed = np.zeros(columns, np.uint8)
        buckets = max(FEW_BUCKETS if len(start) > MANY_CLAUSES else MANY_BUCKETS, most_rows // 8)
        for c in range(columns):
            begin, end = row_start[c], row_start[c + 1]
            same = _equal_rows(signature[begin + c : end + c]) if complete[c] else None
            if same is not None and (distinct := int(same.max()) + 1) <= most_rows:
                row_of_code[begin:end] = same + 1
                rows[c] = distinct + 1
            else:
                count = min(buckets, end - begin)
                row_of_code[begin:end] = np.arange(end - begin) * count // (end - begin) + 2
                rows[c] = count + 3
                bucketed[c] = 1
        return Axes(joined, row_start, row_of_code, rows, bucketed), first, last


def _equal_rows(signature: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Numbers from 0 that are equal for equal signatures."""
    _, firsts, same = np.unique(signature[:, 0], return_index=True, return_inverse=True)
    if not np.array_equal(
        signature[firsts[same], 1], signature[:, 1]
    ):  # once in 2^64: half the signature was not enough
        same = np.unique(signature, axis=0, return_inverse=True)[1].ravel()
    return same


def _cuts(low: NDArray[np.float64], high: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], bool]:
    """The finite bounds, sorted and distinct, if they make at most so many codes; else their quantiles."""
    bounds = np.concatenate([low, high])
    bounds = bounds[np.isfinite(bounds)]
    step = max(1, len(bounds) // _SAMPLE)
    some = np.unique(bounds[::step])
    if step > 1 and len(some) < most:
        some = np.unique(bounds)
    if len(some) < most:
        return some, True
    sample = np.sort(bounds[::step])
    return np.unique(sample[np.arange(1, MOST_CODES) * len(sample) // MOST_CODES]), False
