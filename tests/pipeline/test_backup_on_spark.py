"""Backups of a run on Spark, at each point of its batches; and data directories that are moved."""

from __future__ import annotations

import shutil

import pytest

import tidegate as tg
from tests.broker.backed_up import World, all_items, restored
from tidegate import checked_json
from tidegate.broker.backup import back_up
from tidegate.broker.process_run import ProcessRun
from tidegate.errors import SettingError
from tidegate.pipeline.flow import Flow
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sources import LogSource
from tidegate.store.commit_lock import CommitLock


def flow_of(world, spark, rows=400):
    source = LogSource(world.data.log, rows=rows)
    sinks = [QueueSink(world.data.queues, world.registry, most=10**7)]
    where = {"checkpoint": world.data.checkpoint, "quarantine": world.data.quarantine}
    return Flow(spark, source, world.registry, sinks, lateness=0, **where)


def run_on(world, spark, rows=400):
    flow = flow_of(world, spark, rows)
    flow.start(available_now=True)
    try:
        flow.wait()
    finally:
        flow.close()


@pytest.mark.spark
@pytest.mark.parametrize(
    "restored_of", [["committed", "done"], pytest.param(["begun", "worked"], marks=pytest.mark.thorough)], ids="-".join
)
def test_spark_goes_on_from_a_backup_of_each_point_of_a_batch(spark, tmp_path, monkeypatch, restored_of):
    """Before the work of batch 2, before its commit, after it; and once Spark has written down that it is done."""
    backups, held = {}, CommitLock.shared

    with World.made(tmp_path / "broker", 4, "spark") as world:
        world.subscribe(10, 7)
        for number in range(4):
            world.publish(400)
            if number == 1:
                world.unsubscribe()
                world.subscribe(2, 2)

        def make(point):
            backups[point] = tmp_path / "backups" / point
            back_up(world.data, backups[point])

        class Pausing(Flow):
            def _batch(self, receipts, batch):
                self.number = batch
                if batch == 2:
                    make("begun")
                super()._batch(receipts, batch)
                if batch == 2:
                    make("committed")
                elif batch == 3:
                    make("done")  # Spark has written down that batch 2 is, and what batch 3 is

        def shared(lock):
            if getattr(flow, "number", 0) == 2:
                make("worked")
            return held(lock)

        source = LogSource(world.data.log, rows=400)
        sinks = [QueueSink(world.data.queues, world.registry, most=10**7)]
        where = {"checkpoint": world.data.checkpoint, "quarantine": world.data.quarantine}
        flow = Pausing(spark, source, world.registry, sinks, lateness=0, **where)
        with monkeypatch.context() as patch:
            patch.setattr(CommitLock, "shared", shared)
            flow.start(available_now=True)
            flow.wait()
            flow.close()
        told = world.check()
        assert list(backups) == ["begun", "worked", "committed", "done"]
        for point in restored_of:
            backup = backups[point]
            with restored(world, backup, tmp_path / "restored" / point, 9) as again:
                before = all_items(again.data)
                for queue, (epoch, items) in before.items():
                    assert epoch != told[queue][0]
                    assert items == told[queue][1][: len(items)], point
                if point == "done":
                    again.publish(100)
                run_on(again, spark)
                after = again.check()
                assert all(after[queue][0] == epoch for queue, (epoch, _) in before.items())


@pytest.mark.spark
@pytest.mark.thorough
def test_backups_while_spark_runs(spark, tmp_path):
    with World.made(tmp_path / "broker", 5, "spark") as world:
        world.subscribe(10, 7)
        world.publish(300)
        flow = flow_of(world, spark)
        flow.start()
        for number in range(12):
            world.publish(200)
            back_up(world.data, tmp_path / f"backup-{number}")
        while flow.status.snapshot().row < world.log.end:
            assert not flow.wait(0.05)
        flow.stop()
        world.check()
        for number in (4, 9):
            with restored(world, tmp_path / f"backup-{number}", tmp_path / f"again-{number}", 3) as again:
                again.publish(50)
                run_on(again, spark)
                again.check()


# --- moved ----------------------------------------------------------------------------------------------------------


def moved(world, where):
    world.close()
    shutil.move(world.data.path, where)
    data = type(world.data)(where, world.data.runner)
    return World(data, 6, world.steps, world.subscriptions, world.published)


def check_moved(tmp_path, runner, run):
    world = World.made(tmp_path / "broker", 7, runner)
    world.subscribe(10, 7)
    world.publish(300)
    run(world)
    before = all_items(world.data)
    world = moved(world, tmp_path / "elsewhere" / "data")
    world.publish(200)
    run(world)
    after = world.check()
    assert all(after[queue][1][: len(items)] == items for queue, (_, items) in before.items())
    assert {queue: after[queue][0] for queue in before} == {queue: epoch for queue, (epoch, _) in before.items()}
    world.close()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path):
    (tmp_path / "elsewhere").mkdir()


def test_a_data_directory_can_be_moved(tmp_path):
    check_moved(tmp_path, "process", World.run)


@pytest.mark.spark
def test_a_data_directory_of_spark_can_be_moved(spark, tmp_path):
    check_moved(tmp_path, "spark", lambda world: run_on(world, spark))


def test_a_checkpoint_of_before_goes_on_and_can_be_moved_then(tmp_path):
    """It named its log by the whole path."""
    world = World.made(tmp_path / "broker", 7)
    world.subscribe(5, 0)
    world.publish(20)
    world.run()
    path = world.data.checkpoint / "tidegate.json"
    facts = checked_json.unpacked(path.read_bytes())
    assert facts["source"] == "log beside the checkpoint: log"
    for name, error in (
        (f"log {tmp_path}/other", "belongs to: log .*other; got log beside"),
        (f"log {world.data.log}", None),
    ):
        path.write_bytes(checked_json.packed({**facts, "format": 2, "source": name}))
        if error is not None:
            with pytest.raises(SettingError, match=error):
                world.run()
            continue
        world.run()
    assert checked_json.unpacked(path.read_bytes()) == facts
    world = moved(world, tmp_path / "elsewhere" / "data")
    world.publish(20)
    world.run()
    world.check()
    world.close()


def test_a_log_that_is_not_beside_the_checkpoint_is_named_by_its_path(tmp_path):
    with tg.Registry(tmp_path / "registry.db") as registry:
        source = LogSource(tmp_path / "logs" / "log")
        for checkpoint, name in ((tmp_path / "runs" / "c", f"log {tmp_path}/logs/log"),
                                 (tmp_path / "logs" / "c", "log beside the checkpoint: log")):  # fmt: skip
            run = ProcessRun(source, registry, [], checkpoint=checkpoint)
            run.close()
            assert checked_json.unpacked((checkpoint / "tidegate.json").read_bytes())["source"] == name
    assert source.identity_seen_from("s3://bucket/c") == source.identity
