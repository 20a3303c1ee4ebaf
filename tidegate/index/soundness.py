"""Whether the arrays of a snapshot fit together: a kernel that reads a wrong offset would end the whole process.

``snapshot.read`` calls ``check`` before anything is matched. Checksums notice what a disk has changed; this also holds
for a file that was made wrong and has the right checksum. The first and the last of all offsets, and short arrays of
offsets, are looked at each time; everything else only ``thoroughly``, which a machine does once per snapshot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.clauses import Clauses
from tidegate.index.segment import Segment
from tidegate.index.shape_terms import ShapeTerms, term_of
from tidegate.kernels.bits import LINE, LINE_BITS

__all__ = ["check", "check_shape_terms"]

#: Offsets that are looked at each time.
_FEW = 1 << 16


def check(segment: Segment, subscriptions: int, thoroughly: bool = True) -> None:
    """A ``ValueError`` if some array of the segment leads out of another."""
    clauses, columns = segment.clauses, len(segment.clauses.columns)
    _check_clauses(clauses, thoroughly)
    _check_axes(segment, columns)
    blocks = -(-len(clauses) // LINE_BITS)
    _offsets("entry_start", segment.entry_start, blocks, len(segment.entry_column), thoroughly)
    _offsets("entry_offset", segment.entry_offset, len(segment.entry_column), len(segment.table), thoroughly)
    words = max(1, -(-blocks // 64))
    _fits("summary", segment.summary.shape, (int(segment.axes.row_start[-1]) + columns, words))
    for name in ("alive", "doubtful"):
        _fits(name, getattr(segment, name).shape, (max(blocks, 1) * LINE,))
    if thoroughly:
        _below("entry_column", segment.entry_column, columns)
        _below("owner", clauses.owner, subscriptions)
        sizes = segment.axes.rows[segment.entry_column].astype(np.int64) * LINE
        if not np.array_equal(np.diff(segment.entry_offset), sizes):
            raise ValueError("entries of another size than their rows")


def _check_clauses(clauses: Clauses, thoroughly: bool) -> None:
    count, columns = len(clauses), len(clauses.columns)
    _offsets("start", clauses.start, count, len(clauses.column), thoroughly)
    _offsets("owner_start", clauses.owner_start, count, len(clauses.owner), thoroughly)
    _offsets(
        "open_start", clauses.open_start, count if clauses.any_open else 0, len(clauses.open_predicate), thoroughly
    )
    for name in ("low", "high"):
        _fits(name, getattr(clauses, name).shape, clauses.column.shape)
    for column, texts in clauses.texts.items():
        _offsets(f"text-{column}", texts.offsets, len(texts.offsets) - 1, len(texts.letters), thoroughly, is_all=False)
        if not 0 <= column < columns:
            raise ValueError(f"texts of column {column} of {columns}")
    check_shape_terms(clauses.shape_terms)
    if thoroughly:
        _below("column", clauses.column, columns)
        code = clauses.open_predicate
        _below("open_predicate", code[code >= 0], len(clauses.predicates))
        _below("open_predicate", term_of(code[code < 0]), len(clauses.shape_terms))


def _check_axes(segment: Segment, columns: int) -> None:
    axes = segment.axes
    _offsets("row_start", axes.row_start, columns, len(axes.row_of_code))
    _fits("cuts", axes.cuts.shape, (len(axes.row_of_code) - columns,))
    _fits("rows", axes.rows.shape, (columns,))
    _fits("bucketed", axes.bucketed.shape, (columns,))
    if (np.diff(axes.row_start) < 1).any() or (axes.rows < 1).any():
        raise ValueError("a column without codes or rows")
    if (axes.row_of_code >= np.repeat(axes.rows, np.diff(axes.row_start))).any():
        raise ValueError("a row that its column does not have")


def check_shape_terms(terms: ShapeTerms) -> None:
    """The same for shape terms, which are looked at before they are searched for."""
    series = len(terms.length)
    _offsets("shape-term-start", terms.start, series, len(terms.values))
    _below("shape-term-series", terms.series, series)
    _below("shape-term-attribute", terms.attribute, len(terms.attributes))
    _fits("shape-term-key", terms.key.shape, (series, 16))
    _fits("shape-term-bound", terms.bound.shape, terms.series.shape)
    _fits("shape-term-attribute", terms.attribute.shape, terms.series.shape)
    stretched = terms.length == 0
    if not (stretched | (np.diff(terms.start) == terms.length)).all():
        raise ValueError("series of another length than theirs")


def _offsets(
    name: str, offsets: NDArray[Any], count: int, end: int, thoroughly: bool = True, is_all: bool = True
) -> None:
    """So many rows that begin at offsets from 0 to ``end``; with ``is_all`` nothing is left behind the last."""
    if offsets.ndim != 1 or len(offsets) != count + 1:
        raise ValueError(f"{name} of shape {offsets.shape} for {count} rows")
    last = int(offsets[-1])
    if offsets[0] != 0 or last > end or (is_all and last != end):
        raise ValueError(f"{name} from {offsets[0]} to {last} for {end}")
    if (thoroughly or len(offsets) <= _FEW) and (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"{name} that falls")


def _below(name: str, numbers: NDArray[Any], end: int) -> None:
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < end):
        raise ValueError(f"{name} from {numbers.min()} to {numbers.max()} of {end}")


def _fits(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise ValueError(f"{name} of shape {shape}, not {wanted}")
