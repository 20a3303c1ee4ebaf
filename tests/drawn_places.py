"""Places and points for tests: geometries with edges, holes and parts that touch, and points on and next to them."""

from __future__ import annotations

from math import cos, inf, nextafter, pi, radians, sin

import shapely
from hypothesis import strategies as st

from tidegate.language.tree import Geometry
from tidegate.predicates.place import Region, WithinDistance

__all__ = ["circles_and_points", "geometries", "points_near", "regions"]

RELATIONS = ("s_intersects", "s_within", "s_touches", "s_equals")

_grid = st.integers(-4, 4).map(float)
_odd = st.sampled_from([0.1, 0.3, 1 / 3, 2 / 3, 1e-3, 1e-17, 5e-324, -1e-300, 179.99999999999997, 89.99999999999999])
_wild = st.floats(-180, 180) | st.sampled_from([-180.0, 180.0, 90.0, -90.0, 200.0, -1e300, 1e300])
_number = _grid | _odd | _wild
_position = st.tuples(_grid, _grid) | st.tuples(_number, _number)


@st.composite
def _star(draw):
    """A ring around a centre: never crosses itself, seldom convex, of few or of very many edges."""
    x, y = draw(_position.filter(lambda p: max(map(abs, p)) < 1000))
    count = draw(st.sampled_from([3, 4, 5, 8, 13, 40, 200]))
    radii = draw(st.lists(st.sampled_from([0.5, 1.0, 1.25, 3.0]), min_size=count, max_size=count))
    steps = draw(st.sampled_from([count, 4, 8]))
    ring = [
        (x + r * cos(2 * pi * i / count), y + r * sin(2 * pi * i / count))
        if steps == count
        else (
            round((x + r * cos(2 * pi * i / count)) * steps) / steps,
            round((y + r * sin(2 * pi * i / count)) * steps) / steps,
        )
        for i, r in enumerate(radii)
    ]
    return (*ring, ring[0])


@st.composite
def _corners(draw):
    """A ring of drawn corners, in drawn order."""
    ring = draw(st.lists(_position, min_size=3, max_size=6, unique=True))
    return (*ring, ring[0])


@st.composite
def _comb(draw):
    """A ring whose edges all go from south to north and back, so that no band of latitude has few of them."""
    teeth = draw(st.integers(2, 60))
    ring = [(float(i), 2.0 if i % 2 else 0.0) for i in range(2 * teeth)]
    return (*ring, (float(2 * teeth), -1.0), (0.0, -1.0), ring[0])


def _box(west, south, east, north):
    return ((west, south), (east, south), (east, north), (west, north), (west, south))


@st.composite
def _holed(draw):
    """A square with holes that may touch it, or each other, in single points."""
    holes = draw(st.lists(st.tuples(st.integers(-3, 2), st.integers(-3, 2)), max_size=3, unique=True))
    shape = draw(st.sampled_from(["box", "diamond"]))
    rings = [_box(-4.0, -4.0, 4.0, 4.0)]
    for x, y in holes:
        if shape == "box":
            rings.append(_box(float(x), float(y), x + 1.0, y + 1.0))
        else:
            rings.append(
                ((x - 1.0, y + 0.0), (x + 0.0, y - 1.0), (x + 1.0, y + 0.0), (x + 0.0, y + 1.0), (x - 1.0, y + 0.0))
            )
    return tuple(rings)


_polygon = _star().map(lambda ring: (ring,)) | _corners().map(lambda r: (r,)) | _comb().map(lambda r: (r,)) | _holed()
_line = st.lists(_position, min_size=2, max_size=40).map(tuple)
_any = (
    _polygon.map(lambda c: Geometry("Polygon", c))
    | _polygon.map(lambda c: Geometry("Polygon", c))
    | st.lists(_polygon, min_size=1, max_size=3).map(lambda c: Geometry("MultiPolygon", tuple(c)))
    | _line.map(lambda c: Geometry("LineString", c))
    | st.lists(_line, min_size=1, max_size=3).map(lambda c: Geometry("MultiLineString", tuple(c)))
    | _position.map(lambda c: Geometry("Point", c))
    | st.lists(_position, min_size=1, max_size=40).map(lambda c: Geometry("MultiPoint", tuple(c)))
)


def _is_valid(geometry):
    from tidegate.predicates.place import _prepared

    return bool(shapely.is_valid(_prepared(geometry)))


#: Geometries that are valid, as a subscription must have them.
geometries = _any.filter(_is_valid)


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
    x, y = draw(
        st.sampled_from([(ax, ay), (ax + share * (bx - ax), ay + share * (by - ay)), (bx, ay), (ax, by), (ax - 1, ay)])
        | st.tuples(st.floats(-180, 180), st.floats(-90, 90))
    )
    x, y = (_nudged(number, draw(st.integers(-2, 2))) for number in (x, y))
    return min(max(x, -180.0), 180.0), min(max(y, -90.0), 90.0)


def _nudged(number, steps):
    for _ in range(abs(steps)):
        number = nextafter(number, inf if steps > 0 else -inf)
    return number


_metres = st.sampled_from(
    [0.0, 1e-9, 1.0, 500.0, 1e5, 1e6, 10_007_557.0, 15e6, 20_015_114.0, 20_015_115.0, 1e9]
) | st.floats(0, 2.1e7)
_centre = st.tuples(
    st.sampled_from([0.0, 180.0, -180.0, 179.9999999, 15.977]) | st.floats(-180, 180),
    st.sampled_from([0.0, 90.0, -90.0, 89.9999, 45.815]) | st.floats(-90, 90),
)


@st.composite
def circles_and_points(draw, attribute="location"):
    """A circle, and points at its centre, at about its radius, on the other side of the globe, or anywhere."""
    (lon, lat), metres = draw(_centre), draw(_metres)
    points = []
    for _ in range(draw(st.integers(1, 4))):
        bearing = radians(draw(st.sampled_from([0.0, 90.0, 180.0, 270.0, 33.0])))
        angle = metres / 6_371_008.8
        north = radians(lat)
        phi = sin(north) * cos(angle) + cos(north) * sin(angle) * cos(bearing)
        y = pi / 2 - _arc(phi)
        x = radians(lon) + _turn(sin(bearing) * sin(angle) * cos(north), cos(angle) - sin(north) * sin(y))
        at = (x * 180 / pi + 540) % 360 - 180, y * 180 / pi
        point = draw(st.sampled_from([(lon, lat), at, ((lon + 360) % 360 - 180, -lat)]) | _centre)
        x, y = (_nudged(number, draw(st.integers(-3, 3))) for number in point)
        points.append((min(max(x, -180.0), 180.0), min(max(y, -90.0), 90.0)))
    return WithinDistance(attribute, lon, lat, metres, False), points


def _arc(number):
    from math import acos

    return acos(min(max(number, -1.0), 1.0))


def _turn(y, x):
    from math import atan2

    return atan2(y, x)


def regions(attribute="location"):
    """Any relation to any geometry."""
    return st.builds(Region, st.just(attribute), st.sampled_from(RELATIONS), geometries, st.just(False))
