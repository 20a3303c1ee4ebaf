"""Comparisons: ``= <> < <= > >=``, BETWEEN, IN and IS NULL, on numbers, truth values, instants and text.

Every one of them is a set of ranges on a column and therefore exact in the index, also with arithmetic on either side
(``no2 + co > 50`` is a column of its own), between two attributes (a column of signs) and beyond 2^53, where doubles
would round (``exact_numbers``).
"""

from __future__ import annotations

from math import inf, isfinite, nextafter
from typing import Any

import numpy as np

from tidegate.language.render import to_text
from tidegate.language.tree import Array, Attribute, Call, Instant, Literal, Node, Numbers
from tidegate.model import RESERVED
from tidegate.predicates.column import Column, column
from tidegate.predicates.exact_numbers import on_column, successor
from tidegate.predicates.family import MEASURES, Mismatch, function
from tidegate.predicates.folding import folded
from tidegate.predicates.predicate import Alternatives, Within
from tidegate.predicates.ranges import ALL_NUMBERS, ALL_TEXT, TOP, Point, Ranges, complement, union
from tidegate.predicates.scalar import ARITHMETIC, evaluate, operand_of
from tidegate.whole_numbers import DOUBLES

__all__ = ["DAY", "compare", "kind_of", "scalar_ranges", "text_column"]

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT_MICROS = float(2**53)


# --- types --------------------------------------------------------------------------------------------------------


def kind_of(node: Node) -> str:
    """The reading that a node needs: ``number``, ``text``, ``time``, ``truth``; ``any`` for most attributes."""
    if isinstance(node, Literal):
        if isinstance(node.value, bool):
            return "truth"
        return "text" if isinstance(node.value, str) else "number"
    if isinstance(node, Attribute):
        return RESERVED.get(node.name, "any")
    if isinstance(node, Instant):
        return "time"
    if isinstance(node, Call):
        if node.op in ARITHMETIC:
            for arg in node.args:
                if kind_of(arg) not in ("number", "any"):
                    raise Mismatch(f"numbers around {node.op}", _named(arg), arg)
            return "number"
        if node.op in ("casei", "accenti"):
            inner = node.args[0]
            if kind_of(inner) not in ("text", "any"):
                raise Mismatch(f"text in {node.op.upper()}", _named(inner), inner)
            return "text"
    raise Mismatch("a number, text, instant or truth value", _named(node), node)


def _named(node: Node) -> str:
    if isinstance(node, Attribute) and node.name in RESERVED:
        return f"{node.name}, which is {_KINDS[RESERVED[node.name]]}"
    if isinstance(node, Literal):
        return f"{_KINDS[kind_of(node)]} {to_text(node)}"
    return to_text(node)


_KINDS = {
    "number": "a number",
    "text": "a text",
    "time": "an instant",
    "truth": "a truth value",
    "point": "a point",
    "interval": "an interval",
    "any": "an attribute",
}


def _is_constant(node: Node) -> bool:
    if isinstance(node, Call) and node.op not in MEASURES:
        return all(_is_constant(arg) for arg in node.args)
    return isinstance(node, Literal | Instant)


def _constant(node: Node) -> Point:
    """The point of a constant expression, folded; a whole number that no double is equal to is itself."""
    if isinstance(node, Literal):
        value = node.value
        return value if isinstance(value, str) or float(value) != value else float(value)
    if isinstance(node, Instant):
        return float(node.micros)
    assert isinstance(node, Call)
    if node.op in ARITHMETIC:
        result = evaluate(node, lambda name: np.nan)
        if not isfinite(result):
            raise Mismatch("arithmetic with a finite result", to_text(node), node)
        return float(result)
    return folded(_constant(node.args[0]), (node.op,))


def text_column(node: Node, reading: str = "text") -> Column:
    """The column of a text operand: an attribute, or CASEI and ACCENTI of one."""
    if kind_of(node) not in ("text", "any"):
        raise Mismatch("text", _named(node), node)
    return column(reading, operand_of(node))


def _successor(point: Point, kind: str) -> Point:
    if kind == "text":
        return point + "\0"
    if kind == "number":
        return successor(point)
    if kind == "time" and abs(point) < _EXACT_MICROS:
        return point + 1
    return nextafter(point, inf) if kind == "time" else point + 1


#: Microseconds.
DAY = 86_400_000_000


def scalar_ranges(op: str, node: Node, kind: str) -> Ranges:
    """The points x with ``x op node``; numbers, not yet on a column. A DATE is the whole of its day in UTC."""
    if type(node) is Literal and kind == "number" and -DOUBLES < node.value < DOUBLES:  # type: ignore[operator]
        point: Point = float(node.value)
        after: Point = nextafter(point, inf)
    else:
        point = _constant(node)
        after = point + DAY if isinstance(node, Instant) and node.is_date else _successor(point, kind)
    if op == "=":
        return ((point, after),)
    least, most = ("", TOP) if kind == "text" else (-inf, inf)
    if op == "<":
        return ((least, point),) if least < point else ()
    if op == "<=":
        return ((least, after),)
    if op == ">":
        return ((after, most),) if after < most else ()
    if op == ">=":
        return ((point, most),)
    return complement(((point, after),), ALL_TEXT if kind == "text" else ALL_NUMBERS)


# --- compilation --------------------------------------------------------------------------------------------------

_COMPARE = {
    "=": "station = 'z7'",
    "<>": "status <> 'ok'",
    "<": "depth < 0.5",
    "<=": "temperature <= -5",
    ">": "no2 > 40",
    ">=": "time >= TIMESTAMP('2026-11-15T08:00:00Z')",
}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _kind_together(a: Node, b: Node) -> str:
    left, right = kind_of(a), kind_of(b)
    for kind, node in ((left, a), (right, b)):
        if kind in ("point", "interval"):
            raise Mismatch("a number, text, instant or truth value", _named(node), node)
    if left != right and "any" not in (left, right):
        raise Mismatch(f"{_KINDS[left]} to compare with {_named(a)}", _named(b), b)
    return right if left == "any" else left


@function("comparison", _COMPARE, (2, 2))
def compare(call: Call, negated: bool) -> Alternatives:
    left, right = call.args
    op = _OPPOSITE[call.op] if negated else call.op
    if _is_measure(left):
        return _measured(left, op, right)
    if _is_measure(right):
        return _measured(right, _MIRRORED[op], left)
    if _is_constant(left):
        if _is_constant(right):
            kind = _kind_together(left, right)
            if _is_day(left) and not _is_day(right):  # on either side, a day is a range
                left, right, op = right, left, _MIRRORED[op]
            held = any(low <= _constant(left) < high for low, high in scalar_ranges(op, right, kind))
            return [()] if held else []
        left, right, op = right, left, _MIRRORED[op]
    kind = _kind_together(left, right)
    if _is_constant(right):
        return _within(left, kind, scalar_ranges(op, right, kind))
    signs = scalar_ranges(op, _ZERO, "number")
    return [(Within(column("order", Call("order", (left, right))), signs),)]


def _within(node: Node, kind: str, ranges: Ranges) -> Alternatives:
    """That the point of an expression of this kind lies in the ranges."""
    operand = operand_of(node)
    return [(Within(*on_column(operand, ranges)) if kind == "number" else Within(column(kind, operand), ranges),)]


def _is_measure(node: Node) -> bool:
    return isinstance(node, Call) and node.op in MEASURES


def _measured(call: Node, op: str, bound: Node) -> Alternatives:
    """A function with a number as its value against a constant."""
    assert isinstance(call, Call)
    known = MEASURES[call.op]
    least, most = known.arity
    if not least <= len(call.args) <= most:
        raise Mismatch(f"{least} to {most} arguments of {call.op}", f"{len(call.args)}", call)
    if not _is_constant(bound) or kind_of(bound) != "number":
        raise Mismatch(f"a number to compare {call.op} with", _named(bound), bound)
    return known.compile(call, op, float(_constant(bound)), bound)


_ZERO = Literal(0)
_NUMERIC = frozenset({int, float})


def _is_day(node: Node) -> bool:
    return isinstance(node, Instant) and node.is_date


@function("comparison", {"between": "lat BETWEEN 45.81 AND 45.82"}, (3, 3))
def between(call: Call, negated: bool) -> Alternatives:
    value, low, high = call.args
    if type(value) is Attribute and type(low) is Literal and type(high) is Literal and value.name not in RESERVED:
        least: Any = low.value  # the short way for the form that millions of subscriptions have
        most: Any = high.value
        if type(least) in _NUMERIC and type(most) in _NUMERIC and -DOUBLES < least <= most < DOUBLES and not negated:
            return [(Within(column("number", value.name), ((float(least), nextafter(most, inf)),)),)]
    if _is_measure(value):
        _kind_together(low, high)
        if _is_constant(low) and _is_constant(high) and _constant(low) > _constant(high):
            raise _upside_down(low, high)
        return _two_sided(call, negated)
    _kind_together(value, low)
    kind = _kind_together(low, high)
    if not (_is_constant(low) and _is_constant(high)):
        return _two_sided(call, negated)
    if _constant(low) > _constant(high):
        raise _upside_down(low, high)
    if _is_constant(value):
        return _two_sided(call, negated)
    ranges: Ranges = ((_constant(low), scalar_ranges("<=", high, kind)[0][1]),)
    if negated:
        ranges = complement(ranges, ALL_TEXT if kind == "text" else ALL_NUMBERS)
    return _within(value, kind, ranges)


def _upside_down(low: Node, high: Node) -> Mismatch:
    return Mismatch("BETWEEN with the lower bound first", f"{to_text(low)} AND {to_text(high)}", low)


def _two_sided(call: Call, negated: bool) -> Alternatives:
    """BETWEEN as two comparisons; its negation still needs both of them to be decidable."""
    value, low, high = call.args
    above, below = Call(">=", (value, low), call.at), Call("<=", (value, high), call.at)
    alternatives = [a + b for a in compare(above, False) for b in compare(below, False)]
    if not negated:
        return alternatives
    decidable = tuple(
        Within(p.column, p.column.how.axis) for p in _ranges(compare(above, False) + compare(below, False))
    )
    return [(*clause, *decidable) for clause in compare(above, True) + compare(below, True)]


def _ranges(alternatives: Alternatives) -> list[Within]:
    return [predicate for clause in alternatives for predicate in clause if isinstance(predicate, Within)]


@function("comparison", {"in": "kind IN ('rain', 'snow')"}, (2, 2))
def is_in(call: Call, negated: bool) -> Alternatives:
    value, items = call.args
    members = items.items if isinstance(items, Array | Numbers) else ()
    if not members:
        raise Mismatch("a list of at least one value after IN", to_text(items), items)
    for item in members:
        if not _is_constant(item):
            name = f"{item.name}, an attribute (a text has single quotes)" if isinstance(item, Attribute) else None
            raise Mismatch("constants in the list of an IN", name or to_text(item), item)
    kinds = {_kind_together(value, item) for item in members}
    if len(kinds) > 1:
        raise Mismatch("values of one type in the list of an IN", to_text(items), items)
    (kind,) = kinds
    if _is_constant(value):
        parts = [compare(Call("=", (value, item)), negated) for item in members]
        return ([()] if all(parts) else []) if negated else ([()] if any(parts) else [])
    ranges = union(tuple(r for item in members for r in scalar_ranges("=", item, kind)))
    if negated:
        ranges = complement(ranges, ALL_TEXT if kind == "text" else ALL_NUMBERS)
    return _within(value, kind, ranges)


@function("comparison", {"isNull": "battery IS NULL"}, (1, 1))
def is_null(call: Call, negated: bool) -> Alternatives:
    (value,) = call.args
    if not isinstance(value, Attribute):
        raise Mismatch("an attribute before IS NULL", to_text(value), value)
    if value.name == "event":
        raise Mismatch("start or end before IS NULL", "event, which is an interval", value)
    return [(Within(column("presence", value.name), scalar_ranges("=", Literal(int(negated)), "truth")),)]
