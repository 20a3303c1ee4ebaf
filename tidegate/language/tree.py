"""The expression tree: what CQL2-text and CQL2-JSON both read into and are both written from.

Nodes are frozen and compare by meaning: ``at``, the place in the source, takes no part. The tree knows operators only
by name; the families in ``predicates`` and ``patterns`` say which exist and what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.whole_numbers import DOUBLES, exact

__all__ = [
    "LONG",
    "Array",
    "Attribute",
    "Box",
    "Call",
    "Geometry",
    "Instant",
    "Interval",
    "Literal",
    "Node",
    "Numbers",
    "listed",
    "walk",
]

#: A list of so many members or more, numbers all of them, is read as ``Numbers``; else it is an ``Array``.
LONG = 32

#: Where a node stands: an offset into the text, or a path such as ``$.args[1]`` into the JSON.
Place = int | str | None


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Literal:
    """A number, a string or a truth value; ``TRUE`` is not 1, though Python says so."""

    value: float | int | str | bool
    at: Place = field(default=None, compare=False, repr=False)

    def __init__(self, value: float | int | str | bool, at: Place = None) -> None:
        _set_value(self, value)
        _set_literal_at(self, at)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Literal:
            return NotImplemented
        return self.value == other.value and isinstance(self.value, bool) is isinstance(other.value, bool)

    def __hash__(self) -> int:
        return hash((self.value, isinstance(self.value, bool)))


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the publication, by name."""

    name: str
    at: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Instant:
    """``TIMESTAMP('…')`` or ``DATE('…')``: the text as written, and as microseconds since 1970 in UTC."""

    text: str
    micros: int
    is_date: bool
    at: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Interval:
    """``INTERVAL(start, end)``; None is CQL2's ``'..'``, unbounded."""

    start: Instant | Attribute | None
    end: Instant | Attribute | None
    at: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A GeoJSON geometry: ``kind`` is ``Point``, ``Polygon``, …; coordinates are nested tuples (lon, lat)."""

    kind: str
    coordinates: tuple[object, ...]
    at: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Box:
    """``BBOX(west, south, east, north)``, or with six numbers, heights in between."""

    bounds: tuple[float, ...]
    at: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Array:
    """``(a, b, …)``: a bag, a series, or the list of an IN."""

    items: tuple[Node, ...]
    at: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Numbers:
    """A long list of numbers as one node with one array of doubles, in place of an ``Array`` with a literal for each.

    ``longs`` has the places of the whole numbers that no double is equal to, and these. Nodes with the same numbers are
    equal. A zero has no sign here, because -0.0 and 0.0 are equal as literals too.
    """

    values: NDArray[np.float64]
    longs: tuple[tuple[int, int], ...] = field(compare=False)
    at: Place = field(default=None, compare=False, repr=False)
    _items: tuple[Literal, ...] | None = field(default=None, compare=False, repr=False)

    def __init__(self, values: ArrayLike, at: Place = None) -> None:
        own: NDArray[np.float64] = np.asarray(values, np.float64) + 0.0  # a copy, and -0.0 + 0.0 is 0.0
        own.setflags(write=False)
        _set_values(self, own)
        _set_longs(self, _longs(values, own))
        _set_numbers_at(self, at)
        _set_items(self, None)

    @property
    def items(self) -> tuple[Literal, ...]:
        """The literals of the array that this stands for: always the same objects, all with the ``at`` of the list."""
        if self._items is None:
            _set_items(self, tuple([Literal(value, self.at) for value in self.tolist()]))
        return self._items or ()

    def tolist(self) -> list[float | int]:
        """The numbers themselves."""
        found: list[float | int] = self.values.tolist()
        for place, whole in self.longs:
            found[place] = whole
        return found

    def index(self, node: object) -> int | None:
        """The position of this very node among the items; None if it is none of them."""
        return next((i for i, item in enumerate(self._items or ()) if item is node), None)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Numbers:
            return NotImplemented
        return self.values.tobytes() == other.values.tobytes() and self.longs == other.longs

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def __reduce__(self) -> tuple[type[Numbers], tuple[ArrayLike, Place]]:
        given = self.tolist() if self.longs else self.values
        return Numbers, (given, self.at)  # unpickling an array makes it writable again, so __init__ must copy it


@dataclass(frozen=True, slots=True, init=False)
class Call:
    """An operator or function with its arguments; ``op`` is its CQL2-JSON name (``and``, ``<=``, ``isNull``)."""

    op: str
    args: tuple[Node, ...]
    at: Place = field(default=None, compare=False, repr=False)

    def __init__(self, op: str, args: tuple[Node, ...], at: Place = None) -> None:
        _set_op(self, op)
        _set_args(self, args)
        _set_call_at(self, at)


# A frozen dataclass sets each field with object.__setattr__ by name, which costs more than anything else when a million
# expressions are read. Literal and Call, of which most of a tree consists, set theirs through the slots.
_set_value, _set_literal_at = Literal.__dict__["value"].__set__, Literal.__dict__["at"].__set__
_set_op, _set_args, _set_call_at = (Call.__dict__[name].__set__ for name in ("op", "args", "at"))
_set_values, _set_longs, _set_numbers_at, _set_items = (
    Numbers.__dict__[name].__set__ for name in ("values", "longs", "at", "_items")
)

Node = Literal | Attribute | Instant | Interval | Geometry | Box | Array | Numbers | Call

_NUMERIC = frozenset({int, float})


def listed(items: Sequence[Node], at: Place = None) -> Array | Numbers:
    """The node that a list of these items is read as: ``Numbers`` if it is long and all numbers, else ``Array``."""
    if len(items) >= LONG:
        values = [item.value for item in items if type(item) is Literal and type(item.value) in _NUMERIC]
        if len(values) == len(items):
            return Numbers(values, at)
    return Array(tuple(items), at)


def _longs(values: Any, doubles: NDArray[np.float64]) -> tuple[tuple[int, int], ...]:
    """The places of the whole numbers of 64 bits that are not their doubles, and these."""
    large = np.flatnonzero(np.abs(doubles) >= DOUBLES).tolist()
    wholes = ((place, int(values[place])) for place in large if isinstance(values[place], int | np.integer))
    return tuple((place, whole) for place, whole in wholes if exact(whole) != float(whole))


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, without recursion. ``Numbers`` have nothing below them."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.args))
        elif isinstance(node, Array):
            stack.extend(reversed(node.items))
