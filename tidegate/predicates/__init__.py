"""Conditions on one publication, one file per family. Importing the package registers them all."""

from tidegate.predicates import bag, comparison, place, temporal, text
from tidegate.predicates.family import FUNCTIONS, Function
from tidegate.predicates.filter import Filter, compile_filter
from tidegate.predicates.predicate import Predicate, Within

__all__ = [
    "FUNCTIONS",
    "Filter",
    "Function",
    "Predicate",
    "Within",
    "bag",
    "comparison",
    "compile_filter",
    "place",
    "temporal",
    "text",
]
