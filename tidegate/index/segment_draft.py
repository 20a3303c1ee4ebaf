"""A draft: clauses on their way into a segment, as flat arrays that only grow.

``Index.add`` calls ``Draft.add``, the one place where predicates become numbers. Texts get provisional numbers in order
of appearance; ``Clauses.drafted`` replaces them by ranks once all are known.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from math import inf
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.errors import LimitError
from tidegate.index.shape_terms import DraftedShapeTerms
from tidegate.index.term_kinds import KIND_OF_PREDICATE, SHAPE, TERM_KINDS
from tidegate.index.terms import code_of
from tidegate.language import to_json
from tidegate.predicates.column import Column
from tidegate.predicates.filter import Filter
from tidegate.predicates.predicate import Clause, Hull, Predicate, Within
from tidegate.predicates.ranges import TOP, Ranges, intersect

__all__ = ["Draft", "stored"]

#: Distinct attributes and readings of them in an index; the kernels number them with 16 bits.
MOST_COLUMNS = 65_535
#: Clauses of ranges that can be scanned while one filter is asked that has other predicates.
_OPEN = 16
#: A draft of more work than this is never scanned.
_MOST_SCANNED = 1 << 16


def stored(predicate: Predicate) -> bytes:
    """A predicate that its hull does not decide, as the index keeps it: negated or not, and its CQL2-JSON."""
    written = predicate.call()
    assert written is not None, predicate
    call, negated = written
    return (b"-" if negated else b"+") + orjson.dumps(to_json(call))


class Draft:
    """Clauses and their owners; owners are the numbers the index gave to subscriptions."""

    def __init__(self, known: set[Column] | None = None) -> None:
        self.known = set() if known is None else known
        """The columns of the whole index, of which there may be only so many."""
        self.columns: dict[Column, int] = {}
        self.texts: dict[int, dict[str, float]] = {}
        self.start = array("q", [0])
        self.column = array("H")
        self.low = array("d")
        self.high = array("d")
        self.owner = array("i")
        self.open_start = array("q", [0])
        self.open_predicate = array("i")
        """What the ranges leave open: predicates by number, and terms by a code below 0."""
        self.predicates: dict[bytes, int] = {}
        self.terms = tuple(kind.drafted() for kind in TERM_KINDS)
        self.filters: dict[int, Filter] = {}
        """The filters, by owner, that ranges alone do not decide: a scan asks them themselves."""
        self.work = 0
        """About how long a scan takes, in clauses of ranges."""

    def __len__(self) -> int:
        return len(self.owner)

    def add(self, owner: int, filter: Filter) -> None:
        """Take the clauses of a subscription's filter. A clause that nothing can satisfy is left out."""
        hulls = [self._hull(clause) for clause in filter.clauses]
        numbers = self.columns
        for hull, _ in hulls:
            for column, _ in hull:
                if column not in numbers:  # all at once: ``_number`` may refuse them, and then nothing may have changed
                    self._number({column for hull, _ in hulls for column, _ in hull if column not in numbers})
        if any(opened for _, opened in hulls) and self.is_scanned:
            self.filters[owner] = filter
            self.work += _OPEN
        for hull, opened in hulls:
            if all(ranges for _, ranges in hull):
                for column, ranges in hull:
                    self._append(numbers[column], ranges)
                self.start.append(len(self.column))
                self.open_predicate.extend(opened)
                self.open_start.append(len(self.open_predicate))
                self.owner.append(owner)
                self.work += 1
        if not self.is_scanned:
            self.filters.clear()

    @property
    def series(self) -> tuple[str, ...]:
        """The attributes of which a shape is asked."""
        drafted = self.terms[SHAPE]
        assert isinstance(drafted, DraftedShapeTerms)
        return drafted.attributes

    @property
    def is_scanned(self) -> bool:
        """Whether a scan is possible; a larger draft does not keep what that needs."""
        return self.work <= _MOST_SCANNED

    def _hull(self, clause: Clause) -> tuple[Collection[tuple[Column, Ranges]], list[int]]:
        """The ranges of a clause, one set per column, and the predicates they do not decide."""
        for predicate in clause:
            if type(predicate) is not Within:
                break
        else:  # the filter compiler has already joined ranges on the same column
            return [(predicate.column, predicate.ranges) for predicate in clause], []  # type: ignore[attr-defined]
        hull: dict[Column, Ranges] = {}
        opened: list[int] = []
        for predicate in clause:
            term, settled = self._term(predicate), predicate.exact
            for column, ranges in predicate.hull if term is None else term[0]:
                if column not in hull:
                    hull[column] = ranges
                elif column.how.is_many:  # "some point in A and some point in B" is not "some point in A and B"
                    settled = False
                else:
                    hull[column] = intersect(hull[column], ranges)
            if term is not None:
                opened.append(term[1])
            elif not settled:
                opened.append(self.predicates.setdefault(stored(predicate), len(self.predicates)))
        return hull.items(), opened

    def _term(self, predicate: Any) -> tuple[Hull, int] | None:
        """The ranges beside the term of a predicate, and the term's code; None for one that is no term."""
        kind = KIND_OF_PREDICATE.get(type(predicate))
        if kind is None or (number := self.terms[kind].number(predicate)) is None:
            return None
        return self.terms[kind].ranges(predicate), int(code_of(kind, number, predicate.negated))

    def _append(self, number: int, ranges: Ranges) -> None:
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

    def _number(self, new: set[Column]) -> None:
        if len(self.known | new) > MOST_COLUMNS:
            raise LimitError(f"at most {MOST_COLUMNS} columns in an index", "more")
        self.known |= new
        for column in sorted(new, key=repr):
            self.columns[column] = number = len(self.columns)
            if column.how.is_text:
                self.texts[number] = {}

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.float64], NDArray[np.float64]]:
        """Start, column, low and high as numpy arrays (copies; the draft may go on growing)."""
        return (
            np.array(self.start, np.int64),
            np.array(self.column, np.uint16),
            np.array(self.low, np.float64),
            np.array(self.high, np.float64),
        )
