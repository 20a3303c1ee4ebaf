"""Numbers in their exact order: doubles, and whole numbers of 64 bits that a double would round.

The numbers that a publication can have are these two kinds. A bound up to 2^53 cuts them where it cuts their doubles,
because rounding keeps the order and no number below 2^53 is rounded: the column ``number`` decides. Beyond that,
several numbers have the same double. A set of ranges with such a bound is on the column ``long``, which writes a number
as a text of fixed length, such that the texts are in the order of the numbers: the double, then what it leaves over.
"""

from __future__ import annotations

from math import inf, nextafter
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.predicates.column import Column, ColumnReading, Operand, Points, Row, Table, column, reading
from tidegate.predicates.ranges import TOP, Point, Ranges
from tidegate.whole_numbers import DOUBLES, LEAST, MOST

__all__ = [
    "double_ranges",
    "doubles",
    "is_number",
    "may_be_rounded",
    "number_of",
    "on_column",
    "remainders",
    "successor",
    "text_of",
]

_BEYOND = MOST + 1
_SIGN, _WORD = 1 << 63, (1 << 64) - 1
_BITS = Struct(">d")
#: What a double leaves over of a whole number of 64 bits is at most this, up or down.
_MOST_LEFT = 1024
_DOUBLE_DIGITS, _DIGITS = 16, 19


def is_number(array: pa.Array) -> bool:
    """Whether an Arrow array holds numbers."""
    return bool(pa.types.is_integer(array.type) or pa.types.is_floating(array.type))


def may_be_rounded(array: pa.Array) -> bool:
    """Whether the doubles of an Arrow array may be other numbers."""
    return bool(pa.types.is_int64(array.type) or pa.types.is_uint64(array.type))


# --- bounds ---------------------------------------------------------------------------------------------------------


def successor(number: float | int) -> float | int:
    """The least number above it that a publication can have."""
    if not -DOUBLES <= number < DOUBLES and LEAST <= number < _BEYOND:
        return int(number) + 1
    return nextafter(number, inf)


def _is_rounded_to(bound: float | int) -> bool:
    """Whether a number below the bound can have a double that is not."""
    return LEAST < bound <= -DOUBLES or DOUBLES < bound <= _BEYOND


def on_column(operand: Operand, ranges: Ranges) -> tuple[Column, Ranges]:
    """The column and its ranges that decide whether a number is in these ranges of numbers.

    What arithmetic gives is a double, however large.
    """
    for low, high in ranges:
        if not ((-DOUBLES < low <= DOUBLES or low == -inf) and (-DOUBLES < high <= DOUBLES or high == inf)):
            break
    else:  # the ordinary case, in little time
        return column("number", operand), ranges
    if isinstance(operand, str) and any(_is_rounded_to(bound) for both in ranges for bound in both):
        return column("long", operand), tuple((text_of(low), text_of(high)) for low, high in ranges)
    return column("number", operand), double_ranges(ranges)


def double_ranges(ranges: Ranges) -> Ranges:
    """The doubles in these ranges of numbers."""
    return tuple((low, high) for low, high in ((_ceiling(a), _ceiling(b)) for a, b in ranges) if low < high)


def _ceiling(bound: float | int) -> float:
    """The least double that is not below the bound."""
    double = float(bound)
    return double if double >= bound else nextafter(double, inf)


# --- numbers as texts -----------------------------------------------------------------------------------------------


def text_of(number: float | int) -> Point:
    """A number as a text; of the ends of the axis of numbers, those of the axis of texts."""
    if number == -inf:
        return ""
    if number == inf:
        return TOP
    double = float(number) + 0.0  # -0.0 is 0.0
    left = number - int(double) if isinstance(number, int) else 0
    bits = int.from_bytes(_BITS.pack(double))
    bits = ~bits & _WORD if bits & _SIGN else bits | _SIGN
    return f"{bits:016x}{left + _MOST_LEFT:03x}"


def number_of(text: Point) -> float | int:
    """The number, or the end of the axis, that ``text_of`` wrote."""
    if text is TOP:
        return inf
    if text == "":
        return -inf
    bits = int(text[:_DOUBLE_DIGITS], 16)
    bits = bits & ~_SIGN if bits & _SIGN else ~bits & _WORD
    double: float = _BITS.unpack(bits.to_bytes(8))[0]
    left = int(text[_DOUBLE_DIGITS:], 16) - _MOST_LEFT
    return int(double) + left if left else double


# --- columns --------------------------------------------------------------------------------------------------------


@reading
class LongReading(ColumnReading):
    """Integers and floats as texts in their exact order."""

    name = "long"
    is_text = True

    def point(self, operand: str, publication: Row) -> Point | None:
        value = publication.value(operand)
        return text_of(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def points(self, operand: str, table: Table) -> Points | None:
        array = table.array(operand)
        if array is None or not is_number(array):
            return None
        bits = (doubles(array) + 0.0).view(np.uint64)
        bits = np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(_SIGN))
        left = (remainders(array) + _MOST_LEFT).astype(np.uint64)
        digits = np.empty((len(array), _DIGITS), np.uint8)
        for at in range(_DIGITS):
            word, last = (bits, _DOUBLE_DIGITS - 1) if at < _DOUBLE_DIGITS else (left, _DIGITS - 1)
            digits[:, at] = _HEX[(word >> np.uint64(4 * (last - at))) & np.uint64(15)]
        offsets = np.arange(len(array) + 1, dtype=np.int64) * _DIGITS
        validity = pa.array(np.asarray(array.is_valid())).buffers()[1] if array.null_count else None
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(digits)]
        return pa.Array.from_buffers(pa.large_string(), len(array), buffers)


_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def doubles(array: pa.Array) -> NDArray[np.float64]:
    """Numbers as the nearest doubles; NaN where they are null."""
    if not pa.types.is_float64(array.type):
        array = array.cast(pa.float64(), safe=False)
    found: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    return found


def remainders(array: pa.Array) -> NDArray[np.int64]:
    """What the nearest doubles leave over, at most 1024 up or down; 0 where there is no number."""
    if not may_be_rounded(array):
        return np.zeros(len(array), np.int64)
    numbers: NDArray[Any] = np.asarray(array.fill_null(0) if array.null_count else array)
    rounded = numbers.astype(np.float64)
    # modulo 2^64, where 2^63 and 2^64, which a number may be rounded to and which no int64 or uint64 is, are 2^63 and 0
    below = np.where(rounded < 2.0**63, rounded, 0.0).astype(np.int64).view(np.uint64)
    above = np.where((rounded >= 2.0**63) & (rounded < 2.0**64), rounded, 0.0).astype(np.uint64)
    return (numbers.view(np.uint64) - (below | above)).view(np.int64)
