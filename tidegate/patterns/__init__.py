"""Conditions over several publications and over time, one file per family. Importing the package registers them all."""

from tidegate.patterns import absent, past, shape, together, topk
from tidegate.patterns._pattern import FAMILIES, Inner, Pattern, family_of
from tidegate.patterns.combine import Combine, Raised, Standing
from tidegate.patterns.compile import compile_where

__all__ = [
    "FAMILIES",
    "Combine",
    "Inner",
    "Pattern",
    "Raised",
    "Standing",
    "absent",
    "compile_where",
    "family_of",
    "past",
    "shape",
    "together",
    "topk",
]
