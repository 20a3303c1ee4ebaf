"""The valley of the demo: the same for a seed, every station every minute, and tags that fit the readings."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate as tg
from tidegate.demo import PER_TABLE, STATIONS, subscriptions, tables


@pytest.fixture(scope="module")
def day() -> pa.Table:
    """The first day, with the storm that is at its height at four in the afternoon."""
    return pa.concat_tables(islice(tables(np.random.default_rng(3)), 24))


def readings(day: pa.Table) -> list[dict]:
    return day.filter(pc.is_valid(day.column("temperature"))).to_pylist()


def test_the_same_for_a_seed_and_another_for_another():
    first, again, other = (next(tables(np.random.default_rng(seed))) for seed in (3, 3, 4))
    assert first.equals(again)
    assert not first.equals(other)


def test_every_station_is_read_every_minute(day):
    rows = readings(day)
    assert len(rows) == 24 * PER_TABLE
    assert Counter((row["station"], row["time"]) for row in rows).most_common(1)[0][1] == 1
    assert {row["station"] for row in rows} == {station.name for station in STATIONS}
    assert pc.count_distinct(day.column("id")).as_py() == len(day)
    times = day.column("time").to_pylist()
    assert times == sorted(times)


def test_tags_fit_the_readings(day):
    seen = Counter()
    for row in readings(day):
        kind, *tags = row["tags"]
        assert kind == row["kind"]
        seen.update(tags)
        assert ("snowing" in tags) is (row["temperature"] < 1 and not {"snowing", "raining"}.isdisjoint(tags))
        assert ("ice" in tags) is (row["temperature"] < 0 and row["humidity"] > 85)
        assert tags.count("alarm") == (row["gust"] > 22) + (row["temperature"] < -9) + (row["humidity"] > 97)
    assert set(seen) == {"snowing", "raining", "ice", "alarm"}


def test_most_subscriptions_are_told_something_in_a_day(day):
    told = set(tg.Engine(subscriptions()).publish(day).column("subscription_id").to_pylist())
    assert len(told) > 0.6 * len(subscriptions())
