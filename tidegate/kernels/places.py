"""Which places of many the points of publications lie in, and whether points lie in given places.

A *term* is a place and a relation that a point may have to it. ``found`` looks for all terms of a tree of boxes,
``related`` answers pairs of a point and a term. An answer that rounding might have decided is ``MAYBE``; whoever calls
decides it by the formula that defines the relation. Nothing here knows subscriptions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.box_tree import DEEPEST, NODE, BoxTree, boxed
from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown
from tidegate.kernels.place_location import CIRCLE, OUTSIDE, Details, Outlines, located, on_sphere
from tidegate.kernels.simd import prefetch

__all__ = [
    "ANSWERS",
    "EQUALS",
    "INTERSECTS",
    "MAYBE",
    "NO",
    "TOUCHES",
    "WITHIN",
    "YES",
    "PlacesAsked",
    "found",
    "related",
]

#: What a point may be asked about a place, a circle being asked for ``INTERSECTS`` only.
INTERSECTS, WITHIN, TOUCHES, EQUALS = 0, 1, 2, 3
NO, YES, MAYBE = 0, 1, 2
#: By relation, by what the vertices of a place are (points, lines, rings, a circle), and by where a point lies
#: (outside, on an edge, inside, unsure). The boundary of lines is ends of them, which edges do not tell.
ANSWERS = np.array(
    [
        [[NO, YES, NO, MAYBE], [NO, YES, NO, MAYBE], [NO, YES, YES, MAYBE], [NO, NO, YES, MAYBE]],
        [[NO, YES, NO, MAYBE], [NO, MAYBE, NO, MAYBE], [NO, NO, YES, MAYBE], [NO, NO, NO, NO]],
        [[NO, NO, NO, MAYBE], [NO, MAYBE, NO, MAYBE], [NO, YES, NO, MAYBE], [NO, NO, NO, NO]],
        [[NO, MAYBE, NO, MAYBE], [NO, NO, NO, NO], [NO, NO, NO, NO], [NO, NO, NO, NO]],
    ],
    np.uint8,
)


#: Boxes and answers for which there is room at first.
_FEW = 1024


class PlacesAsked(NamedTuple):
    """Terms, their places, and what helps to find them."""

    place: NDArray[np.int32]
    relation: NDArray[np.uint8]
    outlines: Outlines
    details: Details


@njit(cache=True, nogil=True)
def found(
    asked: PlacesAsked, tree: BoxTree, lon: NDArray[np.float64], lat: NDArray[np.float64]
) -> tuple[Any, Any, Any]:
    """Pairs of a point and a term of the tree that it has, or may have: points, terms and answers.

    A point is NaN where there is none.
    """
    place, relation = asked.place, asked.relation
    what, ring_start, vertex_start, vertex = asked.outlines
    detail, south, scale, band_start, edge_start, edge, circle = asked.details
    boxes = np.empty(_FEW, np.int32)
    stack, point = np.empty(NODE * DEEPEST, np.int64), np.empty(2, np.float32)
    publication, term, answer, n = np.empty(_FEW, np.int64), np.empty(_FEW, np.int64), np.empty(_FEW, np.uint8), 0
    unit = 0.0, 0.0, 0.0
    for p in range(len(lon)):
        x, y = lon[p], lat[p]
        if x != x or y != y:
            continue
        point[0], point[1] = x, y
        count = boxed(tree, point, stack, boxes)
        while count < 0:
            boxes = grown(boxes)
            count = boxed(tree, point, stack, boxes)
        if n + count > len(term):
            publication, term, answer = grown(publication, n + count), grown(term, n + count), grown(answer, n + count)
        for k in range(count):
            begin = 2 * vertex_start[ring_start[place[boxes[k]]]]
            prefetch(vertex, begin)
            prefetch(vertex, begin + 8)
            prefetch(vertex, begin + 16)
        if len(circle):
            unit = on_sphere(x, y)
        for k in range(count):
            t = boxes[k]
            where = located(
                what, ring_start, vertex_start, vertex, detail, south, scale, band_start, edge_start, edge, circle,
                place[t], x, y, unit,
            )  # fmt: skip
            if where != OUTSIDE:
                said = ANSWERS[relation[t], what[place[t]], where]
                if said != NO:
                    publication[n], term[n], answer[n] = p, t, said
                    n += 1
    return publication[:n], term[:n], answer[:n]


@njit(cache=True, nogil=True)
def related(
    asked: PlacesAsked,
    lon: NDArray[np.float64],
    lat: NDArray[np.float64],
    publication: NDArray[np.int64],
    term: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """The answers for pairs of a point and a term; ``NO`` where there is no point."""
    place, relation = asked.place, asked.relation
    what, ring_start, vertex_start, vertex = asked.outlines
    detail, south, scale, band_start, edge_start, edge, circle = asked.details
    answer = np.zeros(len(term), np.uint8)
    unit = 0.0, 0.0, 0.0
    for i in range(len(term)):
        x, y, t = lon[publication[i]], lat[publication[i]], term[i]
        if x != x or y != y:
            continue
        if what[place[t]] == CIRCLE:
            unit = on_sphere(x, y)
        where = located(
            what, ring_start, vertex_start, vertex, detail, south, scale, band_start, edge_start, edge, circle,
            place[t], x, y, unit,
        )  # fmt: skip
        answer[i] = ANSWERS[relation[t], what[place[t]], where]
    return answer
