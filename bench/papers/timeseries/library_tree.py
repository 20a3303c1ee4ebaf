"""The R*-tree as its library searches it: the ``rtree`` package, many points in a call, then the spheres by numpy.

The structure of the same name takes the library's tree and walks it by itself, which is several times faster; this is
what one has without that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.papers.timeseries.brute import Found
from tidegate.shapes.rstar_tree import boxes_of
from tidegate.shapes.rtree_library import library_tree

__all__ = ["LibraryTree"]

Doubles = NDArray[np.float64]


class LibraryTree:
    """Spheres by their bounding boxes, packed at once."""

    def __init__(self, centres: Doubles, radii: Doubles) -> None:
        self._centres, self._squares = centres, radii * radii
        boxes = boxes_of(centres, radii).tolist()
        self._tree: Any = library_tree(centres.shape[1], ((row, box, None) for row, box in enumerate(boxes)))

    def candidates(self, points: Doubles) -> Found:
        """The spheres that each point lies in."""
        rows, counts = self._tree.intersection_v(points, points)
        owners = np.repeat(np.arange(len(points)), counts.astype(np.int64))
        near = ((self._centres[rows] - points[owners]) ** 2).sum(axis=1) <= self._squares[rows]
        start = np.zeros(len(points) + 1, np.int64)
        np.cumsum(np.bincount(owners[near], minlength=len(points)), out=start[1:])
        return start, rows[near].astype(np.int32)
