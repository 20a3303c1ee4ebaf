"""A run whose checkpoint is damaged or whose registry vanishes, on a real Spark: one sentence, and nothing is lost."""

from __future__ import annotations

import shutil

import pytest

import tidegate as tg
from tests.pipeline.test_flow import drained, pairs_of, readings, registry, until
from tests.registered import registered
from tidegate.pipeline.flow import Flow
from tidegate.runs.parquet_sink import Parquet
from tidegate.runs.sources import LogSource

__all__ = ["registry"]


def expected(registry, count):
    found = tg.Engine(map(registered, registry)).publish(readings(0, count)).to_pylist()
    return sorted((row["publication_ids"][0], row["subscription_id"]) for row in found)


def test_a_damaged_checkpoint_is_refused_and_goes_on_once_it_is_whole_again(spark, tmp_path, registry):
    registry.subscribe(tg.Subscription("s1", "ann", "a > 5"))
    source, checkpoint = LogSource(tmp_path / "log"), tmp_path / "checkpoint"
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        log.append(readings(0, 100))
        drained(spark, source, registry, [Parquet(tmp_path / "out")], tmp_path)
        log.append(readings(100, 100))
    shutil.copytree(checkpoint, tmp_path / "kept")
    metadata = checkpoint / "spark" / "metadata"
    metadata.write_bytes(b"rust")
    (checkpoint / "spark" / ".metadata.crc").unlink(missing_ok=True)
    with pytest.raises(tg.PipelineError, match="a checkpoint that Spark can read, or a new one with new sinks; got "):
        drained(spark, source, registry, [Parquet(tmp_path / "out")], tmp_path)
    shutil.rmtree(checkpoint / "spark")
    with pytest.raises(tg.StoreError, match="what Spark has written down about batches"):
        drained(spark, source, registry, [Parquet(tmp_path / "out")], tmp_path)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "kept", checkpoint)
    drained(spark, source, registry, [Parquet(tmp_path / "out")], tmp_path)
    assert pairs_of(tmp_path / "out") == expected(registry, 200)


def test_a_registry_that_vanishes_under_a_run_stops_it_and_loses_nothing(spark, tmp_path, registry):
    registry.subscribe(tg.Subscription("s1", "ann", "a > 5"))
    source, file = LogSource(tmp_path / "log"), tmp_path / "registry.db"
    with tg.Log(tmp_path / "log", version=lambda: 1) as log:
        flow = Flow(spark, source, registry, [Parquet(tmp_path / "out")], checkpoint=tmp_path / "checkpoint")
        flow.start()
        log.append(readings(0, 100))
        until(flow, 100)
        with pytest.raises(tg.StoreError, match="a checkpoint that no other run uses"):
            Flow(spark, source, registry, [], checkpoint=tmp_path / "checkpoint")
        file.rename(tmp_path / "away.db")
    with tg.Log(tmp_path / "log", version=lambda: 2) as log:
        log.append(readings(100, 100))
    with pytest.raises(tg.TidegateError, match=r"the file of (a|the) database.*; got none"):
        flow.wait(120)
    flow.stop()
    (tmp_path / "away.db").rename(file)
    registry.subscribe(tg.Subscription("s2", "ann", "FALSE"))  # version 2
    drained(spark, source, registry, [Parquet(tmp_path / "out")], tmp_path)
    assert pairs_of(tmp_path / "out") == expected(registry, 200)
