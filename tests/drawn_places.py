"""Places and points for tests: geometries with edges, holes and parts that touch, and points on and next to them."""

from __future__ import annotations

from math import acos, atan2, cos, degrees, inf, nextafter, pi, radians, sin

import shapely
from hypothesis import strategies as st

from tests.oracle import EARTH_RADIUS
from tidegate.language.tree import Geometry
from tidegate.predicates.place import Region, WithinDistance

__all__ = ["RELATIONS", "circles_and_points", "geometries", "points_near", "regions"]

RELATIONS = ("s_intersects", "s_within", "s_touches", "s_equals")
KINDS = {
    "Point": lambda c: shapely.Point(c),
    "MultiPoint": lambda c: shapely.MultiPoint(c),
    "LineString": lambda c: shapely.LineString(c),
    "MultiLineString": lambda c: shapely.MultiLineString(c),
    "Polygon": lambda c: shapely.Polygon(c[0], c[1:]),
    "MultiPolygon": lambda c: shapely.MultiPolygon([(polygon[0], polygon[1:]) for polygon in c]),
}

_grid = st.integers(-4, 4).map(float)
_odd = st.sampled_from([0.1, 0.3, 1 / 3, 2 / 3, 1e-3, 1e-17, 5e-324, -1e-300, 179.99999999999997, 89.99999999999999])
_wild = st.floats(-180, 180) | st.sampled_from([-180.0, 180.0, 90.0, -90.0, 200.0, -1e300, 1e300])
_number = _grid | _odd | _wild
_position = st.tuples(_grid, _grid) | st.tuples(_number, _number)


@st.composite
def _stars(draw):
    """A ring around a centre, of few or of many edges, some of them on a grid."""
    x, y = draw(st.tuples(_grid, _grid))
    count = draw(st.sampled_from([3, 4, 5, 8, 13, 40, 200]))
    radii = draw(st.lists(st.sampled_from([0.5, 1.0, 1.25, 3.0]), min_size=count, max_size=count))
    turns = [2 * pi * i / count for i in range(count)]
    ring = [(x + r * cos(turn), y + r * sin(turn)) for turn, r in zip(turns, radii, strict=True)]
    if (steps := draw(st.sampled_from([0, 4, 8]))) and count < 20:
        ring = [(round(x * steps) / steps, round(y * steps) / steps) for x, y in ring]
    return (*ring, ring[0])


@st.composite
def _corners(draw):
    """A ring of drawn corners in drawn order; often it crosses itself and is left out."""
    ring = draw(st.lists(_position, min_size=3, max_size=5, unique=True))
    return (*ring, ring[0])


@st.composite
def _combs(draw):
    """A ring whose edges go from south to north and back, so that every band of latitude has most of them."""
    teeth = draw(st.integers(2, 60))
    ring = [(float(i), 2.0 if i % 2 else 0.0) for i in range(2 * teeth)]
    return (*ring, (float(2 * teeth), -1.0), (0.0, -1.0), ring[0])


def _box(west, south, east, north):
    return ((west, south), (east, south), (east, north), (west, north), (west, south))


@st.composite
def _holed(draw):
    """A square with holes that may touch it, or each other, in single points."""
    holes = draw(st.lists(st.tuples(st.integers(-3, 2), st.integers(-3, 2)), max_size=3, unique=True))
    is_box = draw(st.booleans())
    rings = [_box(-4.0, -4.0, 4.0, 4.0)]
    for x, y in holes:
        diamond = ((x - 1.0, y + 0.0), (x + 0.0, y - 1.0), (x + 1.0, y + 0.0), (x + 0.0, y + 1.0), (x - 1.0, y + 0.0))
        rings.append(_box(float(x), float(y), x + 1.0, y + 1.0) if is_box else diamond)
    return tuple(rings)


_rings = _stars() | _combs() | _corners()
_polygons = _rings.map(lambda ring: (ring,)) | _holed()
_lines = st.lists(_position, min_size=2, max_size=40).map(tuple)
_coordinates = {
    "Polygon": _polygons,
    "MultiPolygon": st.lists(_polygons, min_size=1, max_size=3).map(tuple),
    "LineString": _lines,
    "MultiLineString": st.lists(_lines, min_size=1, max_size=3).map(tuple),
    "Point": _position,
    "MultiPoint": st.lists(_position, min_size=1, max_size=40).map(tuple),
}


@st.composite
def geometries(draw):
    """A geometry that is valid, as a subscription must have it; half of them are polygons."""
    kind = draw(st.sampled_from(["Polygon"] * 5 + list(_coordinates)))
    return Geometry(kind, draw(_coordinates[kind].filter(lambda c: shapely.is_valid(KINDS[kind](c)))))


def _vertices(nested):
    if isinstance(nested[0], float):
        return [nested]
    return [vertex for part in nested for vertex in _vertices(part)]


@st.composite
def points_near(draw, geometry):
    """A point on the globe: a vertex of the geometry, one on an edge as far as doubles go, one beside it, or any."""
    vertices = _vertices(geometry.coordinates)
    i = draw(st.integers(0, len(vertices) - 1))
    (ax, ay), (bx, by) = vertices[i], vertices[(i + 1) % len(vertices)]
    share = draw(st.sampled_from([0.0, 0.5, 0.25, 1 / 3, 0.1, 0.7, 1.0]))
    on_edge = (ax + share * (bx - ax), ay + share * (by - ay))
    somewhere = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
    return draw(_beside(draw(st.sampled_from([(ax, ay), on_edge, (bx, ay), (ax, by), (ax - 1, ay)]) | somewhere)))


@st.composite
def _beside(draw, point):
    """The point, or one of those next to it."""
    nudged = []
    for number, most in zip(point, (180.0, 90.0), strict=True):
        steps = draw(st.integers(-2, 2))
        for _ in range(abs(steps)):
            number = nextafter(number, inf if steps > 0 else -inf)
        nudged.append(min(max(number, -most), most))
    return tuple(nudged)


_half = pi * EARTH_RADIUS
_metres = st.floats(0, 2.1e7) | st.sampled_from(
    [0.0, 1e-9, 1.0, 500.0, 1e5, 1e6, _half / 2, 15e6, nextafter(_half, 0), _half, nextafter(_half, inf), 1e9]
)
_globe = st.tuples(
    st.sampled_from([0.0, 180.0, -180.0, 179.9999999, 15.977]) | st.floats(-180, 180),
    st.sampled_from([0.0, 90.0, -90.0, 89.9999, 45.815]) | st.floats(-90, 90),
)


@st.composite
def circles_and_points(draw, attribute="location"):
    """A circle, and points at its centre, at about its radius, on the other side of the globe, or anywhere."""
    (lon, lat), metres = draw(_globe), draw(_metres)
    points = []
    for _ in range(draw(st.integers(1, 4))):
        rim = _at(lon, lat, metres, draw(st.sampled_from([0.0, 90.0, 180.0, 270.0, 33.0])))
        opposite = (lon + 360) % 360 - 180, -lat
        points.append(draw(_beside(draw(st.sampled_from([(lon, lat), rim, rim, opposite]) | _globe))))
    return WithinDistance(attribute, lon, lat, metres, False), points


def _at(lon, lat, metres, bearing):
    """About the point that is so many metres away in a direction."""
    angle, north, turn = metres / EARTH_RADIUS, radians(lat), radians(bearing)
    height = sin(north) * cos(angle) + cos(north) * sin(angle) * cos(turn)
    y = pi / 2 - acos(min(max(height, -1.0), 1.0))
    x = radians(lon) + atan2(sin(turn) * sin(angle) * cos(north), cos(angle) - sin(north) * sin(y))
    return (degrees(x) + 540) % 360 - 180, degrees(y)


def regions(attribute="location"):
    """Any relation to any geometry."""
    return st.builds(Region, st.just(attribute), st.sampled_from(RELATIONS), geometries(), st.just(False))
