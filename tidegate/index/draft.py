"""A draft: clauses on their way into a segment, as flat arrays that only grow.

The one place where predicates become numbers. Texts get provisional numbers in order of appearance; the segment ranks
them once all are known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import inf

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.errors import LimitError
from tidegate.language import to_json
from tidegate.predicates.column import Column
from tidegate.predicates.filter import Filter
from tidegate.predicates.predicate import Clause, Predicate, Within
from tidegate.predicates.ranges import TOP, Ranges, intersect

__all__ = ["Draft", "stored"]

_MOST_COLUMNS = 65_535


def stored(predicate: Predicate) -> bytes:
    """A predicate that its hull does not decide, as the index keeps it: negated or not, and its CQL2-JSON."""
    call, negated = predicate.call()
    return (b"-" if negated else b"+") + orjson.dumps(to_json(call))


class Draft:
    """Clauses and their owners; owners are the numbers the index gave to subscriptions."""

    def __init__(self) -> None:
        self.columns: dict[Column, int] = {}
        self.texts: dict[int, dict[str, float]] = {}
        self.start = array("q", [0])
        self.column = array("H")
        self.low = array("d")
        self.high = array("d")
        self.owner = array("i")
        self.open_start = array("q", [0])
        self.open_predicate = array("i")
        self.predicates: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.owner)

    def add(self, owner: int, filter: Filter) -> None:
        """Take the clauses of a subscription's filter. A clause that nothing can satisfy is left out."""
        for clause in filter.clauses:
            hull, opened = self._hull(clause)
            if all(ranges for _, ranges in hull):
                for column, ranges in hull:
                    self._append(column, ranges)
                self.start.append(len(self.column))
                self.open_predicate.extend(opened)
                self.open_start.append(len(self.open_predicate))
                self.owner.append(owner)

    def _hull(self, clause: Clause) -> tuple[Iterable[tuple[Column, Ranges]], list[int]]:
        """The ranges of a clause, one set per column, and the predicates they do not decide."""
        for predicate in clause:
            if type(predicate) is not Within:
                break
        else:  # the filter compiler has already joined ranges on the same column
            return [(predicate.column, predicate.ranges) for predicate in clause], []  # type: ignore[attr-defined]
        hull: dict[Column, Ranges] = {}
        opened: list[int] = []
        for predicate in clause:
            settled = predicate.exact
            for column, ranges in predicate.hull:
                if column not in hull:
                    hull[column] = ranges
                elif column.how.is_many:  # "some point in A and some point in B" is not "some point in A and B"
                    settled = False
                else:
                    hull[column] = intersect(hull[column], ranges)
            if not settled:
                opened.append(self.predicates.setdefault(stored(predicate), len(self.predicates)))
        return hull.items(), opened

    def _append(self, at: Column, ranges: Ranges) -> None:
        number = self.columns.get(at)
        if number is None:
            number = self._number(at)
        if number in self.texts:
            ranges = self._numbered(self.texts[number], ranges)
        for low, high in ranges:
            self.column.append(number)
            self.low.append(low)
            self.high.append(high)

    @staticmethod
    def _numbered(texts: dict[str, float], ranges: Ranges) -> Ranges:
        """Text bounds by their provisional numbers."""
        return tuple(
            (
                -inf if low == "" else texts.setdefault(low, float(len(texts))),
                inf if high is TOP else texts.setdefault(high, float(len(texts))),
            )
            for low, high in ranges
        )

    def _number(self, at: Column) -> int:
        number = len(self.columns)
        if number >= _MOST_COLUMNS:
            raise LimitError(f"at most {_MOST_COLUMNS} columns in an index", "one more")
        self.columns[at] = number
        if at.how.is_text:
            self.texts[number] = {}
        return number

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.float64], NDArray[np.float64]]:
        """Start, column, low and high as numpy arrays (copies; the draft may go on growing)."""
        return (
            np.array(self.start, np.int64),
            np.array(self.column, np.uint16),
            np.array(self.low, np.float64),
            np.array(self.high, np.float64),
        )
