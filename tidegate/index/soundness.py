"""Whether the arrays of a snapshot fit together: a kernel that reads a wrong offset would end the whole process.

``snapshot.read`` calls ``check`` before anything is matched. Checksums notice what a disk has changed; this also holds
for a file that was made wrong and has the right checksum. The first and the last of all offsets, and short arrays of
offsets, are looked at each time; everything else only ``thoroughly``, which a machine does once per snapshot.
"""

from __future__ import annotations

import numpy as np

from tidegate.index.clauses import Clauses
from tidegate.index.drivers import Drivers
from tidegate.index.offsets import below, fits, offsets
from tidegate.index.segment import Segment
from tidegate.index.term_kinds import TERM_KINDS
from tidegate.index.terms import kind_of, term_of
from tidegate.kernels.bits import LINE, LINE_BITS

__all__ = ["check", "check_clauses", "check_terms"]


def check(segment: Segment, subscriptions: int, thoroughly: bool = True) -> None:
    """A ``ValueError`` if some array of the segment leads out of another."""
    clauses, columns = segment.clauses, len(segment.clauses.columns)
    check_clauses(clauses, thoroughly)
    _check_axes(segment, columns)
    blocks = -(-segment.drivers.tabled // LINE_BITS)
    offsets("entry_start", segment.entry_start, blocks, len(segment.entry_column), thoroughly)
    offsets("entry_offset", segment.entry_offset, len(segment.entry_column), len(segment.table), thoroughly)
    words = max(1, -(-blocks // 64))
    fits("summary", segment.summary.shape, (int(segment.axes.row_start[-1]) + columns, words))
    for name in ("alive", "doubtful"):
        fits(name, getattr(segment, name).shape, (max(blocks, 1) * LINE,))
    if thoroughly:
        below("entry_column", segment.entry_column, columns)
        below("owner", clauses.owner, subscriptions)
        sizes = segment.axes.rows[segment.entry_column].astype(np.int64) * LINE
        if not np.array_equal(np.diff(segment.entry_offset), sizes):
            raise ValueError("entries of another size than their rows")


def check_clauses(clauses: Clauses, thoroughly: bool = True) -> None:
    """The same for clauses of which no segment was made yet."""
    count, columns = len(clauses), len(clauses.columns)
    offsets("start", clauses.start, count, len(clauses.column), thoroughly)
    offsets("owner_start", clauses.owner_start, count, len(clauses.owner), thoroughly)
    offsets("open_start", clauses.open_start, count if clauses.any_open else 0, len(clauses.open_predicate), thoroughly)
    for name in ("low", "high"):
        fits(name, getattr(clauses, name).shape, clauses.column.shape)
    for column, texts in clauses.texts.items():
        offsets(f"text-{column}", texts.offsets, len(texts.offsets) - 1, len(texts.letters), thoroughly, is_all=False)
        if not 0 <= column < columns:
            raise ValueError(f"texts of column {column} of {columns}")
    for terms in clauses.terms:
        terms.check()
    if thoroughly:
        below("column", clauses.column, columns)
        code = clauses.open_predicate
        below("open_predicate", code[code >= 0], len(clauses.predicates))
        code = code[code < 0]
        kinds = kind_of(code)
        below("open_predicate", kinds, len(TERM_KINDS))
        for kind, terms in enumerate(clauses.terms):
            below("open_predicate", term_of(code[kinds == kind]), len(terms))


def check_terms(clauses: Clauses, drivers: Drivers) -> None:
    """The same for terms and what they lead to, which are looked at before the lookups of a snapshot are made."""
    at = drivers.tabled
    if not 0 <= at <= len(clauses):
        raise ValueError(f"{at} of {len(clauses)} clauses in tables")
    for terms, begins in zip(clauses.terms, drivers.starts, strict=True):
        terms.check()
        offsets("drives", begins - at, len(terms), len(clauses) - at, is_all=False)
        at = int(begins[-1])
    if at != len(clauses):
        raise ValueError(f"nothing leads to clauses from {at} on")


def _check_axes(segment: Segment, columns: int) -> None:
    axes = segment.axes
    offsets("row_start", axes.row_start, columns, len(axes.row_of_code))
    fits("cuts", axes.cuts.shape, (len(axes.row_of_code) - columns,))
    fits("rows", axes.rows.shape, (columns,))
    fits("bucketed", axes.bucketed.shape, (columns,))
    if (np.diff(axes.row_start) < 1).any() or (axes.rows < 1).any():
        raise ValueError("a column without codes or rows")
    if (axes.row_of_code >= np.repeat(axes.rows, np.diff(axes.row_start))).any():
        raise ValueError("a row that its column does not have")
