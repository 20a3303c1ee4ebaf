"""Shape terms: what the shape predicates of an index ask, as flat arrays.

A shape term is an attribute, a series and a tolerance; a series is kept once, however many tolerances and attributes it
occurs with. ``Draft`` collects terms in ``DraftedShapeTerms``; ``index/shapes.py`` looks them up, nothing here does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.index.offsets import below, fits, offsets
from tidegate.index.overflow_file import OverflowFile
from tidegate.index.terms import DraftedTerms, Terms
from tidegate.predicates.predicate import Hull
from tidegate.predicates.shape import ShapePredicate

__all__ = ["DraftedShapeTerms", "ShapeTerms"]

#: The arrays that are saved as they are.
_ARRAYS = ("attribute", "series", "bound", "key", "length", "start", "values")


@dataclass(frozen=True, slots=True)
class ShapeTerms(Terms):
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
    def names(self) -> tuple[str, ...]:
        return self.attributes

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in _ARRAYS}

    @property
    def facts(self) -> list[str]:
        """The attributes."""
        return list(self.attributes)

    @classmethod
    def restored(cls, facts: Any, arrays: dict[str, NDArray[Any]]) -> Self:
        return cls(tuple(facts), **{name: arrays[name] for name in _ARRAYS})

    def check(self) -> None:
        series = len(self.length)
        offsets("shape-start", self.start, series, len(self.values))
        below("shape-series", self.series, series)
        below("shape-attribute", self.attribute, len(self.attributes))
        fits("shape-key", self.key.shape, (series, 16))
        fits("shape-bound", self.bound.shape, self.series.shape)
        fits("shape-attribute", self.attribute.shape, self.series.shape)
        stretched = self.length == 0
        if not (stretched | (np.diff(self.start) == self.length)).all():
            raise ValueError("series of another length than theirs")

    @property
    def shares(self) -> NDArray[np.float64]:
        """0: all shape terms are looked up in any case, and nothing is dearer to decide."""
        return np.zeros(len(self))

    @property
    def nbytes(self) -> int:
        """Bytes of all but the values, which are read only in doubt and may lie in a file."""
        return int(sum(getattr(self, name).nbytes for name in _ARRAYS if name != "values"))

    def of_series(self, s: int) -> NDArray[np.float64]:
        """The numbers of a series."""
        return self.values[self.start[s] : self.start[s + 1]]

    @staticmethod
    def joined(
        several: Sequence[ShapeTerms], wanted: Sequence[NDArray[np.bool_]]
    ) -> tuple[ShapeTerms, list[NDArray[np.int32]]]:
        drafted, numbers = DraftedShapeTerms(), []
        for shape_terms, some in zip(several, wanted, strict=True):
            new = np.full(len(shape_terms), -1, np.int32)
            keys = [row.tobytes() for row in shape_terms.key]
            for i in np.flatnonzero(some):
                s = shape_terms.series[i]
                new[i] = drafted.number_of(
                    shape_terms.attributes[shape_terms.attribute[i]], keys[s], int(shape_terms.length[s]),
                    float(shape_terms.bound[i]), shape_terms.of_series(s),
                )  # fmt: skip
            numbers.append(new)
        return drafted.terms(), numbers


class DraftedShapeTerms(DraftedTerms):
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

    def number(self, predicate: ShapePredicate) -> int:
        bound = nextafter(predicate.bound, -inf) if predicate.strict else predicate.bound
        key = bytes.fromhex(predicate.key)
        return self.number_of(predicate.attribute, key, predicate.length, bound, predicate.values)

    def ranges(self, predicate: ShapePredicate) -> Hull:
        """The lengths that the series may have: a lookup knows only those that have terms."""
        return predicate.hull

    def number_of(self, attribute: str, key: bytes, length: int, bound: float, values: NDArray[np.float64]) -> int:
        """The number of a shape term, a new one if it is not known."""
        a = self._attributes.setdefault(attribute, len(self._attributes))
        s = self._series.get((key, length))
        if s is None:
            self._overflow.append(np.ascontiguousarray(values))  # before anything else changes: there may be no room
            s = self._series[key, length] = len(self._series)
            self._sizes.append(len(values))
            self._asked_of.append(a)
        return self._numbers.setdefault((a, s, bound), len(self._numbers))

    def terms(self) -> ShapeTerms:
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
