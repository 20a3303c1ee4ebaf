"""``Builder``: makes nodes from tokens. ``parse`` calls a method of it, named by the grammar, for each finished rule.

Each method takes the children of the rule, tokens included, and returns a node or a growing list. Nothing here
recurses, keeps state between calls, or knows which functions exist.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Any, TypeVar

from lark import Token

from tidegate.errors import ParseError
from tidegate.instant import instant
from tidegate.language import geometry
from tidegate.language.text_position import Misplaced
from tidegate.language.tree import (
    Array,
    Attribute,
    Box,
    Call,
    Geometry,
    Instant,
    Interval,
    Literal,
    Node,
    Numbers,
    Place,
    listed,
)
from tidegate.language.words import ARRAY_OPERATORS, arity_fault, operator
from tidegate.whole_numbers import exact

__all__ = ["Builder", "Parenthesized"]

Children = list[Any]
Made = TypeVar("Made")


class Parenthesized:
    """An argument that is one expression in parentheses: a group, or for an array operator a list of one."""

    __slots__ = ("at", "node")

    def __init__(self, node: Node, at: int) -> None:
        self.node, self.at = node, at


class Builder:
    """A transformer in Lark's sense. Lark gets it with the grammar, so that it never builds a parse tree."""

    def one(self, c: Children) -> Children:
        return [c[0]]

    def pair(self, c: Children) -> Children:
        return [c[0], c[2]]

    def longer(self, c: Children) -> Children:
        c[0].append(c[2])
        return c[0]  # type: ignore[no-any-return]

    # Logic and comparison

    def disjunction(self, c: Children) -> Node:
        return Call("or", tuple(c[0]), c[0][0].at)

    def conjunction(self, c: Children) -> Node:
        return Call("and", tuple(c[0]), c[0][0].at)

    def negation(self, c: Children) -> Node:
        return Call("not", (c[1],), c[0].start_pos)

    def binary(self, c: Children) -> Node:
        return Call(c[1].value, (c[0], c[2]), c[0].at)

    def divided(self, c: Children) -> Node:
        return Call("div", (c[0], c[2]), c[0].at)

    def like(self, c: Children) -> Node:
        return Call("like", (c[0], c[-1]), c[0].at)

    def between(self, c: Children) -> Node:
        return Call("between", (c[0], c[-3], c[-1]), c[0].at)

    def contained(self, c: Children) -> Node:
        return Call("in", (c[0], c[-1]), c[0].at)

    def is_null(self, c: Children) -> Node:
        return Call("isNull", (c[0],), c[0].at)

    def not_like(self, c: Children) -> Node:
        return Call("not", (self.like(c),), c[0].at)

    def not_between(self, c: Children) -> Node:
        return Call("not", (self.between(c),), c[0].at)

    def not_contained(self, c: Children) -> Node:
        return Call("not", (self.contained(c),), c[0].at)

    def is_not_null(self, c: Children) -> Node:
        return Call("not", (self.is_null(c),), c[0].at)

    # Values

    def signed(self, c: Children) -> Node:
        sign, operand = c
        at = sign.start_pos
        folds = type(operand) is Literal and type(operand.value) in (int, float)
        if sign.value == "+":
            if folds:
                return Literal(operand.value, at)
            raise Misplaced("a number after the sign '+'", "an expression", at)
        if not folds:
            return Call("*", (Literal(-1, at), operand), at)
        value = -operand.value
        return Literal(exact(value) if type(value) is int else value, at)

    def number(self, c: Children) -> Node:
        token = c[0]
        text = token.value
        value: int | float
        if text.isdigit():
            digits = text.lstrip("0") or "0"  # Python refuses to read very long integers, a double ends at 309 digits
            value = exact(int(digits)) if len(digits) < 400 else inf
        else:
            value = float(text)
        if not isfinite(value):
            raise Misplaced("a number that a 64-bit float can hold", "one above 1.8e308", token.start_pos)
        return Literal(value, token.start_pos)

    def string(self, c: Children) -> Node:
        return Literal(_unquoted(c[0].value), c[0].start_pos)

    def true(self, c: Children) -> Node:
        return Literal(True, c[0].start_pos)

    def false(self, c: Children) -> Node:
        return Literal(False, c[0].start_pos)

    def attribute(self, c: Children) -> Node:
        return Attribute(c[0].value, c[0].start_pos)

    def quoted(self, c: Children) -> Node:
        name = _unquoted(c[0].value)
        if not name:
            raise Misplaced("a name between the double quotes", "none", c[0].start_pos)
        return Attribute(name, c[0].start_pos)

    def group(self, c: Children) -> Node:
        return c[1]  # type: ignore[no-any-return]

    def lone(self, c: Children) -> Parenthesized:
        return Parenthesized(c[1], c[0].start_pos)

    def no_items(self, c: Children) -> Node:
        return Array((), c[0].start_pos)

    def one_item(self, c: Children) -> Node:
        return Array((c[1],), c[0].start_pos)

    def items(self, c: Children) -> Node:
        return listed(c[1], c[0].start_pos)

    def call_without(self, c: Children) -> Node:
        return self.call([c[0], c[1], []])

    def call(self, c: Children) -> Node:
        name, arguments = c[0], c[2]
        op = operator(name.value)
        fault = arity_fault(op, len(arguments))
        if fault:
            raise Misplaced(fault.expected, fault.got, name.start_pos)
        for index, argument in enumerate(arguments):
            if type(argument) is Parenthesized:
                as_list = op in ARRAY_OPERATORS
                arguments[index] = Array((argument.node,), argument.at) if as_list else argument.node
        if op == "in" and not isinstance(arguments[1], Array | Numbers):
            raise Misplaced("a list as the second argument of in", "something else", name.start_pos)
        return Call(op, tuple(arguments), name.start_pos)

    # Times

    def timestamp(self, c: Children) -> Instant:
        return self._instant(c[2], c[0].start_pos, False)

    def date(self, c: Children) -> Instant:
        return self._instant(c[2], c[0].start_pos, True)

    def bound(self, c: Children) -> Instant | None:
        return None if c[0].value == "'..'" else self._instant(c[0], c[0].start_pos, None)

    def interval(self, c: Children) -> Node:
        return Interval(c[2], c[4], c[0].start_pos)

    def _instant(self, token: Token, at: int, date_wanted: bool | None) -> Instant:
        text = _unquoted(token.value)
        try:
            micros, is_date = instant(text)
        except ParseError as error:
            raise Misplaced(error.expected, error.got, token.start_pos) from None
        if date_wanted is not None and is_date is not date_wanted:
            wanted, other = ("DATE", "a timestamp") if date_wanted else ("TIMESTAMP", "a date")
            raise Misplaced(f"a {wanted.lower()} in {wanted}", other, token.start_pos)
        return Instant(text, micros, is_date, at)

    # Places

    def line(self, c: Children) -> Children:
        return _positions(c[1])

    def polygons_first(self, c: Children) -> Children:
        return [tuple(map(tuple, c[1]))]

    def polygons_longer(self, c: Children) -> Children:
        c[0].append(tuple(map(tuple, c[3])))
        return c[0]  # type: ignore[no-any-return]

    def point(self, c: Children) -> Geometry:
        positions = _positions(c[2])
        if len(positions) != 1:
            raise Misplaced("one point, such as POINT(15.97 45.81)", "numbers separated by commas", c[2].start_pos)
        return self._geometry("Point", positions[0], c)

    def linestring(self, c: Children) -> Geometry:
        return self._geometry("LineString", _positions(c[2]), c)

    def multipoint(self, c: Children) -> Geometry:
        return self._geometry("MultiPoint", _positions(c[2]), c)

    def multipoint_of(self, c: Children) -> Geometry:
        if any(len(points) != 1 for points in c[2]):
            raise Misplaced("one point in each pair of parentheses", "several", c[0].start_pos)
        return self._geometry("MultiPoint", [points[0] for points in c[2]], c)

    def polygon(self, c: Children) -> Geometry:
        return self._geometry("Polygon", list(map(tuple, c[2])), c)

    def multilinestring(self, c: Children) -> Geometry:
        return self._geometry("MultiLineString", list(map(tuple, c[2])), c)

    def multipolygon(self, c: Children) -> Geometry:
        return self._geometry("MultiPolygon", c[2], c)

    def collection(self, c: Children) -> Geometry:
        return geometry.collection(c[2], c[0].start_pos)

    def box(self, c: Children) -> Box:
        return _placed(lambda: geometry.box(_floats(c[2].value.split(","), c[2].start_pos), c[0].start_pos), c[2])

    def _geometry(self, kind: str, coordinates: Children, c: Children) -> Geometry:
        return _placed(lambda: geometry.geometry(kind, coordinates, c[0].start_pos), c[0])


def _placed(make: Callable[[], Made], token: Token) -> Made:
    try:
        return make()
    except ParseError as error:
        raise Misplaced(error.expected, error.got, token.start_pos) from None


def _positions(token: Token) -> Children:
    at = token.start_pos
    return [_floats(point.split(), at) for point in token.value.split(",")]


def _floats(numbers: list[str], at: Place) -> tuple[float, ...]:
    values = tuple(map(float, numbers))
    if not all(map(isfinite, values)):
        raise Misplaced("finite numbers", "one above 1.8e308", at)
    return values


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote + quote, quote)
