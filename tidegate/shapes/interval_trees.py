"""Two interval trees, on the first two coordinates; the spheres that they leave are tested in feature space.

Manassiev and Jacobsen 2004, §4.1.2. Differs in that the trees are centred ones made once, in flat arrays, instead of
red-black trees; and that only one tree is searched, the one with fewer intervals around the point, which is known
before any is read; the other coordinate is compared while its list is read, which spares the second list altogether.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.spheres import SPHERES, centred, in_intervals
from tidegate.shapes.scan import ends_of, grouped
from tidegate.shapes.structures import Candidates, Structure, structure
from tidegate.shapes.threads import shared

__all__ = ["IntervalTrees"]

_Floats = NDArray[np.float64]
_Places = NDArray[np.int64]

#: Spheres that are gathered before a tree is made of them, where they come one by one.
_GATHERED = 1024


@structure
class IntervalTrees(Structure):
    """All spheres around the point in two coordinates, then tested linearly. Can be pickled.

    Each sphere is kept four times, in the order of each tree's lower and upper ends, so that lists are read straight
    on. At least two coordinates are needed.
    """

    name: ClassVar[str] = "interval"

    def __init__(self, features: _Floats, radii: _Floats) -> None:
        self._size, self._width = features.shape
        trees, lists = [], []
        for column in range(2):
            tree, places = _tree(*ends_of(features[:, column], radii))
            trees.append(tree)
            lists += [grouped(features, radii, place, len(tree[4]) // SPHERES, SPHERES) for place in places]
        self._trees, self._lists = tuple(trees), tuple(lists)

    @classmethod
    def inserted(cls, features: _Floats, radii: _Floats) -> IntervalTrees:
        """The same trees, made as if spheres came one by one.

        Static trees take them in by the logarithmic method (Bentley and Saxe 1980): what was gathered becomes a tree,
        and two trees of one size become one of twice that size. All this is really done, so that the time it takes,
        divided by the spheres, is what one costs; in the end everything is put in one tree.
        """
        for count in range(1, len(features) // _GATHERED + 1):
            end, merged = count * _GATHERED, (count & -count) * _GATHERED
            cls(features[end - merged : end], radii[end - merged : end])
        return cls(features, radii)

    def candidates(self, points: _Floats) -> Candidates:
        """Exactly the spheres that each point lies in; those are tested that both trees have around it."""
        flat = np.ascontiguousarray(points, np.float64).ravel()
        words = -(-self._size // 64)

        def find(some: slice, ends: NDArray[np.int64], tested: NDArray[np.int64]) -> NDArray[np.int32]:
            part = flat[some.start * self._width : some.stop * self._width]
            rows: NDArray[np.int32] = in_intervals(self._trees, self._lists, part, self._width, words, ends, tested)
            return rows

        return shared(find, len(points), self._size)


def _tree(
    low: _Floats, high: _Floats
) -> tuple[tuple[_Floats, _Places, _Places, _Places, _Floats, _Floats], list[_Places]]:
    """A tree's nodes and ends, and where each interval stands by its lower end and by its upper one.

    The list of each node begins with a group of its own.
    """
    node_of, middles, sides = centred(low, high, SPHERES)
    sizes = np.bincount(node_of, minlength=len(middles))
    room = -(-sizes // SPHERES) * SPHERES
    begins, before = np.cumsum(room) - room, np.cumsum(sizes) - sizes
    ends, places = [], []
    for key in (low, -high):
        order = np.lexsort((key, node_of))
        place = np.empty(len(key), np.int64)
        place[order] = np.arange(len(key)) + (begins - before)[node_of[order]]
        keys = np.full(int(room.sum()), np.inf)
        keys[place] = key
        ends.append(keys)
        places.append(place)
    return (middles, sides, begins, sizes, ends[0], ends[1]), places
