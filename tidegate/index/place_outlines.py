"""Places: the outlines of geometries, and circles, as flat arrays.

``index/place_terms.py`` keeps the places that its terms name, each once. The arrays are laid out as the kernels read
them (``kernels/place_location.py``) and have all that is needed to give a place to shapely again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from tidegate.index.offsets import below, fits, offsets
from tidegate.index.ragged import picked, starts
from tidegate.kernels.box_tree import spread
from tidegate.kernels.place_location import CIRCLE, LINES, POINTS, RINGS, Outlines

__all__ = ["PLACE_ARRAYS", "Places", "rings_of"]

#: The arrays that are saved as they are.
PLACE_ARRAYS = ("key", "what", "ring_start", "opens", "vertex_start", "vertex")

#: The fewest vertices of a ring. Those of a circle are its centre; its radius in metres and a zero; west and south;
#: east and north.
_FEWEST = {POINTS: 1, LINES: 2, RINGS: 4, CIRCLE: 4}
_SHAPES = {
    POINTS: shapely.GeometryType.MULTIPOINT,
    LINES: shapely.GeometryType.MULTILINESTRING,
    RINGS: shapely.GeometryType.MULTIPOLYGON,
}


@dataclass(frozen=True, slots=True)
class Places:
    """Places as arrays by place, by ring and by vertex."""

    key: NDArray[np.uint8]
    """128 bits of a place."""
    what: NDArray[np.uint8]
    """What its vertices are; this and the arrays of rings and vertices as ``Outlines`` has them."""
    ring_start: NDArray[np.int64]
    opens: NDArray[np.uint8]
    """Whether a ring is the first one of its polygon, by ring."""
    vertex_start: NDArray[np.int64]
    vertex: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.what)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(sum(getattr(self, name).nbytes for name in PLACE_ARRAYS))

    def check(self) -> None:
        """A ``ValueError`` if some array leads out of another."""
        places, rings = len(self.what), len(self.opens)
        offsets("place-ring_start", self.ring_start, places, rings)
        offsets("place-vertex_start", self.vertex_start, rings, len(self.vertex))
        fits("place-vertex", self.vertex.shape, (len(self.vertex), 2))
        fits("place-key", self.key.shape, (places, 16))
        below("place-what", self.what, len(_FEWEST))
        rings_of_place, vertices = np.diff(self.ring_start), np.diff(self.vertex_start)
        what = np.repeat(self.what, rings_of_place)
        fewest = np.array([_FEWEST[number] for number in range(len(_FEWEST))])[what]
        if (rings_of_place < 1).any() or (vertices < fewest).any() or (vertices[what == POINTS] > 1).any():
            raise ValueError("places with too few or too many vertices")
        if (self.opens[self.ring_start[:-1]] != (self.what == RINGS)).any():
            raise ValueError("rings of no polygon")

    @property
    def outlines(self) -> Outlines:
        """The arrays that kernels read."""
        return Outlines(self.what, self.ring_start, self.vertex_start, self.vertex)

    @property
    def first_vertex(self) -> NDArray[np.int64]:
        """The first vertex of each place."""
        return self.vertex_start[self.ring_start[:-1]]

    @property
    def bounds(self) -> NDArray[np.float64]:
        """West, south, east and north of each place; those of a circle may lie beyond 180° and the poles."""
        if not len(self):
            return np.empty((0, 4))
        first, circles = self.first_vertex, np.flatnonzero(self.what == CIRCLE)
        bounds = np.concatenate([np.minimum.reduceat(self.vertex, first), np.maximum.reduceat(self.vertex, first)], 1)
        bounds[circles, :2] = self.vertex[first[circles] + 2]
        bounds[circles, 2:] = self.vertex[first[circles] + 3]
        return bounds

    def some(self, which: NDArray[Any]) -> Places:
        """Some of the places, in that order."""
        ring_start, rings = picked(self.ring_start, which)
        vertex_start, vertices = picked(self.vertex_start, rings)
        return Places(
            key=self.key[which],
            what=self.what[which],
            ring_start=ring_start,
            opens=self.opens[rings],
            vertex_start=vertex_start,
            vertex=self.vertex[vertices],
        )

    def spread(self) -> tuple[Places, NDArray[np.int64]]:
        """The same places with those beside each other that are looked at together, and the new number of each."""
        order = spread(self.bounds)
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        return self.some(order), number

    @staticmethod
    def joined(several: Sequence[Places]) -> tuple[Places, list[NDArray[np.int64]]]:
        """The places of several, each once, and the new numbers of those of each."""
        everything = Places(
            key=np.concatenate([places.key for places in several]),
            what=np.concatenate([places.what for places in several]),
            ring_start=starts(np.concatenate([np.diff(places.ring_start) for places in several])),
            opens=np.concatenate([places.opens for places in several]),
            vertex_start=starts(np.concatenate([np.diff(places.vertex_start) for places in several])),
            vertex=np.concatenate([places.vertex for places in several]),
        )
        keys = np.ascontiguousarray(everything.key).view([("one", "u8"), ("two", "u8")]).ravel()
        _, first, same = np.unique(keys, return_index=True, return_inverse=True)
        distinct, number = everything.some(first).spread()
        return distinct, np.split(number[same.ravel()], np.cumsum([len(places) for places in several])[:-1])

    def shapes(self, which: NDArray[Any]) -> NDArray[Any]:
        """Some places, which are no circles, as geometries of shapely."""
        shapes = np.empty(len(which), object)
        for what, kind in _SHAPES.items():
            mine = np.flatnonzero(self.what[which] == what)
            if not len(mine):
                continue
            some = self.some(which[mine])
            levels: tuple[NDArray[Any], ...]
            if what == POINTS:
                levels = (some.ring_start,)
            elif what == LINES:
                levels = (some.vertex_start, some.ring_start)
            else:
                parts = np.append(np.flatnonzero(some.opens), len(some.opens))
                levels = (some.vertex_start, parts, np.searchsorted(parts, some.ring_start))
            shapes[mine] = shapely.from_ragged_array(kind, some.vertex, levels)
        return shapes


def rings_of(kind: str, coordinates: Any) -> tuple[int, list[Any], bytes]:
    """What the vertices of a geometry are, its rings, and whether each is the first one of a polygon."""
    if kind in ("Point", "MultiPoint"):
        rings = [coordinates] if kind == "Point" else list(coordinates)
        return POINTS, [(position,) for position in rings], bytes(len(rings))
    if kind in ("LineString", "MultiLineString"):
        rings = [coordinates] if kind == "LineString" else list(coordinates)
        return LINES, rings, bytes(len(rings))
    polygons = [coordinates] if kind == "Polygon" else coordinates
    rings = [ring for polygon in polygons for ring in polygon]
    return RINGS, rings, bytes(number == 0 for polygon in polygons for number in range(len(polygon)))
