"""Which Arrow column can hold a number as it is: doubles, or for whole numbers beyond 2^53 integers of 64 bits.

Numbers of several of these kinds need several tables, as numbers and texts do; only an attribute that has nothing but
whole numbers has one kind for all. Members of lists are doubles anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.whole_numbers import DOUBLES, is_long

__all__ = ["common_kind", "kind_of", "kinds_apart"]

_MOST_SIGNED = 2**63 - 1


def kind_of(number: float | int) -> pa.DataType:
    """The type of column that one number needs."""
    return (pa.uint64() if number > _MOST_SIGNED else pa.int64()) if is_long(number) else pa.float64()


def common_kind(numbers: Sequence[float | int]) -> pa.DataType | None:
    """The type of column that holds all these numbers as they are; None if no type does."""
    if not numbers or (min(numbers) >= -DOUBLES and max(numbers) <= DOUBLES):
        return pa.float64()
    kinds = set(map(kind_of, numbers))
    if len(kinds) == 1:
        return kinds.pop()
    if set(map(type, numbers)) != {int}:
        return None
    return pa.int64() if max(numbers) <= _MOST_SIGNED else pa.uint64() if min(numbers) >= 0 else None


def kinds_apart(numbers: Sequence[float | int | None], doubles: NDArray[np.float64]) -> tuple[pa.DataType, list[int]]:
    """The type of column for most of the numbers, of which the doubles are given, and the rows that it does not hold.

    Those that are left have a common type before long.
    """
    if not (np.abs(doubles) >= DOUBLES).any():  # nor are NaN, for those that are missing
        return pa.float64(), []
    kind = common_kind([number for number in numbers if number is not None])
    if kind is not None:
        return kind, []
    kinds = [None if number is None else kind_of(number) for number in numbers]
    commonest = max({*kinds} - {None}, key=kinds.count)
    return commonest, [i for i, kind in enumerate(kinds) if kind is not None and kind != commonest]
