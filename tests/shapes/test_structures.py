"""Each structure against the obvious loops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tidegate.shapes import rstar_tree, threads
from tidegate.shapes.interval_trees import IntervalTrees
from tidegate.shapes.rstar_tree import RStar, boxes_of
from tidegate.shapes.rtree_library import library_tree
from tidegate.shapes.scan import Scan
from tidegate.shapes.structures import STRUCTURES

ways = {
    "scan": Scan,
    "scan, one by one": Scan.inserted,
    "interval": IntervalTrees,
    "interval, one by one": IntervalTrees.inserted,
    "rstar": RStar,
    "rstar, one by one": RStar.inserted,
}
every_way = pytest.mark.parametrize("make", ways.values(), ids=ways)


def holds(centre, radius, point, slack=0.0):
    """Squares of binary fractions this short are exact, and so are their sums."""
    total = 0.0
    for a, b in zip(centre, point, strict=True):
        total += (a - b) ** 2
    return total <= (radius * (1 + slack)) ** 2


def rows_of(candidates):
    start, rows, _ = candidates
    assert (start.dtype, rows.dtype, candidates.tested.dtype) == (np.int64, np.int32, np.int64)
    assert start[0] == 0
    assert start[-1] == len(rows)
    assert len(candidates.tested) == len(start) - 1
    return [rows[start[p] : start[p + 1]].tolist() for p in range(len(start) - 1)]


def expected(features, radii, points):
    return [[s for s in range(len(radii)) if holds(features[s], radii[s], p)] for p in points.tolist()]


@st.composite
def worlds(draw, widths=(2, 12), sizes=(0, 200)):
    """Spheres and points on a grid: many on the surface, many the same, some without extent, some around everything."""
    width, size, count = draw(st.integers(*widths)), draw(st.integers(*sizes)), draw(st.integers(0, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    reach = draw(st.sampled_from([1, 3, 20]))
    features = rng.integers(-reach, reach, (size, width), endpoint=True) / 2
    if size:
        features = features[rng.integers(0, draw(st.integers(1, size)), size)]  # the fewer, the more often the same
    radii = rng.integers(0, 2 * reach, size, endpoint=True) / 2
    radii[rng.random(size) < 0.1] = 0.0
    radii[rng.random(size) < draw(st.sampled_from([0.0, 0.1, 1.0]))] = draw(st.sampled_from([0.0, 1e9, 1e160, 1e308]))
    points = rng.integers(-reach, reach, (count, width), endpoint=True) / 2
    for p in range(count):
        if size and p % 2:
            points[p] = features[rng.integers(size)]
            axis, towards = rng.integers(width), rng.integers(size)
            if radii[towards] < 100:
                points[p] = features[towards]
                points[p, axis] += radii[towards]  # on the surface exactly
    return features.astype(np.float64), radii, points.astype(np.float64)


@every_way
@given(world=worlds())
def test_spheres_around_points(make, world):
    features, radii, points = world
    with np.errstate(over="ignore"):
        assert rows_of(make(features, radii).candidates(points)) == expected(features.tolist(), radii, points)


@every_way
@given(world=worlds(sizes=(1, 200)), data=st.data())
def test_points_are_shared_among_cores(make, world, data):
    features, radii, points = world
    made = make(features, radii)
    alone = made.candidates(points)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "_WORTH", 0)
        patch.setattr(threads._cores, "count", data.draw(st.integers(1, 5)))
        patch.setattr(threads._cores, "_pool", None)
        together = made.candidates(points)
    for a, b in zip(alone, together, strict=True):
        assert a.tolist() == b.tolist()


@every_way
def test_many_spheres_and_points(make):
    """Larger than a group, a list, a batch of points and a tree of three levels."""
    rng = np.random.default_rng(8)
    features, radii = rng.normal(size=(3000, 6)) * 8 // 1 / 8, rng.integers(0, 24, 3000) / 8
    points = rng.normal(size=(150, 6)) * 8 // 1 / 8
    squares = ((features[None] - points[:, None]) ** 2).sum(2)
    found = make(features, radii).candidates(points)
    assert rows_of(found) == [np.flatnonzero(row <= radii**2).tolist() for row in squares]
    assert len(found.rows) > 1000


@every_way
@given(world=worlds(widths=(2, 4), sizes=(0, 40)))
def test_a_copy_answers_the_same(make, world):
    features, radii, points = world
    made = make(features, radii)
    for a, b in zip(made.candidates(points), pickle.loads(pickle.dumps(made)).candidates(points), strict=True):
        assert a.tolist() == b.tolist()


@every_way
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([1e-200, 1e-160, 1e-20, 1e-3, 1.0, 256.0, 1e150]))
@example(seed=0, scale=1e-162)
def test_rounding_dismisses_nothing(make, seed, scale):
    """Radii are distances in floats, so that points lie on the surface but for rounding; all are held."""
    rng = np.random.default_rng(seed)
    features, points = rng.normal(size=(200, 5)) * scale, rng.normal(size=(1, 5)) * scale
    radii = np.sqrt(((features - points) ** 2).sum(1))
    assert rows_of(make(features, radii).candidates(points)) == [list(range(200))]
    if 1e-100 < scale < 1e100:
        assert rows_of(make(features, radii * (1 - 1e-8)).candidates(points)) == [[]]


@every_way
def test_ends_that_no_slack_moves(make):
    """Radii so small that, enlarged by the slack, their ends are the same floats; each point is at one of the ends."""
    steps = np.arange(1, 301) * 2.0**-40
    points = np.ones((600, 2))
    points[:300, 0] -= steps
    points[300:, 1] += steps
    found = rows_of(make(np.ones((300, 2)), steps).candidates(points))
    assert found == [list(range(i, 300)) for i in range(300)] * 2


@every_way
def test_without_a_radius_nothing_is_held(make):
    features = np.zeros((4, 2))
    made = make(features, np.array([-1.0, np.nan, 0.0, np.inf]))
    assert rows_of(made.candidates(np.array([[0.0, 0.0], [0.0, 1.0], [1e200, -1e200]]))) == [[2, 3], [3], [3]]


@given(world=worlds())
def test_a_scan_tests_all(world):
    features, radii, points = world
    assert Scan(features, radii).candidates(points).tested.tolist() == [len(radii)] * len(points)


@given(world=worlds())
def test_interval_trees_leave_what_is_around_in_two_coordinates(world):
    features, radii, points = world
    with np.errstate(over="ignore"):
        around = [
            sum(all(holds(f[c : c + 1], r, p[c : c + 1]) for c in (0, 1)) for f, r in zip(features, radii, strict=True))
            for p in points
        ]
    assert IntervalTrees(features, radii).candidates(points).tested.tolist() == around


@pytest.mark.parametrize("bulk", [True, False])
@given(world=worlds())
def test_boxes_tested_are_those_of_the_library_s_tree(bulk, world):
    """A tree this small is a root above its leaves: the root's entries count, and those of leaves around the point."""
    features, radii, points = world
    assume(len(radii))
    boxes = boxes_of(features, radii)
    if bulk:
        tree = library_tree(features.shape[1], ((row, box, None) for row, box in enumerate(boxes.tolist())))
    else:
        tree = library_tree(features.shape[1])
        for row, box in enumerate(boxes):
            tree.insert(row, box)
    leaves = tree.leaves()
    assume(len(leaves) <= 24)
    assert all(len(names) <= 24 for _, names, _ in leaves)
    counts = []
    for p in points.tolist():
        inside = [
            len(names)
            for _, names, bounds in leaves
            if all(bounds[c] - 1e-14 <= x <= bounds[len(p) + c] + 1e-14 for c, x in enumerate(p))
        ]
        counts.append(len(leaves) + sum(inside) if len(leaves) > 1 else len(radii))
    made = RStar(features, radii) if bulk else RStar.inserted(features, radii)
    assert made.candidates(points).tested.tolist() == counts
    tree.close()


def test_names():
    assert {name: STRUCTURES[name] for name in ("scan", "interval", "rstar")} == {
        "scan": Scan,
        "interval": IntervalTrees,
        "rstar": RStar,
    }
    assert rstar_tree.RStar is RStar
