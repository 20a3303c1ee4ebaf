"""Shapes in streams: many readings and many subscriptions against the oracle."""

from __future__ import annotations

import math
from datetime import timedelta
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.following_oracle import act, assert_same, follows_oracle, latenesses, told
from tests.patterns.idle_neighbours import follows_oracle_alone
from tests.patterns.oracle import World
from tests.patterns.oracle_families import euclidean
from tests.patterns.strategies import at, scripts, shape
from tests.patterns.stream_readings import sub
from tidegate.kernels import excursion
from tidegate.patterns import memory
from tidegate.patterns import shape as family
from tidegate.shapes.normal_form import normal

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
@given(script=scripts(stream=walks(), only=shapes), lateness=latenesses)
def test_one_at_a_time_beside_idle_ones_equals_oracle(script, lateness):
    follows_oracle_alone(script, lateness)


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
    far = euclidean(*(form.tolist() for form in forms))
    assert ((features[0] - features[1]) ** 2).sum() <= far * far * (1 + excursion.SLACK) + n * excursion.SLACK
    if n <= excursion.FEATURES - 1:
        assert math.isclose(float(((features[0] - features[1]) ** 2).sum()), far * far, abs_tol=1e-6)
