"""Shapes in streams: what is told, and when."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import tidegate as tg
from tests.oracle import microseconds, normal_form
from tests.patterns.following_oracle import sharded, told
from tests.patterns.oracle import World
from tests.patterns.oracle_families import euclidean
from tests.patterns.oracle_pattern import Told
from tests.patterns.strategies import at
from tests.patterns.stream_readings import PEAK, pub, readings, run, sub
from tidegate.shapes.normal_form import normal
from tidegate.testing import as_table

BUMP = [0, 0, 0, 0, 1, 3, 6, 8, 9, 8, 6, 3, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_an_excursion_is_told_once_when_it_ends_with_its_best(one_by_one):
    series = [0, 4, 8, 9, 8, 4, 0]
    engine = tg.Engine([sub(f"shape(n, ({', '.join(map(str, series))}), 'stream') <= 3")])
    windows = {i: normal_form([float(n) for n in BUMP[i - 6 : i + 1]]) for i in range(6, len(BUMP))}
    distances = {i: euclidean(window, normal_form(series)) for i, window in windows.items()}
    near = [i for i, far in distances.items() if far <= 3]
    assert near == [10, 11, 12]
    assert distances[11] < min(distances[10], distances[12])
    stream = readings(BUMP)
    found = [n for batch in ([[p] for p in stream] if one_by_one else [stream]) for n in engine.publish(batch)]
    assert [(n.time, n.publications, n.score, n.distance) for n in found] == [(at(13), ("x11",), None, distances[11])]


def test_two_excursions_are_told_each():
    engine = tg.Engine([sub(f"{PEAK} <= 0")])
    assert run(engine, readings([0, 1, 0, 0, 0, 2, 0, 5, 5])) == [("s", 3, ("x2",)), ("s", 7, ("x6",))]


def test_one_that_has_not_ended_is_not_told():
    engine = tg.Engine([sub(f"{PEAK} <= 0")])
    assert run(engine, readings([0, 1, 0])) == []
    assert engine.advance(at(1000)) == []
    assert run(engine, [pub("z", 2000, 0)]) == [("s", 2000, ("x2",))]


def test_of_equally_good_windows_the_first_is_told():
    """Up, down, up, down: every other window is a peak; a valley is 3.46 from a peak."""
    engine = tg.Engine([sub(f"{PEAK} <= 4")])
    found = engine.publish(readings([0, 1, 0, 1, 0, 1, 0, 0, 0, 0]))
    assert [(n.publications, n.distance) for n in found] == [(("x2",), 0.0)]


def test_strict():
    window = normal([0, 1, 1])
    far = euclidean(window.tolist(), normal([0, 1, 0]).tolist())
    engine = tg.Engine([sub(f"{PEAK} <= {far!r}", "at most"), sub(f"{PEAK} < {far!r}", "below")])
    assert run(engine, readings([0, 1, 1, 1])) == [("at most", 3, ("x2",))]
    assert run(tg.Engine([sub(f"{PEAK} < 0")]), readings([0, 1, 0, 0])) == []


@pytest.mark.parametrize(
    "where", [f"{PEAK} <= 0", f"0 >= {PEAK}", f"{PEAK} < 0.1", f"0.1 > {PEAK}", f"{PEAK} <= 1 - 1"]
)
def test_either_side(where):
    assert run(tg.Engine([sub(where)]), readings([0, 1, 0, 0])) == [("s", 3, ("x2",))]


def test_a_constant_window_is_far():
    engine = tg.Engine([sub(f"{PEAK} <= 9")])
    assert run(engine, readings([1, 1, 1, 1])) == []
    assert run(engine, readings([2, 1, 1, 1], first=4)) == [("s", 7, ("x1",))], "1 2 1 is the best of its excursion"


def test_constant_on_the_scale_of_its_numbers_is_not_constant():
    engine = tg.Engine([sub(f"{PEAK} <= 0.001")])
    assert run(engine, readings([1e300, 1.5e300, 1e300, 0])) == [("s", 3, ("x2",))]
    assert run(engine, readings([5e-324, 1e-323, 5e-324, 5e-324], "y", 4)) == [("s", 7, ("y2",))]


def test_sources_are_apart():
    engine = tg.Engine([sub(f"{PEAK} <= 0.001")])
    stream = [pub("a0", 0, 0, "a"), pub("b0", 1, 1, "b"), pub("a1", 2, 0, "a"), pub("b1", 3, 2, "b")]
    stream += [pub("a2", 4, 3, "a"), pub("b2", 5, 1, "b"), pub("a3", 6, 0, "a"), pub("b3", 7, 1, "b")]
    stream += [pub("a4", 8, 0, "a")]
    assert run(engine, stream) == [("s", 7, ("b2",)), ("s", 8, ("a3",))]


def test_filter_first():
    engine = tg.Engine([sub(f"t = 'a' AND {PEAK} <= 0 AND n < 9")])
    stream = [pub(f"p{i}", i, n, t=t) for i, (n, t) in enumerate([(0, "a"), (7, "b"), (1, "a"), (10, "a"), (0, "a")])]
    assert run(engine, [*stream, pub("q", 9, 5, t="b"), pub("r", 10, 0, t="a")]) == [("s", 10, ("p4",))]


@pytest.mark.parametrize("other", [None, "text", True, [1, 2]])
def test_what_has_no_number_is_no_reading(other):
    engine = tg.Engine([sub(f"{PEAK} <= 0")])
    stream = readings([0, 1, 0, 0])
    stream.insert(2, pub("odd", 1, other))
    assert run(engine, stream) == [("s", 3, ("x2",))]


def test_different_lengths_side_by_side():
    wheres = {
        "3": f"{PEAK} <= 0",
        "4": "shape(n, (0, 1, 0, 0), 'stream') <= 0",
        "9": "shape(n, (0, 1, 0), 'stream', 9) <= 2",
    }
    engine = tg.Engine([sub(where, id) for id, where in wheres.items()])
    alone = {
        id: run(tg.Engine([sub(where, id)]), readings([0, 1, 0, 0, 1, 2, 3, 4, 3, 2, 1, 0, 9, 9]))
        for id, where in wheres.items()
    }
    together = run(engine, readings([0, 1, 0, 0, 1, 2, 3, 4, 3, 2, 1, 0, 9, 9]))
    assert all(alone.values())
    assert sorted(together) == sorted(row for rows in alone.values() for row in rows)


def test_named_shapes_take_a_length():
    engine = tg.Engine([sub("shape(n, 'spike', 'stream', 11) <= 1.5")])
    assert len(run(engine, readings([*[0] * 30, 7, *[0] * 30]))) == 1


def test_subscribing_in_the_middle():
    """Its windows have only what appeared since, although another one has seen the rest."""
    engine = sharded(timedelta(0), 1)
    engine.subscribe(sub(f"{PEAK} <= 0", "old"))
    stream = readings([0, 1, 0, 1, 0, 1, 0, 0])
    engine.publish(stream[:2])
    engine.subscribe(sub(f"{PEAK} <= 0", "new"))
    found = run(engine, stream[2:])
    assert [row[1:] for row in found if row[0] == "old"] == [(3, ("x2",)), (5, ("x4",)), (7, ("x6",))]
    assert [row[1:] for row in found if row[0] == "new"] == [(5, ("x4",)), (7, ("x6",))]


def test_a_longer_window_in_the_middle():
    engine = sharded(timedelta(0), 1)
    engine.subscribe(sub(f"{PEAK} <= 0", "short"))
    engine.publish(readings([0, 1, 2, 3, 4] * 20))
    engine.subscribe(sub("shape(n, (0, 1, 0), 'stream', 101) <= 1", "long"))
    ramp = [50 - abs(50 - i) for i in range(101)]
    found = run(engine, readings([*ramp, 0, 0, 0, 0, 0, 0, 0, 0], first=100), one_by_one=False)
    assert [row[2] for row in found if row[0] == "long"] == [("x100",)]


def test_unsubscribing_leaves_the_others_their_excursions():
    engine = tg.Engine([sub(f"{PEAK} <= 0", id) for id in "abc"] + [sub(f"n < 9 AND {PEAK} <= 0", "d")])
    engine.publish(readings([0, 1, 0]))
    engine.unsubscribe("a")
    engine.unsubscribe("d")
    assert run(engine, [pub("z", 3, 0)]) == [("b", 3, ("x2",)), ("c", 3, ("x2",))]
    engine.unsubscribe("b")
    engine.unsubscribe("c")
    engine.subscribe(sub(f"{PEAK} <= 0", "a"))
    assert run(engine, readings([1, 0, 1, 0, 0], "x", 10)) == [("a", 14, ("x3",))]


def test_late_publications_are_no_readings():
    engine = tg.Engine([sub(f"{PEAK} <= 0")])
    stream = [pub("a", 0, 0), pub("b", 5, 1), pub("late", 3, 7), pub("c", 6, 0), pub("d", 7, 0)]
    assert run(engine, stream) == [("s", 7, ("c",))]
    assert engine.late == 1


def test_in_order_of_time_and_id_within_the_lateness():
    engine = tg.Engine([sub(f"{PEAK} <= 0")], lateness=timedelta(seconds=5))
    engine.publish([pub("b", 1, 1), pub("d", 2, 0), pub("a", 1, 0)])
    engine.publish([pub("e", 2, 0)])
    assert told(engine.advance(at(100))) == [Told("s", at(2), ("d",), None, 0.0)]


def test_what_waited_lies_between_ones_own():
    """The new one's first reading is at 4 s, then comes one of 5 s that had appeared before it was made."""
    lateness = timedelta(seconds=10)
    engine, world = sharded(lateness, 1), World(lateness)
    for each in (engine, world):
        each.subscribe(sub(f"{PEAK} <= 0", "old"))
    first = [pub("a", 0, 9), pub("f", 5, 7), pub("h", 7, 7)]
    second = [pub("e", 4, 0), pub("g", 6, 1), pub("i", 8, 0), pub("j", 9, 0)]
    for batch in (first, second):
        assert engine.publish(batch) == world.publish(batch) == []
        engine.subscribe(sub(f"{PEAK} <= 0", f"new{len(batch)}"))
        world.subscribe(sub(f"{PEAK} <= 0", f"new{len(batch)}"))
    found = told(engine.advance(at(60)))
    assert found == world.advance(at(60))
    assert [(t.subscription, t.publications) for t in found] == [("new3", ("i",))]


@pytest.mark.parametrize("waiting", [5, 50, 500])
def test_however_much_waited_lies_between_ones_own(waiting):
    """A track keeps what somebody's window still needs, even if others would have it forgotten long ago."""
    engine = sharded(timedelta(hours=1), 1)
    engine.subscribe(sub(f"{PEAK} <= 0", "old"))
    engine.publish([pub(f"w{i:03}", 10 + i, i % 7) for i in range(waiting)])
    engine.subscribe(sub(f"{PEAK} <= 0", "new"))
    engine.publish([pub("a", 5, 0), pub("b", 9 + waiting // 2 + 0.5, 1), pub("c", 1000, 0), pub("d", 1001, 0)])
    found = told(engine.advance(at(9999)))
    assert [(t.time, t.publications) for t in found if t.subscription == "new"] == [(at(1001), ("c",))]


def test_active_until_ends_what_is_open():
    engine = tg.Engine([sub(f"{PEAK} <= 0", active_until=at(3)), sub(f"{PEAK} <= 0", "t", active_from=at(1))])
    assert run(engine, readings([0, 1, 0, 0, 1, 0, 0])) == [("t", 6, ("x5",))]


@pytest.mark.parametrize(("second", "count"), [(3, 0), (4, 1)])
def test_what_ended_is_told_up_to_its_end(second, count):
    """As Spark's combine step says it: a subscription ended when the clock was there, and what waited is still seen."""
    engine = sharded(timedelta(seconds=10), 1)
    engine.subscribe(sub(f"{PEAK} <= 0"))
    assert engine.publish(readings([0, 1, 0, 0])) == []
    clock = microseconds(at(second))
    engine._stage._shards[0].end(np.zeros(1, np.int64), np.full(1, 2**62), np.full(1, clock))
    assert len(engine.advance(at(60))) == count


def test_a_snapshot_in_the_middle_of_an_excursion(tmp_path):
    engine = tg.Engine([sub(f"{PEAK} <= 0"), sub("shape(n, (1, 0, 0), 'stream') <= 0", "later")])
    engine.publish(readings([0, 1, 0]))
    engine.save(tmp_path / "here")
    engine = tg.Engine.load(tmp_path / "here")
    assert run(engine, readings([0, 3], first=3)) == [("s", 3, ("x2",)), ("later", 4, ("x0",))]


def test_grouped_tables_name_the_reading_that_ended_it():
    engine = tg.Engine([sub(f"{PEAK} <= 0")])
    rows = engine.publish(as_table(readings([0, 1, 0, 0])), grouped=True).to_pylist()
    assert [(r["publication_id"], r["subscription_ids"]) for r in rows] == [("x3", ["s"])]
