"""Readings of single values: numbers, instants, truth values, text, whether there is a value, how two compare.

Numbers may be arithmetic over attributes, text may be folded. The comparisons and most other families use them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.language.tree import Attribute, Call, Literal, Node
from tidegate.model import micros
from tidegate.predicates.column import ColumnReading, Operand, Points, Row, Table, column, reading
from tidegate.predicates.exact_numbers import doubles, is_number, may_be_rounded, remainders
from tidegate.predicates.folding import folded, folded_array, folding_of
from tidegate.predicates.ranges import Point

__all__ = ["ARITHMETIC", "evaluate", "operand_of"]

ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": np.fmod,
    "div": lambda a, b: np.trunc(a / b),
    "^": np.power,
}


def operand_of(node: Node) -> Operand:
    """What a column reads for a node: the name of an attribute, or the expression itself."""
    return node.name if isinstance(node, Attribute) else node


@reading
class NumberReading(ColumnReading):
    """Integers and floats, as doubles; ``exact_numbers`` has the column on which none is rounded."""

    name = "number"

    def point(self, operand: Operand, publication: Row) -> Point | None:
        if isinstance(operand, str):
            value = publication.value(operand)
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        result = evaluate(operand, lambda name: np.float64(_missing(self.point(name, publication))))
        return float(result) if isfinite(result) else None

    def points(self, operand: Operand, table: Table) -> Points | None:
        if isinstance(operand, str):
            array = table.array(operand)
            return None if array is None or not is_number(array) else doubles(array)
        absent = np.full(1, np.nan)

        def values(name: str) -> Any:
            points = self.points(name, table)
            return absent if points is None else points

        result = np.broadcast_to(evaluate(operand, values), (table.length,))
        return np.where(np.isfinite(result), result, np.nan)

    def names(self, operand: Operand) -> tuple[str, ...]:
        return _names(operand)


@reading
class Time(ColumnReading):
    """Instants, as microseconds since 1970: exact between the years 1685 and 2255, to 32 µs elsewhere."""

    name = "time"

    def point(self, operand: str, publication: Row) -> Point | None:
        value = publication.value(operand)
        return float(micros(value)) if isinstance(value, date) else None

    def points(self, operand: str, table: Table) -> Points | None:
        array = table.array(operand)
        if array is None or not pa.types.is_temporal(array.type):
            return None
        return doubles(array.cast(pa.timestamp("us", getattr(array.type, "tz", None))).cast(pa.int64()))


@reading
class Truth(ColumnReading):
    """Truth values, as 0 and 1."""

    name = "truth"

    def point(self, operand: str, publication: Row) -> Point | None:
        value = publication.value(operand)
        return float(value) if isinstance(value, bool) else None

    def points(self, operand: str, table: Table) -> Points | None:
        array = table.array(operand)
        if array is None or not pa.types.is_boolean(array.type):
            return None
        return doubles(array.cast(pa.int8()))


@reading
class TextReading(ColumnReading):
    """Strings, in the order of their code points; the operand may be CASEI or ACCENTI of an attribute."""

    name = "text"
    is_text = True

    def point(self, operand: Operand, publication: Row) -> Point | None:
        name, folding = folding_of(operand)
        value = publication.value(name)
        return folded(value, folding) if isinstance(value, str) else None

    def points(self, operand: Operand, table: Table) -> Points | None:
        name, folding = folding_of(operand)
        array = table.array(name)
        if array is None or not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            return None
        return folded_array(array, folding)

    def names(self, operand: Operand) -> tuple[str, ...]:
        return (folding_of(operand)[0],)


@reading
class Presence(ColumnReading):
    """1 where the attribute has a value of whatever type, else 0; the one reading that is never missing."""

    name = "presence"
    of_missing = 0.0

    def point(self, operand: str, publication: Row) -> Point | None:
        return float(publication.value(operand) is not None)

    def points(self, operand: str, table: Table) -> Points | None:
        array = table.array(operand)
        if array is None:
            return np.zeros(table.length)
        return np.asarray(array.is_valid()).astype(np.float64)


@reading
class Order(ColumnReading):
    """How two expressions compare: −1, 0 or 1; missing where either is or where their types differ."""

    name = "order"

    def point(self, operand: Call, publication: Row) -> Point | None:
        for kind in _PAIRED:
            if all(_reads(kind, side) for side in operand.args):
                a, b = (column(kind, operand_of(side)).point(publication) for side in operand.args)
                if a is not None and b is not None:
                    if a == b and kind == "number":  # of several numbers with the same double
                        a, b = (_exactly(side, publication) for side in operand.args)
                    return float((a > b) - (a < b))
        return None

    def points(self, operand: Call, table: Table) -> Points | None:
        left, right = operand.args
        signs = np.full(table.length, np.nan)
        for kind in _PAIRED:
            a, b = _sides(left, right, kind, table)
            if a is None or b is None:
                continue
            order = (a > b) * 1.0 - (a < b)
            if kind == "number" and (_is_long(left, table) or _is_long(right, table)):
                order = np.where(order == 0.0, np.sign(_left_over(left, table) - _left_over(right, table)), order)
            signs = np.where(~np.isnan(a) & ~np.isnan(b), order, signs)
        return signs

    def names(self, operand: Call) -> tuple[str, ...]:
        return _names(operand)


_PAIRED = ("number", "text", "time", "truth")


def _reads(kind: str, node: Node) -> bool:
    """Whether that kind of reading can read the expression: arithmetic is a number, folded text a text."""
    return not isinstance(node, Call) or kind == ("number" if node.op in ARITHMETIC else "text")


def _sides(left: Node, right: Node, kind: str, table: Table) -> tuple[Any, Any]:
    """Both sides of a comparison as doubles that compare like what they stand for; None where one can't be read."""
    sides: list[Any] = []
    for node in (left, right):
        at = column(kind, operand_of(node))
        sides.append(at.how.points(at.operand, table) if _reads(kind, node) else None)
    if kind != "text" or sides[0] is None or sides[1] is None:
        return sides[0], sides[1]
    # dense ranks of the texts of both sides together; nulls stay null
    both = pa.concat_arrays([side.cast(pa.large_string()) for side in sides])
    ranks = pc.rank(both, tiebreaker="dense").cast(pa.float64())
    both_doubles = pc.if_else(both.is_valid(), ranks, None).to_numpy(zero_copy_only=False)
    return both_doubles[: table.length], both_doubles[table.length :]


def _exactly(node: Node, publication: Row) -> Any:
    """The number that a side of a comparison has; what arithmetic gives is a double."""
    return publication.value(node.name) if isinstance(node, Attribute) else column("number", node).point(publication)


def _is_long(node: Node, table: Table) -> bool:
    """Whether doubles may round what a side of a comparison has."""
    array = table.array(node.name) if isinstance(node, Attribute) else None
    return array is not None and may_be_rounded(array)


def _left_over(node: Node, table: Table) -> Any:
    """What the doubles of a side of a comparison leave over."""
    return remainders(table.arrays[node.name]) if isinstance(node, Attribute) and _is_long(node, table) else 0


def _missing(point: float | None) -> float:
    return np.nan if point is None else point


def _names(operand: Operand) -> tuple[str, ...]:
    if isinstance(operand, str):
        return (operand,)
    if isinstance(operand, Attribute):
        return (operand.name,)
    if isinstance(operand, Call):
        return tuple(dict.fromkeys(name for arg in operand.args for name in _names(arg)))
    return ()


def evaluate(node: Node, value: Callable[[str], Any]) -> Any:
    """An arithmetic expression in doubles, one or a whole column; NaN where it, or any part of it, is undefined."""
    if isinstance(node, Literal):
        return np.float64(node.value)
    if isinstance(node, Attribute):
        return value(node.name)
    assert isinstance(node, Call)
    with np.errstate(all="ignore"):
        left, right = (evaluate(arg, value) for arg in node.args)
        result = ARITHMETIC[node.op](left, right)
        return np.where(np.isfinite(left) & np.isfinite(right) & np.isfinite(result), result, np.nan)  # NaN ^ 0 is 1
