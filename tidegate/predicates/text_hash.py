"""Texts as numbers: two readings of 52 bits of a hash each, which show whether two texts are the same.

``patterns/past_compile.py`` uses them to compare texts with those of remembered events. Of a million texts two have
both in common once in 10^19 tries.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.kernels.identity import text_hashes
from tidegate.predicates.column import ColumnReading, Operand, Points, Row, Table, column, reading
from tidegate.predicates.folding import folding_of
from tidegate.predicates.ranges import Point

__all__: list[str] = []


class _HashHalf(ColumnReading):
    which: ClassVar[int]

    def point(self, operand: Operand, publication: Row) -> Point | None:
        text = column("text", operand).point(publication)
        if not isinstance(text, str):
            return None
        letters = np.frombuffer(text.encode(), np.uint8)
        return float(_hashes(np.array([0, len(letters)], np.int64), letters)[0, self.which] >> np.uint64(12))

    def points(self, operand: Operand, table: Table) -> Points | None:
        at = column("text", operand)
        texts = at.how.points(at.operand, table)
        if texts is None:
            return None
        texts = texts.cast(pa.large_string())
        buffers = texts.fill_null("").buffers() if texts.null_count else texts.buffers()
        first = texts.offset if not texts.null_count else 0
        offsets = np.frombuffer(buffers[1], np.int64)[first : first + len(texts) + 1]
        letters = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.empty(0, np.uint8)
        found = (_hashes(offsets, letters)[:, self.which] >> np.uint64(12)).astype(np.float64)
        return np.where(np.asarray(texts.is_null()), np.nan, found) if texts.null_count else found

    def names(self, operand: Operand) -> tuple[str, ...]:
        return (folding_of(operand)[0],)


def _hashes(offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The hashes of texts, as arrays that nobody may write: the kernel is compiled for such alone."""
    offsets.flags.writeable = letters.flags.writeable = False
    found: NDArray[np.uint64] = text_hashes(offsets, letters)
    return found


@reading
class FirstHalf(_HashHalf):
    """The first half of a text's hash."""

    name, which = "half", 0


@reading
class SecondHalf(_HashHalf):
    """The second half of a text's hash."""

    name, which = "other-half", 1
