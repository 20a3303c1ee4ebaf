"""Runs are explained from the state that Spark has: what is explained is what the next batch tells."""

from __future__ import annotations

import orjson
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.cli.commands import refused, run
from tests.pipeline.lane import WHERE, Lane, Stream
from tests.registered import registered
from tidegate.pipeline.explain import RunState, explained, view_of
from tidegate.records import publication
from tidegate.stages import combine
from tidegate.stages.shard_state import CombineSettings, ShardState
from tidegate.store.principals import Principals

MORE = (
    "T_AFTER(start, past(n > 4.5, 'PT1S'))",
    "NOT n < past(n, m > 4, 2)",
    "shape(n, (1, 3, 5), 'stream') <= 1.5",
)
SUBSCRIPTIONS = [tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate((*WHERE, *MORE))]

PATTERNS = [s.registered_id for s in SUBSCRIPTIONS if s.where != "n > 4.9"]


def first_and_rest(frame):
    return publication(frame.slice(0, 1).to_pylist()[0], "the frame"), frame.slice(0, 1), frame.slice(1)


def from_state(state, registry, id, given, settings=None):
    """As ``explain_run`` does it, with a state that has been read."""
    stored = registry.stored(id)
    return explained(state.shard(stored.since, settings), view_of(registry), stored, given)


def of_lane(lane, id, given, settings=None):
    state = RunState({key: ShardState.from_json(value) for key, value in lane.states.items()}, lane.files)
    return from_state(state, lane.registry, id, given, settings)


def as_rows(notifications):
    return [(*n[:4], list(n.publications), *n[5:]) for n in notifications]


@pytest.mark.parametrize(("lateness", "read"), [(0, None), (3, None), (0, "source <> 'z1' OR n > 2")])
def test_what_the_next_batch_tells_is_explained(tmp_path, lateness, read):
    lane, stream = Lane(tmp_path, lateness), Stream(5)
    if read is not None:
        with Principals(lane.registry) as principals:
            principals.put("ann", read=read)
    lane.registry.subscribe(SUBSCRIPTIONS[:4])
    lane.publish(stream.frame())
    lane.registry.subscribe(SUBSCRIPTIONS[4:])  # not yet in the state when it is asked about
    told = 0
    for _ in range(4):
        given, first, rest = first_and_rest(stream.frame())
        found = {id: of_lane(lane, id, given) for id in PATTERNS}
        lane.publish(first)
        sent = [tuple(row.values()) for row in lane.told[-1].to_pylist()]
        for id, explanation in found.items():
            assert as_rows(explanation.told) == sorted((row for row in sent if row[1] == id), key=lambda row: row[3])
            told += len(explanation.told)
        lane.publish(rest)
    assert told


def test_settings_that_the_state_does_not_say(tmp_path, monkeypatch):
    monkeypatch.setattr(combine, "_MOST_STEPS", 0)
    lane, stream = Lane(tmp_path, lateness=3), Stream(5)
    lane.registry.subscribe(SUBSCRIPTIONS)
    lane.publish(stream.frame())
    given, *_ = first_and_rest(stream.frame())
    with pytest.raises(tg.SettingError, match="the lateness of the run"):
        of_lane(lane, "ann/s0", given)
    assert "it waits for others" in str(of_lane(lane, "ann/s0", given, CombineSettings(3_000_000)))


class World:
    """A registry with all subscriptions, an engine that has seen a frame, and the publication after it."""

    def __init__(self, directory):
        self.registry, self.engine = tg.Registry(directory / "registry.db"), tg.Engine(map(registered, SUBSCRIPTIONS))
        self.registry.subscribe(SUBSCRIPTIONS)
        stream = Stream(5)
        self.frame = stream.frame()
        self.engine.publish(self.frame)
        self.given, *_ = first_and_rest(stream.frame())

    def check(self, spark, checkpoint):
        """A run that has seen the frame explains what the engine explains."""
        state = RunState.read(spark, str(checkpoint), self.registry)
        wanted = {id: self.engine.explain(id, self.given) for id in PATTERNS}
        assert {id: from_state(state, self.registry, id, self.given) for id in PATTERNS} == wanted
        assert any(explanation.told for explanation in wanted.values())


CONFIG = """
[source]
type = "log"
path = "log"

[subscriptions]
registry = "registry.db"

[run]
checkpoint = "checkpoint"
lateness = 0

[[sinks]]
type = "parquet"
path = "notifications"
"""


def test_the_checkpoint_of_a_run(spark, tmp_path):
    world, file = World(tmp_path), tmp_path / "run.toml"
    file.write_text(CONFIG)
    tg.Log(tmp_path / "log", version=lambda: world.registry.version).append(world.frame)
    run("run", file, "--available-now")
    world.check(spark, tmp_path / "checkpoint")
    asked = orjson.dumps({"id": "x", "source": "z", "time": "2026-11-15T09:00:00Z", "n": 1}).decode()
    told = run("explain", file, "ann/s0", asked).stdout
    assert told.startswith("ann/s0 would be told when x comes\n✓ topk(3, 'PT5S', n)   — n is 1; score 1 is rank 1;")
    assert run("explain", file, "ann/s7", asked).stdout == "ann/s7 does not match x\n✗ n > 4.9   — n is 1\n"
    assert "no --after with a CONFIG file" in refused("explain", file, "ann/s0", asked, "--after", file)
    assert "the id of a subscription; got 'nobody'" in refused("explain", file, "nobody", asked)
    with pytest.raises(tg.StoreError, match="the checkpoint of a run or of a stream"):
        tg.explain_run(spark, tmp_path / "none", world.registry, "ann/s0", world.given)
    with pytest.raises(tg.PublicationError, match="a Publication"):
        tg.explain_run(spark, tmp_path / "checkpoint", world.registry, "ann/s0", {"id": "p"})


@pytest.mark.thorough
def test_the_checkpoint_of_a_stream_that_is_matched(spark, tmp_path):
    world = World(tmp_path)
    (tmp_path / "files").mkdir()
    pq.write_table(world.frame, tmp_path / "files" / "1.parquet")
    schema = "id string, source string, time timestamp, location struct<lon double, lat double>, n double, m double"
    rows = spark.readStream.schema(schema).parquet(str(tmp_path / "files"))
    writer = tg.match(rows, world.registry).writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(120)
    world.check(spark, tmp_path / "checkpoint")
    found = tg.explain_run(spark, tmp_path / "checkpoint", world.registry, "ann/s0", world.given)
    assert found == world.engine.explain("ann/s0", world.given)
