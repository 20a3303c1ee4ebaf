"""What is replayed, from SensorScope's files or generated: in order, repeatable, plausible."""

from __future__ import annotations

import numpy as np
import pytest

from bench.papers.filter_split_forward.replay import ATTRIBUTES, INTERVAL
from tests.papers.filter_split_forward.sensorscope_files import folders, got


@folders
def test_readings_ascend_in_time_and_name_what_is_there(folder):
    found = got(folder)
    assert found.attributes == ("ambient", "surface", "humidity", "wind_speed", "wind_direction")
    assert found.data == ("generated" if folder is None else "sensorscope")
    assert len(found) == len(found.time) == len(found.station) == len(found.attribute) == len(found.value)
    assert (np.diff(found.time) >= 0).all()
    assert np.isfinite(found.value).all()
    assert len(set(found.stations)) == 10


@pytest.mark.parametrize("stations", [10, 20])
def test_every_generated_sensor_reports_most_of_the_time(stations):
    for seed in range(3):
        found = got(None, stations, seed=seed)
        assert found.time[-1] - found.time[0] < 40 * INTERVAL * 1_000_000
        counts = np.zeros((stations, 5), int)
        np.add.at(counts, (found.station, found.attribute), 1)
        assert counts.min() > 30
        assert counts.max() <= 40


@pytest.mark.parametrize("rounds", [1, 7, 600])
def test_what_is_generated_may_be_short_or_long(rounds):
    found = got(None, rounds=rounds)
    assert found.time[-1] - found.time[0] < rounds * INTERVAL * 1_000_000
    assert len(set(zip(found.station.tolist(), found.attribute.tolist(), strict=True))) == 50


@folders
def test_the_same_seed_gives_the_same_readings(folder):
    one, two, other = got(folder), got(folder), got(folder, seed=2)
    assert one.stations == two.stations
    for name in ("time", "station", "attribute", "value"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(one.value, other.value)


@folders
def test_attributes_of_one_moment_come_in_random_order(folder):
    found = got(folder)
    moments = {}
    for time, station, attribute in zip(found.time, found.station, found.attribute, strict=True):
        moments.setdefault((time, station), []).append(int(attribute))
    orders = {tuple(order) for order in moments.values() if len(order) == 5}
    assert len(orders) > 50


def test_generated_weather_is_plausible_and_hangs_together():
    found = got(None, 10, 720)
    columns = {name: found.value[found.attribute == a] for a, name in enumerate(ATTRIBUTES)}
    assert 0.02 < 1 - len(found) / (10 * 5 * 720) < 0.04
    assert columns["humidity"].min() >= 0
    assert columns["humidity"].max() <= 100
    assert columns["wind_speed"].min() >= 0
    assert columns["wind_direction"].min() >= 0
    assert columns["wind_direction"].max() < 360
    assert np.ptp(columns["ambient"]) > 8
    for station in range(10):
        at = {
            name: dict(zip(found.time[here].tolist(), found.value[here].tolist(), strict=True))
            for a, name in enumerate(ATTRIBUTES)
            for here in [(found.station == station) & (found.attribute == a)]
        }
        both = [t for t in at["ambient"] if t in at["surface"] and t in at["humidity"]]
        ambient, surface, humidity = (np.array([at[name][t] for t in both]) for name in list(ATTRIBUTES)[:3])
        assert np.corrcoef(ambient, surface)[0, 1] > 0.6
        assert np.corrcoef(ambient, humidity)[0, 1] < -0.4
        steps = np.abs(np.diff(ambient))
        assert np.median(steps) < 0.2 * ambient.std()
