"""Where a point lies: in an outline, on its edge or outside of it; in a circle on the sphere or outside of it.

An outline is the rings of an area, or lines, or single points. A ray to the east crosses the rings of an area an odd
number of times if it begins inside. What rounding might decide is ``UNSURE`` and is left to the caller: on which side
an edge is passed is sure if the determinant exceeds the error bound of Shewchuk 1997, §4.3, or the edge is parallel to
an axis. Outlines of many edges have their edges listed by bands of latitude (``Details``). A circle is compared by the
chord through the sphere, with a margin that is wider than all rounding of the formula that defines the distance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = [
    "CIRCLE", "EDGE", "INSIDE", "LINES", "MANY_EDGES", "OUTSIDE", "POINTS", "RINGS", "UNSURE", "Details", "Outlines",
    "banded", "located", "on_sphere",
]  # fmt: skip

#: Where a point lies. An odd one ends a search, and two even ones are the same as none.
OUTSIDE, EDGE, INSIDE, UNSURE = 0, 1, 2, 3
#: What the vertices of a place are: single points, lines, the rings of an area, or the centre and radius of a circle.
POINTS, LINES, RINGS, CIRCLE = 0, 1, 2, 3
#: Edges from which an outline has bands, and edges per band if each were in one.
MANY_EDGES, _EDGES_OF_BAND = 32, 4
#: Times the number of its edges that the bands of an outline may list.
_MOST_LISTED = 4
#: The error bound of a determinant, relative; below the other, products may have lost bits to underflow.
_RELATIVE, _UNDERFLOW = (3 + 16 * 2.0**-53) * 2.0**-53, 1e-290

_jit = njit(cache=True, nogil=True, fastmath=False)


class Outlines(NamedTuple):
    """Place i has the rings from ring_start[i] to ring_start[i + 1], ring r the vertices from vertex_start[r] on.

    The last vertex of the ring of an area is the first one again, and a single point is a ring of one. The first vertex
    of a circle is its centre.
    """

    what: NDArray[np.uint8]
    ring_start: NDArray[np.int64]
    vertex_start: NDArray[np.int64]
    vertex: NDArray[np.float64]
    """Longitude and latitude, a row each."""


class Details(NamedTuple):
    """The edges of large outlines by bands of latitude, and what circles are compared with."""

    of: NDArray[np.int32]
    """The number of a large outline, or of a circle, by place; −1 for others."""
    south: NDArray[np.float64]
    """Where the first band begins, by large outline."""
    scale: NDArray[np.float64]
    """Bands per degree."""
    band_start: NDArray[np.int64]
    """The first band of each large outline."""
    edge_start: NDArray[np.int64]
    """The first edge of each band."""
    edge: NDArray[np.int32]
    """The first vertex of each edge of a band, counted from the first one of the outline."""
    circle: NDArray[np.float64]
    """Centre on the unit sphere, and the squares of chords up to which it is surely reached, beyond which it is not."""


@_jit
def on_sphere(lon: float, lat: float) -> tuple[float, float, float]:
    """A point in degrees, on a sphere of radius 1."""
    east, north = np.radians(lon), np.radians(lat)
    return np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)


@_jit
def _passed(ax: float, ay: float, bx: float, by: float, x: float, y: float) -> int:
    """An edge from a to b and a point: ``EDGE``, ``INSIDE`` if a ray to the east crosses the edge, else ``OUTSIDE``."""
    if (by == y or ay == y) and (
        (bx == x and by == y) or (ax == x and ay == y) or (ay == by and min(ax, bx) <= x <= max(ax, bx))
    ):
        return EDGE
    if (ay > y) == (by > y):
        # GEOS, which decides for predicates, loses so small differences.
        return UNSURE if ay != by and abs(ay - y) < _UNDERFLOW and abs(by - y) < _UNDERFLOW else OUTSIDE
    left, right = (ax - x) * (by - y), (bx - x) * (ay - y)
    side = left - right
    if abs(side) > _RELATIVE * (abs(left) + abs(right)) + _UNDERFLOW:
        return INSIDE if (side > 0) == (by > ay) else OUTSIDE
    if ax == bx:
        return EDGE if ax == x else INSIDE if ax > x else OUTSIDE
    return UNSURE


@_jit
def _in_rings(first: int, end: int, vertex_start: Any, vertex: Any, x: float, y: float) -> Any:
    """Where a point lies, by all edges of some rings."""
    inside = OUTSIDE
    for ring in range(first, end):
        begin = vertex_start[ring]
        ax, ay = vertex[begin, 0], vertex[begin, 1]
        if ax == x and ay == y:
            return EDGE
        for v in range(begin + 1, vertex_start[ring + 1]):
            bx, by = vertex[v, 0], vertex[v, 1]
            passed = _passed(ax, ay, bx, by, x, y)
            if passed & 1:
                return passed
            inside ^= passed
            ax, ay = bx, by
    return inside


@_jit
def _band(y: float, south: float, scale: float, bands: int) -> Any:
    """The band of a latitude, the first or the last if it is in none. It never falls where the latitude grows."""
    band = (y - south) * scale
    return np.int64(min(band, bands - 1.0)) if band > 0 else 0


@_jit
def _in_band(first: int, begin: int, end: int, edge: Any, vertex: Any, x: float, y: float) -> Any:
    """Where a point lies, by the edges of its band; ``first`` is the first vertex of the outline."""
    inside = OUTSIDE
    for k in range(begin, end):
        v = first + edge[k]
        passed = _passed(vertex[v, 0], vertex[v, 1], vertex[v + 1, 0], vertex[v + 1, 1], x, y)
        if passed & 1:
            return passed
        inside ^= passed
    return inside


@_jit
def _in_circle(v: int, vertex: Any, of: int, circle: Any, x: float, y: float, unit: tuple[float, float, float]) -> int:
    if vertex[v, 0] == x and vertex[v, 1] == y:
        return INSIDE
    chord = 0.0
    for i in range(3):
        chord += (unit[i] - circle[of, i]) ** 2
    if chord <= circle[of, 3]:
        return INSIDE
    return OUTSIDE if chord > circle[of, 4] else UNSURE


@_jit
def located(
    what: Any, ring_start: Any, vertex_start: Any, vertex: Any,
    detail: Any, south: Any, scale: Any, band_start: Any, edge_start: Any, edge: Any, circle: Any,
    place: int, x: float, y: float, unit: tuple[float, float, float],
) -> Any:  # fmt: skip
    """Where a point lies, which is given in degrees and on the unit sphere.

    ``Outlines`` and ``Details`` are taken apart by the caller: numba counts references to the arrays of a tuple each
    time one is read from it, which takes longer than all else here.
    """
    of, first, end = detail[place], ring_start[place], ring_start[place + 1]
    if of < 0:
        where = _in_rings(first, end, vertex_start, vertex, x, y)
    elif what[place] == CIRCLE:
        return _in_circle(vertex_start[first], vertex, of, circle, x, y, unit)
    else:
        band = band_start[of] + _band(y, south[of], scale[of], band_start[of + 1] - band_start[of])
        where = _in_band(vertex_start[first], edge_start[band], edge_start[band + 1], edge, vertex, x, y)
    return OUTSIDE if where == INSIDE and what[place] != RINGS else where


# --- building -------------------------------------------------------------------------------------------------------


@_jit
def _edges_by_band(
    outlines: Outlines, place: int, south: float, scale: float, filled: NDArray[np.int64], edge: NDArray[np.int32]
) -> int:
    """Add the number of edges of each band to ``filled``, and write them to ``edge`` from there on if it has room; how
    many there are in all.
    """
    vertex, bands = outlines.vertex, len(filled)
    begin, listed = outlines.vertex_start[outlines.ring_start[place]], 0
    for ring in range(outlines.ring_start[place], outlines.ring_start[place + 1]):
        for v in range(outlines.vertex_start[ring], outlines.vertex_start[ring + 1] - 1):
            low = _band(min(vertex[v, 1], vertex[v + 1, 1]), south, scale, bands)
            high = _band(max(vertex[v, 1], vertex[v + 1, 1]), south, scale, bands)
            listed += high - low + 1
            for band in range(low, high + 1):
                if len(edge):
                    edge[filled[band]] = v - begin
                filled[band] += 1
    return listed


@_jit
def banded(outlines: Outlines, large: NDArray[np.int64], latitudes: NDArray[np.float64]) -> tuple[Any, ...]:
    """The bands of large outlines, whose southern and northern ends are given: ``south`` … ``edge`` of ``Details``.

    There are fewer where edges lie in so many bands that they would be listed too often.
    """
    uncounted = np.empty(0, np.int32)
    south, scale = latitudes[:, 0].copy(), np.zeros(len(large))
    band_start, total = np.zeros(len(large) + 1, np.int64), 0
    for i in range(len(large)):
        first, end = outlines.ring_start[large[i]], outlines.ring_start[large[i] + 1]
        edges = outlines.vertex_start[end] - outlines.vertex_start[first]
        height, bands = latitudes[i, 1] - south[i], max(edges // _EDGES_OF_BAND, 1)
        while True:
            scale[i] = bands / height if height > 0 else 0.0
            listed = _edges_by_band(outlines, large[i], south[i], scale[i], np.zeros(bands, np.int64), uncounted)
            if listed <= _MOST_LISTED * edges or bands == 1:
                break
            bands = bands // 2
        band_start[i + 1] = band_start[i] + bands
        total += listed
    edge_start, edge = np.zeros(band_start[-1] + 1, np.int64), np.empty(total, np.int32)
    for i in range(len(large)):
        first, end = band_start[i], band_start[i + 1]
        filled = np.zeros(end - first, np.int64)
        _edges_by_band(outlines, large[i], south[i], scale[i], filled, uncounted)
        for band in range(end - first):
            edge_start[first + band + 1] = edge_start[first + band] + filled[band]
            filled[band] = edge_start[first + band]
        _edges_by_band(outlines, large[i], south[i], scale[i], filled, edge)
    return south, scale, band_start, edge_start, edge
