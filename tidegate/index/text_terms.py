"""Text terms: the patterns of LIKE in an index that are no ranges, as flat arrays of bytes.

A text term is an operand (an attribute, or CASEI and ACCENTI of one) and a pattern, written as ``kernels/like.py``
reads it. ``Draft`` collects terms in ``DraftedTextTerms``; ``index/texts.py`` looks them up, nothing here does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.index.offsets import below, fits, offsets
from tidegate.index.ragged import starts
from tidegate.index.terms import DraftedTerms, Terms
from tidegate.kernels.grams import SIZES, longest_pieces
from tidegate.kernels.like import ANY, ONE, LikePatterns
from tidegate.predicates.column import Column, Operand, column
from tidegate.predicates.like_pattern import pieces
from tidegate.predicates.predicate import Hull
from tidegate.predicates.ranges import ALL_TEXT
from tidegate.predicates.text import FixedEnd, Like

__all__ = ["DraftedTextTerms", "TextTerms"]

_ARRAYS = ("operand", "start", "letters")
#: Bytes of a prefix or suffix, and of its wildcard, up to which it stays a range.
_SHORT_END = 4
#: The share of texts that a gram of each size is expected to occur in.
_SHARES = np.array([0.7, 0.1, 0.02, 0.003, 0.001, 0.0005])


@dataclass(frozen=True)
class TextTerms(Terms):
    """The text terms of some clauses."""

    operands: tuple[Operand, ...]
    operand: NDArray[np.uint16]
    start: NDArray[np.int64]
    letters: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.operand)

    @property
    def names(self) -> set[str]:
        return {name for operand in self.operands for name in column("text", operand).attributes}

    @property
    def patterns(self) -> LikePatterns:
        """The patterns, as the kernels read them."""
        return LikePatterns(self.start, self.letters)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in _ARRAYS}

    @property
    def facts(self) -> list[Any]:
        """The operands."""
        return [column("text", operand).plain() for operand in self.operands]

    @classmethod
    def restored(cls, facts: Any, arrays: dict[str, NDArray[Any]]) -> Self:
        operands = tuple(Column.restored(*plain).operand for plain in facts)
        return cls(operands, **{name: arrays[name] for name in _ARRAYS})

    def check(self) -> None:
        offsets("text-start", self.start, len(self), len(self.letters), is_all=False)
        below("text-operand", self.operand, len(self.operands))
        fits("text-letters", self.letters.shape, (len(self.letters),))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(sum(getattr(self, name).nbytes for name in _ARRAYS))

    @cached_property
    def size(self) -> NDArray[np.int64]:
        """The number of the size of the gram by which each term is found; −1 where it has no literal piece."""
        longest: NDArray[np.int64] = longest_pieces(self.patterns)
        return np.searchsorted(SIZES, longest, "right") - 1

    @property
    def letterless(self) -> int:
        """How many terms have no literal piece, as ``_%_``: each is compared with every text it is asked of."""
        return int(np.count_nonzero(self.size < 0))

    @property
    def shares(self) -> NDArray[np.float64]:
        return np.where(self.size >= 0, _SHARES[self.size], 1.0)

    @staticmethod
    def joined(
        several: Sequence[TextTerms], wanted: Sequence[NDArray[np.bool_]]
    ) -> tuple[TextTerms, list[NDArray[np.int32]]]:
        drafted, numbers = DraftedTextTerms(), []
        for terms, some in zip(several, wanted, strict=True):
            new = np.full(len(terms), -1, np.int32)
            letters, start = terms.letters.tobytes(), terms.start.tolist()
            operand = terms.operand.tolist()
            for i in np.flatnonzero(some).tolist():
                new[i] = drafted.number_of(terms.operands[operand[i]], letters[start[i] : start[i + 1]])
            numbers.append(new)
        return drafted.terms(), numbers


class DraftedTextTerms(DraftedTerms):
    """The text terms of a draft, which are still being collected."""

    def __init__(self) -> None:
        self._operands: dict[Operand, int] = {}
        self._numbers: dict[tuple[int, bytes], int] = {}

    def number(self, predicate: Like | FixedEnd) -> int | None:
        """None for a short end: a range finds it faster than a gram that is in many texts."""
        pattern = _written(predicate.pattern)
        if len(pattern) <= _SHORT_END and type(predicate) is FixedEnd:
            return None
        return self.number_of(predicate.operand, pattern)

    def ranges(self, predicate: Like | FixedEnd) -> Hull:
        """That there is a text, where the term does not lead to its clauses; it does if it has a literal piece."""
        leads = not predicate.negated and any(pieces(predicate.pattern))
        return () if leads else ((column("text", predicate.operand), ALL_TEXT),)

    def number_of(self, operand: Operand, pattern: bytes) -> int:
        """The number of a text term, a new one if it is not known."""
        at = self._operands.setdefault(operand, len(self._operands))
        return self._numbers.setdefault((at, pattern), len(self._numbers))

    def terms(self) -> TextTerms:
        return TextTerms(
            operands=tuple(self._operands),
            operand=np.array([at for at, _ in self._numbers], np.uint16),
            start=starts(np.array([len(pattern) for _, pattern in self._numbers], np.int64)),
            letters=np.frombuffer(b"".join([*(pattern for _, pattern in self._numbers), b"\0"]), np.uint8).copy(),
        )


def _written(pattern: str) -> bytes:
    """A pattern as the kernels read it."""
    return b"".join(
        _ANY if piece is None else piece.encode() if piece else _ONE
        for piece in pieces(pattern)
    )  # fmt: skip


_ANY, _ONE = bytes([ANY]), bytes([ONE])
