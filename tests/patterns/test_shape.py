"""Shapes in streams: what is told, and when; many readings and many subscriptions against the oracle; mistakes."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.oracle import microseconds
from tests.parts.profiles import examples
from tests.patterns import oracle
from tests.patterns.oracle import World
from tests.patterns.strategies import at, scripts, shape
from tests.patterns.test_laws import act, assert_same, follows_oracle, latenesses, sharded, told
from tidegate.errors import TidegateError
from tidegate.kernels import excursion
from tidegate.patterns import memory
from tidegate.patterns import shape as family
from tidegate.shapes.normal_form import normal
from tidegate.testing import as_table

PEAK = "shape(n, (0, 1, 0), 'stream')"


def pub(id, second, n=None, source="x", **attributes):
    return tg.Publication(id, source, at(second), attributes if n is None else {"n": n, **attributes})


def sub(where, id="s", **active):
    return tg.Subscription(id, "ann", where, **active)


def readings(numbers, source="x", first=0):
    return [pub(f"{source}{i}", first + i, n, source) for i, n in enumerate(numbers)]


def run(engine, publications, one_by_one=True):
    batches = [[p] for p in publications] if one_by_one else [publications]
    found = [n for batch in batches for n in engine.publish(batch)]
    return [(n.subscription, (n.time - at(0)).total_seconds(), n.publications) for n in found]


# --- what is told -------------------------------------------------------------------------------------------------


BUMP = [0, 0, 0, 0, 1, 3, 6, 8, 9, 8, 6, 3, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_an_excursion_is_told_once_when_it_ends_with_its_best(one_by_one):
    series = [0, 4, 8, 9, 8, 4, 0]
    engine = tg.Engine([sub(f"shape(n, ({', '.join(map(str, series))}), 'stream') <= 3")])
    windows = {i: oracle.normal_form([float(n) for n in BUMP[i - 6 : i + 1]]) for i in range(6, len(BUMP))}
    distances = {i: oracle.euclidean(window, oracle.normal_form(series)) for i, window in windows.items()}
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
    far = oracle.euclidean(window.tolist(), normal([0, 1, 0]).tolist())
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
    assert told(engine.advance(at(100))) == [oracle.Told("s", at(2), ("d",), None, 0.0)]


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


# --- laws ---------------------------------------------------------------------------------------------------------

_guards = st.sampled_from(["", "", "", "t = 'a' AND ", "m >= 0 AND "])
#: Few series, so that several subscriptions have the same; a filter is shared by most.
shapes = st.builds(lambda guard, where: guard + where, _guards, shape())


@st.composite
def walks(draw, least: int = 8, most: int = 60, disorder: int = 3):
    """Streams of two sources whose numbers go up and down in small steps, so that windows look like each other."""
    found, second, level = [], disorder, {"x": 0, "y": 0}
    for i in range(draw(st.integers(least, most))):
        second += draw(st.sampled_from([0, 1, 1, 2]))
        source = draw(st.sampled_from("xxxy"))
        level[source] += draw(st.sampled_from([0, 1, -1, 1, -1, 2]))
        attributes = {
            "n": level[source],
            "m": draw(st.sampled_from([0, 1, 2, None])),
            "t": draw(st.sampled_from("aab")),
        }
        id = f"{draw(st.integers(0, 9))}-{i}"
        found.append(tg.Publication(id, source, at(second - draw(st.integers(0, disorder))), attributes))
    return found


@examples(60)
@given(script=scripts(stream=walks() | walks(disorder=6), only=shapes), lateness=latenesses)
def test_engine_equals_oracle(script, lateness):
    follows_oracle(script, lateness)


@examples(30)
@given(script=scripts(stream=walks(disorder=6), only=shapes), lateness=latenesses, few=st.sampled_from([1, -(10**9)]))
def test_little_room_changes_nothing(script, lateness, few):
    """What nobody reaches is forgotten at once; tracks begin with room for one reading; tables fill at every step."""
    with patch.object(memory, "_FEW", few), patch.multiple(family, _SMALL=1, _MORE=1):
        follows_oracle(script, lateness, shards=2)


@examples(8)
@given(script=scripts(stream=walks(), only=shapes), lateness=latenesses, data=st.data())
def test_a_restart_changes_nothing(script, lateness, data, tmp_path_factory):
    whole, parted = tg.Engine(lateness=lateness), tg.Engine(lateness=lateness)
    place = tmp_path_factory.mktemp("restart")
    for action in script:
        assert act(parted, action) == act(whole, action)
        if data.draw(st.integers(0, 3)) == 0:
            parted.save(place / "here")
            parted = tg.Engine.load(place / "here")


def waves(generator, length: int, sources: int, lag: int) -> list[tg.Publication]:
    """Sines of changing pace with some noise, rounded, so that some windows are alike and some are constant."""
    phase, level = generator.random(sources) * 9, generator.random(sources) * 100
    found = []
    for i in range(length):
        s = int(generator.integers(sources))
        phase[s] += generator.choice([0, 0, 0.1, 0.2, 0.4])
        value = round(float(level[s] + 5 * np.sin(phase[s]) + generator.normal() * 0.3), int(generator.integers(0, 3)))
        second = i + lag - int(generator.integers(0, lag + 1))
        found.append(tg.Publication(f"{generator.integers(99)}-{i}", f"z{s}", at(second), {"n": value}))
    return found


def many(generator, number: int, longest: int) -> list[tg.Subscription]:
    found = []
    for i in range(number):
        size = int(generator.choice([3, 7, 16, 17, 33, longest]))
        begin, pace = generator.random() * 9, generator.choice([0.05, 0.1, 0.2])
        series = np.round(np.sin(begin + pace * np.arange(size)) + generator.normal(size=size) * 0.1, 2)
        series[0] += 0.5
        bound = round(float(np.sqrt(size) * generator.choice([0.2, 0.4, 0.7, 1.0, 1.3])), 3)
        op = generator.choice(["<=", "<"])
        found.append(sub(f"shape(n, ({', '.join(map(str, series.tolist()))}), 'stream') {op} {bound}", f"s{i:04}"))
    return found


@pytest.mark.parametrize("lateness", [0, 20])
@pytest.mark.parametrize("seed", range(3))
def test_many_subscriptions_equal_the_oracle(seed, lateness):
    """More than a block of them, windows from 3 to 70 readings; some come later, and some go."""
    generator = np.random.default_rng(seed)
    stream, wanted = waves(generator, 500, 3, 10), many(generator, 150, 70)
    wheres = {s.id: s.where for s in wanted}
    engine, world = (kind(lateness=timedelta(seconds=lateness)) for kind in (tg.Engine, World))
    total = 0
    for i in range(10):
        for made in wanted[15 * i : 15 * i + 15]:
            engine.subscribe(made)
            world.subscribe(made)
        if i > 5:
            engine.unsubscribe(wanted[7 * i].id)
            world.unsubscribe(wanted[7 * i].id)
        batch = stream[50 * i : 50 * i + 50]
        found = told(engine.publish(batch))
        assert_same(found, world.publish(batch), wheres)
        total += len(found)
    assert total > 50


@given(
    pair=st.integers(3, 90).flatmap(lambda n: st.tuples(*[st.lists(st.integers(-9, 9), min_size=n, max_size=n)] * 2)),
    scale=st.sampled_from([1.0, 1e-300, 1e300, 1e9]),
)
def test_features_are_never_farther_apart_than_the_series(pair, scale):
    forms = [normal(np.array(series) * scale) for series in pair]
    if forms[0] is None or forms[1] is None:
        return
    features = np.empty((2, excursion.FEATURES))
    for form, row in zip(forms, features, strict=True):
        excursion.features_of(form, row)
    n = len(forms[0])
    assert math.isclose(float((features[0] ** 2).sum()), n, rel_tol=excursion.SLACK)
    far = oracle.euclidean(*(form.tolist() for form in forms))
    assert ((features[0] - features[1]) ** 2).sum() <= far * far * (1 + excursion.SLACK) + n * excursion.SLACK
    if n <= excursion.FEATURES - 1:
        assert math.isclose(float(((features[0] - features[1]) ** 2).sum()), far * far, abs_tol=1e-6)


# --- mistakes -----------------------------------------------------------------------------------------------------

REFUSED = {
    "greater": (f"{PEAK} > 2", "<= or <"),
    "at least": (f"{PEAK} >= 2", "<= or <"),
    "at least, mirrored": (f"2 <= {PEAK}", "<= or <"),
    "equal": (f"{PEAK} = 2", "<= or <"),
    "between": (f"{PEAK} BETWEEN 1 AND 2", "got BETWEEN"),
    "in": (f"{PEAK} IN (1, 2)", "got IN"),
    "not": (f"NOT {PEAK} <= 2", "one pattern"),
    "or": (f"n > 1 OR {PEAK} <= 2", "one pattern"),
    "two": (f"{PEAK} <= 2 AND {PEAK} <= 3", "one pattern"),
    "with another pattern": (f"{PEAK} <= 2 AND topk(1, 'PT1S', n)", "one pattern"),
    "in a pattern": (f"absent('PT1S', {PEAK} <= 2)", "one pattern"),
    "bare": (PEAK, "condition"),
    "in arithmetic": (f"{PEAK} + 1 <= 2", ""),
    "name without length": ("shape(n, 'spike', 'stream') <= 2", "how many readings"),
    "unknown name": ("shape(n, 'spoke', 'stream', 9) <= 2", "spike"),
    "two numbers": ("shape(n, (1, 2), 'stream') <= 2", "3 to 65536"),
    "constant": ("shape(n, (1, 1, 1), 'stream') <= 2", "not constant"),
    "length 2": ("shape(n, (1, 2, 3), 'stream', 2) <= 2", "whole number"),
    "length broken": ("shape(n, (1, 2, 3), 'stream', 4.5) <= 2", "whole number"),
    "too many arguments": ("shape(n, (1, 2, 3), 'stream', 9, 9) <= 2", "arguments of shape"),
    "texts": ("shape(n, ('a', 'b', 'c'), 'stream') <= 2", "numbers"),
    "reserved": ("shape(source, (1, 2, 3), 'stream') <= 2", "reserved"),
    "tolerance negative": (f"{PEAK} <= -1", "tolerance"),
    "tolerance infinite": (f"{PEAK} <= 1e308 * 10", "number"),
    "tolerance a text": (f"{PEAK} <= '1'", "number"),
    "tolerance an attribute": (f"{PEAK} <= m", "number"),
    "tolerance a truth value": (f"{PEAK} <= TRUE", "number"),
    "tolerance a shape": (f"{PEAK} <= {PEAK}", "number"),
}


@pytest.mark.parametrize(("where", "part"), REFUSED.values(), ids=REFUSED)
def test_refused(where, part):
    engine = tg.Engine([sub(f"{PEAK} <= 0", "old")])
    engine.publish(readings([0, 1, 0]))
    with pytest.raises(TidegateError) as caught:
        engine.subscribe(sub(where))
    message = str(caught.value)
    assert type(caught.value) is tg.TypeMismatch, message
    assert re.match(r"expected .+; got .+; at line 1, column \d+ of subscription 's'", message, re.DOTALL), message
    assert part in message
    assert run(engine, [pub("z", 9, 0)]) == [("old", 9, ("x2",))]


def test_explained():
    engine = tg.Engine([sub(f"t = 'a' AND {PEAK} <= 0")])
    assert engine.explain("s", pub("p", 0, 1, t="a")).held
    assert not engine.explain("s", pub("p", 0, 1, t="b")).held
    for other in (None, "text", True):
        assert not engine.explain("s", pub("p", 0, other, t="a")).held


def test_a_long_shape_is_kept(tmp_path):
    """As long as they may be; in a snapshot, too."""
    inner = {"op": "shape", "args": [{"property": "n"}, list(range(65_536)), "stream"]}
    engine = tg.Engine([sub({"op": "<=", "args": [inner, 1]})])
    engine.save(tmp_path / "here")
    engine = tg.Engine.load(tmp_path / "here")
    numbers = np.arange(65_538.0)
    numbers[-1] = 0
    table = pa.table(
        {
            "id": [f"p{i}" for i in range(len(numbers))],
            "source": ["x"] * len(numbers),
            "time": pa.array(np.arange(len(numbers)) * 1_000_000, pa.timestamp("us", "UTC")),
            "n": numbers,
        }
    )
    (found,) = engine.publish(table).to_pylist()
    assert found["publication_ids"] == ["p65535"]
    assert found["distance"] == 0
