"""Subscriptions that look at the past, against the oracle over longer streams."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

import tidegate as tg
from tests.patterns.past_events import event, follows
from tests.patterns.strategies import BESIDE, INNER, RELATIONS, Action, lasting, looks_back, pieces, thrown, unruly


def long_run(seed: int, length: int, most: int, depth: int = 2, lateness: float = 0, keep=None, **options) -> None:
    """Thousands of publications, subscriptions that come and go; as tables every other time."""
    dice = thrown(seed)
    stream = unruly(dice, length, length) if options.pop("refused", False) else lasting(dice, length, length, **options)
    follows(looks_back(dice, stream, most, depth), timedelta(seconds=lateness), seed % 2 == 0, keep)


@pytest.mark.parametrize("seed", range(6))
def test_long_streams_equal_oracle(seed):
    long_run(seed, length=400, most=14, disorder=0)


@pytest.mark.parametrize("seed", range(10, 13))
def test_long_streams_in_disorder_equal_oracle(seed):
    long_run(seed, length=300, most=12, lateness=3, disorder=4)


@pytest.mark.parametrize("seed", range(20, 23))
def test_long_streams_that_are_forgotten_equal_oracle(seed):
    long_run(seed, length=400, most=14, keep=timedelta(seconds=20), disorder=0)


@pytest.mark.parametrize("seed", range(30, 32))
def test_long_streams_without_rules_equal_oracle(seed):
    long_run(seed, length=300, most=12, refused=True)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 112))
def test_longer_streams_equal_oracle(seed):
    long_run(seed, length=3000, most=12, disorder=0, mixed=seed % 2 == 1)


def test_crowds_of_events_equal_oracle():
    """So many events that a structure has several levels: starts and ends at random, most of them long past."""
    generator, wanted = Random(7), []
    for i, relation in enumerate(RELATIONS):
        more = ["", ", 'PT20M'", ", 'PT1H', 'PT30S'"][i % 3]
        wanted.append(tg.Subscription(relation, "ann", f"T_{relation}(event, past({INNER[i % 3]}{more})) AND m = 1"))
        wanted.append(tg.Subscription(f"n-{i}", "ann", f"NOT T_{relation}(event, past({BESIDE[1]}{more})) AND m = 2"))
    for i, op in enumerate(["<", "<=", ">", ">=", "=", "<>"]):
        wanted.append(tg.Subscription(f"f-{i}", "ann", f"v {op} past(v, TRUE, {[1, 7, 100, 900, 1500, 10][i]})"))
    stream = []
    for i in range(1200):
        start = i - generator.randrange(400)
        values = {"n": generator.randrange(4), "m": generator.randrange(40), "t": generator.choice("abc")}
        values["v"] = generator.choice([i, -i, generator.random() * 2000])
        stream.append(event(f"e{i}", start, start + generator.choice([0, 1, 10, 300, 900]), time=i, **values))
    script = [Action("subscribe", s) for s in wanted] + [Action("publish", b) for b in pieces(stream, [500, 900])]
    follows(script)
