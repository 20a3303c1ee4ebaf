"""Whether one filter covers another: every publication that matches the second matches the first.

Siena's covering relation (Stevens 2009, §3.2) for all predicate families. It looks at filters only and never at
subscriptions, publications or an index.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.covering.implied import Implied, Need, SingleValue, knowledge
from tidegate.covering.possible_points import place_of
from tidegate.predicates import Filter, Within
from tidegate.predicates.ranges import Ranges, complement, intersect

__all__ = ["clauses_cover", "filter_covers"]

#: Pieces that a clause may be cut into by the clauses that together cover it; past this the answer is no.
MOST_PIECES = 256


def filter_covers(a: Filter, b: Filter) -> bool:
    """Whether every publication that matches ``b`` matches ``a``.

    True is always right. False is right too, that is, the answer is complete, where all predicates are comparisons
    (IN, BETWEEN, IS NULL, boxes and relations of an instant to constants among them) of attributes with constants: for
    conjunctions always, for disjunctions as long as no clause of ``b`` is cut into more than ``MOST_PIECES`` pieces by
    clauses of ``a`` that cover it only together. For LIKE, CASEI, arithmetic, comparisons of two attributes, bags,
    polygons and distances, a False may only mean that the reason was not found.
    """
    return clauses_cover(knowledge(a), knowledge(b))


def clauses_cover(a: Sequence[Implied], b: Sequence[Implied]) -> bool:
    """``filter_covers`` for filters whose ``knowledge`` was computed before."""
    for known in b:
        for clause in a:
            for need in clause.needs:
                if not _follows(need, known):
                    break
            else:
                break
        else:
            if len(a) < 2 or not _together_cover(a, known):
                return False
    return True


def _follows(need: Need, known: Implied) -> bool:
    """Whether a publication of which ``known`` is true always meets the need."""
    if not known.kinds_at(need.slot) <= need.kinds:
        return False
    predicate = need.predicate
    if predicate is None:
        if need.column is None:
            return True
        if _inside(known.ranges_of(need.column), need.ranges):
            return True
        if need.column.reading not in ("text", "reversed"):
            return False
        predicate = Within(need.column, need.ranges)
    elif any(predicate.covers(other) for other in known.predicates) or predicate.covers_ranges(known.ranges):
        return True
    values = known.values(need.slot)
    return values is not None and all(predicate.holds(SingleValue(str(need.slot), value)) for value in values)


def _inside(inner: Ranges, outer: Ranges) -> bool:
    """The same as ``subset``, but in one sweep over both: lists of values can be long."""
    i, last = 0, len(outer) - 1
    for low, high in inner:
        while i < last and outer[i][1] <= low:
            i += 1
        start, end = outer[i]
        if low < start or end < high:
            return False
    return True


def _together_cover(a: Sequence[Implied], known: Implied) -> bool:
    """Whether clauses cover together what none covers alone: cut away one after the other until nothing is left."""
    pieces = [known]
    for clause in a:
        pieces = [left for piece in pieces for left in _without(piece, clause.needs)]
        if not pieces:
            return True
        if len(pieces) > MOST_PIECES:
            return False
    return False


def _without(piece: Implied, needs: Sequence[Need]) -> list[Implied]:
    """The piece less what satisfies all the needs, in disjoint pieces; the whole piece where that cannot be told."""
    rest: list[Implied] = []
    inside = piece
    for need in needs:
        if _follows(need, inside):
            continue
        if need.predicate is not None:
            return [piece]
        common = inside.kinds_at(need.slot) & need.kinds
        if not common:
            return [piece]
        rest += _of_other_kind(inside, need)
        inside = inside.copy()
        inside.restrict(need.slot, need.kinds)
        if need.column is not None:
            before = inside.ranges_of(need.column)
            outside = intersect(before, complement(need.ranges, need.column.how.axis))
            if outside:
                rest.append(inside.copy())
                rest[-1].ranges[need.column] = outside
            if not inside.narrow(need.column, need.ranges):
                return [piece]
    return rest


def _of_other_kind(known: Implied, need: Need) -> list[Implied]:
    """The part of the piece in which the value has none of the needed types; nothing is known of its points there."""
    others = known.kinds_at(need.slot) - need.kinds
    if not others:
        return []
    left = known.copy()
    left.restrict(need.slot, others)
    left.ranges = {at: ranges for at, ranges in left.ranges.items() if place_of(at)[0] != need.slot}
    return [left]
