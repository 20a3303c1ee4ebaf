"""The points a publication can really have: the types an attribute's value may be of, the places on a column.

Ranges are sets of points on an endless axis; whether one is empty, or all there is, depends on which of those points
exist. The other modules of ``covering`` learn from here what publications can be (``tidegate.model``); nothing here
knows of filters.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, nextafter
from sys import float_info

from tidegate.language.render import to_text
from tidegate.language.tree import Call
from tidegate.model import PHASES
from tidegate.predicates.column import Column, column
from tidegate.predicates.folding import folding_of
from tidegate.predicates.ranges import TOP, Ranges, contains, intersect, union

__all__ = ["MISSING", "Slot", "axis", "kinds_of", "normal", "place_of"]

MISSING = "missing"
_PRESENT = frozenset({"number", "text", "time", "truth", "point", "bag", "other"})
#: A value of one type, or none: the types exclude each other.
_ANY = _PRESENT | {MISSING}
_RESERVED = {
    "id": frozenset({"text"}),
    "source": frozenset({"text"}),
    "time": frozenset({"time"}),
    "start": frozenset({"time", MISSING}),
    "end": frozenset({"time", MISSING}),
    "valid_until": frozenset({"time", MISSING}),
    "phase": frozenset({"text", MISSING}),
    "location": frozenset({"point", MISSING}),
}
#: The type of value a reading reads. A reading that is not named here has points of its own (``value``) or none.
_READS = {
    "number": "number",
    "time": "time",
    "truth": "truth",
    "text": "text",
    "reversed": "text",
    "lon": "point",
    "lat": "point",
    "size": "bag",
    "numbers": "bag",
    "texts": "bag",
}
_DERIVED = frozenset({"value", MISSING})
#: The types of the attributes that a column with points of its own is computed from, where they are not just any.
_AMONG = {"number": {"number"}, "order": {"number", "text", "time", "truth"}, "compared": {"bag"}}

#: Where a value stands: an attribute, or a column computed from several.
Slot = str | Column


def kinds_of(slot: Slot) -> frozenset[str]:
    """The types of value that can stand there."""
    return _RESERVED.get(slot, _ANY) if isinstance(slot, str) else _DERIVED


@lru_cache(maxsize=65_536)
def place_of(at: Column) -> tuple[Slot, frozenset[str], tuple[tuple[str, frozenset[str]], ...]]:
    """The slot a column reads, the types under which it has a point, and what it then says about other attributes."""
    if at.reading == "presence":
        return str(at.operand), _PRESENT, ()
    kind = _READS.get(at.reading)
    if kind == "text":
        return folding_of(at.operand)[0], frozenset({kind}), ()
    if kind is not None and isinstance(at.operand, str):
        return at.operand, frozenset({kind}), ()
    among = _AMONG.get(at.reading, _PRESENT)
    return at, frozenset({"value"}), tuple((name, frozenset(among)) for name in at.attributes)


@lru_cache(maxsize=65_536)
def axis(at: Column) -> Ranges:
    """The points there are on a column."""
    match at.reading, at.operand:
        case "number", _:
            return ((-float_info.max, inf),)
        case "time", _:
            return ((-(2.0**62), 2.0**63),)
        case (("truth" | "presence"), _):
            return ((0.0, 2.0),)
        case "order", Call(args=(left, right)):
            return ((0.0, 1.0),) if left == right else ((-1.0, 2.0),)
        case "lon", _:
            return ((-180.0, nextafter(180.0, inf)),)
        case "lat", _:
            return ((-90.0, nextafter(90.0, inf)),)
        case (("size" | "compared"), _):
            return ((0.0, inf),)
        case "text", "phase":
            return union(tuple((phase, phase + "\0") for phase in PHASES))
        case "text", "id":
            return (("\0", TOP),)
    return at.how.axis


_STEPS = {"truth": (0.0, 1.0), "presence": (0.0, 1.0), "order": (-1.0, 0.0, 1.0)}


def normal(at: Column, ranges: Ranges) -> tuple[Column, Ranges]:
    """The same condition with only the points that exist; ``a < b`` and ``b > a`` become one."""
    if at.reading in _STEPS:
        points = [p for p in _STEPS[at.reading] if contains(ranges, p)]
        if at.reading == "order" and isinstance(at.operand, Call):
            left, right = at.operand.args
            if to_text(left) > to_text(right):
                at, points = column("order", Call("order", (right, left))), [-p for p in points]
        ranges = tuple((p, p + 1) for p in points)
    return at, intersect(union(ranges), axis(at))
