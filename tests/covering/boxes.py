"""Boxes and unions of boxes, drawn, and the oracle that looks at every cell of the grid of all bounds."""

from __future__ import annotations

from itertools import product
from math import inf, nextafter
from sys import float_info

import numpy as np
from hypothesis import strategies as st

from tidegate.covering.subsumption import Boxes, Probabilistic

MAX = float_info.max
#: Bounds next to each other, and at the ends of what there is.
FLOATS = sorted(
    {-inf, -MAX, nextafter(-MAX, inf), 5e-324, -5e-324, 0.0, inf, MAX, nextafter(MAX, 0)}
    | {y for x in (-1.5, 0.1, 3.0) for y in (nextafter(x, -inf), x, nextafter(x, inf))}
)


# --- the oracle -------------------------------------------------------------------------------------------------------


def holds(box, point):
    return all(low <= x <= high for (low, high), x in zip(box, point, strict=True))


def is_covered(box, boxes):
    """One point of every cell of the grid that all bounds make: where a cell begins, a box begins or has just ended."""
    begins = []
    for k, (low, high) in enumerate(box):
        candidates = {low} | {b[k][0] for b in boxes} | {nextafter(b[k][1], inf) for b in boxes}
        begins.append([x for x in candidates if low <= x <= high])
    return all(any(holds(b, point) for b in boxes) for point in product(*begins))


# --- drawing ----------------------------------------------------------------------------------------------------------


def boxes_on(bounds, d):
    interval = st.tuples(bounds, bounds).map(lambda pair: (min(pair), max(pair)))
    return st.tuples(*[interval] * d)


@st.composite
def questions(draw):
    """A box and others, on a grid so small that they often cover it; a few cover nearly all to begin with."""
    d = draw(st.integers(1, 4))
    grid = st.integers(0, 3 if d == 4 else 5).map(float)
    bounds = grid if d == 4 or draw(st.booleans()) else st.sampled_from(FLOATS)
    box = draw(boxes_on(bounds, d))
    boxes = draw(st.lists(boxes_on(bounds, d), max_size=8))
    for _ in range(draw(st.integers(0, 3))):  # all of the box but on one side of a dimension: these cover it together
        k, side, bound = draw(st.integers(0, d - 1)), draw(st.booleans()), draw(bounds)
        low, high = box[k]
        part = (low, max(low, bound)) if side else (min(high, bound), high)
        boxes.append((*box[:k], part, *box[k + 1 :]))
    return box, boxes


def tiles(rng, d, count):
    """Boxes that together are a box exactly, no point twice, by cutting one of them again and again."""
    box = [(-1.0, 1.0)] * d
    found = [box]
    while len(found) < count:
        tile = found.pop(rng.integers(len(found)))
        k = int(rng.integers(d))
        low, high = tile[k]
        cut = low if rng.random() < 0.2 else float(rng.uniform(low, high))
        if nextafter(cut, inf) > high:
            found.append(tile)
            continue
        found += [[*tile[:k], part, *tile[k + 1 :]] for part in ((low, cut), (nextafter(cut, inf), high))]
    return box, found


def bounds(box):
    return np.array([low for low, _ in box]), np.array([high for _, high in box])


def boxes_of(boxes, d):
    among = Boxes(d)
    for box in boxes:
        among.add(*bounds(box))
    return among


def decide(way, box, boxes):
    return way.covered(*bounds(box), boxes_of(boxes, len(box)))


def chance(error=1e-3, most=1_000, seed=0):
    return Probabilistic(np.random.default_rng(seed), error=error, most=most)
