"""An R*-tree of the spheres' bounding boxes, made by libspatialindex and searched node for node by compiled code.

Manassiev and Jacobsen 2004, §4.1.1 and §5: at most 24 entries in a node, 30 % reinserted. The library unpacks a node
each time it is visited and does not tell how many rectangles it compared; so the finished tree is taken out of its
pages as it is and walked here: the same nodes are visited, entries are counted, and all cores take part. As in the
paper, the spheres of a leaf are compared themselves, not their boxes.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.extras import require
from tidegate.kernels.spheres import BOXES, SphereTree, in_boxes
from tidegate.shapes.scan import aligned, ends_of, grouped
from tidegate.shapes.structures import Candidates, Structure, structure
from tidegate.shapes.threads import shared

__all__ = ["RStar", "boxes_of"]

_Floats = NDArray[np.float64]

#: The page that begins with the root's number, which is the second one written; and the number that marks a leaf.
_HEADER, _LEAF = 1, 2
#: The library takes numbers for the same that differ by no more than an ulp of 1: it makes a point of so thin a box and
#: leaves a node's box as it is where an entry sticks out by so little, on each level. Boxes are taken to be larger.
_LOOSE = 1e-14


def _bound(width: int) -> float:
    """The bound to which coordinates are clipped, so that volumes stay finite: infinite ones crash the library."""
    return float(min(1e12, 10 ** (250 / width)))


def boxes_of(features: _Floats, radii: _Floats) -> _Floats:
    """The lowest and then the highest coordinates of each sphere."""
    bound = _bound(features.shape[1])
    return np.clip(np.hstack(ends_of(features, radii[:, None])), -bound, bound)


@structure
class RStar(Structure):
    """All spheres at once: sorted and packed by the library (sort-tile-recursive). Can be pickled."""

    name: ClassVar[str] = "rstar"
    extra: ClassVar[str | None] = "structures"

    def __init__(self, features: _Floats, radii: _Floats) -> None:
        require("structures", "the structure rstar")
        from tidegate.shapes.rtree_library import packed

        self._take(features, radii, packed(boxes_of(features, radii)))

    @classmethod
    def inserted(cls, features: _Floats, radii: _Floats) -> RStar:
        """One sphere after another, as the paper does it. To time the library alone, insert in its ``library_tree``."""
        require("structures", "the structure rstar")
        from tidegate.shapes.rtree_library import grown

        made = cls.__new__(cls)
        made._take(features, radii, grown(boxes_of(features, radii)))
        return made

    def _take(self, features: _Floats, radii: _Floats, pages: dict[int, bytes]) -> None:
        """Number the nodes of the pages from the root down, so that those of one node follow each other."""
        self._size, self._width = features.shape
        width = self._width
        entry = np.dtype([("box", "<f8", (2, width)), ("name", "<i8"), ("length", "<u4")])
        level = [int.from_bytes(pages[_HEADER][:8], "little")] if pages else []
        nodes: list[tuple[int, int, int]] = []
        inner: list[_Floats] = []
        leaves: list[NDArray[np.int64]] = []
        while level:
            below: list[int] = []
            child = len(nodes) + len(level)
            for page in level:
                kind, _, count = np.frombuffer(pages[page], "<u4", 3)
                entries = np.frombuffer(pages[page], entry, int(count), 12)
                if kind == _LEAF:
                    nodes.append((len(leaves), int(count), -1))
                    leaves.append(entries["name"])
                else:
                    nodes.append((len(inner), int(count), child + len(below)))
                    inner.append(entries["box"] + np.array([[-_LOOSE], [_LOOSE]]))
                    below += entries["name"].tolist()
            level = below
        boxes = aligned((len(inner), width, 2, BOXES), np.nan)  # nothing lies in NaN
        for group, box in zip(boxes, inner, strict=True):
            group[:, :, : len(box)] = box.transpose(2, 1, 0)
        places = np.empty(self._size, np.int64)
        for g, names in enumerate(leaves):
            places[names] = g * BOXES + np.arange(len(names))
        spheres = grouped(features, radii, places, len(leaves), BOXES)
        self._tree = SphereTree(np.array(nodes, np.int64).reshape(-1, 3), boxes.reshape(-1), *spheres)

    def candidates(self, points: _Floats) -> Candidates:
        """Exactly the spheres that each point lies in; the entries of all nodes that are visited count as tested."""
        flat = np.ascontiguousarray(points, np.float64).ravel()
        bound, words = _bound(self._width), -(-self._size // 64)
        clipped = np.clip(flat, -bound, bound)

        def find(some: slice, ends: NDArray[np.int64], tested: NDArray[np.int64]) -> NDArray[np.int32]:
            part = slice(some.start * self._width, some.stop * self._width)
            rows: NDArray[np.int32] = in_boxes(self._tree, flat[part], clipped[part], self._width, words, ends, tested)
            return rows

        return shared(find, len(points), self._size)
