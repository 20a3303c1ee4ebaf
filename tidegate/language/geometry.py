"""Geometry literals: builds ``Geometry`` and ``Box`` nodes from nested numbers and refuses impossible ones.

The readers of both notations, ``tree_builder`` and ``cql2json``, call it with numbers. Whether a polygon crosses
itself, and anything metric, is left to the predicate family of places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.errors import ParseError
from tidegate.language.tree import Box, Geometry, Place

__all__ = ["COLLECTION", "NESTING", "box", "collection", "geometry"]

COLLECTION = "GeometryCollection"

#: How deep each kind's coordinates are nested: 1 is one position, 4 a list of polygons.
NESTING = {
    "Point": 1,
    "LineString": 2,
    "MultiPoint": 2,
    "Polygon": 3,
    "MultiLineString": 3,
    "MultiPolygon": 4,
}

_LINES = {"LineString", "MultiLineString"}
_AREAS = {"Polygon", "MultiPolygon"}


def geometry(kind: str, coordinates: Sequence[Any], at: Place = None) -> Geometry:
    """A geometry whose coordinates are nested to the depth of its kind and hold finite floats. Raises ParseError."""
    parts: list[Any] = [coordinates]
    paths: Sequence[Any] = ()
    for level in range(NESTING[kind], 1, -1):
        if level == 2:
            paths = parts
        if not all(parts):
            raise ParseError(f"at least one point in each part of a {kind}", "an empty part")
        parts = [inner for part in parts for inner in part]
    dimensions = {len(position) for position in parts}
    if not dimensions <= {2, 3}:
        raise ParseError("points of two or three numbers, longitude and latitude first", _points(parts))
    if len(dimensions) > 1:
        raise ParseError("points that all have two or all have three numbers", "both in one geometry")
    if kind in _LINES:
        for line in paths:
            if len(line) < 2:
                raise ParseError("a line of two points or more", "one point")
    elif kind in _AREAS:
        for ring in paths:
            if len(ring) < 4:
                raise ParseError("a ring of four points or more, the last equal to the first", f"{len(ring)} points")
            if ring[0] != ring[-1]:
                raise ParseError("a closed ring, its last point equal to its first", _ends(ring))
    return Geometry(kind, tuple(coordinates), at)


def collection(members: Sequence[Geometry], at: Place = None) -> Geometry:
    """A collection of simple geometries, which are its ``coordinates``; the standard nests no collections."""
    return Geometry(COLLECTION, tuple(members), at)


def box(bounds: Sequence[float], at: Place = None) -> Box:
    """A bounding box of four or six finite numbers. Raises ParseError."""
    if len(bounds) not in (4, 6):
        raise ParseError("four numbers (west, south, east, north) or six, with heights", f"{len(bounds)}")
    return Box(tuple(bounds), at)


def _points(parts: Sequence[Any]) -> str:
    count = next(len(position) for position in parts if len(position) not in (2, 3))
    return "a point of one number" if count == 1 else f"a point of {count} numbers"


def _ends(ring: Sequence[Any]) -> str:
    first, last = (" ".join(f"{number:.15g}" for number in ring[end]) for end in (0, -1))
    return f"{first} first and {last} last"
