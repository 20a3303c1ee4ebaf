"""Places: a point of the publication against a box, a polygon, another point, or a distance in metres.

Boxes are ranges of longitude and latitude and exact. Other shapes have their bounding box as hull. What they mean is
decided by shapely (in the plane of longitude and latitude) or, for distances, by the haversine formula on a sphere of
the Earth's mean radius; ``index/places.py`` finds them for many publications at once and asks here where it is unsure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import asin, atan, cos, degrees, inf, nextafter, pi, radians, sin, tan
from typing import Any

import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from tidegate.errors import shown
from tidegate.kernels.score import EARTH_RADIUS
from tidegate.language.cql2json import to_json
from tidegate.language.geometry import COLLECTION
from tidegate.language.render import to_text
from tidegate.language.tree import Attribute, Box, Call, Geometry, Literal, Node
from tidegate.model import RESERVED
from tidegate.predicates.column import Column, Row, column
from tidegate.predicates.family import Mismatch, function
from tidegate.predicates.predicate import Alternatives, Hull, Predicate, Within
from tidegate.predicates.ranges import ALL_NUMBERS, Ranges, complement, intersect, union

__all__ = ["Region", "WithinDistance", "has_relation", "haversine"]

#: West, south, east and north, all included. A circle may reach beyond 180° to either side.
Bounds = tuple[float, float, float, float]


def haversine(lon: Any, lat: Any, lon2: Any, lat2: Any) -> Any:
    """Metres between points in degrees, on the sphere; numbers or arrays."""
    phi, phi2 = np.radians(lat), np.radians(lat2)
    a = np.sin((phi2 - phi) / 2) ** 2 + np.cos(phi) * np.cos(phi2) * np.sin(np.radians(lon2 - lon) / 2) ** 2
    return 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(a, 1.0)))


@lru_cache(maxsize=65_536)
def _prepared(geometry: Geometry) -> Any:
    is_simple = geometry.kind != COLLECTION  # then its tuples need not be made lists
    plain = {"type": geometry.kind, "coordinates": geometry.coordinates} if is_simple else to_json(geometry)
    shape = shapely.from_geojson(orjson.dumps(plain))
    shapely.prepare(shape)
    return shape


_RELATES = {
    "s_intersects": shapely.intersects,
    "s_within": shapely.within,
    "s_equals": shapely.equals,
    "s_touches": shapely.touches,
}


def has_relation(relation: str, shapes: Any, points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether points, a row each, have a relation to a shape of shapely, or each to its own in an array of them.

    With ``intersects_xy`` shapely would index a shape at its second point, which takes milliseconds for a large one.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of coordinates that are far from the Earth
        return np.asarray(_RELATES[relation](shapely.points(points), shapes))


@dataclass(frozen=True, slots=True)
class Region(Predicate):
    """A point has a relation to a geometry (or has not, if ``negated``)."""

    attribute: str
    relation: str
    geometry: Geometry
    negated: bool
    bounds: Bounds = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", _prepared(self.geometry).bounds)

    @property
    def hull(self) -> Hull:
        if self.negated:
            return ((column("lon", self.attribute), ALL_NUMBERS),)
        return _box_hull(self.attribute, self.bounds)

    def holds(self, publication: Row) -> bool:
        value = publication.value(self.attribute)
        if not isinstance(value, tuple):
            return False
        west, south, east, north = self.bounds
        if not (west <= value[0] <= east and south <= value[1] <= north):
            return self.negated
        return bool(has_relation(self.relation, _prepared(self.geometry), np.array([value]))[0]) is not self.negated

    def covers(self, other: Predicate) -> bool:
        if self == other:
            return True
        if not isinstance(other, Region | WithinDistance) or other.attribute != self.attribute:
            return False
        if self.negated and other.negated:
            return replace(other, negated=False).covers(replace(self, negated=False))
        if other.negated:
            return False
        if isinstance(other, WithinDistance):  # the circle's bounding box must lie inside
            return self.covers_ranges(dict(other.hull))
        mine, theirs = _prepared(self.geometry), _prepared(other.geometry)
        if self.negated:
            return bool(shapely.disjoint(mine, theirs))
        are_areas = {self.geometry.kind, other.geometry.kind} <= {"Polygon", "MultiPolygon"}
        if self.relation == "s_intersects" or (self.relation == other.relation == "s_within" and are_areas):
            return bool(shapely.covers(mine, theirs))
        return self.relation == "s_within" and bool(shapely.contains_properly(mine, theirs))

    def covers_ranges(self, known: Mapping[Column, Ranges]) -> bool:
        shape = _prepared(self.geometry)
        if self.negated:
            inside = shapely.disjoint
        elif self.relation in ("s_intersects", "s_within"):
            inside = shapely.covers if self.relation == "s_intersects" else shapely.contains_properly
        else:
            return False
        rectangles = _rectangles(self.attribute, known)
        return rectangles is not None and all(inside(shape, _rectangle(*r)) for r in rectangles)

    def call(self) -> tuple[Call, bool]:
        return Call(self.relation, (Attribute(self.attribute), self.geometry)), self.negated

    @classmethod
    def settle(cls, predicates: Sequence[Predicate], publications: Sequence[Row]) -> NDArray[np.bool_]:
        held = np.zeros(len(predicates), np.bool_)
        groups: dict[Predicate, list[int]] = {}
        for i, predicate in enumerate(predicates):
            groups.setdefault(predicate, []).append(i)
        for predicate, rows in groups.items():
            assert isinstance(predicate, Region)
            values = [publications[i].value(predicate.attribute) for i in rows]
            points = np.array([v if isinstance(v, tuple) else (np.nan, np.nan) for v in values])
            found = has_relation(predicate.relation, _prepared(predicate.geometry), points)
            held[rows] = [
                isinstance(v, tuple) and bool(f) is not predicate.negated for v, f in zip(values, found, strict=True)
            ]
        return held


@dataclass(frozen=True, slots=True)
class WithinDistance(Predicate):
    """A point is at most so many metres from another (or further, if ``negated``)."""

    attribute: str
    lon: float
    lat: float
    metres: float
    negated: bool
    bounds: Bounds = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", _reached(self.lon, self.lat, self.metres))

    @property
    def hull(self) -> Hull:
        if self.negated:
            return ((column("lon", self.attribute), ALL_NUMBERS),)
        return _box_hull(self.attribute, self.bounds)

    def holds(self, publication: Row) -> bool:
        value = publication.value(self.attribute)
        if not isinstance(value, tuple):
            return False
        if not self.bounds[1] <= value[1] <= self.bounds[3]:
            return self.negated
        return bool(haversine(value[0], value[1], self.lon, self.lat) <= self.metres) is not self.negated

    def covers(self, other: Predicate) -> bool:
        if not isinstance(other, WithinDistance | Region) or other.attribute != self.attribute:
            return self == other
        if self.negated and other.negated:
            return replace(other, negated=False).covers(replace(self, negated=False))
        if other.negated:
            return False
        if isinstance(other, Region):
            return self.covers_ranges(dict(other.hull))
        if (self.lon, self.lat) == (other.lon, other.lat) and not self.negated:
            return self.metres >= other.metres
        apart = float(haversine(self.lon, self.lat, other.lon, other.lat))
        if self.negated:
            return apart * (1 - 1e-9) - 1.0 > self.metres + other.metres
        return _surely(apart + other.metres) <= self.metres

    def covers_ranges(self, known: Mapping[Column, Ranges]) -> bool:
        if self.negated:  # the circle's bounding box must lie elsewhere
            axes = dict(replace(self, negated=False).hull)
            return any(not intersect(axes.get(at, ALL_NUMBERS), ranges) for at, ranges in known.items() if at in axes)
        rectangles = _rectangles(self.attribute, known)
        return rectangles is not None and all(_surely(self._farthest(*r)) <= self.metres for r in rectangles)

    def _farthest(self, west: float, south: float, east: float, north: float) -> float:
        """Metres to the farthest point of a rectangle: on its farthest meridian, at an end or where that turns back."""
        opposite = self.lon - 180 if self.lon > 0 else self.lon + 180
        lon = max((west, east), key=lambda x: min(abs(x - self.lon), 360 - abs(x - self.lon)))
        lon = opposite if west <= opposite <= east else lon
        flat = cos(radians(lon - self.lon))
        turn = degrees(atan(tan(radians(self.lat)) / flat)) if flat else 0.0
        lats = (south, north, min(max(turn, south), north))
        return max(float(haversine(lon, lat, self.lon, self.lat)) for lat in lats)

    def call(self) -> tuple[Call, bool]:
        centre = Geometry("Point", (self.lon, self.lat))
        return Call("s_dwithin", (Attribute(self.attribute), centre, Literal(self.metres))), self.negated

    @classmethod
    def settle(cls, predicates: Sequence[Predicate], publications: Sequence[Row]) -> NDArray[np.bool_]:
        circles = np.array([(p.lon, p.lat, p.metres, p.negated) for p in predicates])  # type: ignore[attr-defined]
        pairs = zip(predicates, publications, strict=True)
        values = [publication.value(p.attribute) for p, publication in pairs]  # type: ignore[attr-defined]
        points = np.array([v if isinstance(v, tuple) else (np.nan, np.nan) for v in values])
        near = haversine(points[:, 0], points[:, 1], circles[:, 0], circles[:, 1]) <= circles[:, 2]
        return np.asarray((near != circles[:, 3].astype(bool)) & ~np.isnan(points[:, 0]))


def _reached(lon: float, lat: float, metres: float) -> Bounds:
    """Where the points lie that are at most so far away, and a little more than that."""
    angle = metres / EARTH_RADIUS * (1 + 1e-9) + 1e-12
    south, north = lat - degrees(angle), lat + degrees(angle)
    if angle >= pi / 2 or south <= -90 or north >= 90:  # a pole is inside: every longitude is
        return -inf, south, inf, north
    width = degrees(asin(min(1.0, sin(angle) / cos(radians(lat))))) * (1 + 1e-9)
    return lon - width, south, lon + width, north


def _surely(metres: float) -> float:
    """A distance plus the most that rounding may add; that is most near the antipodes, where the arc sine is steep."""
    return metres * (1 + 1e-9) + (1e-6 if metres < 19e6 else 1.0)


_MOST_RECTANGLES = 64


def _rectangles(attribute: str, known: Mapping[Column, Ranges]) -> list[tuple[float, float, float, float]] | None:
    """The ranges of longitude and latitude as (west, south, east, north), bounds included; None if there are many."""
    lon, lat = known.get(column("lon", attribute), ALL_NUMBERS), known.get(column("lat", attribute), ALL_NUMBERS)
    if len(lon) * len(lat) > _MOST_RECTANGLES:
        return None
    sides = [
        [(max(low, -most), min(nextafter(high, -inf), most)) for low, high in ranges if low <= most and high > -most]
        for ranges, most in ((lon, 180.0), (lat, 90.0))
    ]
    return [(west, south, east, north) for west, east in sides[0] for south, north in sides[1]]


def _rectangle(west: float, south: float, east: float, north: float) -> Any:
    if west == east or south == north:  # a box would be no valid polygon
        corners = [(west, south)] if (west, south) == (east, north) else [(west, south), (east, north)]
        return shapely.Point(corners[0]) if len(corners) == 1 else shapely.LineString(corners)
    return shapely.box(west, south, east, north)


def _box_hull(attribute: str, bounds: Bounds) -> Hull:
    """Longitudes from west to east, around the antimeridian if need be, and latitudes; bounds included."""
    west, south, east, north = bounds
    return (
        (column("lon", attribute), _longitudes(west, nextafter(east, inf))),
        (column("lat", attribute), ((south, nextafter(north, inf)),)),
    )


def _longitudes(west: float, east: float) -> Ranges:
    if east - west >= 360:
        return ALL_NUMBERS
    pieces: list[tuple[float, float]] = [(west, east)]
    if west < -180:
        pieces.append((west + 360 - 1e-9, inf))
    if east > 180:
        pieces.append((-inf, east - 360 + 1e-9))
    return union(tuple(pieces))


def _within_box(attribute: str, box: Box, inclusive: bool, node: Node) -> list[Within]:
    bounds = box.bounds
    west, south, east, north = bounds if len(bounds) == 4 else (bounds[0], bounds[1], bounds[3], bounds[4])
    if south > north:
        raise Mismatch("BBOX(west, south, east, north) with south ≤ north", to_text(box), node)
    if inclusive:
        east, north = nextafter(east, inf), nextafter(north, inf)
    else:
        west, south = nextafter(west, inf), nextafter(south, inf)
    lon: Ranges = ((west, east),) if west < east else ()
    if bounds[0] > bounds[len(bounds) // 2]:  # across the antimeridian
        lon = ((-inf, east), (west, inf))
    lat: Ranges = ((south, north),) if south < north else ()
    return [Within(column("lon", attribute), lon), Within(column("lat", attribute), lat)]


def _outline(box: Box) -> Geometry:
    """The edges of a box, in two parts where it lies across the antimeridian."""
    bounds = box.bounds
    west, south, east, north = bounds if len(bounds) == 4 else (bounds[0], bounds[1], bounds[3], bounds[4])
    if west <= east:
        ring = ((west, south), (east, south), (east, north), (west, north), (west, south))
        return Geometry("MultiLineString", (ring,), box.at)
    halves = (
        ((outer, south), (edge, south), (edge, north), (outer, north))
        for outer, edge in ((180.0, west), (-180.0, east))
    )
    return Geometry("MultiLineString", tuple(halves), box.at)


_SPATIAL = {
    "s_intersects": "S_INTERSECTS(location, POLYGON((7.1 45.8, 7.3 45.8, 7.2 45.9, 7.1 45.8)))",
    "s_disjoint": "S_DISJOINT(location, BBOX(7.1, 45.8, 7.3, 45.9))",
    "s_within": "S_WITHIN(location, BBOX(7.1, 45.8, 7.3, 45.9))",
    "s_contains": "S_CONTAINS(BBOX(7.1, 45.8, 7.3, 45.9), location)",
    "s_equals": "S_EQUALS(location, POINT(7.17 45.87))",
    "s_touches": "S_TOUCHES(location, POLYGON((7.1 45.8, 7.3 45.8, 7.2 45.9, 7.1 45.8)))",
}


@function("place", _SPATIAL, (2, 2))
def relate(call: Call, negated: bool) -> Alternatives:
    op, (left, right) = call.op, call.args
    if isinstance(right, Attribute) and not isinstance(left, Attribute):
        left, right = right, left
        op = {"s_contains": "s_within", "s_within": "s_contains"}.get(op, op)
    attribute = _attribute(left)
    if op == "s_disjoint":
        op, negated = "s_intersects", not negated
    if op == "s_contains":  # a point contains nothing but that point
        op = "s_equals"
    if isinstance(right, Box) and op in ("s_intersects", "s_within"):
        parts = _within_box(attribute, right, op == "s_intersects", right)
        if not negated:
            return [tuple(parts)]
        return [(Within(p.column, complement(p.ranges, ALL_NUMBERS)),) for p in parts]
    if isinstance(right, Box) and op == "s_touches":
        op, right = "s_intersects", _outline(right)
    elif isinstance(right, Box):
        west, south, east, north = right.bounds if len(right.bounds) == 4 else (*right.bounds[:2], *right.bounds[3:5])
        ring = ((west, south), (east, south), (east, north), (west, north), (west, south))
        right = Geometry("Polygon", (ring,), right.at)
    if not isinstance(right, Geometry):
        raise Mismatch("a geometry (POINT, POLYGON, BBOX …)", to_text(right), right)
    _check_valid(right)
    return [(Region(attribute, op, right, negated),)]


def _check_valid(geometry: Geometry) -> None:
    shape = _prepared(geometry)
    if not shapely.is_valid(shape):
        raise Mismatch("a valid geometry", shapely.is_valid_reason(shape), geometry)


@function("place", {"s_dwithin": "S_DWITHIN(location, POINT(7.17 45.87), 500)"}, (3, 3))
def near(call: Call, negated: bool) -> Alternatives:
    left, centre, metres = call.args
    if isinstance(centre, Attribute) and isinstance(left, Geometry):
        left, centre = centre, left
    if not isinstance(centre, Geometry) or centre.kind != "Point":
        raise Mismatch("a POINT as the centre", to_text(centre), centre)
    if not isinstance(metres, Literal) or isinstance(metres.value, bool | str) or metres.value < 0:
        raise Mismatch("a distance in metres, 0 or more", to_text(metres), metres)
    lon, lat = (float(c) for c in centre.coordinates[:2])  # type: ignore[arg-type]
    if not (-180 <= lon <= 180 and -90 <= lat <= 90):
        raise Mismatch("a POINT with lon in [-180, 180] and lat in [-90, 90]", shown((lon, lat)), centre)
    return [(WithinDistance(_attribute(left), lon, lat, float(metres.value), negated),)]


def _attribute(node: Node) -> str:
    if not isinstance(node, Attribute) or RESERVED.get(node.name, "point") != "point":
        raise Mismatch("an attribute that is a point", to_text(node), node)
    return node.name
