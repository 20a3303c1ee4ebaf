"""The kinds of terms there are, in the order of their numbers. A kind is one line here."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.index.place_terms import DraftedPlaceTerms, PlaceTerms
from tidegate.index.places import SegmentPlaces
from tidegate.index.shape_terms import DraftedShapeTerms, ShapeTerms
from tidegate.index.shapes import SegmentShapes
from tidegate.index.terms import DraftedTerms, TermLookup, Terms
from tidegate.index.text_terms import DraftedTextTerms, TextTerms
from tidegate.index.texts import SegmentTexts
from tidegate.predicates.place import Region, WithinDistance
from tidegate.predicates.predicate import Predicate
from tidegate.predicates.shape import ShapePredicate
from tidegate.predicates.text import FixedEnd, Like

__all__ = ["KIND_OF_PREDICATE", "SHAPE", "TERM_KINDS", "TEXT", "TermKind"]


class _MakesLookup(Protocol):
    """How a lookup of terms is made: anew, or from what a snapshot kept of it, where the terms were checked before."""

    def __call__(
        self, terms: Any, drives: NDArray[np.bool_], facts: Any = None, arrays: dict[str, NDArray[Any]] | None = None
    ) -> TermLookup: ...


class TermKind(NamedTuple):
    """One kind of terms."""

    name: str
    """Begins the names of its files."""
    predicates: tuple[type[Predicate], ...]
    drafted: type[DraftedTerms]
    terms: type[Terms]
    lookup: _MakesLookup
    """``drives`` says which terms lead to clauses; the lookup need not find any other."""


SHAPE, TEXT = 0, 1
TERM_KINDS = (
    TermKind("shape", (ShapePredicate,), DraftedShapeTerms, ShapeTerms, SegmentShapes.of),
    TermKind("text", (Like, FixedEnd), DraftedTextTerms, TextTerms, SegmentTexts),
    TermKind("place", (Region, WithinDistance), DraftedPlaceTerms, PlaceTerms, SegmentPlaces.of),
)
KIND_OF_PREDICATE = {predicate: number for number, kind in enumerate(TERM_KINDS) for predicate in kind.predicates}
