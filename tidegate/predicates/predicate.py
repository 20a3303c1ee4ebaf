"""The contract of a predicate: one condition on one publication.

A predicate names its *hull*, ranges on columns that contain every publication it matches, and says whether the hull is
``exact``, that is, whether nothing else is in it. The index works on hulls alone; for what they leave open it calls
``settle``, which decides by ``holds`` one pair of publication and predicate at a time or, where the family can, many at
once. Most families compile to ``Within``, whose hull is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.language.tree import Call
from tidegate.predicates.column import Column, Row
from tidegate.predicates.ranges import Ranges, complement, contains, subset

__all__ = ["Alternatives", "Clause", "Predicate", "Within"]

Hull = tuple[tuple[Column, Ranges], ...]


class Predicate(ABC):
    """What every family's predicates offer. Instances are frozen, hashable and compare by meaning."""

    __slots__ = ()

    exact: bool = False
    """Whether the hull says it all; then ``holds`` is never asked by the index."""

    @property
    @abstractmethod
    def hull(self) -> Hull:
        """Ranges that contain every match; all of them must hold. Never empty: a missing attribute matches nothing."""

    @abstractmethod
    def holds(self, publication: Row) -> bool:
        """Whether the publication satisfies it: the plain meaning, in obvious steps."""

    def covers(self, other: Predicate) -> bool:
        """Whether every publication that satisfies ``other`` satisfies this one. May miss some; never says too much."""
        return self == other

    def covers_ranges(self, known: Mapping[Column, Ranges]) -> bool:
        """Whether every publication with its points in these ranges satisfies it, given that it has values of the types
        read here. Any other column may have any point. May miss some; never claims too much.
        """
        return self.exact and all(at in known and subset(known[at], ranges) for at, ranges in self.hull)

    @abstractmethod
    def call(self) -> tuple[Call, bool] | None:
        """The CQL2 call it was written as, and whether it was negated: how a predicate that is not exact is stored.
        None where only the hull is stored.
        """

    @classmethod
    def settle(cls, predicates: Sequence[Predicate], publications: Sequence[Row]) -> NDArray[np.bool_]:
        """``holds`` for many pairs at once; families with a vectorised way override it."""
        pairs = zip(predicates, publications, strict=True)
        return np.fromiter((p.holds(publication) for p, publication in pairs), np.bool_, len(predicates))


#: One conjunction.
Clause = tuple[Predicate, ...]
#: A disjunction of conjunctions: what a call compiles to.
Alternatives = list[Clause]


@dataclass(frozen=True, slots=True)
class Within(Predicate):
    """A column's point lies in a set of ranges; for a column of many points, at least one of them does."""

    column: Column
    ranges: Ranges

    exact = True

    @property
    def hull(self) -> Hull:
        return ((self.column, self.ranges),)

    def holds(self, publication: Row) -> bool:
        point = self.column.point(publication)
        if point is None:
            return False
        if isinstance(point, list):
            return any(contains(self.ranges, p) for p in point)
        return contains(self.ranges, point)

    def covers(self, other: Predicate) -> bool:
        return any(column == self.column and subset(ranges, self.ranges) for column, ranges in other.hull)

    def call(self) -> None:
        return None

    def negation(self) -> Within:
        """The rest of the axis: still false where the attribute is missing. Only for columns of one point."""
        return Within(self.column, complement(self.ranges, self.column.how.axis))
