"""Shapes: how far a series is from another when both are brought to mean 0 and standard deviation 1.

``shape(close, (…)) <= 3.5`` is the Euclidean distance of normal forms (Manassiev and Jacobsen 2004, equations 5 and 11)
against a tolerance. The series has the length of the publication's, or is *stretched*: control points, or a name for
them, drawn at whatever length the publication has. The index looks these predicates up many at a time
(``index/shapes.py``); ``ShapePredicate.holds`` defines what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from math import inf, sqrt
from struct import error as PackError
from struct import pack
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.language.render import to_text
from tidegate.language.tree import Array, Attribute, Call, Literal, Node, Numbers, listed
from tidegate.model import RESERVED
from tidegate.predicates.column import Column, ColumnReading, PointLists, Points, Row, Table, column, reading
from tidegate.predicates.family import Mismatch, measure
from tidegate.predicates.predicate import Alternatives, Hull, Predicate
from tidegate.predicates.ranges import Point, Ranges
from tidegate.shapes import named_shapes
from tidegate.shapes.normal_form import LONGEST, SHORTEST, distance, normal, rendered

__all__ = ["ShapeArguments", "ShapePredicate", "asked", "drawn", "numbers_of", "series_of", "written_out"]

Series = NDArray[np.float64]


@reading
class SeriesOf(ColumnReading):
    """The numbers of a list that holds nothing else, gaps included; a list of other things has none."""

    name = "series"
    is_many = True

    def point(self, operand: str, publication: Row) -> list[Point] | None:
        value = publication.value(operand)
        if not isinstance(value, list):
            return None
        numbers = numbers_of(value)
        return [] if numbers is None else numbers.tolist()

    def points(self, operand: str, table: Table) -> Points | None:
        array = table.array(operand)
        if array is None or not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            return None
        if not (pa.types.is_integer(array.type.value_type) or pa.types.is_floating(array.type.value_type)):
            return None
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(np.asarray(pc.list_value_length(array).fill_null(0)), out=offsets[1:])
        numbers = np.asarray(array.flatten().cast(pa.float64(), safe=False))
        return PointLists(offsets, numbers if numbers.flags.writeable else np.array(numbers))


def numbers_of(value: Any) -> Series | None:
    """The members of a list as an array, or None where it is no list or has others than numbers."""
    if not isinstance(value, list):
        return None
    try:
        numbers = np.frombuffer(bytearray(pack(f"{len(value)}d", *value)))  # a third of the time that numpy takes
    except PackError:
        return None
    truths = np.flatnonzero((numbers == 0) | (numbers == 1)).tolist()  # as which truth values were taken, too
    return None if any(isinstance(value[i], bool) for i in truths) else numbers


def series_of(value: Any) -> Series | None:
    """The normal form of an attribute's value; None where it has no shape."""
    numbers = numbers_of(value)
    return None if numbers is None else normal(numbers)


@lru_cache(maxsize=128)
def _drawn(points: bytes, n: int) -> Series | None:
    return normal(rendered(np.frombuffer(points), n))


def drawn(points: Series, n: int) -> Series | None:
    """Control points as a normal form of n numbers; None where none of them shows at that length."""
    return _drawn(points.tobytes(), n)


@dataclass(frozen=True, slots=True)
class ShapePredicate(Predicate):
    """A series is at most so far from another, or nearer if ``strict``, in shape (or is not, if ``negated``)."""

    attribute: str
    key: str
    """Stands for ``values``: two predicates with the same key ask about the same shape."""
    length: int
    """0 where the shape is stretched."""
    bound: float
    strict: bool
    negated: bool
    values: Series = field(compare=False, repr=False)
    """The normal form, or the control points of what is stretched."""

    @property
    def hull(self) -> Hull:
        sizes = (self.length, self.length + 1) if self.length else (SHORTEST, LONGEST + 1)
        return ((column("size", self.attribute), ((float(sizes[0]), float(sizes[1])),)),)

    def holds(self, publication: Row) -> bool:
        value = publication.value(self.attribute)
        if self.length and isinstance(value, list) and len(value) != self.length:
            return False
        series = series_of(value)
        other = self.values if self.length or series is None else drawn(self.values, len(series))
        if series is None or other is None:
            return False
        return self.admits(distance(series, other)) is not self.negated

    def admits(self, far: float) -> bool:
        """Whether a distance is within the tolerance."""
        return far < self.bound if self.strict else far <= self.bound

    def covers(self, other: Predicate) -> bool:
        if self == other:
            return True
        if not isinstance(other, ShapePredicate) or (self.attribute, self.length) != (other.attribute, other.length):
            return False
        if self.negated and other.negated:
            return replace(other, negated=False).covers(replace(self, negated=False))
        if other.negated:
            return False
        if self.key == other.key and not self.negated:
            return self.bound > other.bound or (self.bound == other.bound and (other.strict or not self.strict))
        if not self.length:
            return False
        apart, slack = distance(self.values, other.values), 1e-9 * sqrt(self.length)
        if self.negated:  # two spheres that do not meet
            return apart - slack > self.bound + other.bound
        return apart + other.bound + slack <= self.bound

    def covers_ranges(self, known: Mapping[Column, Ranges]) -> bool:
        return False

    def call(self) -> tuple[Call, bool]:
        series = listed(list(map(Literal, self.values.tolist())))
        args = (Attribute(self.attribute), series, *(() if self.length else (Literal("stretched"),)))
        return Call("<" if self.strict else "<=", (Call("shape", args), Literal(self.bound))), self.negated


# --- compilation --------------------------------------------------------------------------------------------------

_MODES = ("stretched", "stream")


class ShapeArguments(NamedTuple):
    """The checked arguments of a call of ``shape``."""

    attribute: str
    values: Series
    """The numbers as they were written, or control points."""
    is_stretched: bool
    is_stream: bool


def asked(call: Call) -> ShapeArguments:
    """The arguments of a call of ``shape``, checked."""
    attribute, series, *rest = call.args
    if not isinstance(attribute, Attribute) or attribute.name in RESERVED:
        raise Mismatch(
            "an attribute that is not a reserved name as first argument of shape", to_text(attribute), attribute
        )
    mode = rest[0].value if rest and isinstance(rest[0], Literal) else None
    if rest and mode not in _MODES:
        raise Mismatch("'stretched' or 'stream' as third argument of shape", to_text(rest[0]), rest[0])
    if isinstance(series, Literal) and isinstance(series.value, str):
        values, has_name = _named(series.value, series), True
    else:
        values, has_name = _numbers(series), False
    is_stream = mode == "stream"
    stretched = mode == "stretched" or has_name
    if len(rest) == 2:
        if not is_stream:
            raise Mismatch("a number of readings only after 'stream'", to_text(rest[1]), rest[1])
        if not len(values):
            raise Mismatch("a series of numbers", "an empty list", series)
        values, stretched = rendered(values, _readings(rest[1])), False
    elif is_stream and has_name:
        raise Mismatch("how many readings, as fourth argument of shape", "a name without a length", call)
    if not stretched and not SHORTEST <= len(values) <= LONGEST:
        raise Mismatch(f"a series of {SHORTEST} to {LONGEST} numbers", f"{len(values)}", series)
    if len(values) < 2 or (values == values[0]).all():
        raise Mismatch("a series that is not constant, which has no shape", _described(values), series)
    return ShapeArguments(attribute.name, values, stretched, is_stream)


def _described(values: Series) -> str:
    return f"{len(values)} times {values[0]:g}" if len(values) else "an empty list"


def _numbers(node: Node) -> Series:
    if isinstance(node, Numbers):
        return node.values
    if not isinstance(node, Array):
        raise Mismatch("a list of numbers, or the name of a shape", to_text(node), node)
    for item in node.items:
        if not isinstance(item, Literal) or isinstance(item.value, bool | str):
            raise Mismatch("numbers in the series of a shape", to_text(item), item)
    return np.array([float(item.value) for item in node.items if isinstance(item, Literal)])


def _named(name: str, node: Node) -> Series:
    found = named_shapes.find(name)
    if found is None:
        near = named_shapes.near(name)
        wanted = f"the name of a shape ({' or '.join(near)}?)" if near else "the name of a shape (see tidegate shapes)"
        raise Mismatch(wanted, to_text(node), node)
    return np.array(found.points, np.float64)


def _readings(node: Node) -> int:
    value = node.value if isinstance(node, Literal) else None
    if isinstance(value, bool | str) or value is None or value != int(value) or not SHORTEST <= value <= LONGEST:
        raise Mismatch(f"a whole number of {SHORTEST} to {LONGEST} readings", to_text(node), node)
    return int(value)


def written_out(node: Node) -> Node:
    """The expression with names of users' own shapes replaced by their points, for processes that do not know them."""
    if not isinstance(node, Call):
        return node
    if node.op != "shape" or len(node.args) < 2:
        args = tuple(map(written_out, node.args))
        return (
            node if all(new is old for new, old in zip(args, node.args, strict=True)) else Call(node.op, args, node.at)
        )
    attribute, series, *rest = node.args
    own = {shape.name: shape.points for shape in named_shapes.own()}
    points = own.get(series.value) if isinstance(series, Literal) and isinstance(series.value, str) else None
    if points is None:
        return node
    return Call("shape", (attribute, listed(list(map(Literal, points))), *(rest or [Literal("stretched")])), node.at)


_RELATIONS = {"<=": (False, False), "<": (True, False), ">": (False, True), ">=": (True, True)}


@measure("shape", {"shape": "shape(close, (1, 2, 4, 3, 1)) <= 0.5"}, (2, 4))
def shape(call: Call, op: str, bound: float, node: Node) -> Alternatives:
    """The predicate of ``shape(…) op bound``; ``node`` is the bound as it was written."""
    if op not in _RELATIONS:
        raise Mismatch("<, <=, > or >= between a shape and its tolerance", op, node)
    if not 0 <= bound < inf:
        raise Mismatch("a tolerance of 0 or more", to_text(node), node)
    about = asked(call)
    if about.is_stream:
        raise Mismatch("shape(…, 'stream') alone or beside conditions joined by AND", "it elsewhere", call)
    values = about.values
    length = 0
    if not about.is_stretched:
        found = normal(values)
        assert found is not None, "a series of finite numbers that is not constant has a normal form"
        values, length = found, len(found)
    key = sha256((values + 0.0).data).hexdigest()[:32]  # zeros have no sign in the language
    strict, negated = _RELATIONS[op]
    return [(ShapePredicate(about.attribute, key, length, bound, strict, negated, values),)]
