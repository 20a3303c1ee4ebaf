"""Clauses as flat arrays: their ranges, the predicates these leave open, and their owners.

A ``Segment`` derives its tables from its ``Clauses``, and merged segments from those of several.

Clauses are numbered; clause i has the ranges start[i] … start[i + 1], each a column and bounds low ≤ point < high;
several ranges of one column are alternatives. Text bounds are ranks among the sorted constants of their column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index.batch import text_buffers
from tidegate.index.ragged import picked, starts
from tidegate.index.segment_draft import Draft
from tidegate.index.term_kinds import TERM_KINDS
from tidegate.index.terms import Terms, code_of, kind_of, negated_of, term_of
from tidegate.kernels.encode import canonical, identity
from tidegate.predicates.column import Column

__all__ = ["CLAUSE_ARRAYS", "Clauses", "TextConstants", "joined"]

#: The arrays that are saved as they are.
CLAUSE_ARRAYS = ("start", "column", "low", "high", "owner_start", "owner", "open_start", "open_predicate")


@dataclass(frozen=True, slots=True)
class TextConstants:
    """The sorted constants of a text column, as UTF-8."""

    offsets: NDArray[np.int64]
    letters: NDArray[np.uint8]

    @staticmethod
    def of(constants: Sequence[str]) -> TextConstants:
        offsets, letters, _ = text_buffers(pa.array(constants, pa.large_string()))
        return TextConstants(np.array(offsets), np.array(letters))

    def strings(self) -> list[str]:
        whole = self.letters.tobytes()
        return [whole[a:b].decode() for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]


def joined(several: Sequence[TextConstants]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The offsets and letters of the constants of several columns, one column after the other."""
    if len(several) == 1:
        return several[0].offsets, several[0].letters
    bases = np.cumsum([0, *(texts.offsets[-1] for texts in several)])
    offsets = [texts.offsets[:-1] + base for texts, base in zip(several, bases[:-1], strict=True)]
    letters = [texts.letters[: texts.offsets[-1]] for texts in several]
    return np.concatenate([*offsets, bases[-1:]]), np.concatenate([*letters, np.zeros(1, np.uint8)])


@dataclass(frozen=True, slots=True)
class Clauses:
    """Distinct clauses, each with at least one owner."""

    columns: tuple[Column, ...]
    texts: dict[int, TextConstants]
    start: NDArray[np.int64]
    column: NDArray[np.uint16]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    owner_start: NDArray[np.int64]
    """Owners of clause i: owner[owner_start[i]] … owner[owner_start[i + 1]]."""
    owner: NDArray[np.int32]
    open_start: NDArray[np.int64]
    """The same for predicates that the ranges do not decide; a single zero where there are none at all."""
    open_predicate: NDArray[np.int32]
    """Numbers of predicates, and codes below 0 of terms."""
    predicates: Sequence[bytes]
    terms: tuple[Terms, ...]
    """By kind."""

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def names(self) -> set[str]:
        """The attributes that they ask about, in ranges or in terms."""
        names = {name for column in self.columns for name in column.attributes}
        return names.union(*(terms.names for terms in self.terms))

    @property
    def any_open(self) -> bool:
        """Whether some clause has predicates that its ranges do not decide."""
        return len(self.open_start) > 1

    @property
    def nbytes(self) -> int:
        texts = sum(t.offsets.nbytes + t.letters.nbytes for t in self.texts.values())
        arrays = sum(getattr(self, name).nbytes for name in CLAUSE_ARRAYS)
        return int(arrays + texts + sum(map(len, self.predicates)))

    @staticmethod
    def drafted(draft: Draft) -> Clauses:
        """The clauses of a draft, texts ranked."""
        start, column, low, high = draft.arrays()
        texts: dict[int, TextConstants] = {}
        for c, numbers in draft.texts.items():
            constants = sorted(numbers)
            texts[c] = TextConstants.of(constants)
            rank = np.empty(len(constants))
            rank[[int(numbers[text]) for text in constants]] = np.arange(1, len(constants) + 1)
            _renumber(c, column, low, high, rank)
        owner = np.array(draft.owner, np.int32)
        opened = np.array(draft.open_predicate, np.int32)
        open_start = np.array(draft.open_start, np.int64) if len(opened) else np.zeros(1, np.int64)
        return Clauses(
            columns=tuple(draft.columns),
            texts=texts,
            start=start,
            column=column,
            low=low,
            high=high,
            owner_start=np.arange(len(owner) + 1),
            owner=owner,
            open_start=open_start,
            open_predicate=opened,
            predicates=list(draft.predicates),
            terms=tuple(drafted.terms() for drafted in draft.terms),
        ).distinct()

    @staticmethod
    def joined(several: Sequence[Clauses], dead: NDArray[np.uint8]) -> Clauses:
        """The clauses of several, without dead owners and without the clauses that only dead owners had."""
        columns: dict[Column, int] = {}
        predicates: dict[bytes, int] = {}
        constants: dict[int, set[str]] = {}
        for clauses in several:
            for c, at in enumerate(clauses.columns):
                number = columns.setdefault(at, len(columns))
                if c in clauses.texts:
                    constants.setdefault(number, set()).update(clauses.texts[c].strings())
            for predicate in clauses.predicates:
                predicates.setdefault(predicate, len(predicates))
        ranks = {c: {text: float(i + 1) for i, text in enumerate(sorted(found))} for c, found in constants.items()}
        wanted = [clauses._wanted(dead) for clauses in several]
        terms, numbers = [], []
        for k, kind in enumerate(TERM_KINDS):
            joined, new = kind.terms.joined([c.terms[k] for c in several], [w[k] for w in wanted])
            terms.append(joined)
            numbers.append(new)
        parts = [
            clauses._renumbered(columns, ranks, predicates, [new[i] for new in numbers], dead)
            for i, clauses in enumerate(several)
        ]
        sizes, column, low, high, owner, open_sizes, opened = (
            np.concatenate([part[i] for part in parts]) for i in range(7)
        )
        open_start = starts(open_sizes) if len(opened) else np.zeros(1, np.int64)
        texts = {c: TextConstants.of(list(rank)) for c, rank in ranks.items()}
        return Clauses(
            columns=tuple(columns),
            texts=texts,
            start=starts(sizes),
            column=column,
            low=low,
            high=high,
            owner_start=np.arange(len(owner) + 1),
            owner=owner,
            open_start=open_start,
            open_predicate=opened,
            predicates=list(predicates),
            terms=tuple(terms),
        ).distinct()

    def _wanted(self, dead: NDArray[np.uint8]) -> list[NDArray[np.bool_]]:
        """By kind, which terms occur in a clause with a living owner."""
        wanted = [np.zeros(len(terms), np.bool_) for terms in self.terms]
        if self.any_open and any(map(len, wanted)):
            clause = np.repeat(np.arange(len(self)), np.diff(self.owner_start))
            lives = np.bincount(clause[dead[self.owner] == 0], minlength=len(self)) > 0
            code = self.open_predicate[np.repeat(lives, np.diff(self.open_start))]
            code = code[code < 0]
            for kind, some in enumerate(wanted):
                some[term_of(code[kind_of(code) == kind])] = True
        return wanted

    def _renumbered(
        self,
        columns: dict[Column, int],
        ranks: dict[int, dict[str, float]],
        predicates: dict[bytes, int],
        terms: Sequence[NDArray[np.int32]],
        dead: NDArray[np.uint8],
    ) -> tuple[NDArray[Any], ...]:
        """The arrays of these clauses, one clause per living owner, in the numbers that ``joined`` has given."""
        kept = dead[self.owner] == 0
        clause_of_owner = np.repeat(np.arange(len(self)), np.diff(self.owner_start))[kept]
        low, high = np.array(self.low), np.array(self.high)
        for c, texts in self.texts.items():
            rank = ranks[columns[self.columns[c]]]
            _renumber(c, self.column, low, high, np.array([0.0] + [rank[text] for text in texts.strings()]))
        number = np.array([columns[at] for at in self.columns] or [0], np.uint16)
        start, entries = picked(self.start, clause_of_owner)
        if self.any_open:
            open_start, opens = picked(self.open_start, clause_of_owner)
            code = self.open_predicate[opens]
            opened = np.empty(len(code), np.int32)
            opened[code >= 0] = np.array([predicates[p] for p in self.predicates], np.int32)[code[code >= 0]]
            for kind, new in enumerate(terms):
                mine = np.flatnonzero((code < 0) & (kind_of(code) == kind))
                opened[mine] = code_of(kind, new[term_of(code[mine])], negated_of(code[mine]))
        else:
            open_start, opened = np.zeros(len(clause_of_owner) + 1, np.int64), np.empty(0, np.int32)
        column = number[self.column[entries]]
        return np.diff(start), column, low[entries], high[entries], self.owner[kept], np.diff(open_start), opened

    def distinct(self) -> Clauses:
        """The same clauses with equal ones made one, which has the owners of all of them."""
        canonical(self.start, self.column, self.low, self.high)
        ids = identity(self.start, self.column, self.low, self.high, self.open_start, self.open_predicate)
        _, firsts, same = np.unique(
            ids.view([("one", "u8"), ("two", "u8")]).ravel(), return_index=True, return_inverse=True
        )
        if len(firsts) == len(self):
            return self
        by_clause = np.lexsort((self.owner, same.ravel()))
        owner, clause = self.owner[by_clause], same.ravel()[by_clause]
        again = np.zeros(len(owner), np.bool_)
        again[1:] = (clause[1:] == clause[:-1]) & (owner[1:] == owner[:-1])
        owner, clause = owner[~again], clause[~again]
        owner_start = starts(np.bincount(clause, minlength=len(firsts)))
        return replace(self.ordered(firsts)[0], owner_start=owner_start, owner=owner)

    def ordered(self, sequence: NDArray[Any]) -> tuple[Clauses, NDArray[np.int64]]:
        """Some of the clauses, in that order, and where their ranges stood."""
        start, entries = picked(self.start, sequence)
        owner_start, owners = picked(self.owner_start, sequence)
        open_start, open_predicate = self.open_start, self.open_predicate
        if self.any_open:
            open_start, opens = picked(open_start, sequence)
            open_predicate = open_predicate[opens]
        clauses = replace(
            self,
            start=start,
            column=self.column[entries],
            low=self.low[entries],
            high=self.high[entries],
            owner_start=owner_start,
            owner=self.owner[owners],
            open_start=open_start,
            open_predicate=open_predicate,
        )
        return clauses, entries


def _renumber(
    c: int, column: NDArray[np.uint16], low: NDArray[np.float64], high: NDArray[np.float64], new: NDArray[np.float64]
) -> None:
    """Replace the finite bounds of one column, which are numbers of texts, in place."""
    mine = np.flatnonzero(column == c)
    for bound in (low, high):
        known = mine[np.isfinite(bound[mine])]
        bound[known] = new[bound[known].astype(np.int64)]
