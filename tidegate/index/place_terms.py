"""Place terms: what the place predicates of an index ask, as flat arrays.

A place term is an attribute, a place and a relation; a place is kept once, however many attributes and relations it
occurs with. ``Draft`` collects terms in ``DraftedPlaceTerms``; ``index/places.py`` looks them up, nothing here does.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.index.offsets import below, fits
from tidegate.index.place_outlines import PLACE_ARRAYS, Places, rings_of
from tidegate.index.ragged import starts
from tidegate.index.terms import DraftedTerms, Terms
from tidegate.kernels.place_location import CIRCLE
from tidegate.kernels.places import EQUALS, INTERSECTS, TOUCHES, WITHIN
from tidegate.language.geometry import COLLECTION
from tidegate.predicates.place import Region, WithinDistance
from tidegate.predicates.predicate import Hull

__all__ = ["RELATIONS", "DraftedPlaceTerms", "PlaceTerms"]

RELATIONS = {"s_intersects": INTERSECTS, "s_within": WITHIN, "s_touches": TOUCHES, "s_equals": EQUALS}
_BY_TERM = ("attribute", "place", "relation")


@dataclass(frozen=True, slots=True)
class PlaceTerms(Terms):
    """The place terms of some clauses."""

    attributes: tuple[str, ...]
    attribute: NDArray[np.int32]
    place: NDArray[np.int32]
    relation: NDArray[np.uint8]
    places: Places

    def __len__(self) -> int:
        return len(self.place)

    @property
    def names(self) -> tuple[str, ...]:
        return self.attributes

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        of_places = {name: getattr(self.places, name) for name in PLACE_ARRAYS}
        return {name: getattr(self, name) for name in _BY_TERM} | of_places

    @property
    def facts(self) -> list[str]:
        """The attributes."""
        return list(self.attributes)

    @classmethod
    def restored(cls, facts: Any, arrays: dict[str, NDArray[Any]]) -> Self:
        places = Places(**{name: arrays[name] for name in PLACE_ARRAYS})
        return cls(tuple(facts), **{name: arrays[name] for name in _BY_TERM}, places=places)

    def check(self) -> None:
        self.places.check()
        fits("place-attribute", self.attribute.shape, self.place.shape)
        fits("place-relation", self.relation.shape, self.place.shape)
        below("place-place", self.place, len(self.places))
        below("place-attribute", self.attribute, len(self.attributes))
        below("place-relation", self.relation, len(RELATIONS))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(sum(array.nbytes for array in self.arrays.values()))

    @property
    def shares(self) -> NDArray[np.float64]:
        """From west to east the part of all bounds of places that lies there, times the same from south to north."""
        if not len(self):
            return np.empty(0)
        bounds = np.clip(self.places.bounds, (-180, -90, -180, -90), (180, 90, 180, 90))
        share = np.ones(len(bounds))
        for low, high in ((0, 2), (1, 3)):
            all_bounds = np.sort(bounds[:, (low, high)].ravel())
            within = np.searchsorted(all_bounds, bounds[:, high], "right") - np.searchsorted(all_bounds, bounds[:, low])
            share *= within / (len(all_bounds) + 1)
        return share[self.place]

    @staticmethod
    def joined(
        several: Sequence[PlaceTerms], wanted: Sequence[NDArray[np.bool_]]
    ) -> tuple[PlaceTerms, list[NDArray[np.int32]]]:
        names: dict[str, int] = {}
        used = [np.unique(terms.place[some]) for terms, some in zip(several, wanted, strict=True)]
        places, numbers = Places.joined([terms.places.some(mine) for terms, mine in zip(several, used, strict=True)])
        parts = []
        for terms, some, mine, new in zip(several, wanted, used, numbers, strict=True):
            asked, attribute = np.unique(terms.attribute[some], return_inverse=True)
            number = np.array([names.setdefault(terms.attributes[a], len(names)) for a in asked.tolist()], np.int64)
            place = new[np.searchsorted(mine, terms.place[some])]
            parts.append(np.stack([number[attribute.ravel()], place, terms.relation[some]], axis=1))
        distinct, same = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
        of_terms = np.split(same.ravel(), np.cumsum([len(part) for part in parts])[:-1])
        renumbered = [np.full(len(some), -1, np.int32) for some in wanted]
        for numbers_of, some, kept in zip(renumbered, wanted, of_terms, strict=True):
            numbers_of[some] = kept
        return _assembled(tuple(names), distinct, places), renumbered


class DraftedPlaceTerms(DraftedTerms):
    """The place terms of a draft, which are still being collected."""

    def __init__(self) -> None:
        self._attributes: dict[str, int] = {}
        self._places: dict[bytes, int] = {}
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._what, self._opens = bytearray(), bytearray()
        self._rings, self._sizes, self._vertex = array("q"), array("q"), array("d")

    def number(self, predicate: Region | WithinDistance) -> int | None:
        if isinstance(predicate, WithinDistance):
            relation, what, opens = INTERSECTS, CIRCLE, b"\0"
            west, south, east, north = predicate.bounds
            rings: list[Any] = [((predicate.lon, predicate.lat), (predicate.metres, 0.0), (west, south), (east, north))]
        elif predicate.geometry.kind == COLLECTION:  # its parts may overlap: edges do not say what is inside
            return None
        else:
            is_point = predicate.geometry.kind == "Point" and predicate.relation != "s_touches"
            relation = INTERSECTS if is_point else RELATIONS[predicate.relation]  # the same, and edges tell
            what, rings, opens = rings_of(predicate.geometry.kind, predicate.geometry.coordinates)
        sizes = array("q", map(len, rings))
        vertex = array("d", [number for ring in rings for position in ring for number in position[:2]])
        key = blake2b(bytes([what]) + opens + sizes.tobytes() + vertex.tobytes(), digest_size=16).digest()
        attribute = self._attributes.setdefault(predicate.attribute, len(self._attributes))
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._places)
            self._what.append(what)
            self._opens += opens
            self._rings.append(len(rings))
            self._sizes += sizes
            self._vertex += vertex
        return self._numbers.setdefault((attribute, place, relation), len(self._numbers))

    def ranges(self, predicate: Region | WithinDistance) -> Hull:
        """None where a lookup finds the place; that there is a point where it must not lie there."""
        return predicate.hull if predicate.negated else ()

    def terms(self) -> PlaceTerms:
        places, number = Places(
            key=np.frombuffer(b"".join(self._places), np.uint8).reshape(-1, 16),
            what=np.frombuffer(bytes(self._what), np.uint8),
            ring_start=starts(np.array(self._rings, np.int64)),
            opens=np.frombuffer(bytes(self._opens), np.uint8),
            vertex_start=starts(np.array(self._sizes, np.int64)),
            vertex=np.array(self._vertex, np.float64).reshape(-1, 2),
        ).spread()
        triples = np.array(list(self._numbers), np.int64).reshape(-1, 3)
        triples[:, 1] = number[triples[:, 1]]
        return _assembled(tuple(self._attributes), triples, places)


def _assembled(attributes: tuple[str, ...], triples: NDArray[np.int64], places: Places) -> PlaceTerms:
    """Terms of rows with an attribute, a place and a relation."""
    attribute, place, relation = triples.T
    return PlaceTerms(attributes, attribute.astype(np.int32), place.astype(np.int32), relation.astype(np.uint8), places)
