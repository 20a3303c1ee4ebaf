"""Terms: predicates that a segment keeps in arrays of their own and looks up for all publications together.

Ranges decide most predicates, and ``predicates/`` decides the rest one pair at a time. A *term* is what is worth a
lookup of its own: a shape, a text pattern. What every kind of terms offers is declared here; ``index/term_kinds.py``
lists the kinds, ``index/drivers.py`` says which term leads to a clause. In ``Clauses.open_predicate`` a term is a code
below 0, which has its kind, its number among the terms of that kind, and whether it is negated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch
from tidegate.predicates.column import Row
from tidegate.predicates.predicate import Hull

__all__ = [
    "MOST_KINDS",
    "DraftedTerms",
    "FoundTerms",
    "TermLookup",
    "Terms",
    "code_of",
    "kind_of",
    "negated_of",
    "term_of",
]

#: Kinds for which a code has room.
MOST_KINDS = 4


def code_of(kind: Any, term: Any, negated: Any) -> Any:
    """The negative number of a term in ``Clauses.open_predicate``; also for arrays of them."""
    return -1 - ((MOST_KINDS * term + kind) * 2 + negated)


def kind_of(code: Any) -> Any:
    """The kind of the term of such a number."""
    return ((-1 - code) >> 1) % MOST_KINDS


def term_of(code: Any) -> Any:
    """The number of the term among those of its kind."""
    return (-1 - code) // (2 * MOST_KINDS)


def negated_of(code: Any) -> Any:
    """Whether such a number says that the term is negated."""
    return (-1 - code) & 1 == 1


class Terms(ABC):
    """The distinct terms of one kind in some clauses, numbered from 0, as flat arrays. They never change."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def names(self) -> Collection[str]:
        """The attributes that the terms ask about."""

    @property
    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a snapshot keeps as it is, by name."""

    @property
    @abstractmethod
    def facts(self) -> Any:
        """What a snapshot keeps beside the arrays: a JSON value."""

    @classmethod
    @abstractmethod
    def restored(cls, facts: Any, arrays: dict[str, NDArray[Any]]) -> Self:
        """The terms of a snapshot, as yet unchecked."""

    @abstractmethod
    def check(self) -> None:
        """A ``ValueError`` if some array leads out of another. Called before anything else is done with the terms."""

    @property
    @abstractmethod
    def shares(self) -> NDArray[np.float64]:
        """For which share of all publications each term is expected to hold; 1 for one that must not lead to a clause.

        ``index/drivers.py`` compares them with each other and with the shares of ranges.
        """

    @staticmethod
    @abstractmethod
    def joined(several: Sequence[Any], wanted: Sequence[NDArray[np.bool_]]) -> tuple[Terms, list[NDArray[np.int32]]]:
        """The wanted terms of several, joined, and the new number of each old term, −1 where it is not wanted."""


class DraftedTerms(ABC):
    """The terms of one kind in a draft, which are still being collected."""

    @abstractmethod
    def number(self, predicate: Any) -> int | None:
        """The number of a predicate's term, a new one if it is not known; None if the predicate is not kept as a term,
        but as one that is settled by itself. If it raises, nothing has changed.
        """

    @abstractmethod
    def ranges(self, predicate: Any) -> Hull:
        """The ranges that a clause keeps beside the term. They must admit whatever the predicate holds for."""

    @abstractmethod
    def terms(self) -> Terms:
        """All terms collected so far."""


class FoundTerms(ABC):
    """What a ``TermLookup`` found for some publications, which are numbered from 0."""

    shapeless: Sequence[str] = ()
    """The attributes of a publication alone whose values have no shape, for the batch to count."""

    @property
    @abstractmethod
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Publications, in ascending order, and terms that hold for them: all pairs of terms that lead to clauses."""

    @abstractmethod
    def holds(
        self, publication: NDArray[np.int64], term: NDArray[np.int64], negated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether terms hold for publications, pair by pair; where ``negated``, whether the negation holds, which is
        false where the attribute is missing. The ranges of the clause are known to hold.
        """


class TermLookup(ABC):
    """Finds which terms of a segment hold for publications."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that matching reads, those of the terms included."""

    @property
    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a snapshot keeps of the lookup, by name."""

    @property
    @abstractmethod
    def facts(self) -> Any:
        """What a snapshot keeps beside these arrays: a JSON value that is not None."""

    @abstractmethod
    def found(self, batch: Batch, begin: int, end: int) -> FoundTerms:
        """The terms of publications begin … end of a batch."""

    @abstractmethod
    def alone(self, row: Row) -> FoundTerms:
        """The terms of one publication, which has number 0."""
