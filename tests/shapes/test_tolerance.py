"""What a tolerance would have brought, against plain loops over every window; and that the fast way keeps its word."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import normal_form
from tidegate.errors import SettingError
from tidegate.shapes import tolerance
from tidegate.shapes.named_shapes import find
from tidegate.shapes.normal_form import normal, rendered
from tidegate.shapes.tolerance import DAY, Distances, SeriesHistory, ToleranceOutcomes, rounded, sliding, whole

HOUR = DAY // 24


# --- the obvious way ------------------------------------------------------------------------------------------------


def plain_distance(series: list[float], pattern: list[float]) -> float:
    form = normal_form(series)
    if form is None:
        return inf
    total = 0.0
    for a, b in zip(form, pattern, strict=True):
        total += (a - b) * (a - b)
    return sqrt(total)


def plain_windows(readings: list[tuple[str, int, float]], pattern: list[float]) -> dict[str, list[float]]:
    """The distances of each source's windows, in the order of time."""
    n, found = len(pattern), {}
    for source in sorted({source for source, _, _ in readings}):
        values = [v for s, _, v in sorted(readings, key=lambda row: row[1]) if s == source and isfinite(v)]
        if values:
            found[source] = [plain_distance(values[i : i + n], pattern) for i in range(len(values) - n + 1)]
    return found


def plain_runs(distances: list[float], bound: float) -> int:
    runs, within = 0, False
    for distance in distances:
        runs += distance <= bound and not within
        within = distance <= bound
    return runs


# --- distances and runs ---------------------------------------------------------------------------------------------

values = st.integers(-3, 3).map(float) | st.floats(-1e300, 1e300) | st.sampled_from([np.nan, np.inf])
readings = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1000), values), min_size=1, max_size=40)
patterns = st.lists(st.integers(-3, 3).map(float), min_size=3, max_size=6).filter(lambda p: min(p) < max(p))


def history_of(rows: list[tuple[str, int, float]]) -> SeriesHistory:
    sources, times, numbers = zip(*rows, strict=True)
    return SeriesHistory.readings(
        np.array(["abc".index(s) for s in sources]), np.array(times) * HOUR, np.array(numbers, np.float64)
    )


@given(readings, patterns, st.floats(0, 6))
def test_windows_and_runs_are_those_of_plain_loops(rows, pattern, bound):
    form = normal_form(pattern)
    expected = plain_windows(rows, form)
    found = sliding(history_of(rows), normal(pattern))
    assert found.values.tolist() == [distance for part in expected.values() for distance in part]  # bit for bit
    assert found.sources == len(expected)
    kept = [time for _, time, value in rows if isfinite(value)]
    if not len(found.values) or max(kept) == min(kept):
        return
    outlooks = ToleranceOutcomes(found)
    for one in (bound, *(d for part in expected.values() for d in part if d < inf)):
        outlook = outlooks.at(one)
        count = sum(plain_runs(part, one) for part in expected.values())
        within = sum(d <= one for part in expected.values() for d in part)
        days = (max(kept) - min(kept)) / 24
        assert outlook.notifications == count
        assert outlook.per_day == pytest.approx(count / days)
        assert outlook.per_source == pytest.approx(count / days / len(expected))
        assert outlook.sources == sum(any(d <= one for d in part) for part in expected.values())
        assert (outlook.windows, outlook.share) == (within, within / len(found.values))


@given(st.lists(st.lists(values, max_size=8), min_size=1, max_size=12), patterns)
def test_whole_series_are_compared_each_for_itself(series, points):
    lengths = np.array([len(one) for one in series])
    flat = np.array([x for one in series for x in one], np.float64)
    history = SeriesHistory.series(np.zeros(len(series), np.int64), np.arange(len(series)) * DAY, lengths, flat)
    found = whole(history, lambda n: normal(rendered(points, n)))
    compared = [one for one in series if len(one) >= 3 and normal(rendered(points, len(one))) is not None]
    expected = [plain_distance(one, list(normal(rendered(points, len(one))))) for one in compared]
    assert found.values.tolist() == expected
    assert found.lengths.tolist() == [len(one) for one in compared]
    if len(series) > 1 and compared:
        assert ToleranceOutcomes(found).at(3).notifications == sum(d <= 3 for d in expected)


def test_windows_do_not_reach_from_one_source_to_the_next():
    history = history_of(
        [("a", i, v) for i, v in enumerate([0, 1, 2])] + [("b", i, v) for i, v in enumerate([3, 4, 9])]
    )
    found = sliding(history, normal([1, 2, 3]))
    assert found.origins.tolist() == [0, 1]
    assert found.follows.tolist() == [False, False]
    assert found.begins.tolist() == [0, 3]
    assert found.values[0] == 0 < found.values[1]


def test_a_constant_window_ends_a_run():
    flat = [0, 1, 2, 2, 2, 3, 4]
    outlooks = ToleranceOutcomes(sliding(history_of([("a", i, v) for i, v in enumerate(flat)]), normal([1, 2, 3])))
    assert np.isinf(outlooks.distances.values[2])
    assert outlooks.at(1e9).notifications == 2
    assert outlooks.at(1e9).windows == 4


# --- the fast way ---------------------------------------------------------------------------------------------------


def walk(rng: np.random.Generator, size: int) -> np.ndarray:
    found = np.cumsum(rng.normal(size=size))
    found[size // 3 : size // 3 + 300] = 7.0  # without a shape
    found[size // 2] += 1e6  # beside which everything else is flat
    return found


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_the_rough_way_is_close_and_the_closest_are_exact(monkeypatch, scale):
    rng = np.random.default_rng(5)
    sources = np.repeat(np.arange(3), [40_000, 100, 5000])
    numbers = np.concatenate([walk(rng, 40_000), rng.normal(size=100), walk(rng, 5000)]) * scale / 1e7
    history = SeriesHistory.readings(sources, np.arange(len(sources)) * HOUR, numbers)
    pattern = normal(rendered(find("head-and-shoulders").points, 128))
    exact = sliding(history, pattern)
    shown: list[int] = []
    monkeypatch.setattr(tolerance, "EXACT", 128 * 1000)
    rough = sliding(history, pattern, shown.append)
    assert np.isinf(exact.values).sum() > 300
    assert (np.isinf(exact.values) == np.isinf(rough.values)).all()
    shaped = np.isfinite(exact.values)
    assert np.abs(exact.values[shaped] - rough.values[shaped]).max() < 1e-5
    closest = np.argsort(exact.values)[:900]
    assert (exact.values[closest] == rough.values[closest]).all()
    assert shown == sorted(shown)
    assert shown[-1] <= len(exact.values)


def test_a_million_readings_take_seconds():
    history = SeriesHistory.readings(
        np.repeat(np.arange(10), 100_000),
        np.tile(np.arange(100_000), 10) * 60_000_000,
        np.cumsum(np.random.default_rng(1).normal(size=1_000_000)),
    )
    pattern = normal(rendered(find("double-top").points, 64))
    began = perf_counter()
    outlooks = ToleranceOutcomes(sliding(history, pattern))
    assert len(outlooks.grid([3.0])) > 5
    assert outlooks.suggested(1)
    assert perf_counter() - began < 30  # 1.3 s on a quiet machine


# --- suggestions ----------------------------------------------------------------------------------------------------


def outlooks_of(distances: list[float], days: float) -> ToleranceOutcomes:
    size = len(distances)
    return ToleranceOutcomes(
        Distances(
            np.array(distances, np.float64),
            np.arange(size),
            np.full(size, 3),
            np.zeros(size, np.int64),
            np.arange(size) > 0,
            days,
            1,
        )
    )


def test_suggested_is_the_smallest_that_brings_so_many():
    """The picture is of distances over windows; from 3 on, runs grow together.

    3   ·   ·   ·   ·
    2 ·   ·   ·   ·
    1
    """
    outlooks = outlooks_of([2.04, 3.001, 2.03, 3.002, 2.02, 3.003, 2.01, 3.004], days=2)
    assert [outlooks.at(e).notifications for e in (2, 2.015, 2.035, 2.5, 3.001, 3.004)] == [0, 1, 3, 4, 3, 1]
    assert outlooks.suggested(0.5).tolerance == 2.01
    assert outlooks.suggested(1.5).tolerance == 2.03
    assert outlooks.suggested(2).tolerance == 2.04
    assert outlooks.suggested(2.6) is None
    assert outlooks.most().tolerance == 2.04
    assert outlooks.closest == 2.01


def test_as_many_digits_as_it_takes():
    close = outlooks_of([2.0000001, 5, 2.0000002, 5, 2.0000003], days=1)
    assert close.suggested(2).tolerance == 2.0000002
    wide = outlooks_of([2.0000001, 5, 3.3, 5, 4], days=1)
    assert wide.suggested(1).tolerance == 2.01


@given(st.lists(st.floats(0, 20) | st.just(inf), min_size=1, max_size=30), st.integers(1, 9))
def test_suggestions_bring_about_what_they_say(distances, wanted):
    outlooks = outlooks_of(distances, days=1)
    counts = {d: plain_runs(distances, d) for d in distances if d < inf}
    found = outlooks.suggested(wanted)
    if all(count < wanted for count in counts.values()):
        assert found is None
    else:
        smallest = min(d for d, count in counts.items() if count >= wanted)
        assert found.tolerance >= smallest
        assert abs(found.notifications - counts[smallest]) <= 0.05 * counts[smallest]


@given(st.lists(st.floats(0, 20) | st.just(inf), min_size=1, max_size=30), st.lists(st.floats(0, 30), max_size=3))
def test_the_grid_has_the_users_own_and_ascends(distances, own):
    outlooks = outlooks_of(distances, days=1)
    grid = outlooks.grid(own)
    listed = [outlook.tolerance for outlook in grid]
    assert listed == sorted(set(listed))
    assert set(own) <= set(listed)
    if outlooks.closest < inf:
        assert max(grid, key=lambda one: one.tolerance).windows >= sum(map(isfinite, distances)) // 2
        assert min(set(listed) - set(own) or {outlooks.closest}) >= outlooks.closest


@given(st.floats(0, 1e300), st.integers(1, 17))
def test_rounding_keeps_the_distance_within(distance, digits):
    found = rounded(distance, digits)
    assert distance <= found <= max(distance * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15), 5e-324)
    assert rounded(3.14159, 3) == 3.15


def test_histories_that_say_nothing():
    with pytest.raises(SettingError, match="a window at least as long as the pattern"):
        ToleranceOutcomes(sliding(history_of([("a", 0, 1.0), ("a", 1, 2.0)]), normal([1, 2, 3])))
    with pytest.raises(SettingError, match="more than one moment"):
        ToleranceOutcomes(sliding(history_of([("a", 0, v) for v in (1, 2, 3)]), normal([1, 2, 3])))
    constant = ToleranceOutcomes(sliding(history_of([("a", t, 1) for t in range(5)]), normal([1, 2, 3])))
    assert constant.closest == inf
    assert constant.suggested(1) is None
    assert constant.grid() == []
    assert constant.most().notifications == constant.at(1e9).notifications == 0
