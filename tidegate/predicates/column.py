"""Columns: what a predicate asks of a publication, as points on an ordered axis.

A *reading* turns an attribute (or an expression over attributes) into points: ``number`` reads 21.5 as itself, ``text``
reads a string, ``size`` reads how long a bag is, ``texts`` reads each text among its members. A *column* is a reading
and its operand, as plain data, so an index can be saved and loaded. A value a reading cannot read is missing to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from tidegate.language import from_json, to_json
from tidegate.language.limits import NO_LIMITS
from tidegate.language.tree import Node
from tidegate.predicates.ranges import ALL_NUMBERS, ALL_TEXT, Point, Ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "READINGS",
    "Column",
    "ColumnReading",
    "Operand",
    "PointLists",
    "Points",
    "Row",
    "Table",
    "column",
    "reading",
]


class Row(Protocol):
    """One publication, whatever holds it: an object, or a row of an Arrow table."""

    def value(self, name: str) -> Any:
        """The attribute or field of that name as a Python value; None if missing."""


#: An attribute by name, or an expression over attributes.
Operand = str | Node


@dataclass(frozen=True, slots=True)
class PointLists:
    """Several points per publication: those of row i are ``points[offsets[i]:offsets[i + 1]]``; none is missing."""

    offsets: NDArray[np.int64]
    points: Points


#: One point per row: doubles with NaN for missing, or strings with null for missing; or several.
Points = Any  # NDArray[np.float64] | pa.Array | Many


class Table:
    """A batch of publications as Arrow arrays by name, for ``ColumnReading.points``."""

    __slots__ = ("arrays", "length")

    def __init__(self, arrays: dict[str, pa.Array], length: int) -> None:
        self.arrays, self.length = arrays, length

    def array(self, name: str) -> pa.Array | None:
        """The attribute's values, or None where no publication of the batch has it."""
        return self.arrays.get(name)


class ColumnReading(ABC):
    """How a kind of predicate reads a value. Subclasses define ``point`` for one publication, ``points`` for a table.

    The two must agree; that is one of the laws in ``tidegate.testing``.
    """

    name: str
    is_text = False
    is_many = False
    of_missing = nan
    """The point where an attribute is missing; all but one reading have none."""

    @property
    def axis(self) -> Ranges:
        """All the points there are."""
        return ALL_TEXT if self.is_text else ALL_NUMBERS

    @abstractmethod
    def point(self, operand: Any, publication: Row) -> Point | list[Point] | None:
        """The point of one publication (a list where the reading gives many); None where it is missing."""

    @abstractmethod
    def points(self, operand: Any, table: Table) -> Points | None:
        """The points of a whole table; None where all are missing."""

    def names(self, operand: Any) -> tuple[str, ...]:
        """The attributes that are read."""
        return (operand,)


#: Every reading by name.
READINGS: dict[str, ColumnReading] = {}


def reading(cls: type[ColumnReading]) -> type[ColumnReading]:
    """Register a reading; decorates its class."""
    READINGS[cls.name] = cls()
    return cls


class Column(NamedTuple):
    """A reading and what it reads. A tuple because it is hashed more often than anything else."""

    reading: str
    operand: Operand

    @property
    def how(self) -> ColumnReading:
        return READINGS[self.reading]

    @property
    def attributes(self) -> tuple[str, ...]:
        return READINGS[self.reading].names(self.operand)

    def point(self, publication: Row) -> Point | list[Point] | None:
        return READINGS[self.reading].point(self.operand, publication)

    def plain(self) -> list[Any]:
        """The column as values that JSON has; ``restored`` reads it back."""
        return [self.reading, self.operand if isinstance(self.operand, str) else to_json(self.operand)]

    @staticmethod
    def restored(reading: str, operand: Any) -> Column:
        """The column that ``plain`` wrote; an unknown reading is a KeyError."""
        READINGS[reading]
        return Column(reading, operand if isinstance(operand, str) else from_json(operand, NO_LIMITS))


_CACHED = 65_536
_columns: dict[tuple[str, Operand], Column] = {}


def column(reading: str, operand: Operand) -> Column:
    """The column, from a cache: bulk loading needs the same few columns millions of times."""
    found = _columns.get((reading, operand))
    if found is None:
        if len(_columns) >= _CACHED:
            _columns.clear()
        found = _columns[reading, operand] = Column(reading, operand)
    return found
