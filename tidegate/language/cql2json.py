"""CQL2-JSON to the expression tree (``from_json``) and back (``to_json``). Bulk loading uses it, so reading is fast.

Reading takes what ``json.loads`` gives, and an array of numpy where JSON has a list of numbers. Only where that fails
``json_values`` looks for tuples, geometries of shapely and the like, and makes JSON of them. Nodes have no ``at``:
the path of a mistake is looked up in the JSON only when there is one, by the identity of the object at fault (for
nodes, see ``text_position.position_of``). Knows no functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import LimitError, ParseError
from tidegate.instant import instant
from tidegate.language import geometry
from tidegate.language.json_errors import JsonFault, got, index_of, keys, path_of
from tidegate.language.json_values import plain_json
from tidegate.language.limits import DEFAULT_LIMITS, Limits
from tidegate.language.tree import (
    LONG,
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
)
from tidegate.language.words import ROLES, arity_fault, is_name, operator
from tidegate.whole_numbers import LEAST, MOST, exact

__all__ = ["from_json", "to_json"]

#: What ``json.loads`` gives, or an array.
Json = Any

_LARGEST = 1.7976931348623157e308
_OBJECTS = "an object with op, property, timestamp, date, interval, bbox or type"

# The same attributes recur in every subscription. The cache is large enough for the names of one system; if many more
# come it is emptied, which only costs time.
_CACHED = 4_096
_CACHED_LENGTH = 64
_attributes: dict[str, Attribute] = {}


def from_json(value: object, limits: Limits = DEFAULT_LIMITS) -> Node:
    """The expression that the JSON value stands for. Raises ParseError, or LimitError where a limit is passed."""
    outer = [value]
    try:
        return _JsonReader(limits).nodes(outer, limits.depth)[0]
    except JsonFault as fault:
        plainer = plain_json(value)
        if plainer is not value:
            return from_json(plainer, limits)
        at = "$" if fault.holder is outer else path_of(value, fault.holder) + fault.step
        raise type(fault.error)(fault.error.expected, fault.error.got, at) from None


class _JsonReader:
    """Reads one expression: counts down how many nodes it may still have, and knows how long a string may be."""

    __slots__ = ("left", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits, self.left = limits, limits.nodes

    def nodes(self, values: list[Any], room: int) -> list[Node]:
        """The node of each value; ``room`` is how many levels of calls and arrays may still open."""
        self.left -= len(values)
        if self.left < 0:
            raise JsonFault(
                _beyond(f"{self.limits.nodes} attributes, literals and calls (limit nodes)", "more"), values
            )
        nodes: list[Node] = []
        add = nodes.append
        for value in values:
            kind = type(value)
            if kind is float and value - value == 0.0:  # not so for infinities and NaN
                add(Literal(value))
            elif kind is dict:
                if len(value) == 2 and "op" in value:
                    add(self.call(value, room))
                elif len(value) == 1 and type(name := value.get("property")) is str:
                    add(_attributes.get(name) or self.attribute(name, value))
                else:
                    add(self.literal(value))
            elif kind is bool or (kind is int and LEAST <= value <= MOST):
                add(Literal(value))
            elif kind is str:
                add(Literal(self.text(value, values, value)))
            elif kind is list:
                self.descend(room, value)
                is_long = len(value) >= LONG and _are_numbers(value)
                add(self.numbers(value) if is_long else Array(tuple(self.nodes(value, room - 1))))
            elif isinstance(value, np.ndarray):
                self.descend(room, value)
                add(self.array(value, values))
            else:
                add(Literal(_number(value, values)))
        return nodes

    def numbers(self, values: list[Any] | NDArray[Any]) -> Numbers:
        """The node of a long list of nothing but numbers."""
        if len(values) > self.limits.series:
            most = f"{self.limits.series} numbers in a list (limit series)"
            raise JsonFault(_beyond(most, f"{len(values)}"), values)
        try:
            node = Numbers(values)
        except OverflowError:  # an integer of more than 309 digits
            node = Numbers(np.full(1, np.inf))
        if not np.isfinite(node.values).all():
            for index, value in enumerate(values if isinstance(values, list) else values.tolist()):
                _number(value, values, index)
        return node

    def array(self, values: NDArray[Any], holder: list[Any]) -> Array | Numbers:
        """The node that a list with the same numbers would be read as."""
        kind = values.dtype
        # Narrower floats are refused: they would be stored as text with just the digits that tell one such float from
        # the next, which is another number when it is read as float64.
        if type(values) is not np.ndarray or values.ndim != 1 or not (kind.kind in "iu" or kind.str[1:] == "f8"):
            wanted = "a list, or an array of float64 or integers with 1 dimension"
            raise JsonFault(ParseError(wanted, got(values)), holder, index_of(holder, values))
        if len(values) >= LONG:
            return self.numbers(values)
        self.left -= len(values)
        if self.left < 0:
            raise JsonFault(
                _beyond(f"{self.limits.nodes} attributes, literals and calls (limit nodes)", "more"), values
            )
        return Array(tuple([Literal(_number(value, values, i)) for i, value in enumerate(values.tolist())]))

    def call(self, value: dict[str, Any], room: int) -> Call:
        op, args = value["op"], value.get("args")
        if type(op) is not str:
            raise JsonFault(ParseError("the name of an operator or function", got(op)), value, ".op")
        if type(args) is not list:
            raise JsonFault(ParseError("a list of arguments", got(args)), value, ".args" if "args" in value else "")
        role = ROLES.get(op)
        if role is None:
            op = operator(op)
            role = ROLES.get(op)
            if role is None and not is_name(op, called=True):
                raise JsonFault(ParseError("the name of an operator or function", got(op)), value, ".op")
        if role is not None and not role[0] <= len(args) <= role[1]:
            fault = arity_fault(op, len(args))
            raise JsonFault(fault or ParseError("other arguments", got(args)), value, ".args")
        if op == "in" and type(args[1]) is not list and type(args[1]) is not np.ndarray:
            raise JsonFault(ParseError("a list as the second argument of in", got(args[1])), args, "[1]")
        if room <= 0:
            self.descend(room, value)
        return Call(op, tuple(self.nodes(args, room - 1)))

    def descend(self, room: int, holder: object) -> None:
        if room <= 0:
            raise JsonFault(_beyond(f"{self.limits.depth} levels of nesting (limit depth)", "deeper nesting"), holder)

    def text(self, text: str, holder: object, step: object) -> str:
        """The string itself if it may be stored; ``step`` is the string's key, or the string where it is an item."""
        if len(text) <= self.limits.text_length and (text.isascii() or _is_unicode(text)):
            return text
        where = index_of(holder, step) if isinstance(holder, list) else f".{step}"
        if len(text) > self.limits.text_length:
            most = f"{self.limits.text_length} characters in a string (limit text_length)"
            raise JsonFault(_beyond(most, f"{len(text)}"), holder, where)
        raise JsonFault(ParseError("Unicode text", "a lone surrogate"), holder, where)

    def attribute(self, name: str, holder: dict[str, Any]) -> Attribute:
        if not name:
            raise JsonFault(ParseError("the name of an attribute", "''"), holder, ".property")
        node = Attribute(self.text(name, holder, "property"))
        if len(name) <= _CACHED_LENGTH:
            if len(_attributes) >= _CACHED:
                _attributes.clear()
            _attributes[name] = node
        return node

    def literal(self, value: dict[str, Any]) -> Node:
        """A temporal or spatial literal; an error if the object is neither."""
        if "type" in value:
            return self.geometry(value)
        if "op" in value:
            raise JsonFault(ParseError("op and args alone", keys(value)), value)
        key = next(iter(value)) if len(value) == 1 else None
        content = value.get(key)  # type: ignore[arg-type]
        if key == "timestamp" or key == "date":
            return _instant(content, value, f".{key}", key)
        if key == "property":
            raise JsonFault(ParseError("the name of an attribute", got(content)), value, ".property")
        if key == "interval":
            if type(content) is not list or len(content) != 2:
                raise JsonFault(ParseError("a list of two bounds", got(content)), value, ".interval")
            start, end = (self.bound(bound, content, f"[{index}]") for index, bound in enumerate(content))
            return Interval(start, end)
        if key == "bbox":
            numbers = self.positions(content, 1, value, ".bbox")
            try:
                return geometry.box(numbers)
            except ParseError as error:
                raise JsonFault(error, value, ".bbox") from None
        raise JsonFault(ParseError(_OBJECTS, keys(value)), value)

    def bound(self, bound: Json, holder: list[Any], step: str) -> Instant | Attribute | None:
        if type(bound) is str:
            return None if bound == ".." else _instant(bound, holder, step, None)
        if type(bound) is dict and len(bound) == 1 and type(bound.get("property")) is str:
            return self.attribute(bound["property"], bound)
        raise JsonFault(ParseError("a date, a timestamp, '..' or a property", got(bound)), holder, step)

    def geometry(self, value: dict[str, Any]) -> Geometry:
        kind = value["type"]
        if type(kind) is not str or kind not in (*geometry.NESTING, geometry.COLLECTION):
            raise JsonFault(ParseError("a GeoJSON geometry type", got(kind)), value, ".type")
        inside = "geometries" if kind == geometry.COLLECTION else "coordinates"
        if len(value) != 2 or inside not in value:
            raise JsonFault(ParseError(f"type and {inside} alone", keys(value)), value)
        if kind == geometry.COLLECTION:
            members = value[inside]
            if type(members) is not list or not members:
                raise JsonFault(ParseError("a list of geometries", got(members)), value, ".geometries")
            for index, member in enumerate(members):
                inner = member.get("type") if type(member) is dict else None
                if type(inner) is not str or inner not in geometry.NESTING:
                    raise JsonFault(ParseError("a geometry that is no collection", got(member)), members, f"[{index}]")
            self.left -= len(members)
            return geometry.collection([self.geometry(member) for member in members])
        coordinates = self.positions(value[inside], geometry.NESTING[kind], value, ".coordinates")
        try:
            return geometry.geometry(kind, coordinates)
        except ParseError as error:
            raise JsonFault(error, value, ".coordinates") from None

    def positions(self, value: Json, nesting: int, holder: object, step: str) -> tuple[Any, ...]:
        if type(value) is not list:
            wanted = "a list of numbers" if nesting == 1 else "a list of lists"
            raise JsonFault(ParseError(wanted, got(value)), holder, step)
        if nesting == 1:
            return tuple([float(_number(number, value)) for number in value])
        self.left -= len(value)
        if self.left < 0:
            raise JsonFault(_beyond(f"{self.limits.nodes} points (limit nodes)", "more"), holder, step)
        return tuple([self.positions(part, nesting - 1, value, f"[{index}]") for index, part in enumerate(value)])


def _are_numbers(values: list[Any]) -> bool:
    kinds = list(map(type, values))
    return kinds.count(float) == len(kinds) or all(issubclass(k, int | float) and k is not bool for k in set(kinds))


def _number(value: Json, holder: Any, index: int | None = None) -> int | float:
    """The number, an integer only of 64 bits; what is no finite number is refused, at its index if that is known."""
    number: int | float
    if isinstance(value, int) and not isinstance(value, bool):
        number = exact(int(value))
    elif isinstance(value, float):
        number = float(value)
    else:
        known = isinstance(value, bool | str | list | dict)  # so only where nothing but a number will do
        wanted = "a number" if known else "a number, text, truth value, list or object"
        raise JsonFault(ParseError(wanted, got(value)), holder, index_of(holder, value))
    if not -_LARGEST <= number <= _LARGEST:
        step = index_of(holder, value) if index is None else f"[{index}]"
        raise JsonFault(ParseError("a finite number", got(value)), holder, step)
    return number


def _instant(text: Json, holder: object, step: str, wanted: str | None) -> Instant:
    if type(text) is not str:
        raise JsonFault(ParseError("a date or timestamp as text", got(text)), holder, step)
    try:
        micros, is_date = instant(text)
    except ParseError as error:
        raise JsonFault(error, holder, step) from None
    if wanted is not None and is_date is not (wanted == "date"):
        raise JsonFault(ParseError(f"a {wanted}", got(text)), holder, step)
    return Instant(text, micros, is_date)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _beyond(most: str, there: str) -> LimitError:
    return LimitError(f"at most {most}", there)


def to_json(node: Node) -> Json:
    """The expression as a value for ``json.dumps``; recursion goes as deep as the tree."""
    if isinstance(node, Call):
        return {"op": node.op, "args": [to_json(arg) for arg in node.args]}
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Attribute):
        return {"property": node.name}
    if isinstance(node, Array):
        return [to_json(item) for item in node.items]
    if isinstance(node, Numbers):
        return node.tolist()
    if isinstance(node, Instant):
        return {"date" if node.is_date else "timestamp": node.text}
    if isinstance(node, Interval):
        return {"interval": [_bound_json(node.start), _bound_json(node.end)]}
    if isinstance(node, Box):
        return {"bbox": list(node.bounds)}
    if node.kind == geometry.COLLECTION:
        members: Any = node.coordinates
        return {"type": node.kind, "geometries": [to_json(member) for member in members]}
    return {"type": node.kind, "coordinates": _lists(node.coordinates)}


def _bound_json(bound: Instant | Attribute | None) -> Json:
    return ".." if bound is None else {"property": bound.name} if isinstance(bound, Attribute) else bound.text


def _lists(part: Json) -> Json:
    return [_lists(inner) for inner in part] if isinstance(part, tuple) else part
