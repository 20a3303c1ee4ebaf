"""Shape terms: what the shape predicates of an index ask, as flat arrays.

A shape term is an attribute, a series and a tolerance; a series is kept once, however many tolerances and attributes it
occurs with. ``Clauses`` writes a shape predicate as a negative number, which encodes the shape term and whether it is
negated. ``Draft`` collects terms in ``DraftedShapeTerms``; ``index/shapes.py`` looks them up, nothing here does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.overflow_file import OverflowFile
from tidegate.predicates.shape import ShapePredicate

__all__ = ["SHAPE_TERM_ARRAYS", "DraftedShapeTerms", "ShapeTerms", "code_of", "negated_of", "term_of"]

#: The arrays that are saved as they are.
SHAPE_TERM_ARRAYS = ("attribute", "series", "bound", "key", "length", "start", "values")


def code_of(term: Any, negated: Any) -> Any:
    """The negative number for a shape term in ``Clauses.open_predicate``; also for arrays of them."""
    return -1 - (2 * term + negated)


def term_of(code: Any) -> Any:
    """The shape term of such a number."""
    return (-1 - code) >> 1


def negated_of(code: Any) -> Any:
    """Whether such a number says that the term is negated."""
    return (-1 - code) & 1 == 1


@dataclass(frozen=True, slots=True)
class ShapeTerms:
    """The shape terms of some clauses, as arrays by term and by series."""

    attributes: tuple[str, ...]
    attribute: NDArray[np.uint16]
    series: NDArray[np.int32]
    bound: NDArray[np.float64]
    """The largest distance that is near enough; negative where none is."""
    key: NDArray[np.uint8]
    """128 bits of a series."""
    length: NDArray[np.int32]
    """Numbers of a series, 0 where it is stretched to any length."""
    start: NDArray[np.int64]
    values: NDArray[np.float64]
    """The normal form, or the control points, of series s at values[start[s]:start[s + 1]]."""

    def __len__(self) -> int:
        return len(self.series)

    @property
    def nbytes(self) -> int:
        """Bytes of all but the values, which are read only in doubt and may lie in a file."""
        return int(sum(getattr(self, name).nbytes for name in SHAPE_TERM_ARRAYS if name != "values"))

    def of_series(self, s: int) -> NDArray[np.float64]:
        """The numbers of a series."""
        return self.values[self.start[s] : self.start[s + 1]]

    @staticmethod
    def joined(
        several: Sequence[ShapeTerms], wanted: Sequence[NDArray[np.bool_]]
    ) -> tuple[ShapeTerms, list[NDArray[np.int32]]]:
        """The wanted terms of several, joined, and the new number of each old term, −1 where it is not wanted."""
        drafted, numbers = DraftedShapeTerms(), []
        for shape_terms, some in zip(several, wanted, strict=True):
            new = np.full(len(shape_terms), -1, np.int32)
            keys = [row.tobytes() for row in shape_terms.key]
            for i in np.flatnonzero(some):
                s = shape_terms.series[i]
                new[i] = drafted.number(
                    shape_terms.attributes[shape_terms.attribute[i]], keys[s], int(shape_terms.length[s]),
                    float(shape_terms.bound[i]), shape_terms.of_series(s),
                )  # fmt: skip
            numbers.append(new)
        return drafted.shape_terms(), numbers


class DraftedShapeTerms:
    """The shape terms of a draft, which are still being collected."""

    def __init__(self) -> None:
        self._attributes: dict[str, int] = {}
        self._series: dict[tuple[bytes, int], int] = {}
        self._numbers: dict[tuple[int, int, float], int] = {}
        self._sizes: list[int] = []
        self._asked_of: list[int] = []
        self._overflow = OverflowFile()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of which a shape is asked."""
        return tuple(self._attributes)

    def code(self, shape: ShapePredicate) -> int:
        """The negative number that stands for the predicate in ``Clauses.open_predicate``."""
        bound = nextafter(shape.bound, -inf) if shape.strict else shape.bound
        number = self.number(shape.attribute, bytes.fromhex(shape.key), shape.length, bound, shape.values)
        return int(code_of(number, int(shape.negated)))

    def number(self, attribute: str, key: bytes, length: int, bound: float, values: NDArray[np.float64]) -> int:
        """The number of a shape term, a new one if it is not known."""
        a = self._attributes.setdefault(attribute, len(self._attributes))
        s = self._series.get((key, length))
        if s is None:
            self._overflow.append(np.ascontiguousarray(values))  # before anything else changes: there may be no room
            s = self._series[key, length] = len(self._series)
            self._sizes.append(len(values))
            self._asked_of.append(a)
        return self._numbers.setdefault((a, s, bound), len(self._numbers))

    def shape_terms(self) -> ShapeTerms:
        """All terms collected so far, as arrays."""
        given = np.array(list(self._numbers), np.float64).reshape(-1, 3)
        attribute, series, bound = given[:, 0].astype(np.uint16), given[:, 1].astype(np.int64), given[:, 2].copy()
        sizes, values = np.array(self._sizes, np.int64), self._overflow.doubles()
        length = np.array([length for _, length in self._series], np.int32)
        keys = np.frombuffer(b"".join(key for key, _ in self._series), np.uint8).reshape(-1, 16)
        # Series of one length, which are looked up together, lie together and need not be copied for it.
        order = np.lexsort((np.array(self._asked_of, np.int64), length))
        if (np.diff(order) != 1).any():
            begins, overflow = np.cumsum(sizes) - sizes, OverflowFile()
            for s in order:
                overflow.append(values[begins[s] : begins[s] + sizes[s]])
            sizes, length, keys, values = sizes[order], length[order], keys[order], overflow.doubles()
            series = np.argsort(order)[series]
        start = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=start[1:])
        return ShapeTerms(
            attributes=self.attributes,
            attribute=attribute,
            series=series.astype(np.int32),
            bound=bound,
            key=keys,
            length=length,
            start=start,
            values=values,
        )
