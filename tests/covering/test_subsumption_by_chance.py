"""Whether a box lies in a union of boxes, by chance: the measured error is as stated."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from tests.covering.boxes import MAX, bounds, boxes_of, chance, decide
from tidegate.covering.subsumption import Exact

#: A box, what others leave free of it, and how large a part that is: as small as the estimate takes holes to be.
HOLES = [
    ([(0.0, 1.0)], [[(0.0, 0.9)]], 0.1),
    ([(0.0, 1.0)] * 2, [[(0.0, 0.9), (0.0, 1.0)], [(0.0, 1.0), (0.0, 0.9)]], 0.01),
    ([(0.0, 1.0)] * 2, [[(0.1, 2.0), (-1.0, 1.0)], [(0.0, 1.0), (0.1, 1.0)]], 0.01),
]


@pytest.mark.parametrize(("box", "boxes", "part"), HOLES)
@pytest.mark.parametrize("error", [0.5, 0.2, 0.05])
def test_the_measured_error_is_as_stated(box, boxes, part, error):
    way, among, trials = chance(error), boxes_of(boxes, len(box)), 4_000
    wrong = sum(way.covered(*bounds(box), among) for _ in range(trials))
    needed = int(np.ceil(np.log(error) / np.log(1 - part)))
    stated = (1 - part) ** needed
    assert way.reached == pytest.approx(stated)
    assert stated <= error
    spread = 4 * np.sqrt(stated * (1 - stated) / trials)
    assert stated - spread < wrong / trials < stated + spread
    assert way.undecided == 0
    assert way.points <= needed * trials


def test_few_points_are_counted_as_undecided_and_their_bound_is_known():
    box, boxes, part = HOLES[1]
    among = boxes_of(boxes, 2)
    way = chance(error=1e-3, most=5)
    said = sum(way.covered(*bounds(box), among) for _ in range(1_000))
    assert way.undecided == said
    assert said / 1_000 == pytest.approx((1 - part) ** 5, abs=0.03)
    assert way.reached == pytest.approx((1 - part) ** 5)
    assert chance(1e-3).covered(*bounds(box), among) is False


def test_chance_is_repeatable_and_counts_its_work():
    box, boxes, _ = HOLES[1]
    among = boxes_of(boxes, 2)

    def run(seed):
        way = chance(0.3, seed=seed)
        return [way.covered(*bounds(box), among) for _ in range(50)], way.points, way.compared

    assert run(3) == run(3) != run(4)
    said, points, compared = run(3)
    assert 0 < sum(said) < 50
    assert points + 2 * 50 <= compared <= 2 * points + 2 * 50


def test_certain_answers_take_no_points():
    way = chance()
    assert decide(way, [(0, 1)], [[(5, 6)], [(0, 1)]]) is True
    assert decide(way, [(0, 1)], [[(5, 6)], [(-2, -1)]]) is False
    assert decide(way, [(0, 1)], []) is False
    assert (way.points, way.compared, way.undecided, way.reached) == (0, 4, 0, 0.0)


@pytest.mark.parametrize("end", [MAX, inf])
def test_where_a_box_is_endless_points_are_drawn_where_others_end(end):
    among = boxes_of([[(10.0, end)], [(-end, 4.0)]], 1)
    assert chance().covered(np.array([0.0]), np.array([end]), among) is False
    assert chance().covered(np.array([-end]), np.array([end]), among) is False
    assert chance().covered(np.array([-end]), np.array([4.5]), among) is False
    among.add([3.0], [11.0])
    assert chance().covered(np.array([-end]), np.array([end]), among) is True


def test_what_lies_too_far_out_to_be_drawn_is_undecided():
    way = chance(most=7)
    assert decide(way, [(-inf, 5.0)], [[(-MAX, 5.0)]]) is True
    assert decide(way, [(1e305, inf)], [[(2e305, inf)], [(0, 1e305)]]) is True
    assert (way.undecided, way.points, way.reached) == (2, 14, 1.0)


def test_a_hole_narrower_than_any_strip_may_be_missed():
    """The estimate is the paper's, and this is where it ends; the exact way is not misled."""
    box, boxes = [(0.0, 1.0)], [[(0.0, 0.5)], [(0.5 + 1e-9, 1.0)]]
    way = chance(1e-6)
    assert decide(way, box, boxes) is True
    assert way.reached < 1e-6
    assert decide(Exact(), box, boxes) is False
