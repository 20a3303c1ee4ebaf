"""The demo on Spark: the same summary for the same seed, however batches fall."""

from __future__ import annotations

import os
from time import sleep

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tests.cli.commands import run
from tidegate.demo import subscriptions, tables


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    """They are compiled when the tests first need them; how long that may take on a new machine is not of interest."""
    monkeypatch.setattr("tidegate.cli.demo.compile_kernels", lambda: sleep(0.2))


@pytest.fixture(autouse=True)
def aside(monkeypatch):
    """Whether the cache for a faster start was made in passing; here it is not."""
    asked = []
    monkeypatch.setattr("tidegate.pipeline.aot_warmup.warmup_aside", lambda: asked.append(True))
    return asked


def summary(text: str) -> list[str]:
    """What follows the lines that were shown on the way, without what it says of time."""
    told = text[text.index("\n\n") :].splitlines()
    return [line for line in told if not line.startswith("Spark took")]


def test_demo_tells_what_an_engine_tells(spark, aside):
    first = run("demo", "--seed", 3, "--readings", 3000).stdout
    hours = tables(np.random.default_rng(3))
    valley = pa.concat_tables([next(hours), next(hours)]).slice(0, 3000)
    expected = tg.Engine(subscriptions()).publish(valley)
    told = len(set(expected.column("subscription_id").to_pylist()))
    assert (
        f"3,000 publications in 2 hours of the valley's time gave {len(expected):,} notifications "
        f"to {told} of 104 subscriptions." in first
    )
    assert " → " in first.split("\n\n")[0]
    for words in ("Most notified:", "Why ", "✓", "Try this next:"):
        assert words in first
    assert len(aside) == 1


@pytest.mark.thorough
def test_demo_is_the_same_for_a_seed(spark, monkeypatch):
    first = run("demo", "--seed", 3, "--readings", 3000).stdout
    monkeypatch.setattr("tidegate.cli.demo._RATE", 6000.0)  # other batches
    assert summary(run("demo", "--seed", 3, "--readings", 3000).stdout) == summary(first)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--readings", 1), "1 publications in 1 hours"),
        (("--seconds", 0.4), " publications in "),
    ],
    ids=["one reading", "a moment"],
)
def test_demo_of_little_leaves_nothing(spark, tmp_path, monkeypatch, words, wanted):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert wanted in run("demo", *words).stdout
    assert os.listdir(tmp_path) == []


def test_demo_on_a_terminal(spark, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr("tidegate.cli.demo._SECONDS", 0.4)
    monkeypatch.setattr("tidegate.cli.demo._PATIENCE", 0.0)
    result = run("demo")
    assert "40 stations, hour " in result.stdout
    assert "compiling kernels, once" in result.stderr
