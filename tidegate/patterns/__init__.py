"""Patterns: conditions on several publications and on time, one file per family. Importing this registers them all."""

from tidegate.patterns import absent, past, shape, together, topk
from tidegate.patterns.combine import Combine, Standing
from tidegate.patterns.pattern import FAMILIES, Inner, Pattern, family_of
from tidegate.patterns.raised import Raised
from tidegate.predicates.family import OTHERS

__all__ = [
    "FAMILIES",
    "Combine",
    "Inner",
    "Pattern",
    "Raised",
    "Standing",
    "absent",
    "family_of",
    "past",
    "shape",
    "together",
    "topk",
]

OTHERS |= FAMILIES.keys() | {"distance"}
