"""Groups of shapes against obvious loops: whatever the transform and the structure, the answer is the oracle's."""

from math import inf, nextafter, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracle import normal_form
from tests.parts.profiles import examples
from tidegate.errors import SettingError
from tidegate.kernels import shape as shape_kernels
from tidegate.shapes.normal_form import distance, normal, normals, rendered
from tidegate.shapes.sphere_group import ShapeLookup, SphereGroup, structures
from tidegate.shapes.transforms import FFT, PAA, PCA, Haar


def distance_by_loops(a, b):
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (x - y) * (x - y)
    return sqrt(total)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float)


@given(st.lists(NUMBERS | st.sampled_from([inf, -inf, float("nan")]), max_size=40))
@example([5e-324, 0.0, 0.0])
@example([1e308, -1e308, 1e-300])
@example([1.7976931348623157e308, 2.2e-16, 3e-308])
@example([2.2250738585072014e-308, 5e-324, -1e-310])
@example([1.2e-308, 5e-324, -1e-310])
@example([1.0, 1.0, nextafter(1.0, 2.0)])
def test_a_normal_form_is_that_of_the_loops(series):
    wanted, found = normal_form(series), normal(series)
    assert (found is None) == (wanted is None)
    if wanted is not None:
        assert found.tolist() == wanted
        assert abs(np.mean(found)) < 1e-9
        assert abs(np.std(found) - 1) < 1e-9


@given(st.integers(3, 30), st.integers(0, 2**32))
def test_a_distance_is_that_of_the_loops(n, seed):
    a, b = normals(np.random.default_rng(seed).normal(size=(2, n)))[0]
    assert distance(a, b) == distance_by_loops(a.tolist(), b.tolist())


def test_rows_without_a_shape_are_zeros():
    found, held = normals(np.array([[1.0, 2, 3], [4, 4, 4], [1, np.nan, 2], [2, 4, 6]]))
    assert held.tolist() == [True, False, False, True]
    assert found[0].tolist() == found[3].tolist()
    assert not found[1:3].any()
    assert normals(np.ones((2, 2)))[1].tolist() == [False, False]


def test_control_points_are_joined_by_straight_lines():
    assert rendered([0, 1, 0], 5).tolist() == [0, 0.5, 1, 0.5, 0]
    assert rendered([0, 2], 3).tolist() == [0, 1, 2]


# --- matching -------------------------------------------------------------------------------------------------------


def walks(generator, rows, n):
    steps = generator.uniform(-1, 1, (rows, n))
    return normals(np.cumsum(steps, 1) if generator.random() < 0.7 else steps)[0]


@st.composite
def worlds(draw):
    """Rows with radii and points, some of them the same, with radii that are exactly a distance or just below it."""
    n = draw(st.sampled_from([3, 4, 5, 8, 15, 16, 17, 33, 64, 65, 100, 257, 300, 700]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = walks(generator, draw(st.sampled_from([0, 1, 3, 63, 64, 65, 150])), n)
    points = walks(generator, draw(st.sampled_from([0, 1, 2, 17, 20])), n)
    radii = generator.uniform(0, draw(st.sampled_from([1e-6, 0.3, 1.0, 2.5])) * sqrt(n), len(rows))
    for i in range(len(rows)):
        kind = generator.integers(0, 8)
        if kind < 2 and len(points):
            p = generator.integers(0, len(points))
            if kind == 0:
                rows[i] = points[p]
            radii[i] = distance(rows[i], points[p])
            radii[i] = nextafter(radii[i], generator.choice([-inf, inf])) if generator.random() < 0.6 else radii[i]
        elif kind == 2:
            radii[i] = generator.choice([0.0, -1.0, 3 * sqrt(n), 1e308])
    return rows, radii, points


def near(rows, radii, points):
    return [{i for i, row in enumerate(rows) if distance_by_loops(row, point) <= radii[i]} for point in points]


def answers(found, points):
    listed = [found.rows[found.start[p] : found.start[p + 1]].tolist() for p in range(points)]
    assert all(len(set(one)) == len(one) for one in listed)
    return [set(one) for one in listed]


@pytest.mark.parametrize("structure", structures())
@given(worlds())
@examples(40)
def test_a_match_is_that_of_the_loops(structure, world):
    rows, radii, points = world
    wanted = near(rows.tolist(), radii, points.tolist())
    group = SphereGroup(rows, radii, structure=structure)
    assert answers(group.match(points), len(points)) == wanted
    assert [answers(group.match(points[p : p + 1]), 1)[0] for p in range(len(points))] == wanted
    candidates = answers(group.candidates(points), len(points))
    assert all(few <= many for few, many in zip(wanted, candidates, strict=True))


@pytest.mark.parametrize("transform", ["haar", "paa", "pca"])
@given(worlds())
@examples(25)
def test_so_it_is_with_other_transforms(transform, world):
    rows, radii, points = world
    n = rows.shape[1]
    if transform == "pca":
        sample = np.random.default_rng(1).normal(size=(40, n))
        chosen = PCA.fit(sample, min(4, n - 1))
    else:
        chosen = Haar() if transform == "haar" else PAA(10)
    for structure in ("cascade", "scan"):
        group = SphereGroup(rows, radii, transform=chosen, structure=structure)
        wanted = near(rows.tolist(), radii, points.tolist())
        assert answers(group.match(points), len(points)) == wanted
        assert answers(group.match(points[:1]), min(1, len(points))) == wanted[:1]


@pytest.mark.parametrize("structure", structures())
def test_many_rows_and_points_are_shared_by_threads(structure):
    generator = np.random.default_rng(5)
    rows, points = walks(generator, 5000, 300), walks(generator, 200, 300)
    radii = generator.uniform(0, 20, len(rows))
    far = np.sqrt(np.maximum(600 - 2 * points @ rows.T, 0))
    found = answers(SphereGroup(rows, radii, structure=structure).match(points), len(points))
    for p in range(len(points)):
        sure = set(np.flatnonzero(far[p] <= radii - 1e-9).tolist())
        assert sure <= found[p] <= sure | set(np.flatnonzero(abs(far[p] - radii) < 1e-9).tolist())
    assert sum(map(len, found)) > 1000


def test_a_point_has_the_same_rows_in_any_company():
    generator = np.random.default_rng(6)
    rows, points = walks(generator, 3000, 64), walks(generator, 100, 64)
    group = SphereGroup(rows, generator.uniform(0, 8, len(rows)), transform=FFT())
    together = answers(group.match(points), len(points))
    assert together == [answers(group.match(points[p : p + 1]), 1)[0] for p in range(len(points))]


def test_everything_near_everything_fills_more_than_one_room():
    rows = walks(np.random.default_rng(7), 4000, 20)
    found = SphereGroup(rows, np.full(len(rows), 100.0)).match(rows[:600])
    assert (np.diff(found.start) == len(rows)).all()


def test_memory_is_little_more_than_the_series_in_single_precision():
    rows = walks(np.random.default_rng(8), 2000, 1024)
    assert SphereGroup(rows, np.ones(len(rows))).nbytes <= 1.2 * 4 * rows.size


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (ShapeLookup(transform="dct"), "one of fft, haar, paa as transform"),
        (ShapeLookup(structure="hash"), "one of cascade, "),
        (ShapeLookup(features=0), "a number of features from 2 to 64"),
    ],
)
def test_a_deployment_is_told_what_it_may_choose(how, expected):
    with pytest.raises(SettingError) as caught:
        how.checked()
    assert caught.value.expected.startswith(expected)


@pytest.mark.parametrize("name", shape_kernels.__all__)
def test_what_defines_a_distance_is_never_compiled_with_fast_mathematics(name):
    """Whoever calls a kernel that does not say so hands its own fast mathematics down, and that is cached for all."""
    assert getattr(shape_kernels, name).targetoptions["fastmath"] is False
