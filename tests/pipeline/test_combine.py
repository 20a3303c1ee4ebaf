"""Patterns with state in the lane: Spark's combine step tells what an engine tells, however often it is cut off.

First without Spark: ``Lane`` runs a batch as Spark does, select and then a call per shard with the state that Spark
keeps, so that hundreds of batches, failures and moves to other machines take seconds. Then on a real Spark.
"""

import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import tidegate as tg
from tests.patterns.strategies import scripts
from tidegate.errors import StoreError
from tidegate.pipeline import combine, feed, logsource, select, shards
from tidegate.pipeline import flow as flow_module
from tidegate.pipeline.combine import Combining
from tidegate.pipeline.flow import Flow
from tidegate.pipeline.logsource import LogSource
from tidegate.pipeline.parts import Files
from tidegate.pipeline.select import Select, Subscriptions
from tidegate.pipeline.sinks import Callback, Receipts, Sent
from tidegate.pipeline.sources import FilesSource, GeneratorSource, LoggedSource
from tidegate.pipeline.work import COUNTS, Work
from tidegate.store import bundle
from tidegate.testing import as_table

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)

#: Every family, with windows of time and of counts, with and without sources and metres; and one without a pattern.
WHERE = (
    "topk(3, 'PT5S', n)",
    "n > 0 AND topk(2, 40, n)",
    "topk(3, 'PT4S', distance((n, m), (1, 2)))",
    "together('PT3S', n > 1, m > 1)",
    "together('PT4S', 5000, n > 3, m > 3, n < 3)",
    "absent('PT3S', n > 4.9)",
    "absent('PT2S', n > 3, source)",
    "n > 4.9",
)


def subscription(number):
    return tg.Subscription(f"s{number}", "ann", WHERE[number % len(WHERE)])


class Stream:
    """Publications that come one frame after the other, the newest about two seconds later each time."""

    def __init__(self, seed, disorder=0):
        self._rng, self._disorder = np.random.default_rng(seed), disorder
        self._second, self._number = 0.0, 0

    def frame(self, count=50, late=0):
        """So many publications, of which ``late`` are a minute older than the others."""
        rng = self._rng
        seconds = self._second + np.sort(np.round(rng.random(count) * 2, 2))
        self._second = float(seconds[-1])
        seconds -= np.round(rng.random(count) * self._disorder, 1)
        seconds[:late] -= 60
        first, self._number = self._number, self._number + count
        points = [{"lon": 16 + 0.1 * x, "lat": 45.8} for x in rng.random(count)]
        return pa.table(
            {
                "id": [f"p{i:05d}" for i in range(first, first + count)],
                "source": [f"z{i % 5}" for i in range(count)],
                "time": pa.array([TIME + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC")),
                "location": pa.array(points, pa.struct([("lon", pa.float64()), ("lat", pa.float64())])),
                "n": np.round(rng.random(count) * 5, 1),
                "m": np.round(rng.random(count) * 5, 1),
            }
        )

    def last(self):
        """One publication an hour later: all that waits is stepped, and all silences are over."""
        self._second += 3600
        return self.frame(1)


def rows(tables):
    """Notifications, in an order that does not depend on how they came."""
    return sorted((row for table in tables for row in table.to_pylist()), key=str)


# --- the lane without Spark -----------------------------------------------------------------------------------------


class Task:
    """What Spark tells a task."""

    def __init__(self, batch, part=0):
        self._told, self._part = {"streaming.sql.batchId": str(batch)}, part

    def getLocalProperty(self, name):
        return self._told.get(name)

    def partitionId(self):
        return self._part


class State:
    """What Spark keeps for a key: changed only when all of a batch went well."""

    def __init__(self, value):
        self._value = value

    @property
    def exists(self):
        return self._value is not None

    @property
    def get(self):
        return (self._value,)

    def update(self, value):
        (self._value,) = value


class Lane:
    """A log, a registry, select and combine, and what Spark does between them."""

    def __init__(self, directory, lateness=0.0, count=2):
        self.registry = tg.Registry(directory / "registry.db")
        self.registry.needs("lane", 0)
        self.log = tg.Log(directory / "log", version=lambda: self.registry.version)
        self.keys = shards.keys(count)
        self.files = Files(str(directory / "patterns"))
        subscriptions, halves = Subscriptions(os.fspath(self.registry.shelf), self.registry), (Sent(),)
        self.work = Work(Select(feed.slices, subscriptions), halves, None, self.files, self.keys)
        self.combining = Combining(self.files, "lane", self.keys, int(lateness * 1e6), subscriptions, halves)
        options = {"path": str(directory / "log"), "registry": self.registry.url, "storage": self.registry.shelf}
        self.reader = LogSource({**options, "pieces": "3"}).streamReader(None)
        self.states, self.row, self.number, self.told = dict.fromkeys(self.keys), 0, -1, []
        self.counts, self.clock = {}, None

    def publish(self, *tables):
        """Append frames, and have them all in one batch."""
        for table in tables:
            self.log.append(table)
        self.batch()

    def batch(self, clock=None, end=None):
        """Run what is in the log since the last batch; ``clock`` is the time of day in microseconds."""
        start, self.row = {"row": self.row}, self.log.end if end is None else end
        self.number += 1
        tick = {"clock": clock, "version": self.registry.version} if clock is not None else {}
        self.parts = self.selected(start, {"row": self.row, **tick})
        self.states, receipts = self.combined()
        self.accept(receipts)

    def accept(self, receipts):
        self.told.append(receipts.flat)
        for payload in receipts.of(COUNTS):
            counted = orjson.loads(payload)
            if "shard" in counted:
                self.counts[counted["shard"]] = counted

    def selected(self, start, end):
        """The first stage: a task per partition; its rows by key."""
        found = {key: [] for key in self.keys}
        for number, partition in enumerate(self.reader.partitions(start, end)):
            with running(Task(self.number, number)):
                for batch in self.work(self.reader.read(partition)):
                    for row in batch.to_pylist():
                        found[row["shard"]].append(row)
        return found

    def combined(self, states=None):
        """The second stage: a call per key; the next states and the receipts. Nothing of the lane is changed."""
        fresh, receipts = {}, []
        for key, rows_ in self.parts.items():
            state = State((states or self.states)[key])
            if rows_:  # in any order, as they come out of a shuffle
                frame = pd.DataFrame(rows_[::-1])
                with running(Task(self.number)):
                    for found in self.combining((key,), iter([frame[:1], frame[1:]]), state):
                        receipts += found.to_dict("records")
            fresh[key] = state.get[0]
        schema = pa.schema([("kind", pa.string()), ("payload", pa.binary())])
        return fresh, Receipts(pa.Table.from_pylist(receipts, schema))

    def known(self, shard):
        """The state of a shard, as Spark has it."""
        value = self.states[self.keys[shard]]
        return orjson.loads(value) if value else {}

    def total(self, name):
        return sum(counted[name] for counted in self.counts.values())


class running:
    """As if in a task."""

    def __init__(self, task):
        self._task = task

    def __enter__(self):
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(select.TaskContext, "get", lambda: self._task)

    def __exit__(self, *_):
        self._patch.undo()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, and no shards that were mapped before."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(combine, "_LIVE", {})
    monkeypatch.setattr(logsource, "_ALONE", 8)  # a batch of few publications has several tasks
    return tmp_path / "cache"


def trouble(cache, kind):
    """What may happen to a machine between two batches."""
    if kind == "another process":
        combine._LIVE.clear()
    elif kind == "another machine":
        shutil.rmtree(cache / "patterns")
        combine._LIVE.clear()
    elif kind == "a foreign token":
        for file in (cache / "patterns").rglob("facts.json"):
            file.write_bytes(file.read_bytes().replace(b'{"token":"', b'{"token":"x'))


TROUBLES = ("none", "another process", "another machine", "a foreign token")


@settings(max_examples=5, phases=[Phase.explicit, Phase.generate])  # to shrink takes minutes
@given(script=scripts(), lateness=st.sampled_from([0, 0, 2, 4, 4.5]), count=st.integers(1, 3), data=st.data())
def test_whatever_happens_the_lane_tells_what_an_engine_tells(tmp_path_factory, script, lateness, count, data):
    """However batches fall and whatever becomes of the live arrays, with few and with many snapshots of the state."""
    directory = tmp_path_factory.mktemp("lane")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE", str(directory / "cache"))
        patch.setattr(combine, "_LIVE", {})
        patch.setattr(logsource, "_ALONE", data.draw(st.sampled_from([4, 1000])))
        patch.setattr(combine, "_MOST_PARTS", data.draw(st.sampled_from([0, 2, 100])))
        lane, engine, expected = Lane(directory, lateness, count), tg.Engine(lateness=lateness * SECOND), []
        for what, operand in script:
            if what == "publish":
                lane.log.append(as_table(operand))
                expected.append(engine.publish(as_table(operand)))
                happens = data.draw(st.sampled_from(["no batch yet", *TROUBLES]))
                if happens != "no batch yet":
                    lane.batch()
                    trouble(directory / "cache", happens)
            elif what != "advance":  # the log has no such thing: see the tests of its clock
                getattr(engine, what)(operand)
                getattr(lane.registry, what)(operand)
        lane.batch()
        assert rows(lane.told) == rows(expected)


@pytest.mark.parametrize("lateness", [0, 3])
def test_what_becomes_of_the_live_arrays_changes_nothing(tmp_path, cache, monkeypatch, lateness):
    monkeypatch.setattr(combine, "_MOST_PARTS", 3)
    lane, engine, stream = Lane(tmp_path, lateness), tg.Engine(lateness=lateness * SECOND), Stream(3, lateness)
    expected = []
    for step in range(8):
        for number in (2 * step, 2 * step + 1):
            lane.registry.subscribe(subscription(number))
            engine.subscribe(subscription(number))
        if step in (5, 6):
            lane.registry.unsubscribe(f"s{step}")
            engine.unsubscribe(f"s{step}")
        frames = [stream.frame(20, late=step % 2), stream.frame(15)]
        lane.publish(*frames)
        expected += [engine.publish(frame) for frame in frames]
        trouble(cache, TROUBLES[step % 4])
    lane.publish(last := stream.last())
    expected.append(engine.publish(last))
    assert rows(lane.told) == rows(expected)
    assert lane.known(0)["snapshot"]
    assert len(lane.known(0)["deltas"]) <= 3
    assert lane.total("unscored") == engine.unscored
    assert lane.total("state_bytes") > 0


def test_who_ended_is_not_told_of_what_still_waited(tmp_path, cache):
    """A publication waits while its time is the clock's; batches that begin before and end after must not know it."""
    told = []
    for together in (True, False):
        (tmp_path / str(together)).mkdir()
        combine._LIVE.clear()
        shutil.rmtree(cache, ignore_errors=True)
        lane = Lane(tmp_path / str(together), lateness=2)
        lane.registry.subscribe(tg.Subscription("best", "ann", "topk(3, 'PT5S', n)"))
        lane.log.append(at_seconds(0, 1, 2, 4))
        if not together:
            lane.batch()
        lane.registry.unsubscribe("best")
        lane.publish(at_seconds(10))
        told.append(rows(lane.told))
    assert told[0] == told[1]


def at_seconds(*seconds):
    return pa.table(
        {
            "id": [f"p{s}" for s in seconds],
            "source": ["z"] * len(seconds),
            "time": pa.array([TIME + s * SECOND for s in seconds], pa.timestamp("us", "UTC")),
            "n": [float(s) for s in seconds],
        }
    )


# --- the token ------------------------------------------------------------------------------------------------------


@pytest.fixture
def lane(tmp_path, cache):
    """Two batches are done; ``lane.parts`` are those of the second."""
    lane = Lane(tmp_path)
    lane.registry.subscribe(*(subscription(number) for number in range(16)))
    stream = Stream(5)
    lane.stream = stream
    lane.publish(stream.frame(), stream.frame())
    lane.publish(stream.frame())
    return lane


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that were read."""
    names, read = [], Files.read
    monkeypatch.setattr(Files, "read", lambda self, name: (names.append(name), read(self, name))[1])
    return names


def third(lane):
    """Have the parts of a third batch ready, with subscriptions coming and going in it."""
    start = {"row": lane.row}
    lane.registry.subscribe(*(subscription(number) for number in range(16, 20)))
    lane.log.append(lane.stream.frame())
    lane.registry.unsubscribe("s3", "s5")
    lane.log.append(lane.stream.frame())
    lane.row, lane.number = lane.log.end, lane.number + 1
    lane.parts = lane.selected(start, {"row": lane.row})


def without_parts(reads):
    """What was read besides the parts of the batch itself and its changes."""
    return [name for name in reads if not name.startswith(("part-000000000002", "change-000000000002"))]


def test_the_live_arrays_are_used_from_batch_to_batch(lane, reads):
    third(lane)
    states, receipts = lane.combined()
    assert receipts.flat.num_rows > 50
    assert without_parts(reads) == []
    assert states != lane.states


def test_a_process_adopts_what_another_has_left(lane, reads):
    third(lane)
    combine._LIVE.clear()
    lane.combined()
    assert without_parts(reads) == []


def test_another_process_really_takes_it_further(lane):
    """The second batch of these here, the third in a process that is started anew, the fourth here again."""
    third(lane)
    with get_context("spawn").Pool(1) as pool:
        lane.states, tables = pool.apply(_elsewhere, (lane.combining, lane.parts, lane.states, lane.number))
    told = [*lane.told, *tables]
    lane.told = []
    lane.publish(lane.stream.frame())
    told += lane.told
    engine, stream = tg.Engine(subscription(number) for number in range(16)), Stream(5)
    expected = [engine.publish(stream.frame()) for _ in range(3)]
    for number in range(16, 20):
        engine.subscribe(subscription(number))
    expected.append(engine.publish(stream.frame()))
    for id in ("s3", "s5"):
        engine.unsubscribe(id)
    expected += [engine.publish(stream.frame()) for _ in range(2)]
    assert rows(told) == rows(expected)


def _elsewhere(combining, parts, states, number):
    """The second stage of a batch, in another process. Only without plain subscriptions is that all that is told."""
    lane = Lane.__new__(Lane)
    lane.combining, lane.parts, lane.states, lane.number = combining, parts, states, number
    fresh, receipts = lane.combined()
    return fresh, [receipts.flat]


def test_a_failed_attempt_leaves_no_trace(lane, cache, reads, monkeypatch):
    """What it began to change is not to be trusted; the attempt after it begins from what Spark has."""
    third(lane)
    apply = combine._apply

    def fails(live, delta, files, ids=False):
        apply(live, delta, files, ids)
        raise OSError("no more disk")

    monkeypatch.setattr(combine, "_apply", fails)
    with pytest.raises(OSError, match="no more disk"):
        lane.combined()
    assert without_parts(reads) == []  # it had the live arrays
    assert not (cache / "patterns" / "lane" / "0" / "facts.json").exists()
    monkeypatch.setattr(combine, "_apply", apply)
    found = lane.combined()[1].flat
    assert without_parts(reads) != []  # built again
    trouble(cache, "another machine")
    assert lane.combined()[1].flat.equals(found)


def test_a_batch_that_is_run_again_is_built_from_what_spark_has(lane, reads):
    """The arrays are one batch ahead of a Spark that did not get as far as to commit."""
    third(lane)
    first, second = lane.combined()[1].flat, lane.combined()[1].flat
    assert first.equals(second)
    assert without_parts(reads) != []


def test_arrays_of_another_state_are_not_used(lane, cache, reads):
    third(lane)
    expected = lane.combined()[1].flat
    lane.combined()
    trouble(cache, "a foreign token")
    reads.clear()
    assert lane.combined()[1].flat.equals(expected)
    assert without_parts(reads) != []


def test_a_task_that_still_runs_keeps_the_files(lane, cache):
    """One that was given up holds the lock; whoever comes works on its own heap and touches nothing."""
    import fcntl

    third(lane)
    expected = lane.combined()[1].flat
    before = {path: path.read_bytes() for path in (cache / "patterns").rglob("*") if path.is_file()}
    locks = [(cache / "patterns" / "lane" / str(shard) / "lock").open("w") for shard in range(2)]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)
    states, receipts = lane.combined()
    assert receipts.flat.equals(expected)
    assert before == {path: path.read_bytes() for path in (cache / "patterns").rglob("*") if path.is_file()}
    for lock in locks:
        lock.close()
    lane.states = states
    lane.publish(lane.stream.frame())  # and whoever comes then finds no arrays of its state


def test_files_that_no_state_needs_go_with_the_next_snapshot(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(combine, "_MOST_PARTS", 2)
    lane, stream = Lane(tmp_path), Stream(5)
    lane.registry.subscribe(*(subscription(number) for number in range(8)))
    for _ in range(12):
        lane.publish(stream.frame(20))
        before = lane.states
        lane.combined()  # an attempt whose files nobody names
    there = set(os.listdir(tmp_path / "patterns"))
    named = {name for shard in range(2) for name in combine._named(lane.known(shard))}
    assert named <= there
    assert len(there) < 40
    lane.states = before
    shutil.rmtree(cache / "patterns")
    combine._LIVE.clear()
    lane.combined()  # the batch before the last is still there to begin from


def test_state_at_a_url(tmp_path, cache):
    """As a checkpoint on a cluster is."""
    files = Files(f"file://{tmp_path}/state")
    files.write("part-000000000000-0-1-a", bundle.packed({"x": np.arange(3)}, ["fact"]))
    arrays, facts = files.read("part-000000000000-0-1-a")
    assert (arrays["x"].tolist(), facts) == ([0, 1, 2], ["fact"])
    arrays["x"][0] = 7  # its own
    with pytest.raises(StoreError, match="a file with a bundle of arrays; got none"):
        files.read("part-000000000000-0-1-b")
    files.tidy(0, 1, set())
    files.tidy(1, 0, set())
    files.tidy(1, 1, {"part-000000000000-0-1-a"})
    assert os.listdir(tmp_path / "state") == ["part-000000000000-0-1-a"]
    files.tidy(1, 1, set())
    assert os.listdir(tmp_path / "state") == []


# --- the clock of the log -------------------------------------------------------------------------------------------


def microseconds(seconds):
    return int((TIME + seconds * SECOND).timestamp() * 1e6)


def test_the_time_of_day_moves_the_clock(tmp_path, cache):
    """As ``Engine.advance`` does; what comes then with an older time is late."""
    lane, engine, expected = Lane(tmp_path), tg.Engine(), []
    for where in ("absent('PT2S', n >= 0)", "topk(1, 'PT2S', n)", "absent('PT3S', n >= 0, source)"):
        one = tg.Subscription(where, "ann", where)
        lane.registry.subscribe(one)
        engine.subscribe(one)
    for seconds, now in (((0, 1), 2), ((), 3), ((), 4), ((2, 5), 6), ((), 60)):
        frame = at_seconds(*seconds)
        if seconds:
            lane.log.append(frame)
            expected.append(engine.publish(frame))
        lane.batch(microseconds(now))
        trouble(cache, "another machine")
        expected.append(_as_rows(engine.advance(TIME + now * SECOND)))
    assert rows(lane.told) == rows(expected)
    assert engine.late == 1


class _as_rows:
    """Notifications as objects, with the rows that a table of them has."""

    def __init__(self, notifications):
        self._notifications = notifications

    def to_pylist(self):
        return [
            {
                "notification_id": n.id, "subscription_id": n.subscription, "subscriber": n.subscriber, "time": n.time,
                "publication_ids": list(n.publications), "score": n.score, "distance": n.distance,
            }
            for n in self._notifications
        ]  # fmt: skip


# --- on Spark -------------------------------------------------------------------------------------------------------


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
            self.engine.subscribe(one)

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
        source = LoggedSource(self.directory / "log", rows=rows)
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
            world.unsubscribe(f"s{step}")
        world.publish()
        if step % 4 == 0:
            until(flow, world.published)
    until(flow, world.published)
    status = flow.status.snapshot()
    flow.stop()
    assert rows(told.tables) == rows(world.expected)
    assert {row["subscription_id"] for row in rows(told.tables)} >= {f"s{i}" for i in range(14) if i not in (5, 8)}
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
            world.unsubscribe("s2")
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
    monkeypatch.setattr(flow_module, "Combining", hasty(1))
    world, told, kept = World(tmp_path, lateness=1, disorder=1), Collected(), []
    monkeypatch.setattr(flow_module, "forget", kept.append)
    world.subscribe(*(subscription(number) for number in range(12)))
    for run in range(3):
        world.unsubscribe(f"s{run}")
        for _ in range(3):
            world.publish(world.stream.frame(25))
            world.subscribe(subscription(100 + len(world.expected)))
        if run == 2:
            shutil.rmtree(combine.cache_directory() / "patterns" / kept[0])
        flow = world.drained(spark, told, rows=25)
        assert flow.status.snapshot().batches == 3
    names = os.listdir(tmp_path / "checkpoint" / "patterns")
    assert any(name.startswith("state-") for name in names)
    assert any(name.startswith("part-") for name in names)
    assert rows(told.tables) == rows(world.expected)
    assert kept == [flow.query] * 3
    combine.forget(flow.query)
    assert not (combine.cache_directory() / "patterns" / flow.query).exists()


def hasty(most):
    """Combining that writes a snapshot after so few batches; a class that travels to the workers by value."""

    class Hasty(Combining):
        def step(self, shard, parts, known):
            usual, combine._MOST_PARTS = combine._MOST_PARTS, most
            try:
                return Combining.step(self, shard, parts, known)
            finally:
                combine._MOST_PARTS = usual

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
    world.unsubscribe("s0")
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
        source, where = LoggedSource(tmp_path / "log"), tmp_path / "checkpoint"
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
        engine.subscribe(subscription(number))
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
        registry.unsubscribe(f"s{run}")
        engine.unsubscribe(f"s{run}")
    assert rows(told.tables) == rows(expected)
    assert engine.late >= 3


def test_each_shard_has_a_partition_of_its_own(spark):
    chosen = [(count, key) for count in range(1, 9) for key in shards.keys(count)]
    frame = spark.createDataFrame(chosen, "count int, key int").coalesce(1)
    placed = frame.select(F.expr("pmod(hash(key), count)").alias("at")).toArrow().column("at").to_pylist()
    assert placed == [partition for count in range(1, 9) for partition in range(count)]


def test_ticks_bring_and_end_subscriptions(tmp_path):
    def at(seconds):
        return int((TIME + timedelta(seconds=seconds)).timestamp() * 1e6)

    def told(lane):
        return [(row["time"].second, row["subscription_id"]) for row in rows(lane.told)]

    lane = Lane(tmp_path)
    lane.registry.subscribe(tg.Subscription("never", "ann", "absent('PT2S', n >= 0)"))
    lane.batch(at(0))
    lane.batch(at(1))
    assert told(lane) == []
    lane.batch(at(10))
    assert told(lane) == [(2, "never")]  # nothing was ever published
    lane.registry.subscribe(tg.Subscription("new", "ann", "absent('PT3S', n >= 0)"))
    lane.batch(at(11))
    lane.batch(at(20))
    assert told(lane) == [(2, "never"), (13, "new")]  # from the tick before it was made
    one = {"id": ["p"], "source": ["z"], "time": pa.array([TIME + timedelta(seconds=21)], pa.timestamp("us", "UTC"))}
    lane.publish(pa.table({**one, "n": [1.0]}))
    lane.batch(at(22))
    lane.registry.unsubscribe("never", "new")
    lane.batch(at(40))
    assert told(lane) == [(2, "never"), (13, "new")]  # both had ended before their silences
