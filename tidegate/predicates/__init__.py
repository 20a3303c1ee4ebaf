"""Conditions on one publication, one file per family; ``compile_filter`` makes a ``Filter`` of them.

Importing the package registers all families. Nothing here knows of subscriptions, patterns or an index.
"""

from tidegate.predicates import bag, comparison, place, place_coordinates, shape, temporal, text, text_hash
from tidegate.predicates.family import FUNCTIONS, MEASURES, Function, Measure
from tidegate.predicates.filter import Filter, compile_filter
from tidegate.predicates.predicate import Predicate, Within

__all__ = [
    "FUNCTIONS",
    "MEASURES",
    "Filter",
    "Function",
    "Measure",
    "Predicate",
    "Within",
    "bag",
    "comparison",
    "compile_filter",
    "place",
    "place_coordinates",
    "shape",
    "temporal",
    "text",
    "text_hash",
]
