"""A packed tree of boxes: which of many rectangles hold a point.

Rectangles stand in nodes of 16, side by side, so that a few instructions compare a point with all of a node. The nodes
of a level stand one after the other, and those of the level above have the bounds of 16 of them each, so no node needs
to name its children. ``packed`` puts rectangles of similar size that lie near each other into one node, as in
sort-tile-recursive packing (Leutenegger et al. 1997, §2.3; differs in that sizes are kept apart). Sides are in single
precision: rounding keeps the order of numbers, so it can only make a rectangle hold more. Nothing here knows what the
rectangles are.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tidegate.kernels.bits import trailing_zeros
from tidegate.kernels.compiled import njit
from tidegate.kernels.simd import LONG, Simd

__all__ = ["DEEPEST", "NODE", "BoxTree", "boxed", "levels_of", "packed", "spread"]

#: Rectangles of a node.
NODE = 16
#: More levels than any tree has: that many would hold 2⁶⁴ rectangles.
DEEPEST = 16

#: Sides are not further away than this, where no point is.
_FAR = 1000.0

_sixteen = Simd(ir.FloatType(), NODE, "f32")


class BoxTree(NamedTuple):
    """Nodes from the leaves to the root; each has the west, south, east and north sides of its 16 rectangles."""

    sides: NDArray[np.float32]
    """64 numbers per node."""
    level: NDArray[np.int64]
    """The first node of each level, leaves first, and the number of all nodes."""
    item: NDArray[np.int32]
    """What stands in a leaf at a rectangle; −1 where a leaf has fewer than 16."""


def levels_of(items: int) -> NDArray[np.int64]:
    """``BoxTree.level`` for so many rectangles."""
    sizes: list[int] = []
    while items > 1 or not sizes:
        items = -(-items // NODE)
        sizes.append(items)
    return np.cumsum([0, *sizes], dtype=np.int64)


def packed(bounds: NDArray[np.float64], item: NDArray[np.int32]) -> BoxTree:
    """A tree of rectangles (west, south, east, north), each with an item."""
    order = spread(bounds)
    level = levels_of(len(order))
    sides = np.empty((int(level[-1]), 4, NODE), np.float32)
    below, items = np.clip(bounds[order], -_FAR, _FAR).astype(np.float32), np.full(NODE * int(level[1]), -1, np.int32)
    items[: len(order)] = item[order]
    for first, end in pairwise(level.tolist()):
        rows = np.full((NODE * (end - first), 4), np.float32(np.nan))  # compares as false with everything
        rows[: len(below)] = below
        nodes = rows.reshape(-1, NODE, 4)
        sides[first:end] = nodes.transpose(0, 2, 1)
        below = np.concatenate([np.fmin.reduce(nodes[:, :, :2], axis=1), np.fmax.reduce(nodes[:, :, 2:], axis=1)], 1)
    return BoxTree(sides.reshape(-1), level, items)


def spread(bounds: NDArray[np.float64]) -> NDArray[np.int64]:
    """An order in which neighbours lie near each other and are of similar size: by size, in strips from west to east,
    each from south to north.
    """
    bounds = np.clip(bounds, -_FAR, _FAR)
    extent = np.maximum(bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1])
    size = np.frexp(extent)[1] // 2
    size[extent == 0] = size.min(initial=0)
    lon, lat = bounds[:, 0] + bounds[:, 2], bounds[:, 1] + bounds[:, 3]
    by_lon = np.lexsort((lon, size))
    _, first, count = np.unique(size[by_lon], return_index=True, return_counts=True)
    strip_nodes = np.ceil(np.sqrt(count / NODE)).astype(np.int64)
    strip = np.empty(len(bounds), np.int64)
    strip[by_lon] = (np.arange(len(bounds)) - np.repeat(first, count)) // np.repeat(NODE * strip_nodes, count)
    return np.lexsort((lat, strip, size))


@intrinsic
def _holding(context: Any, sides: Any, node: Any, point: Any) -> Any:
    """A bit for each rectangle of a node that holds the point (longitude, latitude)."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        first = builder.mul(args[1], LONG(4 * NODE))
        lon, lat = (_sixteen.splat(context, builder, kinds[2], args[2], LONG(i)) for i in range(2))
        west, south, east, north = (
            _sixteen.load(context, builder, kinds[0], args[0], builder.add(first, LONG(NODE * i))) for i in range(4)
        )
        flags = builder.fcmp_ordered("<=", west, lon)
        for less, more in ((south, lat), (lon, east), (lat, north)):
            flags = builder.and_(flags, builder.fcmp_ordered("<=", less, more))
        return _sixteen.word(builder, [flags])

    return types.uint64(sides, types.int64, point), build


@njit(cache=True, nogil=True)
def boxed(tree: BoxTree, point: NDArray[np.float32], stack: NDArray[np.int64], found: NDArray[np.int32]) -> int:
    """Write the items whose rectangles hold the point to ``found``; how many there are, −1 where there is no room.

    ``stack`` has room for 16 numbers per level.
    """
    top, n = 1, 0
    stack[0] = (tree.level[-1] - 1) * DEEPEST + len(tree.level) - 2
    while top:
        top -= 1
        node, height = stack[top] // DEEPEST, stack[top] % DEEPEST
        word = _holding(tree.sides, node, point)
        first = (node - tree.level[height]) * NODE
        if not height and n + NODE > len(found):
            return -1
        while word:
            child = first + trailing_zeros(word)
            word &= word - np.uint64(1)
            if height == 0:
                found[n] = tree.item[child]
                n += tree.item[child] >= 0
            elif tree.level[height - 1] + child < tree.level[height]:  # as it is unless a file was made wrong
                stack[top] = (tree.level[height - 1] + child) * DEEPEST + height - 1
                top += 1
    return n
