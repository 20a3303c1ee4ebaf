"""Whole numbers of 64 bits, signed or not: publications and expressions keep them exactly, and larger ones as doubles.

The bounds are those of the integers that Arrow, JSON readers and databases have, so a number is the same in all forms.
"""

from __future__ import annotations

from math import inf

__all__ = ["DOUBLES", "LEAST", "MARKS", "MOST", "exact", "is_long"]

LEAST, MOST = -(2**63), 2**64 - 1
#: Up to here, and down to its negative, every whole number is a double.
DOUBLES = 2**53
#: The column in which tables and frames of the log say which of their doubles are integers. No attribute is called so.
MARKS = ""


def exact(whole: int) -> int | float:
    """The whole number itself if it has at most 64 bits; else the nearest double, which may be infinite."""
    if LEAST <= whole <= MOST:
        return whole
    try:
        return float(whole)
    except OverflowError:
        return inf if whole > 0 else -inf


def is_long(value: object) -> bool:
    """Whether it is a whole number so large that its double may be another number."""
    return isinstance(value, int) and not -DOUBLES <= value <= DOUBLES
