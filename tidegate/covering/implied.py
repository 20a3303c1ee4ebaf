"""What is known of a publication that satisfies a clause, and what a clause needs to be known.

``knowledge`` reads each clause of a filter in two ways and puts both into an ``Implied``. As a clause that may be
covered, it implies the type of each value and the ranges its points lie in, its predicates' hulls included. As a clause
that may cover another, it has needs, each of which must follow from what the other implies. ``covering/covers.py``
compares two clauses; nothing here does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, nextafter
from typing import Any

from tidegate.covering.possible_points import MISSING, Slot, axis, kinds_of, normal, place_of
from tidegate.predicates import Filter, Predicate, Within
from tidegate.predicates.column import Column, column
from tidegate.predicates.predicate import Clause
from tidegate.predicates.ranges import Ranges, contains, intersect, union

__all__ = ["Implied", "Need", "SingleValue", "knowledge"]


@dataclass(frozen=True, slots=True)
class Need:
    """A condition of a clause: the value at ``slot`` has one of the types, its point on the column (if one is named)
    lies in the ranges, and the predicate (if there is one) holds.
    """

    slot: Slot
    kinds: frozenset[str]
    column: Column | None
    ranges: Ranges
    predicate: Predicate | None


@dataclass(frozen=True, slots=True)
class SingleValue:
    """A publication with one attribute, on which a predicate is tried."""

    name: str
    content: Any

    def value(self, name: str) -> Any:
        return self.content if name == self.name else None


@dataclass(slots=True)
class Implied:
    """What a clause implies and needs. A column has ranges only if the slot can have no type but the one it reads."""

    kinds: dict[Slot, frozenset[str]] = field(default_factory=dict)
    ranges: dict[Column, Ranges] = field(default_factory=dict)
    predicates: tuple[Predicate, ...] = ()
    needs: tuple[Need, ...] = ()

    def kinds_at(self, slot: Slot) -> frozenset[str]:
        return self.kinds.get(slot) or kinds_of(slot)

    def ranges_of(self, at: Column) -> Ranges:
        found = self.ranges.get(at)
        return axis(at) if found is None else found

    def restrict(self, slot: Slot, kinds: frozenset[str]) -> bool:
        """Note that a value has one of these types; False if that leaves no type."""
        left = self.kinds_at(slot) & kinds
        if left != kinds_of(slot):
            self.kinds[slot] = left
        return bool(left)

    def narrow(self, at: Column, ranges: Ranges) -> bool:
        """Note that a point lies in these ranges; False if that leaves no point."""
        self.ranges[at] = intersect(self.ranges_of(at), ranges)
        return bool(self.ranges[at])

    def values(self, slot: Slot) -> list[Any] | None:
        """All the values there can be, where they are few texts or points; else None."""
        if not isinstance(slot, str):
            return None
        if self.kinds_at(slot) == {"text"}:
            ranges = self.ranges_of(column("text", slot))
            return [low for low, _ in ranges] if _is_finite(ranges) else None
        lon, lat = self.ranges.get(column("lon", slot)), self.ranges.get(column("lat", slot))
        if not lon or not lat or len(lon) * len(lat) > 64:
            return None
        if any(high != nextafter(low, inf) for low, high in lon + lat):
            return None
        return [(x, y) for x, _ in lon for y, _ in lat]

    def copy(self) -> Implied:
        return Implied(dict(self.kinds), dict(self.ranges), self.predicates, self.needs)


def _is_finite(ranges: Ranges) -> bool:
    return all(high == low + "\0" for low, high in ranges)


def knowledge(filter: Filter) -> tuple[Implied, ...]:
    """Each clause of a filter that some publication can satisfy, as far as that is easily seen."""
    return tuple(known for known in map(_known, filter.clauses) if known is not None)


def _known(clause: Clause) -> Implied | None:
    """What the clause implies and needs; None if it contradicts itself."""
    known, needs = Implied(), []
    for predicate in clause:
        if isinstance(predicate, Within) and not predicate.column.how.is_many:
            at, ranges = normal(predicate.column, predicate.ranges)
            need = _need(at, ranges)
            if not ranges or not _learn(known, at, ranges):
                return None
            if not kinds_of(need.slot) <= need.kinds or need.column is not None:
                needs.append(need)
            continue
        known.predicates += (predicate,)
        slot, kinds, _ = place_of(predicate.hull[0][0])
        needs.append(Need(slot, kinds, None, (), predicate))
        if not all(_learn(known, *normal(at, ranges)) for at, ranges in predicate.hull):
            return None
    known.needs = tuple(needs)
    return known if _in_order(known) and _tried(known, clause) else None


def _need(at: Column, ranges: Ranges) -> Need:
    slot, kinds, _ = place_of(at)
    if at.reading == "presence":
        absent, present = contains(ranges, 0.0), contains(ranges, 1.0)
        kinds = (kinds if present else frozenset()) | ({MISSING} if absent else frozenset())
        return Need(slot, kinds, None, (), None)
    return Need(slot, kinds, None if ranges == axis(at) else at, ranges, None)


def _learn(known: Implied, at: Column, ranges: Ranges) -> bool:
    slot, kinds, others = place_of(at)
    if at.reading == "presence":
        return known.restrict(slot, _need(at, ranges).kinds)
    if not (known.restrict(slot, kinds) and all(known.restrict(*other) for other in others)):
        return False
    if at.how.is_many:  # one of the points lies there: that says nothing of the others
        return True
    return known.narrow(at, ranges)


def _in_order(known: Implied) -> bool:
    """Narrow start and end, as no event ends before it starts; False if that leaves no point."""
    start, end = column("time", "start"), column("time", "end")
    if start in known.ranges and end in known.ranges:
        least, most = known.ranges[start][0][0], known.ranges[end][-1][1]
        (floor, ceiling) = axis(start)[0]
        return known.narrow(start, ((floor, most),)) and known.narrow(end, ((least, ceiling),))
    return True


def _tried(known: Implied, clause: Clause) -> bool:
    """Where an attribute has few values, keep those that satisfy all predicates on it; False if none does."""
    for slot in {place_of(at)[0] for at in known.ranges if at.reading in ("text", "reversed", "lon")}:
        if not _turned_round(known, slot):
            return False
        asked = [p for p in clause if _asks_only(p, slot)]
        values = known.values(slot) if len(asked) > 1 else None
        if values is None:
            continue
        kept = [value for value in values if all(p.holds(SingleValue(str(slot), value)) for p in asked)]
        if not kept:
            return False
        if isinstance(kept[0], str):
            known.ranges[column("text", str(slot))] = _points(kept)
    return True


def _turned_round(known: Implied, slot: Slot) -> bool:
    """Where the ranges of a text read backwards are a few texts, narrow the text to these; False if none is left."""
    backwards = known.ranges.get(column("reversed", str(slot)))
    if backwards is None or not _is_finite(backwards):
        return True
    return known.narrow(column("text", str(slot)), _points(low[::-1] for low, _ in backwards))


def _points(texts: Iterable[str]) -> Ranges:
    return union(tuple((text, text + "\0") for text in texts))


def _asks_only(predicate: Predicate, slot: Slot) -> bool:
    return all(at.attributes == (slot,) for at, _ in predicate.hull)
