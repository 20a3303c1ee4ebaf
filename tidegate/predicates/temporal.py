"""CQL2's temporal relations between a field of the publication and a constant: ``T_AFTER(time, TIMESTAMP('…'))``.

Each relation is a conjunction (or its negation, a disjunction) of comparisons on one or two instants, so nothing here
reaches the index as anything but ranges. A point on the left follows DESIGN §2: T_DURING includes both bounds;
``event`` on the left is the interval from ``start`` to ``end`` and follows Allen.
"""

from __future__ import annotations

from tidegate.language.render import to_text
from tidegate.language.tree import Attribute, Call, Instant, Interval, Node
from tidegate.predicates.comparison import DAY, compare, kind_of
from tidegate.predicates.family import Mismatch, function
from tidegate.predicates.predicate import Alternatives

__all__: list[str] = []

#: Each relation as comparisons "side op side" of the publication's interval [s, e] with the constant's [S, E].
_RELATIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "t_after": (("s", ">", "E"),),
    "t_before": (("e", "<", "S"),),
    "t_contains": (("s", "<", "S"), ("e", ">", "E")),
    "t_disjoint": (),
    "t_during": (("s", ">", "S"), ("e", "<", "E")),
    "t_equals": (("s", "=", "S"), ("e", "=", "E")),
    "t_finishedBy": (("s", "<", "S"), ("e", "=", "E")),
    "t_finishes": (("s", ">", "S"), ("e", "=", "E")),
    "t_intersects": (("s", "<=", "E"), ("e", ">=", "S")),
    "t_meets": (("e", "=", "S"),),
    "t_metBy": (("s", "=", "E"),),
    "t_overlappedBy": (("s", ">", "S"), ("s", "<", "E"), ("e", ">", "E")),
    "t_overlaps": (("s", "<", "S"), ("e", ">", "S"), ("e", "<", "E")),
    "t_startedBy": (("s", "=", "S"), ("e", ">", "E")),
    "t_starts": (("s", "=", "S"), ("e", "<", "E")),
}
#: The relations a single instant on the left can have, bounds included.
_POINT_RELATIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "t_after": (("s", ">", "E"),),
    "t_before": (("s", "<", "S"),),
    "t_disjoint": (),
    "t_during": (("s", ">=", "S"), ("s", "<=", "E")),
    "t_equals": (("s", "=", "S"), ("s", "=", "E")),
    "t_intersects": (("s", ">=", "S"), ("s", "<=", "E")),
}

_EXAMPLES = {
    "t_after": "T_AFTER(time, TIMESTAMP('2026-11-15T08:00:00Z'))",
    "t_before": "T_BEFORE(time, DATE('2026-11-15'))",
    "t_contains": "T_CONTAINS(event, INTERVAL('2026-11-15T08:00:00Z', '2026-11-15T09:00:00Z'))",
    "t_disjoint": "T_DISJOINT(event, INTERVAL('2026-11-15', '2026-11-16'))",
    "t_during": "T_DURING(time, INTERVAL('2026-11-15T08:00:00Z', '..'))",
    "t_equals": "T_EQUALS(time, TIMESTAMP('2026-11-15T08:00:00Z'))",
    "t_finishedBy": "T_FINISHEDBY(event, INTERVAL('2026-11-15T08:00:00Z', '2026-11-15T09:00:00Z'))",
    "t_finishes": "T_FINISHES(event, INTERVAL('2026-11-15T08:00:00Z', '2026-11-15T09:00:00Z'))",
    "t_intersects": "T_INTERSECTS(event, INTERVAL('2026-11-15', '..'))",
    "t_meets": "T_MEETS(event, INTERVAL('2026-11-15T08:00:00Z', '..'))",
    "t_metBy": "T_METBY(event, INTERVAL('..', '2026-11-15T08:00:00Z'))",
    "t_overlappedBy": "T_OVERLAPPEDBY(event, INTERVAL('2026-11-15T08:00:00Z', '2026-11-15T09:00:00Z'))",
    "t_overlaps": "T_OVERLAPS(event, INTERVAL('2026-11-15T08:00:00Z', '2026-11-15T09:00:00Z'))",
    "t_startedBy": "T_STARTEDBY(event, INTERVAL('2026-11-15T08:00:00Z', '2026-11-15T09:00:00Z'))",
    "t_starts": "T_STARTS(event, INTERVAL('2026-11-15T08:00:00Z', '2026-11-15T09:00:00Z'))",
}


@function("temporal", _EXAMPLES, (2, 2))
def relate(call: Call, negated: bool) -> Alternatives:
    left, right = call.args
    first, last = _ends(right)
    if isinstance(left, Attribute) and left.name == "event":
        relations, sides = _RELATIONS, {"s": Attribute("start", left.at), "e": Attribute("end", left.at)}
    else:
        if not isinstance(left, Attribute) or kind_of(left) not in ("time", "any"):
            raise Mismatch("an attribute with an instant, or event, on the left", to_text(left), left)
        if call.op not in _POINT_RELATIONS:
            raise Mismatch(f"event on the left of {call.op.upper()}", f"{left.name}, a single instant", left)
        relations, sides = _POINT_RELATIONS, {"s": left}
    op, negated = ("t_intersects", not negated) if call.op == "t_disjoint" else (call.op, negated)
    if op == "t_equals" and isinstance(right, Instant) and relations is _POINT_RELATIONS:
        op = "t_during"  # the same for an instant; for a date, whose day has two ends, what is meant
    alternatives: Alternatives = [()]
    parts: list[Alternatives] = []
    for side, comparison, end in relations[op]:
        bound = first if end == "S" else last
        if bound is not None:
            parts.append(compare(Call(comparison, (sides[side], bound), call.at), negated))
        elif comparison == "=" or (end == "S") is not (
            comparison in (">", ">=")
        ):  # before −∞, after +∞, equal to either: never
            parts.append([] if not negated else _present(sides[side]))
        elif not negated:
            parts.append(_present(sides[side]))
    # false, like its negation, where either end is missing
    decidable = tuple(p for side in sides.values() for clause in _present(side) for p in clause)
    if negated:
        return [clause + decidable for part in parts for clause in part]
    for part in parts:
        alternatives = [clause + more for clause in alternatives for more in part]
    return [clause + decidable for clause in alternatives]


def _present(side: Attribute) -> Alternatives:
    """Any instant at all: half of a relation to an unbounded end."""
    return compare(Call(">=", (side, Instant("", -(2**62), False))), False)


def _ends(node: Node) -> tuple[Instant | None, Instant | None]:
    """First and last instant of a constant; None is unbounded. A date begins and ends with its day in UTC."""
    if isinstance(node, Instant):
        return _first(node), _last(node)
    if not isinstance(node, Interval):
        raise Mismatch("TIMESTAMP, DATE or INTERVAL on the right", to_text(node), node)
    start, end = node.start, node.end
    if isinstance(start, Attribute) or isinstance(end, Attribute):
        raise Mismatch("constants in INTERVAL", to_text(node), node)
    first, last = start and _first(start), end and _last(end)
    if first is not None and last is not None and first.micros > last.micros:
        raise Mismatch("INTERVAL with the earlier end first", to_text(node), node)
    return first, last


def _first(instant: Instant) -> Instant:
    return Instant(instant.text, instant.micros, False, instant.at)


def _last(instant: Instant) -> Instant:
    return Instant(instant.text, instant.micros + (DAY - 1 if instant.is_date else 0), False, instant.at)
