"""``Limits``: how large an expression may be. Callers pass it to the function that reads; there is no global."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

__all__ = ["DEFAULT_LIMITS", "NO_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that bound an expression; each breach is a ``LimitError`` that names the setting."""

    text_length: int = 65_536
    """Characters of CQL2-text, or of one string inside CQL2-JSON."""
    depth: int = 64
    """Nesting of calls, arrays and parentheses."""
    nodes: int = 16_384
    """Attributes, literals and calls in one expression; in CQL2-JSON also the points of geometries."""
    series: int = 65_536
    """Numbers of one list of 32 numbers or more, which counts as one node."""
    tokens: int = 4_096
    """Words, numbers and signs of CQL2-text. What keeps any text under 100 ms: a token costs about 10 µs."""
    clauses: int = 1_024
    """Conjunctions in the disjunctive normal form."""
    predicates: int = 16_384
    """Conditions of all these conjunctions together."""
    k: int = 1_000
    """Publications that a ``topk`` may ask for."""
    window: int = 31_622_400
    """Seconds of a window: 366 days."""
    window_count: int = 1_000_000
    """Publications of a window that is counted."""
    filters: int = 16
    """Filters of one ``together``."""
    combinations: int = 1_000
    """Combinations with one publication of which a ``together`` with ``'all'`` notifies."""


DEFAULT_LIMITS = Limits()
#: For expressions that were checked before they were stored, or that the program itself wrote.
NO_LIMITS = Limits(*[sys.maxsize] * len(fields(Limits)))
