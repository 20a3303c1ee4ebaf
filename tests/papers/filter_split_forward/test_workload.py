"""An experiment's input: readings, and subscriptions as §VI-A has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from bench.papers.filter_split_forward.replay import ATTRIBUTES, Replay
from bench.papers.filter_split_forward.topology import SETUPS, Setup, topology
from bench.papers.filter_split_forward.workload import WINDOW, Workload, truth, workload
from tests.papers.filter_split_forward.sensorscope_files import folders
from tests.papers.filter_split_forward.setups import SMALL, TINY, every_setup, module
from tidegate.errors import SettingError
from tidegate.overlay.operators import Operator, OperatorPart

#: Reporting intervals: fewer than a sweep has.
ROUNDS = 20


def stream_values(work):
    found = {}
    for reading in work.readings:
        found.setdefault(reading.source, []).append(reading.value)
    return {source: np.array(values) for source, values in found.items()}


# --- readings -------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@folders
@every_setup
def test_readings_are_published_in_order_of_time_by_sensors_that_are_there(setup, folder):
    work = workload(setup, 1, folder, ROUNDS, 20)
    assert [reading.time for reading in work.readings] == sorted(reading.time for reading in work.readings)
    assert len({reading.id for reading in work.readings}) == len(work.readings)
    assert {reading.source for reading in work.readings} == set(work.node_of)
    assert len(work.node_of) == 5 * setup.groups
    assert set(work.node_of.values()) <= set(work.topology.nodes)
    assert work.data == ("generated" if folder is None else "sensorscope")
    # Plain numbers, as messages carry them.
    assert {(type(reading.value), type(reading.time)) for reading in work.readings} == {(float, int)}


def test_readings_are_those_of_the_replay(monkeypatch):
    """Each value tells its station and attribute, each time its place in the replay."""
    station, attribute = np.divmod(np.random.default_rng(9).permutation(15), 5)
    told = Replay("generated", (0, 1, 2), ATTRIBUTES, np.arange(15), station, attribute, station * 10.0 + attribute)
    monkeypatch.setattr(module, "replay", lambda *_: told)
    work = workload(TINY, 1, None, 1, 5)
    sensors = {sensor.source: sensor for sensor in work.topology.sensors}
    assert [reading.time for reading in work.readings] == list(range(15))
    for number, reading in enumerate(work.readings):
        sensor = sensors[reading.source]
        assert (sensor.station, sensor.attribute) == (station[number], ATTRIBUTES[attribute[number]])
        assert reading.value == 10 * sensor.station + ATTRIBUTES.index(sensor.attribute)
        assert work.node_of[reading.source] == sensor.node


# --- subscriptions --------------------------------------------------------------------------------------------------


@folders
@every_setup
def test_subscriptions_are_as_the_paper_has_them(setup, folder):
    work = workload(setup, 2, folder, ROUNDS, 300)
    values = stream_values(work)
    assert len({operator.id for _, operator in work.subscriptions}) == len(work.subscriptions) == 300
    sensors = {sensor.source: sensor for sensor in work.topology.sensors}
    for number, (node, operator) in enumerate(work.subscriptions):
        assert node in work.topology.nodes
        assert operator.window == work.window == WINDOW == 5 * 60 * 1_000_000
        assert operator.near is None
        assert operator.main is None
        assert setup.least <= len(operator.parts) <= setup.most
        assert [part.source for part in operator.parts] == sorted(part.source for part in operator.parts)
        for part in operator.parts:
            sensor = sensors[part.source]
            assert part.addresses(sensor.source, sensor.attribute, sensor.location)
            assert sensor.station == number % setup.groups
            stream = values[part.source]
            assert np.mean([part.holds(value) for value in stream]) >= 0.5
            median, unit = work.middles[part.source]
            assert median == np.median(stream)
            assert min(median - part.low, part.high - median) >= unit * (1 - 1e-9)


def draw(work, setup, rng, scale=1.0, station=0):
    sensors = [sensor for sensor in work.topology.sensors if sensor.station == station]
    chosen = rng.choice(len(sensors), rng.integers(setup.least, setup.most + 1), replace=False)
    return module._subscription("q", [sensors[i] for i in chosen], work, scale, rng)


@folders
def test_offsets_are_pareto_multiples_of_the_median_deviation(folder):
    """Of all that are drawn; those without a match are narrower than the others."""
    work = workload(SMALL, 3, folder, ROUNDS, 0)
    values, rng = stream_values(work), np.random.default_rng(3)
    found = []
    for number in range(1000):
        for part in draw(work, SMALL, rng, station=number % 10).parts:
            stream = values[part.source]
            median = np.median(stream)
            deviation = np.median(np.abs(stream - median))
            if deviation > 0:
                found.append(((median - part.low) / deviation, (part.high - median) / deviation))
    offsets = np.array(found)
    assert offsets.min() >= 1 - 1e-9
    # P(X > x) = 1 / x, on both sides, and neither side knows of the other.
    for x in (1.25, 2, 5, 20, 100):
        assert (offsets > x).mean(axis=0) == pytest.approx([1 / x] * 2, abs=0.03)
        assert (offsets > x).all(axis=1).mean() == pytest.approx(1 / x**2, abs=0.03)
    assert len(np.unique(offsets.round(9))) > 0.99 * offsets.size


@folders
def test_a_scale_stretches_all_ranges(folder):
    work = workload(SMALL, 4, folder, ROUNDS, 0)
    rngs = [np.random.default_rng(4) for _ in range(2)]
    for _ in range(50):
        one, four = (draw(work, SMALL, rng, scale) for rng, scale in zip(rngs, (1.0, 4.0), strict=True))
        assert [part.source for part in one.parts] == [part.source for part in four.parts]
        for narrow, wide in zip(one.parts, four.parts, strict=True):
            median = np.median(stream_values(work)[narrow.source])
            assert median - wide.low == pytest.approx(4 * (median - narrow.low), abs=1e-9)
            assert wide.high - median == pytest.approx(4 * (narrow.high - median), abs=1e-9)


@folders
@pytest.mark.parametrize("scale", [0.25, 4.0])
def test_a_scale_changes_nothing_but_the_ranges(folder, scale):
    usual, other = workload(SMALL, 4, folder, ROUNDS, 30), workload(SMALL, 4, folder, ROUNDS, 30, scale)
    assert (other.topology, other.readings) == (usual.topology, usual.readings)
    offset = {False: [], True: []}
    for work in (usual, other):
        for _, operator in work.subscriptions:
            for part in operator.parts:
                median, unit = work.middles[part.source]
                offset[work is other] += [(median - part.low) / unit, (part.high - median) / unit]
        assert all(truth(work).values())
    assert min(offset[True]) == pytest.approx(scale * min(offset[False]), rel=0.1)


@folders
@pytest.mark.parametrize("setup", [SMALL, SETUPS["medium"]], ids=["small", "medium"])
def test_the_first_ranges_that_match_are_taken(monkeypatch, folder, setup):
    drawn, original = [], module._subscription

    def seen(*given):
        drawn.append(original(*given))
        return drawn[-1]

    monkeypatch.setattr(module, "_subscription", seen)
    work = workload(setup, 3, folder, ROUNDS, 100)
    matched = [one for one in drawn if all(truth(replace(work, subscriptions=[("n", one)])).values())]
    assert matched == [operator for _, operator in work.subscriptions]
    assert len(matched) < len(drawn) or folder is None


def test_ranges_that_never_match_are_given_up(monkeypatch):
    never = Operator("q", (OperatorPart("ambient", 1e6, 2e6, "s00-ambient"),), WINDOW)
    monkeypatch.setattr(module, "_subscription", lambda *_: never)
    monkeypatch.setattr(module, "_DRAWS", 7)
    with pytest.raises(SettingError, match="expected ranges that some readings match; got none in 7 draws; at tiny"):
        workload(TINY, 1, None, 5, 1)


@pytest.mark.thorough
def test_attributes_and_users_are_drawn_evenly():
    work = workload(SMALL, 4, None, 5, 3000)
    kinds = Counter(part.attribute for _, operator in work.subscriptions for part in operator.parts)
    assert set(kinds) == set(ATTRIBUTES)
    assert max(kinds.values()) < 1.1 * min(kinds.values())
    sizes = Counter(len(operator.parts) for _, operator in work.subscriptions)
    assert set(sizes) == {3, 4, 5}
    assert min(sizes.values()) > 900
    users = Counter(node for node, _ in work.subscriptions)
    assert set(users) == set(work.topology.nodes)
    assert max(users.values()) < 100


@folders
@every_setup
def test_more_subscriptions_begin_with_the_fewer(setup, folder):
    few, many = workload(setup, 5, folder, ROUNDS, 100), workload(setup, 5, folder, ROUNDS, 200)
    assert many.subscriptions[:100] == few.subscriptions
    assert many.readings == few.readings
    assert many.topology == few.topology


@folders
def test_the_same_seed_gives_the_same_and_another_one_another(folder):
    one, two, other = (workload(SMALL, seed, folder, ROUNDS, 50) for seed in (6, 6, 7))
    assert (one.topology, one.readings, one.subscriptions) == (two.topology, two.readings, two.subscriptions)
    assert truth(one) == truth(two)
    assert one.topology != other.topology
    assert one.readings != other.readings
    assert [node for node, _ in one.subscriptions] != [node for node, _ in other.subscriptions]


def test_the_size_of_the_network_changes_no_reading_and_no_range():
    medium, large = (workload(SETUPS[name], 8, None, ROUNDS, 200) for name in ("medium", "large-network"))
    assert medium.readings == large.readings
    assert [operator for _, operator in medium.subscriptions] == [operator for _, operator in large.subscriptions]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0, 2.0, 3.0, 4.0, 9.0], 2.0, 4.0),
        ([7.0, 7.0, 7.0, 7.0, 12.0], 6.5, 7.5),
        ([7.0, 7.0], 6.0, 8.0),
        ([7.0], 6.0, 8.0),
    ],
    ids=["deviation", "spread", "constant", "single"],
)
def test_the_unit_of_offsets(monkeypatch, values, low, high):
    """With the least offset that there is."""
    monkeypatch.setattr(module, "replay", lambda *_: _replay_of(values))
    monkeypatch.setattr(module.np.random, "default_rng", lambda seed: _Least(np.random.PCG64(seed)))
    work = workload(Setup("one", 6, 1, 5, 5, (1,), (0, 0)), 1, None, 1, 1)
    ((_, operator),) = work.subscriptions
    assert {(part.low, part.high) for part in operator.parts} == {(low, high)}


class _Least(np.random.Generator):
    def pareto(self, a, size=None):
        assert a == 1
        return np.zeros(size)


def _replay_of(values):
    count = len(values)
    time, attribute = np.repeat(np.arange(count), 5), np.tile(np.arange(5), count)
    return Replay("generated", (0,), ATTRIBUTES, time, np.zeros(5 * count, int), attribute, np.repeat(values, 5))


def test_middles_are_those_of_the_readings():
    work = workload(TINY, 1, None, 9, 0)
    for source, stream in stream_values(work).items():
        median = np.median(stream)
        assert work.middles[source] == (median, np.median(np.abs(stream - median)))


@pytest.mark.parametrize(("seed", "count", "message"), [(-1, 5, "a seed of at least 0"), (1, -5, "at least 0 subscr")])
def test_impossible_numbers_are_refused(seed, count, message):
    with pytest.raises(SettingError, match=f"expected {message}.*; got -.*; at tiny"):
        workload(TINY, seed, None, 3, count)


@pytest.mark.parametrize("scale", [0.0, -1.0, inf, nan])
def test_an_impossible_scale_is_refused(scale):
    with pytest.raises(SettingError, match=r"expected a scale above 0; got .*; at tiny"):
        workload(TINY, 1, None, 3, 5, scale)


# --- replays that can be asked about --------------------------------------------------------------------------------


ONE = Setup("one", 6, 1, 5, 5, (1,), (0, 0))
#: The wind blows once: in a frost, or when it is as warm as usual.
FROST, MILD = [4.0, 5.0, 6.0, 5.0, -95.0], [4.0, 5.0, 6.0, 5.0, 5.0]


def _windy_last(values):
    """All attributes have these values, an hour apart; only the last moment has wind."""
    time, attribute = np.divmod(np.arange(5 * len(values)), 5)
    there = (attribute < 3) | (time == len(values) - 1)
    time, attribute, stations = time[there], attribute[there], np.zeros(there.sum(), int)
    return Replay("generated", (0,), ATTRIBUTES, time * 3_600_000_000, stations, attribute, np.array(values)[time])


def test_a_replay_in_which_matches_are_rare_is_drawn_again(monkeypatch):
    told = iter([_windy_last(FROST), _windy_last(FROST), _windy_last(MILD), _windy_last(FROST)])
    monkeypatch.setattr(module, "replay", lambda *_: next(told))
    work = workload(ONE, 1, None, 5, 10)
    assert [reading.value for reading in work.readings if reading.source == "s00-ambient"] == MILD
    assert len(list(told)) == 1


def test_replays_in_which_matches_are_rare_are_given_up(monkeypatch):
    monkeypatch.setattr(module, "replay", lambda *_: _windy_last(FROST))
    expected = r"expected readings of 1 stations that .* match; got none in \d+ replays of 5 intervals; at one"
    with pytest.raises(SettingError, match=expected):
        workload(ONE, 1, None, 5, 10)


@pytest.mark.parametrize(
    ("values", "odds"),
    [
        ([4.0, 6.0, 5.0], 1),
        ([4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0], 1 / 8),
        ([4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 6.0, -5.0], 1e-3),
    ],
    ids=["usual", "warm", "frost"],
)
def test_how_likely_the_only_match_is(values, odds):
    """The medians are 5 and the units 1; three attributes have to be in range, and the wind is."""
    network = topology(ONE, np.random.default_rng(1))
    work = Workload(network, module._readings(network, _windy_last(values)), [], "generated")
    assert {work.middles[f"s00-{name}"] for name in ("ambient", "surface", "humidity")} == {(5.0, 1.0)}
    assert module._odds(work, network.sensors) == pytest.approx(odds)


@folders
@every_setup
def test_one_draw_in_ten_has_a_match(setup, folder):
    for seed in (1, 2):
        work = workload(setup, seed, folder, ROUNDS, 0)
        rng = np.random.default_rng(seed)
        for station in range(setup.groups):
            drawn = [("n", draw(work, setup, rng, station=station)) for _ in range(40)]
            assert any(module.truth(replace(work, subscriptions=[one]))["q"] for one in drawn)
