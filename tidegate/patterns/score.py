"""Scores of ``topk``: arithmetic over numbers of the publication, and distances, compiled to programs for the kernel.

The numbers of an expression are taken out of it, so all subscriptions whose scores differ only in numbers share one
program: ``distance((x, y), (3, 4))`` is a program and the numbers 3 and 4.
"""

from __future__ import annotations

from math import cos, isfinite, radians, sin
from typing import NamedTuple

from tidegate.kernels.score import (
    ADD,
    COLUMN,
    DEPTH,
    DIV,
    DIVIDE,
    HAVERSINE,
    MOD,
    MUL,
    NUMBER,
    POW,
    SQRT,
    SQUARE,
    STEP,
    SUB,
)
from tidegate.language.render import to_text
from tidegate.language.tree import Array, Attribute, Call, Geometry, Literal, Node, Numbers
from tidegate.model import RESERVED
from tidegate.predicates.column import Column, column
from tidegate.predicates.family import Mismatch

__all__ = ["Program", "program"]

_ARITHMETIC = {"+": ADD, "-": SUB, "*": MUL, "/": DIVIDE, "%": MOD, "div": DIV, "^": POW}


class Program(NamedTuple):
    """Steps for the kernel, whose columns are places in ``columns``; and the numbers that were taken out."""

    steps: list[list[int]]
    columns: list[Column]
    numbers: list[float]


def program(node: Node) -> Program:
    """The program of a score; raises ``Mismatch``."""
    made = Program([], [], [])
    deepest = _compile(node, made, 0)
    if not made.columns:
        raise Mismatch("a score that looks at an attribute", to_text(node), node)
    if deepest > DEPTH:
        raise Mismatch(f"a score nested at most {DEPTH} deep", f"{deepest}", node)
    return made


def _compile(node: Node, made: Program, depth: int) -> int:
    """Append the steps of a node; return how deep the stack gets if it was ``depth`` deep before."""
    if isinstance(node, Literal) and not isinstance(node.value, bool | str):
        _step(made, NUMBER, 0, _number(made, node.value, node))
        return depth + 1
    if isinstance(node, Attribute):
        if node.name in RESERVED:
            raise Mismatch("numbers in a score", f"{node.name}, which is none", node)
        _step(made, COLUMN, _column(made, column("number", node.name)), 0)
        return depth + 1
    if isinstance(node, Call) and node.op in _ARITHMETIC:
        if len(node.args) != 2:
            raise Mismatch(f"2 numbers around {node.op}", f"{len(node.args)}", node)
        left, right = node.args
        deepest = max(_compile(left, made, depth), _compile(right, made, depth + 1))
        _step(made, _ARITHMETIC[node.op], 0, 0)
        return deepest
    if isinstance(node, Call) and node.op == "distance":
        if len(node.args) != 2:
            raise Mismatch("2 arguments of distance", f"{len(node.args)}", node)
        return _distance(node, made, depth)
    if isinstance(node, Call) and node.op not in ("casei", "accenti"):
        raise Mismatch("arithmetic or distance in a score", to_text(node), node)
    raise Mismatch("numbers in a score", to_text(node), node)


def _distance(node: Call, made: Program, depth: int) -> int:
    here, there = node.args
    if isinstance(here, Geometry | Array | Numbers) and isinstance(there, Attribute):
        here, there = there, here
    if isinstance(here, Attribute) and isinstance(there, Geometry) and there.kind == "Point":
        if RESERVED.get(here.name, "point") != "point":
            raise Mismatch("a point in distance", f"{here.name}, which is none", here)
        lon, lat = (float(c) for c in there.coordinates[:2])  # type: ignore[arg-type]
        if not (-180 <= lon <= 180 and -90 <= lat <= 90):
            raise Mismatch("a point with lon in [-180, 180] and lat in [-90, 90]", to_text(there), there)
        columns = [_column(made, column(reading, here.name)) for reading in ("lon", "lat", "x", "y", "z")]
        east, north = radians(lon), radians(lat)
        unit = cos(north) * cos(east), cos(north) * sin(east), sin(north)
        first, *_ = [_number(made, number, there) for number in (lon, lat, *unit)]
        made.steps.append([HAVERSINE, columns[0], first, *columns[1:]])
        return depth + 1
    if isinstance(here, Array | Numbers) and isinstance(there, Array | Numbers):
        return _euclidean(here, there, made, depth)
    raise Mismatch("distance(location, POINT(…)) or distance((a, b, …), (1, 2, …))", to_text(node), node)


def _euclidean(here: Array | Numbers, there: Array | Numbers, made: Program, depth: int) -> int:
    if len(here.items) != len(there.items) or not here.items:
        raise Mismatch("as many attributes as numbers in distance", f"{len(here.items)} and {len(there.items)}", there)
    for i, (attribute, number) in enumerate(zip(here.items, there.items, strict=True)):
        if not isinstance(attribute, Attribute) or attribute.name in RESERVED:
            raise Mismatch("attributes that are numbers in the first list of distance", to_text(attribute), attribute)
        if not isinstance(number, Literal) or isinstance(number.value, bool | str):
            raise Mismatch("numbers in the second list of distance", to_text(number), number)
        place = _number(made, number.value, number)
        _step(made, SQUARE, _column(made, column("number", attribute.name)), place)
        if i:
            _step(made, ADD, 0, 0)
    _step(made, SQRT, 0, 0)
    return depth + 2


def _step(made: Program, op: int, column: int, number: int) -> None:
    made.steps.append([op, column, number, *[0] * (STEP - 3)])


def _column(made: Program, wanted: Column) -> int:
    if wanted not in made.columns:
        made.columns.append(wanted)
    return made.columns.index(wanted)


def _number(made: Program, value: float, node: Node) -> int:
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise Mismatch("a finite number", to_text(node), node)
    made.numbers.append(number)
    return len(made.numbers) - 1
