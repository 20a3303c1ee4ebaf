"""The package ``rtree``: R*-trees of libspatialindex, and the pages that such a tree consists of.

The package belongs to the optional extra ``structures``, so only ``rstar_tree.py`` imports this module, when it makes
a tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rtree import index

from tidegate.kernels.spheres import BOXES

__all__ = ["grown", "library_tree", "packed"]

#: What share of a node is filled when a tree is made of all spheres at once: nearly all of it, for nothing comes later.
_FILLED = 0.99


class _TreePages(index.CustomStorage):
    """Keeps the nodes that the library writes, as its own bytes."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self._next = 0

    def create(self, returnError: Any) -> None:
        pass

    def destroy(self, returnError: Any) -> None:
        pass

    def flush(self, returnError: Any) -> None:
        pass

    def loadByteArray(self, page: int, returnError: Any) -> bytes:
        return self.pages[page]

    def storeByteArray(self, page: int, data: bytes, returnError: Any) -> int:
        if page == self.NewPage:
            page, self._next = self._next, self._next + 1
        self.pages[page] = data
        return page

    def deleteByteArray(self, page: int, returnError: Any) -> None:
        del self.pages[page]


def library_tree(width: int, stream: Iterable[Any] | None = None, pages: _TreePages | None = None) -> index.Index:
    """The library's R*-tree as the paper sets it, from a stream of ``(row, bounds, None)`` or still empty.

    In memory, or in pages that it writes when it is closed.
    """
    settings = index.Property()
    settings.type, settings.variant, settings.dimension = index.RT_RTree, index.RT_Star, width
    settings.leaf_capacity = settings.index_capacity = BOXES
    settings.near_minimum_overlap_factor = BOXES  # may not exceed the capacity; the library's own is 32
    settings.reinsert_factor = 0.3
    if stream is not None:
        settings.fill_factor = _FILLED
    given: list[Any] = [] if stream is None else [stream]
    if pages is not None:
        settings.buffering_capacity = 1 << 30  # nothing is written before the end but new nodes, which get their name
        given.insert(0, pages)
    return index.Index(*given, properties=settings, interleaved=True)


def packed(boxes: NDArray[np.float64]) -> dict[int, bytes]:
    """The pages of a tree made of all boxes at once; no pages for no boxes, of which the library makes no tree."""
    storage = _TreePages()
    if len(boxes):
        stream = ((row, box, None) for row, box in enumerate(boxes.tolist()))
        library_tree(boxes.shape[1] // 2, stream, storage).close()
    return storage.pages


def grown(boxes: NDArray[np.float64]) -> dict[int, bytes]:
    """The pages of a tree into which the boxes are inserted one after another."""
    storage = _TreePages()
    if len(boxes):
        tree = library_tree(boxes.shape[1] // 2, None, storage)
        for row, box in enumerate(boxes):
            tree.insert(row, box)
        tree.close()
    return storage.pages
