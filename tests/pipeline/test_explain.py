"""Runs are explained from the state that Spark has: what is explained is what the next batch tells."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.pipeline.lane import WHERE, Lane, Stream
from tidegate.pipeline import combine
from tidegate.pipeline.explain import RunState, explained, view_of
from tidegate.pipeline.flow import Flow
from tidegate.pipeline.shard_state import CombineSettings, ShardState
from tidegate.records import publication
from tidegate.runs.sinks import Callback
from tidegate.runs.sources import LogSource

MORE = (
    "T_AFTER(start, past(n > 4.5, 'PT1S'))",
    "NOT n < past(n, m > 4, 2)",
    "shape(n, (1, 3, 5), 'stream') <= 1.5",
)
SUBSCRIPTIONS = [tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate((*WHERE, *MORE))]

PATTERNS = [s.id for s in SUBSCRIPTIONS if s.where != "n > 4.9"]


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


@pytest.mark.parametrize("lateness", [0, 3])
def test_what_the_next_batch_tells_is_explained(tmp_path, lateness):
    lane, stream = Lane(tmp_path, lateness), Stream(5)
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
        of_lane(lane, "s0", given)
    assert "it waits for others" in str(of_lane(lane, "s0", given, CombineSettings(3_000_000)))


def test_a_checkpoint_of_a_flow_and_of_a_stream(spark, tmp_path):
    """Both ways on Spark: what is explained is what the next batch tells."""
    registry = tg.Registry(tmp_path / "registry.db")
    log = tg.Log(tmp_path / "log", version=lambda: registry.version)
    registry.subscribe(SUBSCRIPTIONS)
    stream, sent = Stream(5), []

    def run():
        sink = Callback(lambda batch, table: sent.extend(tuple(row.values()) for row in table.to_pylist()))
        flow = Flow(spark, LogSource(tmp_path / "log"), registry, [sink], checkpoint=tmp_path / "run", lateness=0)
        flow.start(available_now=True)
        assert flow.wait(120)
        flow.close()

    begin = stream.frame()
    log.append(begin)
    run()
    (tmp_path / "files").mkdir()
    pq.write_table(begin, tmp_path / "files" / "1.parquet")
    schema = "id string, source string, time timestamp, location struct<lon double, lat double>, n double, m double"
    rows = spark.readStream.schema(schema).parquet(str(tmp_path / "files"))
    writer = tg.match(rows, registry).writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "match")).start().awaitTermination(120)

    given, first, _ = first_and_rest(stream.frame())
    states = [RunState.read(spark, str(tmp_path / where), registry) for where in ("run", "match")]
    found, other = ({id: from_state(state, registry, id, given) for id in PATTERNS} for state in states)
    assert found == other
    assert tg.explain_run(spark, tmp_path / "run", registry, "s0", given) == found["s0"]
    plain = tg.explain_run(spark, tmp_path / "none", registry, "s7", given)
    assert (plain.text, plain.held, plain.has_pattern) == ("n > 4.9", given.value("n") > 4.9, False)
    sent.clear()
    log.append(first)
    run()
    assert sent
    for id, explanation in found.items():
        assert as_rows(explanation.told) == sorted((row for row in sent if row[1] == id), key=lambda row: row[3])
    with pytest.raises(tg.StoreError, match="the checkpoint of a run or of a stream"):
        tg.explain_run(spark, tmp_path / "none", registry, "s0", given)
    with pytest.raises(tg.PublicationError, match="a Publication"):
        tg.explain_run(spark, tmp_path / "run", registry, "s0", {"id": "p"})
