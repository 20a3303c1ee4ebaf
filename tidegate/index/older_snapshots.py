"""Snapshots of formats 3 and 4, read as clauses, of which the segment is built again.

They have no other terms than shapes, whose codes had no kind. Patterns of LIKE and places were predicates by
themselves, and clauses with a pattern had a range on a column of trigrams. ``snapshot.read`` calls ``clauses_of``;
nothing else knows these formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.clauses import CLAUSE_ARRAYS, Clauses, TextConstants
from tidegate.index.ragged import starts
from tidegate.index.segment import predicate_of
from tidegate.index.shape_terms import ShapeTerms
from tidegate.index.soundness import check_clauses
from tidegate.index.term_kinds import KIND_OF_PREDICATE, SHAPE, TERM_KINDS
from tidegate.index.terms import code_of
from tidegate.predicates.column import Column

__all__ = ["FORMATS", "clauses_of"]

FORMATS = (3, 4)


#: The reading of columns that are left out; the pattern of LIKE that each range on one belongs to says more.
_TRIGRAMS = "trigrams"


def clauses_of(facts: dict[str, Any], arrays: dict[str, NDArray[Any]], predicates: Sequence[bytes]) -> Clauses:
    """The clauses of a snapshot's arrays, which were mapped as its ``facts`` describe them."""
    prefix = "shape-term-"
    of_shapes = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    terms = [kind.drafted().terms() for kind in TERM_KINDS]
    terms[SHAPE] = ShapeTerms.restored(facts["attributes"], of_shapes)
    columns = [Column.restored("text" if name == _TRIGRAMS else name, operand) for name, operand in facts["columns"]]
    clauses = Clauses(
        columns=tuple(columns),
        texts={c: TextConstants(arrays[f"text-{c}-offsets"], arrays[f"text-{c}-letters"]) for c in facts["texts"]},
        predicates=predicates,
        terms=tuple(terms),
        **{name: arrays[name] for name in CLAUSE_ARRAYS},
    )
    before = -1 - clauses.open_predicate.astype(np.int64)  # 2 × term + negated
    recoded = np.where(before >= 0, code_of(SHAPE, before >> 1, before & 1), clauses.open_predicate)
    clauses = replace(clauses, open_predicate=recoded.astype(np.int32))
    check_clauses(clauses)
    return _with_terms(_without_columns(clauses, [name == _TRIGRAMS for name, _ in facts["columns"]]))


def _without_columns(clauses: Clauses, left_out: Sequence[bool]) -> Clauses:
    """The clauses without the ranges on some columns."""
    kept = np.flatnonzero(~np.array(left_out, np.bool_))
    number = np.full(len(left_out), -1, np.int64)
    number[kept] = np.arange(len(kept))
    entry = np.flatnonzero(number[clauses.column] >= 0)
    clause = np.repeat(np.arange(len(clauses)), np.diff(clauses.start))[entry]
    return replace(
        clauses,
        columns=tuple(clauses.columns[c] for c in kept.tolist()),
        texts={int(number[c]): texts for c, texts in clauses.texts.items() if number[c] >= 0},
        start=starts(np.bincount(clause, minlength=len(clauses))),
        column=number[clauses.column[entry]].astype(np.uint16),
        low=clauses.low[entry],
        high=clauses.high[entry],
    )


def _with_terms(clauses: Clauses) -> Clauses:
    """The clauses with patterns of LIKE and places as terms; as predicates they stay in the list, and no clause has
    them.
    """
    drafted = [kind.drafted() for kind in TERM_KINDS]
    code = np.arange(len(clauses.predicates), dtype=np.int32)
    for number, stored in enumerate(clauses.predicates):
        predicate: Any = predicate_of(stored)
        kind = KIND_OF_PREDICATE.get(type(predicate))
        if kind is not None and (term := drafted[kind].number(predicate)) is not None:
            code[number] = code_of(kind, term, predicate.negated)
    terms = [clauses.terms[SHAPE] if kind == SHAPE else some.terms() for kind, some in enumerate(drafted)]
    opened = np.array(clauses.open_predicate)
    opened[opened >= 0] = code[opened[opened >= 0]]
    return replace(clauses, terms=tuple(terms), open_predicate=opened)
