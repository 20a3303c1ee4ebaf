"""Shapes on Spark: every process knows users' own, everything gives the same answers, what has no shape is counted."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest

import tidegate as tg
from tests.pipeline.test_flow import Collected, drained
from tests.registered import registered
from tidegate.index.shapes import look_up_with, looked_up_with
from tidegate.language import Literal, from_json, to_text
from tidegate.pipeline.flow import Flow
from tidegate.runs.sinks import Callback
from tidegate.runs.sources import FilesSource, LogSource
from tidegate.shapes.named_shapes import NamedShape, use
from tidegate.shapes.sphere_group import DEFAULT_HOW, ShapeLookup
from tidegate.shapes.transforms import PCA
from tidegate.stages.select import Subscriptions

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)
MINE = NamedShape("my-shape", (0.0, 5.0, 1.0, -0.0, 0.1), "mine alone")
WHERE = "shape(close, 'my-shape') <= 0.5"


def publications(first, *series, kind=None):
    numbers = range(first, first + len(series))
    return pa.table(
        {
            "id": [f"p{i}" for i in numbers],
            "source": ["z"] * len(series),
            "time": pa.array([TIME + timedelta(seconds=i) for i in numbers], pa.timestamp("us", "UTC")),
            "close": pa.array(series, kind),
        }
    )


@pytest.fixture
def registry(tmp_path):
    with tg.Registry(tmp_path / "registry.db") as found:
        yield found


@pytest.fixture
def how():
    """A way to look up that is not the usual one; afterwards it is as before."""
    before = look_up_with(ShapeLookup("haar", "scan", 6))
    yield looked_up_with()
    look_up_with(before)


def layers(registry):
    """What the snapshots on the shelf were looked up with."""
    return [
        orjson.loads(path.read_bytes())["lookups"]["shape"]
        for path in Path(registry.index_storage).glob("layer-*/index.json")
    ]


# --- who knows what -------------------------------------------------------------------------------------------------


def test_how_shapes_are_looked_up_travels_as_plain_data(how):
    assert ShapeLookup.restored(orjson.loads(orjson.dumps(how.plain()))) == how
    fitted = PCA.fit(np.random.default_rng(0).normal(size=(8, 6)), 2)
    assert ShapeLookup.restored(ShapeLookup(fitted).plain()) == DEFAULT_HOW


_WORKER = """
import pickle, sys
subscriptions = pickle.loads(sys.stdin.buffer.read())
view = subscriptions.view(1, 1)
print([segment.lookups[0].how.structure for segment in view.index.segments])
"""


def as_a_worker(subscriptions):
    return subprocess.run([sys.executable, "-c", _WORKER], input=pickle.dumps(subscriptions), capture_output=True)


def test_a_process_that_builds_snapshots_itself_needs_no_shapes_of_the_driver(registry, how):
    with use(MINE):
        registry.subscribe(tg.Subscription("s", "ann", WHERE))
    (stored,) = registry
    assert stored.where["args"][0]["args"][1:] == [list(MINE.points), "stretched"]
    found = as_a_worker(Subscriptions(registry.index_storage, registry))
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == b"['scan']"
    assert layers(registry) == [how.plain()]


def test_what_is_not_a_shape_of_ones_own_is_stored_as_it_was_written(registry):
    wheres = ["shape(close, 'spike') <= 1", "no2 > 40", "shape(close, 'my-shape', 'stream', 9) <= 1 AND no2 > 40"]
    with use(MINE):
        registry.subscribe(*(tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(wheres)))
    stored = [subscription.where for subscription in registry]
    assert stored[:2] == wheres[:2]
    points = ", ".join(map(to_text, map(Literal, MINE.points)))
    assert to_text(from_json(stored[2])) == f"shape(close, ({points}), 'stream', 9) <= 1 AND no2 > 40"


def test_a_worker_of_spark_builds_them(spark, registry):
    with use(MINE):
        registry.subscribe(tg.Subscription("s", "ann", WHERE))
    chosen = Subscriptions(registry.index_storage, registry)

    def build(batches):
        for _ in batches:
            yield pa.record_batch({"found": [len(chosen.view(1, 1))]})

    assert spark.range(1, numPartitions=1).mapInArrow(build, "found long").collect()[0].found == 1


@pytest.mark.parametrize("kind", ["log", "files"])
def test_a_running_flow_takes_subscriptions_with_shapes_of_ones_own(spark, tmp_path, registry, how, kind):
    """The process that plans the log compiles them; with files the driver does."""
    near, far = list(MINE.points), [1.0, 2.0, 3.0, 4.0, 5.0]
    told = Collected()
    (tmp_path / "in").mkdir()
    source = LogSource(tmp_path / "log") if kind == "log" else FilesSource(str(tmp_path / "in"))

    def publish(first):
        if kind == "log":
            with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
                log.append(publications(first, near, far))
            return
        rows = [{**row, "time": row["time"].isoformat()} for row in publications(first, near, far).to_pylist()]
        aside = tmp_path / f"{first}.jsonl"
        aside.write_bytes(b"\n".join(map(orjson.dumps, rows)))
        aside.rename(tmp_path / "in" / aside.name)

    with use(MINE):
        flow = Flow(spark, source, registry, [Callback(told)], checkpoint=tmp_path / "checkpoint")
        flow.start()
        try:
            publish(0)
            registry.subscribe(tg.Subscription("s", "ann", WHERE))
            registry.subscribe(tg.Subscription("t", "ann", "shape(close, (0, 5, 1, 0, 0.1)) < 0.5"))
            while kind == "files" and flow.status.snapshot().publications < 2:  # versions are the batch's
                assert not flow.wait(0.1)
            publish(2)
            while flow.status.snapshot().publications < 4:
                assert not flow.wait(0.1)
        finally:
            flow.stop()
    assert sorted(pair for pair in told.pairs if pair[0] != "p0") == [("p2", "ann/s"), ("p2", "ann/t")]
    assert how.plain() in layers(registry)


# --- what has no shape ----------------------------------------------------------------------------------------------

NAN = float("nan")
#: Values, how they are typed, and how many of them have no shape.
FRAMES = [
    ([[1.0, 9.0, 2.0], [4.0, 4.0, 4.0], [1.0, NAN, 2.0], [1.0, 2.0], [], None], None, 4),
    ([[1, 9, 2], [7, 7, 7]], pa.list_(pa.int64()), 1),
    (["no", "series", None], None, 2),
    ([3.0], None, 1),
    ([["a", "b", "c"]], None, 1),
    ([[1.0, 9.0, 2.0]], pa.list_(pa.float32()), 0),
]


def test_values_without_a_shape_are_counted_and_match_nothing(spark, tmp_path, registry):
    where = ["shape(close, (1, 9, 2)) <= 1", "NOT shape(close, (9, 1, 2)) <= 1", "shape(close, 'spike') < 9"]
    registry.subscribe(*(tg.Subscription(f"s{i}", "ann", text) for i, text in enumerate(where)))
    registry.subscribe(tg.Subscription("t", "ann", "shape(open, 'dip') < 9 AND topk(1, 'PT1H', n)"))
    engine, series = tg.Engine(map(registered, registry)), {}
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        for values, kind, _ in FRAMES:
            frame = publications(len(series), *values, kind=kind)
            series |= {f"p{len(series) + i}": value for i, value in enumerate(values)}
            frame = frame.append_column("open", pa.array([[5.0, 5.0, 5.0]] * len(frame)))
            log.append(frame)
            engine.publish(frame)
    assert engine.shapeless == sum(count for *_, count in FRAMES) + len(series)
    told = Collected()
    flow = drained(spark, LogSource(tmp_path / "log", rows=4, pieces=2), registry, [Callback(told)], tmp_path)
    status = flow.status.snapshot()
    assert (status.publications, status.shapeless) == (len(series), engine.shapeless)
    good = [id for id, value in series.items() if value == [1, 9, 2]]
    assert sorted(told.pairs) == sorted((id, f"ann/s{i}") for id in good for i in range(3))
    assert len(good) == 3
