"""Patterns through Spark itself: a flow tells what an engine tells, and goes on after a restart."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import tidegate as tg
from tests.pipeline.lane import SECOND, Stream, at_seconds, rows, subscription
from tests.registered import registered
from tidegate.pipeline import flow as flow_module
from tidegate.pipeline import shard_keys
from tidegate.pipeline.flow import Flow
from tidegate.runs.sinks import Callback
from tidegate.runs.sources import FilesSource, GeneratorSource, LogSource
from tidegate.stages import combine, live_shard
from tidegate.stages.combine import CombineStep


class Collected:
    """A callback that remembers."""

    def __init__(self):
        self.tables = []

    def __call__(self, batch, table):
        self.tables.append(table)


class World:
    """A registry and a log, and an engine to which the same happens."""

    def __init__(self, directory, lateness=0.0, disorder=0.0, seed=7):
        self.registry = tg.Registry(directory / "registry.db")
        self.log = tg.Log(directory / "log", version=lambda: self.registry.version)
        self.engine = tg.Engine(lateness=lateness * SECOND)
        self.stream, self.expected, self.published = Stream(seed, disorder), [], 0
        self.directory, self.lateness = directory, lateness

    def subscribe(self, *subscriptions):
        self.registry.subscribe(*subscriptions)
        for one in subscriptions:
            self.engine.subscribe(registered(one))

    def unsubscribe(self, id):
        self.registry.unsubscribe(id)
        self.engine.unsubscribe(id)

    def publish(self, frame=None):
        frame = self.stream.frame() if frame is None else frame
        self.log.append(frame)
        self.expected.append(self.engine.publish(frame))
        self.published += frame.num_rows

    def flow(self, spark, sink, **settings):
        rows = settings.pop("rows", 1_000_000)
        source = LogSource(self.directory / "log", rows=rows)
        where = self.directory / "checkpoint"
        return Flow(
            spark, source, self.registry, [Callback(sink)], checkpoint=where, lateness=self.lateness, **settings
        )

    def drained(self, spark, sink, **settings):
        flow = self.flow(spark, sink, **settings)
        flow.start(available_now=True)
        assert flow.wait(120)
        flow.close()
        return flow


def until(flow, publications):
    """Wait until a running flow has done so many."""
    deadline = time.monotonic() + 120
    while flow.status.publications < publications:
        assert not flow.wait(0.05)
        assert time.monotonic() < deadline


def test_a_flow_tells_what_an_engine_tells(spark, tmp_path):
    """While subscriptions come and go, in a batch and between batches."""
    world, told = World(tmp_path), Collected()
    flow = world.flow(spark, told)
    flow.start()
    for step in range(12):
        world.subscribe(subscription(2 * step), subscription(2 * step + 1))
        if step in (5, 8):
            world.unsubscribe(f"ann/s{step}")
        world.publish()
        if step % 4 == 0:
            until(flow, world.published)
    until(flow, world.published)
    status = flow.status.snapshot()
    flow.stop()
    assert rows(told.tables) == rows(world.expected)
    assert {row["subscription_id"] for row in rows(told.tables)} >= {f"ann/s{i}" for i in range(14) if i not in (5, 8)}
    assert status.notifications == sum(table.num_rows for table in world.expected)
    assert status.patterns == 19  # of 24 three are plain and two are gone
    assert status.state_bytes > 1000
    assert status.state_bytes_per_pattern == status.state_bytes / status.patterns
    assert status.late == status.cut == status.waiting == 0


def test_a_flow_with_disorder_and_with_what_is_too_late(spark, tmp_path):
    """What waits at the end is told once something newer comes: an hour later, one publication."""
    world, told = World(tmp_path, lateness=3, disorder=3), Collected()
    world.subscribe(*(subscription(number) for number in range(8)))
    for step in range(6):
        world.publish(world.stream.frame(40, late=2 if step in (2, 4) else 0))
        if step == 3:
            world.unsubscribe("ann/s2")
            world.subscribe(*(subscription(number) for number in range(8, 16)))
    flow = world.drained(spark, told, rows=40)
    status = flow.status.snapshot()
    assert rows(told.tables) == rows(world.expected)
    assert status.late == world.engine.late == 4
    assert status.waiting > 0
    assert status.batches == 6
    world.publish(world.stream.last())
    flow = world.drained(spark, told)
    assert rows(told.tables) == rows(world.expected)
    assert flow.status.snapshot().waiting < status.waiting


def test_a_flow_that_is_stopped_and_started_again(spark, tmp_path, monkeypatch):
    """With the arrays that a flow left, without them, and from a snapshot and what came since."""
    monkeypatch.setattr(flow_module, "CombineStep", hasty(1))
    world, told, kept = World(tmp_path, lateness=1, disorder=1), Collected(), []
    monkeypatch.setattr(flow_module, "forget", kept.append)
    world.subscribe(*(subscription(number) for number in range(12)))
    for run in range(3):
        world.unsubscribe(f"ann/s{run}")
        for _ in range(3):
            world.publish(world.stream.frame(25))
            world.subscribe(subscription(100 + len(world.expected)))
        if run == 2:
            shutil.rmtree(live_shard.cache_directory() / "patterns" / kept[0])
        flow = world.drained(spark, told, rows=25)
        assert flow.status.snapshot().batches == 3
    names = os.listdir(tmp_path / "checkpoint" / "patterns")
    assert any(name.startswith("state-") for name in names)
    assert any(name.startswith("part-") for name in names)
    assert rows(told.tables) == rows(world.expected)
    assert kept == [flow.query] * 3
    live_shard.forget(flow.query)
    assert not (live_shard.cache_directory() / "patterns" / flow.query).exists()


def hasty(most):
    """Combining that writes a snapshot after so few batches; a class that travels to the workers by value."""

    class Hasty(CombineStep):
        def step(self, shard, parts, known):
            usual, combine._MOST_STEPS = combine._MOST_STEPS, most
            try:
                return CombineStep.step(self, shard, parts, known)
            finally:
                combine._MOST_STEPS = usual

    return Hasty


def test_a_batch_that_is_run_again_tells_the_same(spark, tmp_path):
    """As after a crash between the sinks and Spark's own note that the batch is done."""
    world, told = World(tmp_path), Collected()
    world.subscribe(*(subscription(number) for number in range(16)))
    world.publish()
    world.drained(spark, told)
    world.publish()
    world.drained(spark, told)
    commits = tmp_path / "checkpoint" / "spark" / "commits"
    for path in [*commits.glob("1*"), *commits.glob(".1*")]:
        path.unlink()
    world.unsubscribe("ann/s0")
    world.drained(spark, told)
    assert [len(table) for table in told.tables] == [len(table) for table in (*world.expected, world.expected[-1])]
    assert rows(told.tables[1:2]) == rows(told.tables[2:3]) == rows(world.expected[1:])


def test_without_patterns(spark, tmp_path):
    """Settled when a checkpoint is begun, and said at once where it does not fit."""
    world = World(tmp_path)
    world.subscribe(tg.Subscription("plain", "ann", "n > 1"))
    world.publish()
    told = Collected()
    world.drained(spark, told, patterns=False)
    assert rows(told.tables) == rows(world.expected) != []
    with pytest.raises(tg.SettingError, match=r"patterns as this checkpoint was begun: False; got True"):
        world.flow(spark, told)
    with pytest.raises(tg.SettingError, match=r"the time of day \(the log\) for a clock; got a run without patterns"):
        world.flow(spark, told, patterns=False, clock=1.0)
    world.subscribe(subscription(0), subscription(1))
    with pytest.raises(tg.SettingError, match=r"patterns = true for subscriptions with patterns; got false, and 2 of"):
        world.flow(spark, told, patterns=False).start()
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other")
    other.drained(spark, told)
    with pytest.raises(tg.SettingError, match=r"patterns as this checkpoint was begun: True; got False"):
        other.flow(spark, told, patterns=False)


def test_a_clock_wants_a_source_that_has_one(spark, tmp_path):
    registry = tg.Registry(tmp_path / "registry.db")
    for source in (FilesSource(str(tmp_path)), GeneratorSource(tmp_path / "log")):
        with pytest.raises(tg.SettingError, match=r"the time of day \(the log\) for a clock; got one without"):
            Flow(spark, source, registry, [], checkpoint=tmp_path / "checkpoint", clock=1.0)
    assert not (tmp_path / "checkpoint").exists()


def test_silence_is_noticed_without_a_publication(spark, tmp_path):
    """By the log's clock; and after a restart not a second time."""
    registry = tg.Registry(tmp_path / "registry.db")
    registry.subscribe(tg.Subscription("quiet", "ann", "absent('PT2S', n > 0)"))
    log = tg.Log(tmp_path / "log", version=lambda: registry.version)
    now = datetime.now(UTC)
    frame = at_seconds(1).set_column(2, "time", pa.array([now], pa.timestamp("us", "UTC")))
    log.append(frame)
    told = Collected()

    def flow():
        source, where = LogSource(tmp_path / "log"), tmp_path / "checkpoint"
        found = Flow(spark, source, registry, [Callback(told)], checkpoint=where, lateness=0, clock=0.5)
        found.start()
        return found

    first = flow()
    deadline = time.monotonic() + 60
    while not rows(told.tables) and time.monotonic() < deadline:
        assert not first.wait(0.1)
    assert datetime.now(UTC) < now + timedelta(seconds=30)
    first.stop()
    (row,) = rows(told.tables)
    assert (row["time"], row["publication_ids"]) == (now + 2 * SECOND, ["p1"])
    second = flow()
    deadline = time.monotonic() + 60
    while second.status.batches < 2 and time.monotonic() < deadline:
        assert not second.wait(0.1)
    second.stop()
    assert second.status.batches >= 2
    assert rows(told.tables) == [row]


def test_files_of_one_batch_appear_together(spark, tmp_path):
    (tmp_path / "in").mkdir()
    registry, engine, stream = tg.Registry(tmp_path / "registry.db"), tg.Engine(), Stream(9, disorder=5)
    for number in range(8):
        registry.subscribe(subscription(number))
        engine.subscribe(registered(subscription(number)))
    told, expected = Collected(), []
    for run in range(2):
        frames = [stream.frame(late=run) for _ in range(3)]
        for number, frame in enumerate(frames):
            pq.write_table(frame, tmp_path / "in" / f"{run}-{number}.parquet")
        expected.append(engine.publish(pa.concat_tables(frames)))
        where = tmp_path / "checkpoint"
        flow = Flow(spark, FilesSource(str(tmp_path / "in")), registry, [Callback(told)], checkpoint=where, lateness=0)
        flow.start(available_now=True)
        assert flow.wait(120)
        flow.close()
        registry.unsubscribe(f"ann/s{run}")
        engine.unsubscribe(f"ann/s{run}")
    assert rows(told.tables) == rows(expected)
    assert engine.late >= 3


def test_each_shard_has_a_partition_of_its_own(spark):
    chosen = [(count, key) for count in range(1, 9) for key in shard_keys.keys(count)]
    frame = spark.createDataFrame(chosen, "count int, key int").coalesce(1)
    placed = frame.select(F.expr("pmod(hash(key), count)").alias("at")).toArrow().column("at").to_pylist()
    assert placed == [partition for count in range(1, 9) for partition in range(count)]
