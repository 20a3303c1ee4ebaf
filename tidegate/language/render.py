"""The expression tree to CQL2-text, with as few parentheses as its meaning allows: ``parse(to_text(node)) == node``.

Recursion goes as deep as the tree, which the depth limit bounds. Knows the notation, not the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidegate.language.tree import Array, Attribute, Box, Call, Geometry, Instant, Interval, Literal, Node, Numbers
from tidegate.language.words import ARRAY_OPERATORS, COMPARISONS, ROLES, SPATIAL, TEMPORAL, is_name

__all__ = ["to_text"]

#: Coordinates, nested as deep as the kind of geometry asks.
Parts = Any

# How tightly a form binds; an operand that binds looser than its place asks for is put in parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _POWER, _SIGNED, _ATOM = range(9)

#: For each infix operator: how it is written, how it binds, and what its two sides must bind like.
_INFIX = {
    **{op: (op, _COMPARISON, _SUM, _SUM) for op in COMPARISONS},
    "like": ("LIKE", _COMPARISON, _SUM, _SUM),
    **{op: (op, _SUM, _SUM, _PRODUCT) for op in "+-"},
    **{op: (op, _PRODUCT, _PRODUCT, _POWER) for op in "*/%"},
    "div": ("DIV", _PRODUCT, _PRODUCT, _POWER),
    "^": ("^", _POWER, _SIGNED, _SIGNED),  # others read a ^ b ^ c from the left, so it is never written
}
_SHOUTED = frozenset((*SPATIAL, *TEMPORAL, "s_dwithin", "casei", "accenti"))


def to_text(node: Node) -> str:
    """The expression as CQL2-text on one line."""
    return _write(node)[0]


def _write(node: Node) -> tuple[str, int]:
    return _WRITERS[type(node)](node)


def _at_least(node: Node, binding: int) -> str:
    text, own = _write(node)
    return text if own >= binding else f"({text})"


def _literal(node: Literal) -> tuple[str, int]:
    value = node.value
    if isinstance(value, bool):
        return ("TRUE" if value else "FALSE"), _ATOM
    if isinstance(value, str):
        return _quoted(value), _ATOM
    text = _number(value)
    return text, _SIGNED if text[0] == "-" else _ATOM


def _attribute(node: Attribute) -> tuple[str, int]:
    return _name(node.name), _ATOM


def _instant(node: Instant) -> tuple[str, int]:
    return f"{'DATE' if node.is_date else 'TIMESTAMP'}({_quoted(node.text)})", _ATOM


def _interval(node: Interval) -> tuple[str, int]:
    bounds = (
        "'..'" if bound is None else _name(bound.name) if isinstance(bound, Attribute) else _quoted(bound.text)
        for bound in (node.start, node.end)
    )
    return f"INTERVAL({', '.join(bounds)})", _ATOM


def _box(node: Box) -> tuple[str, int]:
    return f"BBOX({', '.join(map(_number, node.bounds))})", _ATOM


def _geometry(node: Geometry) -> tuple[str, int]:
    kind = node.kind.upper()
    if node.kind == "GeometryCollection":
        members: Iterable[Any] = node.coordinates
        return f"{kind}({', '.join(_geometry(member)[0] for member in members)})", _ATOM
    inside = _coordinates(node.coordinates)
    return f"{kind}({inside})" if node.kind == "Point" else f"{kind}{inside}", _ATOM


def _coordinates(part: Parts) -> str:
    if isinstance(part[0], tuple):
        return f"({', '.join(map(_coordinates, part))})"
    return " ".join(map(_number, part))


def _array(node: Array) -> tuple[str, int]:
    # Round brackets around one expression would make a group of it, so a list of one has square ones.
    items = _list(node.items)
    return f"[{items}]" if len(node.items) == 1 else f"({items})", _ATOM


def _numbers(node: Numbers) -> tuple[str, int]:
    items = ", ".join(map(_number, node.tolist()))
    return f"[{items}]" if len(node.values) == 1 else f"({items})", _ATOM


def _call(node: Call) -> tuple[str, int]:
    op, args = node.op, node.args
    if op in _INFIX:
        sign, binding, left, right = _INFIX[op]
        return f"{_at_least(args[0], left)} {sign} {_at_least(args[1], right)}", binding
    if op in ("and", "or"):
        binding = _AND if op == "and" else _OR
        return f" {op.upper()} ".join(_at_least(arg, binding + 1) for arg in args), binding
    if op == "not":
        return _negation(args[0])
    if op in ("between", "in", "isNull"):
        return _predicate(node, ""), _COMPARISON
    if op in ARRAY_OPERATORS:
        return f"{op}({', '.join(map(_bag, args))})", _ATOM
    return f"{op.upper() if op in _SHOUTED else op}({_list(args)})", _ATOM


def _negation(inner: Node) -> tuple[str, int]:
    if isinstance(inner, Call):
        if inner.op in ("between", "in", "isNull"):
            return _predicate(inner, "NOT "), _COMPARISON
        if inner.op == "like":
            return f"{_at_least(inner.args[0], _SUM)} NOT LIKE {_at_least(inner.args[1], _SUM)}", _COMPARISON
    return f"NOT {_at_least(inner, _NOT)}", _NOT


def _predicate(node: Call, negated: str) -> str:
    first = _at_least(node.args[0], _SUM)
    if node.op == "isNull":
        return f"{first} IS {negated}NULL"
    if node.op == "in":
        return f"{first} {negated}IN {_bag(node.args[1])}"
    return f"{first} {negated}BETWEEN {_at_least(node.args[1], _SUM)} AND {_at_least(node.args[2], _SUM)}"


def _bag(node: Node) -> str:
    """An argument in a place where one expression in parentheses is a list."""
    return f"({_list(node.items)})" if isinstance(node, Array) else _write(node)[0]


def _list(nodes: Iterable[Node]) -> str:
    return ", ".join(_write(node)[0] for node in nodes)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    # The standard takes emoji and the like for letters; not every reader does, so those are quoted too.
    bare = is_name(name) and name.lower() not in ROLES and all(sign.isalnum() or sign in "_.:" for sign in name)
    return name if bare else '"' + name.replace('"', '""') + '"'


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


_WRITERS: dict[type, Callable[[Any], tuple[str, int]]] = {
    Literal: _literal,
    Attribute: _attribute,
    Instant: _instant,
    Interval: _interval,
    Geometry: _geometry,
    Box: _box,
    Array: _array,
    Numbers: _numbers,
    Call: _call,
}
