"""The places of a segment: which of its place terms publications have, many or one at a time.

A packed tree of boxes per attribute finds the terms that lead to clauses, and ``kernels/places.py`` says where a point
lies. What rounding might have decided there is given to the formulas of ``predicates/place.py``, which define it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch
from tidegate.index.offsets import below, fits, offsets
from tidegate.index.place_outlines import Places
from tidegate.index.place_terms import RELATIONS, PlaceTerms
from tidegate.index.terms import FoundTerms, TermLookup
from tidegate.kernels.box_tree import NODE, BoxTree, levels_of, packed
from tidegate.kernels.place_location import CIRCLE, LINES, MANY_EDGES, RINGS, Details, banded
from tidegate.kernels.places import MAYBE, YES, PlacesAsked, found, related
from tidegate.kernels.score import EARTH_RADIUS
from tidegate.predicates.column import Row, column
from tidegate.predicates.place import has_relation, haversine

__all__ = ["PlacesFound", "SegmentPlaces"]

#: Much more than rounding adds to a chord of the unit sphere: less than a micrometre on the Earth.
_MARGIN = 1e-13
#: What is added to a box that is continued on the other side of the antimeridian: more than a turn of 360° is rounded.
_TURN = 1e-9
#: Degrees from west to east of a circle that is taken to have all longitudes.
_AROUND = 359.0
#: Longitudes and latitudes, by attribute; None where no publication has a point there.
_Points = list[tuple[NDArray[np.float64], NDArray[np.float64]] | None]


class PlacesFound(FoundTerms):
    """What ``SegmentPlaces`` has found for some publications, and their points, to compare further terms with."""

    def __init__(
        self,
        lookup: SegmentPlaces,
        points: _Points,
        pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        self._lookup, self._points, self._pairs = lookup, points, pairs

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._pairs

    def holds(
        self, publication: NDArray[np.int64], term: NDArray[np.int64], negated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        held = np.zeros(len(term), np.bool_)
        attribute = self._lookup.terms.attribute[term]
        for a in np.unique(attribute).tolist():
            points = self._points[a]
            if points is not None:
                mine, (lon, lat) = np.flatnonzero(attribute == a), points
                there = ~np.isnan(lon[publication[mine]])
                near = self._lookup.related(lon, lat, publication[mine], term[mine])
                held[mine] = there & (near != negated[mine])
        return held


class SegmentPlaces(TermLookup):
    """All place terms of a segment's clauses."""

    def __init__(self, terms: PlaceTerms, details: Details, trees: dict[int, BoxTree]) -> None:
        self.terms, self._details, self._trees = terms, details, trees
        self._asked = PlacesAsked(terms.place, terms.relation, terms.places.outlines, details)

    @staticmethod
    def of(
        terms: PlaceTerms, drives: NDArray[np.bool_], facts: Any = None, arrays: dict[str, NDArray[Any]] | None = None
    ) -> SegmentPlaces:
        """The places of a segment, of which some lead to clauses."""
        if arrays is None:
            return SegmentPlaces(terms, _details(terms.places), _trees(terms, drives))
        details = Details(**{name: arrays[name] for name in Details._fields})
        trees = {a: BoxTree(**{name: arrays[f"{a}-{name}"] for name in BoxTree._fields}) for a in facts}
        _check(terms, details, trees)
        return SegmentPlaces(terms, details, trees)

    @property
    def nbytes(self) -> int:
        return self.terms.nbytes + sum(array.nbytes for array in self.arrays.values())

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        of_trees = {f"{a}-{name}": array for a, tree in self._trees.items() for name, array in tree._asdict().items()}
        return self._details._asdict() | of_trees

    @property
    def facts(self) -> list[int]:
        """The attributes that have a tree."""
        return list(self._trees)

    # --- matching ---------------------------------------------------------------------------------------------------

    def found(self, batch: Batch, begin: int, end: int) -> PlacesFound:
        points: _Points = []
        for attribute in self.terms.attributes:
            lon, lat = (batch.points(column(reading, attribute)) for reading in ("lon", "lat"))
            points.append(None if lon is None or lat is None else (np.array(lon[begin:end]), np.array(lat[begin:end])))
        return self._found(points)

    def alone(self, row: Row) -> PlacesFound:
        points: _Points = []
        for attribute in self.terms.attributes:
            value = row.value(attribute)
            is_point = isinstance(value, tuple)
            points.append((np.array(value[:1], np.float64), np.array(value[1:], np.float64)) if is_point else None)
        return self._found(points)

    def _found(self, points: _Points) -> PlacesFound:
        parts = []
        for a, tree in self._trees.items():
            given = points[a]
            if given is not None:
                publication, term, answer = found(self._asked, tree, *given)
                kept = answer == YES
                if not kept.all():
                    kept |= self._decided(*given, publication, term, answer)
                    publication, term = publication[kept], term[kept]
                parts.append((publication, term))
        if len(parts) == 1:
            return PlacesFound(self, points, parts[0])
        publication, term = (np.concatenate([_NONE, *(part[i] for part in parts)]) for i in range(2))
        order = np.argsort(publication, kind="stable")
        return PlacesFound(self, points, (publication[order], term[order]))

    def related(
        self,
        lon: NDArray[np.float64],
        lat: NDArray[np.float64],
        publication: NDArray[np.int64],
        term: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Whether publications have terms, pair by pair; no where there is no point."""
        answer = related(self._asked, lon, lat, publication, term)
        return np.asarray((answer == YES) | self._decided(lon, lat, publication, term, answer))

    def _decided(
        self,
        lon: NDArray[np.float64],
        lat: NDArray[np.float64],
        publication: NDArray[np.int64],
        term: NDArray[np.int64],
        answer: NDArray[np.uint8],
    ) -> NDArray[np.bool_]:
        """Which of the pairs whose answer is open hold by the formula that defines them."""
        held = np.zeros(len(term), np.bool_)
        maybe = np.flatnonzero(answer == MAYBE)
        if not len(maybe):
            return held
        places, place = self.terms.places, self.terms.place[term[maybe]]
        points = np.stack([lon[publication[maybe]], lat[publication[maybe]]], axis=1)
        circle = places.what[place] == CIRCLE
        first = places.vertex_start[places.ring_start[place[circle]]]
        far = haversine(*points[circle].T, *places.vertex[first].T)
        held[maybe[circle]] = far <= places.vertex[first + 1, 0]
        which, same = np.unique(place, return_inverse=True)
        shapes = places.shapes(which)[same.ravel()]
        for relation, number in RELATIONS.items():
            mine = np.flatnonzero(~circle & (self.terms.relation[term[maybe]] == number))
            if len(mine):
                held[maybe[mine]] = has_relation(relation, shapes[mine], points[mine])
        return held


_NONE = np.empty(0, np.int64)


# --- building -------------------------------------------------------------------------------------------------------


def _details(places: Places) -> Details:
    what, first = places.what, places.first_vertex
    sizes = np.diff(np.append(first, len(places.vertex)))
    large = np.flatnonzero(((what == LINES) | (what == RINGS)) & (sizes > MANY_EDGES))
    circles = np.flatnonzero(what == CIRCLE)
    of = np.full(len(places), -1, np.int32)
    of[large], of[circles] = np.arange(len(large)), np.arange(len(circles))
    south_and_north = np.ascontiguousarray(places.bounds[large][:, (1, 3)])  # numpy puts columns one after the other
    latitudes = np.clip(south_and_north, -91.0, 91.0)  # no point is further north or south
    south, scale, band_start, edge_start, edge = banded(places.outlines, large, latitudes)
    circle = _circles(places.vertex[first[circles]], places.vertex[first[circles] + 1, 0])
    return Details(of, south, scale, band_start, edge_start, edge, circle)


def _circles(centre: NDArray[np.float64], metres: NDArray[np.float64]) -> NDArray[np.float64]:
    """``Details.circle``: centres on the unit sphere, and squares of chords."""
    lon, lat = np.radians(centre).T
    half = metres / (2 * EARTH_RADIUS)
    chord = 2 * np.sin(np.minimum(half, np.pi / 2))
    chord[half > np.pi / 2 * (1 + 1e-9)] = np.inf  # the circle has every point
    surely = np.where(chord > _MARGIN, (chord - _MARGIN) ** 2, -1.0)
    return np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat), surely, (chord + _MARGIN) ** 2], axis=1
    )


def _trees(terms: PlaceTerms, drives: NDArray[np.bool_]) -> dict[int, BoxTree]:
    """By attribute, the boxes of the terms that lead to clauses."""
    bounds, trees = terms.places.bounds, {}
    for a in range(len(terms.attributes)):
        mine = np.flatnonzero(drives & (terms.attribute == a))
        if len(mine):
            is_circle = terms.places.what[terms.place[mine]] == CIRCLE
            boxes, which = _turned(bounds[terms.place[mine]], is_circle)
            trees[a] = packed(boxes, mine[which].astype(np.int32))
    return trees


def _turned(boxes: NDArray[np.float64], is_circle: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The boxes and, where circles reach over the antimeridian, what lies beyond; and of which place each is.

    No two boxes of a place have a point in common: it would be found twice.
    """
    around = is_circle & (boxes[:, 2] - boxes[:, 0] > _AROUND)
    boxes[around, 0], boxes[around, 2] = -180.0, 180.0
    west, east = np.flatnonzero(is_circle & (boxes[:, 0] < -180)), np.flatnonzero(is_circle & (boxes[:, 2] > 180))
    from_west = boxes[west] + (360 - _TURN, 0, 360 + _TURN, 0)
    from_east = boxes[east] - (360 + _TURN, 0, 360 - _TURN, 0)
    return np.concatenate([boxes, from_west, from_east]), np.concatenate([np.arange(len(boxes)), west, east])


def _check(terms: PlaceTerms, details: Details, trees: dict[int, BoxTree]) -> None:
    """A ``ValueError`` if some array of a snapshot leads out of another."""
    places, of = terms.places, details.of
    fits("place-of", of.shape, (len(places),))
    fits("place-circle", details.circle.shape, (len(details.circle), 5))
    is_circle = places.what == CIRCLE
    below("place-of", of[is_circle], len(details.circle))
    below("place-of", of[~is_circle] + 1, len(details.south) + 1)
    fits("place-scale", details.scale.shape, details.south.shape)
    offsets("place-band_start", details.band_start, len(details.south), len(details.edge_start) - 1)
    offsets("place-edge_start", details.edge_start, len(details.edge_start) - 1, len(details.edge))
    if (np.diff(details.band_start) < 1).any():
        raise ValueError("outlines without bands")
    large = np.flatnonzero(~is_circle & (of >= 0))
    edges = np.diff(np.append(places.first_vertex, len(places.vertex)))[large] - 1
    listed = details.edge_start[details.band_start]
    if not np.array_equal(of[large], np.arange(len(details.south))):
        raise ValueError("outlines with the bands of others")
    below("place-edge", details.edge, np.iinfo(np.int32).max)
    if (details.edge >= np.repeat(edges, np.diff(listed))).any():
        raise ValueError("edges that their outline does not have")
    for a, tree in trees.items():
        if not 0 <= a < len(terms.attributes):
            raise ValueError(f"places of attribute {a} of {len(terms.attributes)}")
        fits("place-level", tree.level.shape, levels_of(len(tree.item)).shape)
        if not np.array_equal(tree.level, levels_of(len(tree.item))) or not len(tree.item):
            raise ValueError("a tree of other levels than its boxes need")
        fits("place-item", tree.item.shape, (NODE * int(tree.level[1]),))
        fits("place-sides", tree.sides.shape, (4 * NODE * int(tree.level[-1]),))
        below("place-item", tree.item + 1, len(terms) + 1)
