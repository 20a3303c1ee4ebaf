"""Initial matches, retractions and the queues that there are: Spark and the runner in process write the same queues."""

from __future__ import annotations

import time
from random import Random

import pytest

from tests.broker.valid_world import NotedCuts, ValidWorld, expected, told_by
from tests.pipeline.test_both_runners import run_of
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sources import LogSource

pytestmark = pytest.mark.spark

RUNNERS = ("spark", "process")


class World(ValidWorld):
    """Two runs of one log and registry. The time is that of the day, as Spark's processes know no other."""

    validities = (None, 0, 1000)

    def __init__(self, directory, random, patch, spark):
        super().__init__(directory, random, patch)
        self.now, self._spark = time.time_ns() // 1000, spark

    def run_both(self):
        for name in RUNNERS:
            queues = QueueSink(
                self.directory / f"{name}-queues",
                self.registry,
                log=self.directory / "log",
                valid=self.directory / f"{name}-valid",
            )
            sinks = [queues] if name == "spark" else [queues, NotedCuts(self.notes.cuts, queues, self.random)]
            source = LogSource(self.directory / "log")
            run = run_of(name, self._spark, source, self.registry, sinks, checkpoint=self.directory / name)
            run.start(available_now=True)
            run.wait()
            run.close()


def test_both_runners_write_the_same_queues(spark, tmp_path, monkeypatch):
    world = World(tmp_path, Random(5), monkeypatch, spark)
    steps = [world.publish, world.subscribe, world.unpublish, world.unregister]
    for before, weights in enumerate(((6, 2, 0, 0), (3, 6, 1, 0), (0, 6, 0, 0), (4, 3, 3, 1))):
        for step in world.random.choices(steps, weights, k=14):
            step()
        world.run_both()
        if not before:
            assert {path.name for path in tmp_path.glob("*-valid")} == {"spark-valid", "process-valid"}
    found = {name: told_by(tmp_path / f"{name}-queues") for name in RUNNERS}
    assert found["spark"] == found["process"] == expected(world.notes)
    kinds = [kind for items in found["spark"].values() for kind, *_ in items]
    assert min(kinds.count(kind) for kind in ("PUBLICATION", "INITIAL", "RETRACTED")) > 2
    world.registry.close()
