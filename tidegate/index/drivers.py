"""Drivers: what leads to a clause. Written down in one place:

- A clause without terms, and one whose terms are all negated, is found by the tables of its ranges.
- Any other clause is found by the tables where its narrowest range is expected to hold for fewer publications than any
  of its terms; otherwise by the term that is expected to hold for the fewest. That term is its *driver*.

Whatever leads to a clause, the rest of it is then checked for those publications alone: the ranges of a driven clause
pair by pair, open predicates in bulk. A kind says of each term for which share of publications it expects it to hold
(``Terms.shares``). For a range that is the share, among the ranges on its column, of those that begin in it: they begin
where values are. A publication that tables lead to a clause for nothing costs several times what it costs where a term
does, since the terms of the clause are compared with it; so the shares of ranges are weighed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.index.clauses import Clauses
from tidegate.index.ragged import starts
from tidegate.index.terms import kind_of, negated_of, term_of

__all__ = ["Drivers", "chosen"]

#: Ranges of a column that are looked at.
_SAMPLE = 1 << 16
#: How much dearer a hit of the tables is than one of a term.
_WEIGHT = 4


class Drivers(NamedTuple):
    """What leads to the clauses of a segment, in which those that its tables find come first."""

    tabled: int
    """How many clauses the tables find."""
    starts: tuple[NDArray[np.int64], ...]
    """By kind: term t leads to the clauses starts[t] … starts[t + 1]."""


def chosen(clauses: Clauses) -> tuple[NDArray[np.int64], NDArray[np.int64], Drivers]:
    """The clauses that tables find; the others, in the order of their drivers; and how they lie behind the first."""
    driver = _codes(clauses)
    tabled = np.flatnonzero(driver == 0)
    driven = np.flatnonzero(driver)
    kind, term = kind_of(driver[driven]), term_of(driver[driven])
    driven = driven[np.lexsort((term, kind))]
    begins, at = [], len(tabled)
    for number, terms in enumerate(clauses.terms):
        begins.append(at + starts(np.bincount(term[kind == number], minlength=len(terms))))
        at = int(begins[-1][-1])
    return tabled, driven, Drivers(len(tabled), tuple(begins))


def _codes(clauses: Clauses) -> NDArray[np.int32]:
    """The code of the driver of each clause, 0 for one that tables find."""
    driver = np.zeros(len(clauses), np.int32)
    if not clauses.any_open:
        return driver
    clause = np.repeat(np.arange(len(clauses)), np.diff(clauses.open_start))
    asks = np.flatnonzero((clauses.open_predicate < 0) & ~negated_of(clauses.open_predicate))
    clause, code = clause[asks], clauses.open_predicate[asks]
    share = np.ones(len(code))
    for kind, terms in enumerate(clauses.terms):
        mine = np.flatnonzero(kind_of(code) == kind)
        share[mine] = terms.shares[term_of(code[mine])] if len(mine) else 0
    rarest = np.lexsort((share, clause))
    rarest = rarest[np.diff(clause[rarest], prepend=-1) != 0]
    rarest = rarest[share[rarest] < 1]
    rarest = rarest[share[rarest] <= _WEIGHT * _narrowest(clauses, clause[rarest])]
    driver[clause[rarest]] = code[rarest]
    return driver


def _narrowest(clauses: Clauses, some: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of publications for which the narrowest range of each of these clauses is expected to hold."""
    wanted = np.zeros(len(clauses), np.bool_)
    wanted[some] = True
    clause = np.repeat(np.arange(len(clauses)), np.diff(clauses.start))
    entry = np.flatnonzero(wanted[clause])
    share = np.zeros(len(clauses.column))
    for c in np.unique(clauses.column[entry]).tolist():
        of_column = np.flatnonzero(clauses.column == c)
        low, high = clauses.low[of_column], clauses.high[of_column]
        begins = np.where(np.isinf(low), high, low)
        begins = np.unique(begins[np.isfinite(begins)][:: max(1, len(begins) // _SAMPLE)])
        mine = entry[clauses.column[entry] == c]
        low, high = clauses.low[mine], clauses.high[mine]
        within = np.searchsorted(begins, high) - np.searchsorted(begins, low) + np.isinf(low)
        share[mine] = within / (len(begins) + 1)
    narrowest = np.ones(len(clauses))
    firsts = np.flatnonzero(
        np.diff(clauses.column[entry].astype(np.int64) + clause[entry] * len(clauses.columns), prepend=-1)
    )
    if len(entry):  # alternatives on one column add up
        np.minimum.at(narrowest, clause[entry[firsts]], np.add.reduceat(share[entry], firsts))
    return narrowest[some]
