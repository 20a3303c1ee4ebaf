"""The engine's patterns against the oracle over longer streams: scores that drift, little room, disorder."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import tidegate as tg
from tests.patterns.following_oracle import assert_same, counters, end_of, frugal, told
from tests.patterns.oracle import World
from tests.patterns.strategies import HOME, PLACES, at
from tidegate.testing import as_table

#: Eighths, so that sums are exact: equal scores are ties whichever way the metres in them were rounded.
DRIFTS = {
    "rising": lambda generator, i: i / 8 + generator.integers(0, 8),
    "falling": lambda generator, i: -i / 8 + generator.integers(0, 8),
    "constant": lambda generator, i: 1,
    "few": lambda generator, i: generator.integers(0, 5),
    "noise": lambda generator, i: generator.normal(),
    "waves": lambda generator, i: round(80 * np.sin(i / 40)) / 8 + generator.integers(0, 3),
}


def long_stream(generator, length: int, drift: str, disorder: float) -> list[tg.Publication]:
    """About four publications a second, on a grid of a tenth of one; some lack something."""
    found, second = [], disorder
    for i in range(length):
        second += round(float(generator.choice([0, 0.1, 0.2, 0.4, 0.5])), 1)
        attributes = {"n": float(DRIFTS[drift](generator, i)), "m": int(generator.integers(0, 4))}
        attributes["t"] = str(generator.choice(["a", "b", "c"]))
        if generator.random() < 0.03:
            del attributes[str(generator.choice(["n", "m", "t"]))]
        place = PLACES[generator.integers(len(PLACES))]
        lag = round(float(generator.integers(0, int(disorder * 10) + 1)) / 10, 1)
        found.append(
            tg.Publication(
                id=f"{generator.integers(10**6):06}-{i}",
                source=f"z{generator.integers(6)}",
                time=at(0) + timedelta(milliseconds=100 * round(10 * (second - lag))),
                attributes=attributes,
                location=place if generator.random() < 0.9 else None,
            )
        )
    return found


def long_subscriptions(generator, number: int) -> list[tg.Subscription]:
    pick = generator.choice
    guards = ["", "", "", "t = 'a' AND ", "m > 0 AND "]
    scores = ["n", "-n", "n", "n - m", "n / m", "m", "distance((n, m), (1, 2))", f"distance(location, {HOME}) + n"]
    found = []
    for i in range(number):
        window = pick(["'PT0.7S'", "'PT5S'", "'PT20S'", "'PT40S'", "7", "30", "150"])
        topk = f"topk({pick([1, 2, 5, 20])}, {window}, {pick(scores)})"
        near, every = pick(["", "100, "]), pick(["", ", 'all'"])
        together = f"together('{pick(['PT0.5S', 'PT2S'])}', {near}t = 'a', m = 1, t = 'b'{every})"
        absent = f"absent('{pick(['PT0.9S', 'PT2S'])}', t = 'c' AND m = 2{pick(['', ', source'])})"
        points = ", ".join(map(str, generator.integers(-3, 4, pick([3, 4, 6])).tolist()))
        count = pick(["", ", 9", ", 20"])
        shape = f"shape({pick(['n', 'm'])}, (-4, {points}), 'stream'{count}) <= {pick([0.5, 2, 3.5, 5])}"
        where = str(pick(guards)) + [topk, topk, topk, together, absent, shape][i % 6]
        found.append(tg.Subscription(f"s{generator.integers(10**6)}-{i}", "ann", where))
    return found


def long_run(seed: int, drift: str, length: int, number: int, lateness: float, as_tables: bool) -> None:
    generator = np.random.default_rng(seed)
    stream = long_stream(generator, length, drift, disorder=lateness or 0.5)
    wanted = long_subscriptions(generator, number)
    wheres = {s.id: s.where for s in wanted}
    late_comers = wanted[number * 3 // 4 :]
    wanted = wanted[: number * 3 // 4]
    engine, world = tg.Engine(wanted, lateness=timedelta(seconds=lateness)), World(timedelta(seconds=lateness))
    for subscription in wanted:
        world.subscribe(subscription)
    start = 0
    while start < len(stream):
        size = int(generator.choice([1, 3, 40, 300]))
        batch = stream[start : start + size]
        found = told(engine.publish(as_table(batch) if as_tables else batch))
        assert_same(found, world.publish(batch), wheres, f"publications {start} to {start + size}")
        start += size
        if late_comers:
            subscription = late_comers.pop()
            engine.subscribe(subscription)
            world.subscribe(subscription)
        elif generator.random() < 0.1 and wanted:
            gone = wanted.pop().id
            engine.unsubscribe(gone)
            world.unsubscribe(gone)
    assert_same(told(engine.advance(end_of(stream))), world.advance(end_of(stream)), wheres)
    assert counters(engine) == counters(world)


@pytest.mark.parametrize("lateness", [0, 1.5])
@pytest.mark.parametrize("drift", sorted(DRIFTS))
def test_long_streams_equal_oracle(drift, lateness):
    long_run(sorted(DRIFTS).index(drift), drift, length=400, number=20, lateness=lateness, as_tables=drift == "few")


@pytest.mark.parametrize("widens", [True, False])
@pytest.mark.parametrize("drift", sorted(DRIFTS))
def test_long_streams_in_little_room_equal_oracle(drift, widens):
    with frugal(few=1 if widens else -(10**9), widens=widens):
        long_run(50 + sorted(DRIFTS).index(drift), drift, length=300, number=20, lateness=1.5, as_tables=False)


@pytest.mark.thorough
@pytest.mark.parametrize("lateness", [0, 1.5])
@pytest.mark.parametrize("drift", sorted(DRIFTS))
def test_longer_streams_equal_oracle(drift, lateness):
    long_run(100, drift, length=1500, number=30, lateness=lateness, as_tables=lateness == 0)
