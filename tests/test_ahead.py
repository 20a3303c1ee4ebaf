"""Publications that are dated ahead of an engine's clock: the harm they do, and none where ``ahead`` is set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tidegate.testing import as_table

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SUBSCRIPTIONS = [
    tg.Subscription("plain", "ann", "n > 1"),
    tg.Subscription("best", "ann", "topk(1, 'PT10M', n)"),
    tg.Subscription("silent", "ann", "absent('PT10M', n > 0)"),
]


def reading(id: str, seconds: float, n: float = 2.0) -> tg.Publication:
    return tg.Publication(id, "z", NOW + timedelta(seconds=seconds), {"n": n})


WRONG = tg.Publication("wrong", "z", datetime(9999, 12, 31, tzinfo=UTC), {"n": 5.0})


def test_one_wrong_clock_makes_all_others_late():
    engine = tg.Engine(SUBSCRIPTIONS)
    engine.publish([WRONG])
    assert [n.subscription for i in range(3) for n in engine.publish([reading(f"p{i}", i, i + 2)])] == ["plain"] * 3
    assert (engine.late, engine.ahead) == (3, 0)


@pytest.mark.parametrize("given", [list, as_table])
def test_with_ahead_it_harms_nobody(given):
    engine = tg.Engine(SUBSCRIPTIONS, ahead=MINUTE, clock=lambda: NOW)
    assert len(engine.publish(given([WRONG]))) == 0
    for i in range(3):
        told = engine.publish(given([reading(f"p{i}", i, 9 - i), *([WRONG] if i == 1 else [])]))
        names = told if given is list else told.to_pylist()
        assert [n.subscription if given is list else n["subscription_id"] for n in names] == ["best", "plain"]
    assert engine.publish(given([WRONG, reading("q", 9)]), grouped=True)["publication_id"].to_pylist() == ["q", "q"]
    assert (engine.late, engine.ahead) == (0, 3)


def test_ahead_is_counted_from_the_clock_at_each_call():
    clock = [NOW]
    engine = tg.Engine(SUBSCRIPTIONS[:1], ahead=MINUTE, clock=lambda: clock[0])
    exactly, beyond = reading("p", 60), reading("q", 60.000001)
    assert [n.publications for n in engine.publish([exactly, beyond])] == [("p",)]
    clock[0] += timedelta(microseconds=1)
    assert [n.publications for n in engine.publish([exactly, beyond])] == [("p",), ("q",)]
    assert engine.ahead == 1


@examples(40)
@given(st.lists(st.lists(st.integers(-90, 180), max_size=6), max_size=5), st.booleans())
def test_it_is_as_if_nobody_had_published_them(batches, as_tables):
    """Also where a call has nobody left."""
    engine, other = tg.Engine(SUBSCRIPTIONS, ahead=MINUTE, clock=lambda: NOW), tg.Engine(SUBSCRIPTIONS)
    refused = 0
    for number, seconds in enumerate(batches):
        batch = [reading(f"p{number}-{i}", s, i) for i, s in enumerate(seconds)]
        timely = [p for p in batch if p.time <= NOW + MINUTE]
        refused += len(batch) - len(timely)
        if as_tables and batch:
            found = engine.publish(as_table(batch))["notification_id"].to_pylist()
        else:
            found = [n.id for n in engine.publish(batch)]
        assert found == [n.id for n in other.publish(timely)]
    assert (engine.ahead, engine.late) == (refused, other.late)


def test_it_outlives_a_snapshot(tmp_path):
    tg.Engine(SUBSCRIPTIONS).save(tmp_path / "saved")
    engine = tg.Engine.load(tmp_path / "saved", ahead=MINUTE, clock=lambda: NOW)
    assert engine.publish([WRONG]) == []
    assert engine.ahead == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ahead": MINUTE}, "a function that tells the time as clock, with ahead; got None"),
        ({"clock": lambda: NOW}, "a timedelta of 0 or more as ahead, with a clock; got None"),
        ({"ahead": -MINUTE, "clock": lambda: NOW}, "a timedelta of 0 or more as ahead"),
        ({"ahead": 60, "clock": lambda: NOW}, "a timedelta of 0 or more as ahead"),
        ({"ahead": MINUTE, "clock": NOW}, "a function that tells the time"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(tg.SettingError, match=message):
        tg.Engine(**settings)


@pytest.mark.parametrize("told", [None, 5, NOW.replace(tzinfo=None)])
def test_a_clock_that_tells_no_time(told):
    with pytest.raises(tg.SettingError, match="a clock that tells datetimes with a time zone"):
        tg.Engine(ahead=MINUTE, clock=lambda: told).publish([reading("p", 0)])
