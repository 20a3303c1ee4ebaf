"""Snapshots of formats 3 and 4, read as clauses, of which the segment is built again.

They have the same clauses as those of today, but no other terms than shapes, whose codes had no kind. ``snapshot.read``
calls ``clauses_of``; nothing else knows these formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.clauses import CLAUSE_ARRAYS, Clauses, TextConstants
from tidegate.index.shape_terms import ShapeTerms
from tidegate.index.soundness import check_clauses
from tidegate.index.term_kinds import SHAPE, TERM_KINDS
from tidegate.index.terms import code_of
from tidegate.predicates.column import Column

__all__ = ["FORMATS", "clauses_of"]

FORMATS = (3, 4)


def clauses_of(facts: dict[str, Any], arrays: dict[str, NDArray[Any]], predicates: Sequence[bytes]) -> Clauses:
    """The clauses of a snapshot's arrays, which were mapped as its ``facts`` describe them."""
    terms = [kind.drafted().terms() for kind in TERM_KINDS]
    prefix = "shape-term-"
    of_shapes = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    terms[SHAPE] = ShapeTerms.restored(facts["attributes"], of_shapes)
    clauses = Clauses(
        columns=tuple(Column.restored(*plain) for plain in facts["columns"]),
        texts={c: TextConstants(arrays[f"text-{c}-offsets"], arrays[f"text-{c}-letters"]) for c in facts["texts"]},
        predicates=predicates,
        terms=tuple(terms),
        **{name: arrays[name] for name in CLAUSE_ARRAYS},
    )
    clauses = replace(clauses, open_predicate=_recoded(clauses.open_predicate))
    check_clauses(clauses, thoroughly=True)
    return clauses


def _recoded(code: NDArray[np.int32]) -> NDArray[np.int32]:
    """Codes of shape terms were −1 − (2 × term + negated)."""
    before = -1 - code.astype(np.int64)
    return np.where(code < 0, code_of(SHAPE, before >> 1, before & 1), code).astype(np.int32)
