"""A backup at each point of a run has what a crash there would have left, and a run goes on from it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

import pytest

from tests.broker.backed_up import World, all_items, restored
from tests.store.written_queues import few_frames_are_merged
from tidegate.broker import backup_moment
from tidegate.broker.backup import back_up
from tidegate.broker.batch_record import BatchRecord
from tidegate.stages import combine
from tidegate.stages.combine import CombineStep
from tidegate.stages.select_task import ReceiptTask
from tidegate.store.queues import Queues

#: The steps of a batch, outside of its commit.
STEPS = (BatchRecord, "begin"), (ReceiptTask, "receipts"), (CombineStep, "step"), (BatchRecord, "end")


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Patterns write snapshots and remove files after a few batches; queues are merged after a few, too."""
    monkeypatch.setattr(combine, "_MOST_STEPS", 2)
    with few_frames_are_merged():
        yield


def filled(directory, seed, batches=6):
    world = World.made(directory, seed)
    world.subscribe(20, 7)
    for number in range(batches):
        world.publish(500)
        if number == batches // 2:
            world.unsubscribe()
            world.subscribe(3, 7)
    return world


def backed_up_at(monkeypatch, owner, name, seen, make):
    """Have ``make`` called before and after each call of a method; the first of what it is given is a name."""
    method = getattr(owner, name)

    def called(*arguments, **more):
        seen[name] += 1
        make(f"{name}-{seen[name]}-before")
        result = method(*arguments, **more)
        make(f"{name}-{seen[name]}-after")
        return result

    monkeypatch.setattr(owner, name, called)


def goes_on(tmp_path, monkeypatch, steps, every):
    """Back up at every point of a run, and run on from every so manieth of these backups."""
    backups, seen = [], defaultdict(int)
    with filled(tmp_path / "broker", 3) as world:

        def make(point):
            backups.append((point, tmp_path / "backups" / point))
            back_up(world.data, backups[-1][1])

        with monkeypatch.context() as patch:
            for owner, name in steps:
                backed_up_at(patch, owner, name, seen, make)
            world.run()
        told = world.check()
        assert len(backups) >= 12 * len(steps)
        for point, backup in backups[::every]:
            with restored(world, backup, tmp_path / "restored" / point) as again:
                before = all_items(again.data)
                for queue, (epoch, items) in before.items():
                    assert epoch != told[queue][0]
                    assert items == told[queue][1][: len(items)], point
                again.run(300)
                after = again.check()
                assert all(after[queue][0] == epoch for queue, (epoch, _) in before.items())


def test_a_run_goes_on_from_backups_of_all_kinds_of_points(tmp_path, monkeypatch):
    goes_on(tmp_path, monkeypatch, STEPS, 7)


@pytest.mark.thorough
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
def test_a_run_goes_on_from_a_backup_of_any_point(tmp_path, monkeypatch, step):
    goes_on(tmp_path, monkeypatch, [step], 1)


def test_a_backup_waits_for_the_commit_that_is_under_way_and_a_commit_for_the_backup(tmp_path, monkeypatch):
    committing, go_on, order = threading.Event(), threading.Event(), []
    commit, look = Queues.commit, backup_moment._look

    def slow_commit(self, batch, *rest):
        order.append(f"commit {batch}")
        if batch == 1:
            committing.set()
            go_on.wait(20)
        done = commit(self, batch, *rest)
        order.append(f"committed {batch}")
        return done

    def slow_look(*arguments):
        order.append("look")
        found = look(*arguments)
        time.sleep(0.3)  # the next batch comes to its commit meanwhile
        order.append("looked")
        return found

    monkeypatch.setattr(Queues, "commit", slow_commit)
    monkeypatch.setattr(backup_moment, "_look", slow_look)
    with filled(tmp_path / "broker", 4) as world:
        run = world.make_run()
        run.start(available_now=True)
        assert committing.wait(20)
        backup = threading.Thread(target=back_up, args=(world.data, tmp_path / "backup"))
        backup.start()
        time.sleep(0.3)
        assert "look" not in order
        go_on.set()
        backup.join(20)
        run.wait()
        run.close()
        assert order.index("committed 1") < order.index("look")
        looked = order.index("looked")
        assert order[looked - 1] == "look"  # the look that was not given up because the run went on
        with restored(world, tmp_path / "backup", tmp_path / "again") as again:
            again.run()
            again.check()


def test_what_the_runner_writes_down_while_all_is_taken_is_noticed(tmp_path, monkeypatch):
    """The backup has the lock once batch 3 is committed, and reads the record. Then batch 4 begins, and patterns remove
    the state of before batch 3, from which that record would go on.
    """
    committing, looking, stepped = threading.Event(), threading.Event(), threading.Event()
    commit, begin, step, everything = Queues.commit, BatchRecord.begin, CombineStep.step, backup_moment._everything_in
    looks = []

    def slow_commit(self, batch, *rest):
        if batch == 3:
            committing.set()
            time.sleep(0.3)
        return commit(self, batch, *rest)

    def late_begin(self, batch, offset):
        if batch == 4:
            looking.wait(20)
        begin(self, batch, offset)

    def noted_step(self, *arguments):
        found = step(self, *arguments)
        if looking.is_set():
            stepped.set()
        return found

    def later(directory, data, held, **more):
        if directory == data.checkpoint:
            looking.set()
            looks.append(stepped.wait(20))
        everything(directory, data, held, **more)

    monkeypatch.setattr(combine, "_MOST_STEPS", 0)
    monkeypatch.setattr(Queues, "commit", slow_commit)
    monkeypatch.setattr(BatchRecord, "begin", late_begin)
    monkeypatch.setattr(CombineStep, "step", noted_step)
    monkeypatch.setattr(backup_moment, "_everything_in", later)
    with filled(tmp_path / "broker", 5) as world:
        run = world.make_run()
        run.start(available_now=True)
        assert committing.wait(20)
        back_up(world.data, tmp_path / "backup")
        run.wait()
        run.close()
        with restored(world, tmp_path / "backup", tmp_path / "again") as again:
            again.run()
            again.check()
    assert looks == [True, True]


def test_what_is_published_and_subscribed_while_all_is_taken_fits_together(tmp_path, monkeypatch):
    """Whatever comes just before the log is looked at: its rows have no version that the registry lacks."""
    with filled(tmp_path / "broker", 5) as world:
        world.run()
        log = backup_moment._log

        def later(*arguments):
            world.subscribe(2, 1)
            world.publish(20)
            return log(*arguments)

        looked, reading = [], backup_moment._reading

        def noted(path, opened):
            looked.append(path.name)
            return reading(path, opened)

        monkeypatch.setattr(backup_moment, "_log", later)
        monkeypatch.setattr(backup_moment, "_reading", noted)
        world.data.cursors.touch()
        manifest = back_up(world.data, tmp_path / "backup")
        assert looked == ["cursors.db", "registry.db"]  # what names versions comes first
        assert (manifest.rows[1], manifest.version) == (world.log.end, world.registry.version)
        with restored(world, tmp_path / "backup", tmp_path / "again") as again:
            again.run()
            again.check()


def test_a_frame_that_a_crash_has_torn_is_not_taken(tmp_path):
    with filled(tmp_path / "broker", 6) as world:
        world.run()
        with_frames = [path for path in world.data.queues.glob("*.journal") if path.stat().st_size]
        (last,) = with_frames[-1:] or [min(world.data.queues.glob("*.journal"))]
        with last.open("ab") as file:
            file.write(b"TGQ1" + bytes(40))
        back_up(world.data, tmp_path / "backup")
        copy = tmp_path / "backup" / "data" / "queues" / last.name
        assert copy.stat().st_size == last.stat().st_size - 44
        with restored(world, tmp_path / "backup", tmp_path / "again") as again:
            again.run()
            again.check()
