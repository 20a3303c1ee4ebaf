"""The members of bags: as points that can be compared with constants, and as columns that the index reads.

A column of members has many points per publication. Nothing here knows the relations between bags.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from datetime import date
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model import micros
from tidegate.predicates.column import ColumnReading, PointLists, Points, Row, Table, reading
from tidegate.predicates.ranges import Point

__all__ = ["COMPARED_CHARACTERS", "COMPARED_MEMBERS", "GAP", "Member", "is_comparable", "member", "members_of"]

#: A member as (kind, point): 1 and 1.0 are the same member, 1 and TRUE are not.
Member = tuple[str, Any]
#: NaN or an infinity. No constant is of this kind, so it counts as a member and has no partner.
GAP: Member = ("gap", 0.0)
#: Members of a bag, and characters of its texts together, that LIKE compares with its patterns.
COMPARED_MEMBERS, COMPARED_CHARACTERS = 256, 16_384


def is_comparable(values: Collection[Any]) -> bool:
    """Whether a bag, given by its values, is small enough for LIKE."""
    if len(values) > COMPARED_MEMBERS:
        return False
    return sum([len(value) for value in values if isinstance(value, str)]) <= COMPARED_CHARACTERS


def member(value: Any) -> Member:
    """A value of a publication, or of a constant bag, as a member."""
    if isinstance(value, bool):
        return "truth", float(value)
    if isinstance(value, int | float):
        return ("number", float(value)) if isfinite(value) else GAP
    if isinstance(value, str):
        return "text", value
    assert isinstance(value, date)
    return "time", float(micros(value))


def members_of(values: Collection[Any]) -> list[Member]:
    """The values of a bag as members; fast where they are all texts, or all numbers."""
    kinds = set(map(type, values))
    if kinds <= _TEXTS:
        return [("text", value) for value in values]
    if kinds <= _NUMBERS:
        return [("number", float(value)) if isfinite(value) else GAP for value in values]
    return list(map(member, values))


_TEXTS, _NUMBERS = frozenset({str}), frozenset({int, float})


@reading
class Size(ColumnReading):
    """How many members a bag has."""

    name = "size"

    def point(self, operand: str, publication: Row) -> Point | None:
        value = publication.value(operand)
        return float(len(value)) if isinstance(value, list) else None

    def points(self, operand: str, table: Table) -> Points | None:
        array = _lists(operand, table)
        if array is None:
            return None
        return np.asarray(pc.list_value_length(array).cast(pa.float64()).fill_null(np.nan))


@reading
class Compared(ColumnReading):
    """How many members a bag has, if it is small enough for LIKE; a larger one is missing to it."""

    name = "compared"

    def point(self, operand: str, publication: Row) -> Point | None:
        value = publication.value(operand)
        return float(len(value)) if isinstance(value, list) and is_comparable(value) else None

    def points(self, operand: str, table: Table) -> Points | None:
        array = _lists(operand, table)
        if array is None:
            return None
        sizes = np.asarray(pc.list_value_length(array).cast(pa.float64()).fill_null(np.nan))
        sizes = np.where(sizes > COMPARED_MEMBERS, np.nan, sizes)
        if not TextMembers._reads(array.type.value_type):
            return sizes
        ends = np.zeros(len(array.flatten()) + 1, np.int64)
        np.cumsum(pc.utf8_length(array.flatten()).fill_null(0), out=ends[1:])
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(pc.list_value_length(array).fill_null(0), out=offsets[1:])
        return np.where(np.diff(ends[offsets]) > COMPARED_CHARACTERS, np.nan, sizes)


class _Members(ColumnReading):
    is_many = True
    kind: str

    def point(self, operand: str, publication: Row) -> list[Point] | None:
        value = publication.value(operand)
        if not isinstance(value, list):
            return None
        return [point for kind, point in members_of(value) if kind == self.kind]

    def points(self, operand: str, table: Table) -> Points | None:
        array = _lists(operand, table)
        if array is None or not self._reads(array.type.value_type):
            return None
        lengths = np.asarray(pc.list_value_length(array).fill_null(0))
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        members = array.flatten()
        if self.is_text:
            return PointLists(offsets, members)
        points = np.asarray(members.cast(pa.float64(), safe=False))
        finite = np.isfinite(points)
        if finite.all():
            return PointLists(offsets, points)
        before = np.zeros(len(points) + 1, np.int64)
        np.cumsum(finite, out=before[1:])
        return PointLists(before[offsets], points[finite])

    @staticmethod
    @abstractmethod
    def _reads(kind: pa.DataType) -> bool:
        """Whether members of an Arrow type are of the kind that is read."""


@reading
class NumbersOf(_Members):
    """The numbers among the members of a bag; NaN and the infinities are none."""

    name = "numbers"
    kind = "number"

    @staticmethod
    def _reads(kind: pa.DataType) -> bool:
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


@reading
class TextMembers(_Members):
    """The strings among the members of a bag."""

    name = "texts"
    kind = "text"
    is_text = True

    @staticmethod
    def _reads(kind: pa.DataType) -> bool:
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _lists(operand: str, table: Table) -> pa.Array | None:
    array = table.array(operand)
    is_list = array is not None and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type))
    return array if is_list else None
