"""Whether one subscription covers another, where one or both look at more than a single publication.

Of subscriptions that ask about the past, ``TemporalCovering`` of Stevens 2009 (§5.4) covers if operator and limits are
the same and the inner filters cover. Here limits, tolerances and operators may differ as long as one question follows
from the other, under AND, OR and NOT and however deeply they are nested. Every yes is right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.covering.covers import clauses_cover, filter_covers
from tidegate.covering.implied import Implied, knowledge
from tidegate.kernels.past_atoms import POINTS, RELATIONS, rectangles_of
from tidegate.patterns import Pattern
from tidegate.patterns.past_compile import Atom, Clause, planned
from tidegate.predicates import Filter

__all__ = ["covers", "covers_past"]


def covers(a: Filter | Pattern, b: Filter | Pattern) -> bool:
    """Whether ``a`` is told of every publication that ``b`` is told of, both made at the same version of an engine.

    A filter covers a pattern on the past if it covers all that the pattern can be told of. No pattern covers a filter,
    which is told of refused and late publications too. Patterns of other families cover their equals.
    """
    if isinstance(b, Filter):
        return filter_covers(a, b) if isinstance(a, Filter) else not knowledge(b)
    if isinstance(a, Filter):
        return b.family == "past" and _covers_outside(a, b)
    return covers_past(a, b) if a.family == b.family == "past" else a == b


def covers_past(a: Pattern, b: Pattern) -> bool:
    """``covers`` for two patterns of the family ``past``."""
    if a.ends is not None and (b.ends is None or b.ends > a.ends):
        return False
    forth, back = _Covering(one := _PastCondition(a), other := _PastCondition(b)), _Covering(other, one)
    forth.back, back.back = back, forth
    return forth.holds(one.clauses, other.clauses)


def _covers_outside(a: Filter, b: Pattern) -> bool:
    """Whether a filter covers the ordinary conditions of a pattern: what it is told of satisfies one of them."""
    asked = _PastCondition(b)
    return clauses_cover(knowledge(a), [known for filter, _ in asked.clauses for known in asked.known[filter]])


class _PastCondition:
    """The clauses of a pattern on the past, without those that can never hold."""

    def __init__(self, pattern: Pattern) -> None:
        plan = planned(pattern.form, pattern.numbers)
        self.atoms, self._rules = plan.atoms, plan.rules
        self.known: list[tuple[Implied, ...]] = [knowledge(inner.filter) for inner in pattern.filters]
        self._inner: dict[int, Sequence[Clause]] = {}
        self.clauses = self._possible(plan.clauses)

    def inner(self, of: int) -> Sequence[Clause]:
        """The clauses of the inner filter of an atom; none if nothing ever passes it."""
        if of not in self._inner:
            self._inner[of] = self._possible(((of, ()),) if of >= 0 else self._rules[-1 - of])
        return self._inner[of]

    def _possible(self, clauses: Sequence[Clause]) -> Sequence[Clause]:
        return [
            (filter, literals)
            for filter, literals in clauses
            if self.known[filter] and all(i & 1 or self.inner(self.atoms[i >> 1].of) for i in literals)
        ]


class _Covering:
    """Decides which clauses and atoms of one pattern follow from those of another."""

    back: _Covering
    """The same with the two patterns exchanged."""

    def __init__(self, one: _PastCondition, other: _PastCondition) -> None:
        self._one, self._other = one, other
        self._atoms: dict[tuple[int, int], bool] = {}

    def holds(self, mine: Sequence[Clause], theirs: Sequence[Clause]) -> bool:
        """Whether, whenever one of the other's clauses holds, one of these holds of the same publication."""
        return all(
            clauses_cover(
                [known for f, wanted in mine if self._all_follow(wanted, literals) for known in self._one.known[f]],
                self._other.known[filter],
            )
            for filter, literals in theirs
        )

    def _all_follow(self, wanted: Sequence[int], literals: Sequence[int]) -> bool:
        return all(any(self._follows(mine, theirs) for theirs in literals) for mine in wanted)

    def _follows(self, mine: int, theirs: int) -> bool:
        """Whether a literal is true whenever the other is. Their left sides are known for the same publications."""
        if (mine ^ theirs) & 1:
            return False
        return self.back._wider(theirs >> 1, mine >> 1) if mine & 1 else self._wider(mine >> 1, theirs >> 1)

    def _wider(self, mine: int, theirs: int) -> bool:
        pair = mine, theirs
        if pair not in self._atoms:
            self._atoms[pair] = self._is_wider(self._one.atoms[mine], self._other.atoms[theirs])
        return self._atoms[pair]

    def _is_wider(self, a: Atom, b: Atom) -> bool:
        """Whether every event that makes atom b true makes atom a true.

        An inner filter that covers another remembers all events that the other does, and not later; starts and ends are
        those of the event, so for a relation covering is enough. But among the last n events of the wider filter there
        may be others, and with values of an earlier publication: for a comparison the filters must be equal.
        """
        if (a.left, a.attribute) != (b.left, b.attribute):
            return False
        if a.attribute is None:
            return _relation_follows(a, b) and self._remembers(a.of, b.of)
        return _comparison_follows(a, b) and self._remembers(a.of, b.of) and self.back._remembers(b.of, a.of)

    def _remembers(self, mine: int, theirs: int) -> bool:
        """Whether an inner filter passes all that the other passes."""
        return self.holds(self._one.inner(mine), self._other.inner(theirs))


# --- questions ------------------------------------------------------------------------------------------------------

#: Comparisons that follow from others.
_FOLLOWING = {"=": ("<=", ">="), "<": ("<=", "<>"), ">": (">=", "<>")}


def _comparison_follows(a: Atom, b: Atom) -> bool:
    """Whether a finds one of the last values whenever b does, where both have the same values to look at."""
    if a.limit < b.limit:
        return False
    if a.op == b.op:
        return True
    # Texts are compared by = and <> only: what is known on the left for these may be unknown for others.
    same_texts = all(atom.lefts[2] is None or atom.rights[2] is None for atom in (a, b))
    return a.op in _FOLLOWING.get(b.op, ()) and (same_texts or {a.op, b.op}.isdisjoint(("=", "<>")))


def _relation_follows(a: Atom, b: Atom) -> bool:
    """Whether the starts and ends of events that make atom b true all make a true."""
    longest = 4.0 * (1 + max(a.limit, 0) + a.tolerance + max(b.limit, 0) + b.tolerance)
    lasting = (0.0, longest) if a.left == "event" else (0.0,)
    mine, theirs = _boxes(a, lasting), _boxes(b, lasting)
    theirs[..., 1] = np.minimum(theirs[..., 1], theirs[..., 3])  # no event ends before it starts
    theirs[..., 2] = np.maximum(theirs[..., 2], theirs[..., 0])
    return all(
        any(bool((m[:, ::2] <= t[:, ::2]).all() and (t[:, 1::2] <= m[:, 1::2]).all()) for m in mine) for t in theirs
    )


def _boxes(atom: Atom, lasting: Sequence[float]) -> NDArray[np.float64]:
    """Least and most start and end of the events that make an atom true, by alternative and for x of each length.

    All bounds are the start or the end of x and a constant, or the tighter of two such. Where one bound is never beyond
    another for an x of no length and for one far longer than all the constants, it never is for those between.
    """
    op = RELATIONS.index(atom.op) + (0 if atom.left == "event" else POINTS)
    found, count = np.empty((len(lasting), 2, 4)), 0
    for length, out in zip(lasting, found, strict=True):
        count = rectangles_of(op, 0.0, length, atom.limit, atom.tolerance, out)
    found[..., ::2], found[..., 1::2] = np.ceil(found[..., ::2]), np.floor(found[..., 1::2])  # whole microseconds
    return found[:, :count].swapaxes(0, 1)
