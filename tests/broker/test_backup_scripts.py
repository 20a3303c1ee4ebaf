"""Publish, subscribe, run, kill, back up and restore in any order: no delivery is lost in silence, none comes twice.

What a queue says in the end is what an engine tells of the publications and subscriptions that there are then, each
once. A reader who has read before a restore, and goes on after it, misses nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidegate as tg
from tests.broker.backed_up import World, all_items, restored
from tests.parts.killed_runs import Run
from tests.parts.profiles import examples
from tests.parts.tied_process import tied
from tests.store.written_queues import few_frames_are_merged
from tidegate.broker.backup import back_up
from tidegate.broker.batch_record import BatchRecord
from tidegate.broker.process_run import ProcessRun
from tidegate.runs.queue_sink import QueueSink
from tidegate.stages import combine
from tidegate.stages.combine import CombineStep
from tidegate.store.queues import Queues

STEPS = (BatchRecord, "begin"), (BatchRecord, "end"), (CombineStep, "step"), (Queues, "commit"), (QueueSink, "commit")


class Killed(BaseException):
    """What ends a run at once, as a signal would."""


class Reader:
    """Reads all queues, remembers what they said, and goes on where it was."""

    def __init__(self):
        self.position, self.read = {}, {}

    def go_on(self, data):
        for queue, (epoch, items) in all_items(data).items():
            known, read = self.position.get(queue, (epoch, 0)), self.read.setdefault(queue, [])
            with tg.OpenQueues(data.path) as queues:
                found, after = [], "{}-{}".format(*known)
                while (page := queues.page(queue[0], after=after, destination=queue[1])).items:
                    found, after = found + page.items, f"{page.epoch}-{page.next}"
            if known[0] != epoch:
                gap, *found = found
                assert (gap["type"], gap["reason"], gap["oldest"]) == ("gap", "epoch", 1)
                read.clear()
            read += found
            assert read == items  # all that is kept, once, nothing else
            self.position[queue] = epoch, len(items)


def killed_run(patch, random, world, rows):
    """Run what is there, maybe killed on the way."""
    left = random.choice([2, 5, 9, 1000])

    def deadly(method):
        def called(*arguments, **more):
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return method(*arguments, **more)

        return called

    with patch.context() as once:
        for owner, name in STEPS:
            once.setattr(owner, name, deadly(getattr(owner, name)))
        return world.run(rows, Killed)


@given(seed=st.integers(0, 1 << 32))
@example(0)  # leaves principals with empty queues
@examples(3)
def test_any_script_with_backups_and_restores_loses_nothing(tmp_path_factory, seed):
    random, directory = Random(seed), tmp_path_factory.mktemp("world")
    world, reader, backups = World.made(directory / "broker-0", seed), Reader(), []
    world.subscribe(12, 7)
    world.publish(30)
    with pytest.MonkeyPatch.context() as patch, few_frames_are_merged():
        patch.setattr(combine, "_MOST_STEPS", 2)
        for number in range(random.randrange(10, 25)):
            match random.choice(["publish", "publish", "run", "run", "change", "read", "backup", "restore"]):
                case "publish":
                    for _ in range(random.randrange(1, 4)):
                        world.publish(random.choice([1, 30, 300]))
                case "run":
                    killed_run(patch, random, world, random.choice([40, 400, 65_536]))
                case "change":
                    world.unsubscribe()
                    world.subscribe(2, random.choice([0, 1]))
                case "read":
                    reader.go_on(world.data)
                case "backup":
                    backups.append(directory / f"backup-{number}")
                    back_up(world.data, backups[-1])
                case "restore" if backups:
                    backup = random.choice(backups)
                    before, world = world, restored(world, backup, directory / f"broker-{number}", seed + number)
                    before.close()
                    backups = backups[: backups.index(backup) + 1]  # what is later is of steps that were not taken
                    reader.go_on(world.data)
    while not world.run():
        pass
    world.check()
    reader.go_on(world.data)
    world.close()
    shutil.rmtree(directory)


# --- under load -----------------------------------------------------------------------------------------------------


APPENDER = """
import sys, time
import tidegate as tg
log, registry, name, seconds = *sys.argv[1:4], float(sys.argv[4])
with tg.Registry(registry) as subscriptions, tg.Log(log, version=lambda: subscriptions.version) as opened:
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        moment = f"2026-11-15T08:00:00.{number:06d}Z"
        opened.append([{"id": f"{name}-{number + i}", "source": name, "time": moment, "n": i} for i in range(20)])
        number += 20
        time.sleep(0.002)
"""


@pytest.mark.thorough  # the scripts above are shorter
def test_a_backup_under_load_is_of_one_moment(tmp_path):
    """Three processes append, a run of its own delivers, a thread changes subscriptions; the run is killed."""
    world = World.made(tmp_path / "broker", 1)
    world.registry.subscribe(tg.Subscription("all", "ann", "n >= 0"), tg.Subscription("some", "bob", "n > 17"))
    config = tmp_path / "run.toml"
    config.write_text('[run]\ndata = "broker"\nrunner = "process"\nlateness = 0\n')
    command = [sys.executable, "-c", APPENDER, str(world.data.log), str(world.data.registry)]
    appenders = [subprocess.Popen(tied([*command, f"z{i}", "4"])) for i in range(3)]
    run, stopping = Run(config), threading.Event()

    def change():
        number = 0
        while not stopping.wait(0.05):
            world.registry.subscribe(tg.Subscription(f"c{number}", "cid", "n > 18"))
            number += 1

    changes = threading.Thread(target=change)
    changes.start()
    try:
        backups, took, due = [], [], time.monotonic() + 60
        while (len(all_items(world.data)) < 2 or world.log.end < 200) and time.monotonic() < due:
            time.sleep(0.05)
        while any(one.poll() is None for one in appenders) and len(backups) < 4:
            backups.append(tmp_path / f"backup-{len(backups)}")
            began = time.monotonic()
            back_up(world.data, backups[-1])
            took.append(time.monotonic() - began)
            time.sleep(0.3)
    finally:
        run.kill()
        stopping.set()
        changes.join()
        assert all(one.wait(60) == 0 for one in appenders)
    assert len(backups) >= 2
    world.run(65_536)
    whole = all_items(world.data)
    for number, backup in enumerate(backups):
        again = checked_alone(backup, tmp_path / f"again-{number}", whole)
        print(f"{again:,} rows, {took[number]:.2f} s")
    world.close()


def checked_alone(backup, where, whole):
    """Restore, run on, and see that everything is delivered that the log of the backup has."""
    from tidegate.broker.restore import restore

    found = restore(backup, where)
    before, rows = all_items(found.data), found.manifest.rows[1]
    for queue, (_, items) in before.items():
        assert items == whole[queue][1][: len(items)]
    with World(found.data, 0) as again:
        assert again.log.end == rows
        assert again.registry.version == found.manifest.version
        again.run(65_536)
        after = all_items(again.data)
        ids = [item["publication"]["id"] for item in after["ann", "stream"][1]]
        assert len(ids) == len(set(ids)) == rows
        assert len(after["bob", "stream"][1]) == rows // 10
        for queue, (epoch, items) in before.items():
            assert (after[queue][0], after[queue][1][: len(items)]) == (epoch, items)
    return rows


def test_the_run_is_not_stopped_by_a_backup(tmp_path):
    """A run goes on in the same process while backups are made one after the other."""
    with World.made(tmp_path / "broker", 8) as world:
        world.subscribe(20, 7)
        run: ProcessRun = world.make_run()
        run.start()
        for number in range(6):
            world.publish(400)
            back_up(world.data, tmp_path / f"backup-{number}")
        due = time.monotonic() + 60
        while run.status.snapshot().row < world.log.end and time.monotonic() < due:
            time.sleep(0.02)
        run.stop()
        world.check()
        with restored(world, tmp_path / "backup-4", tmp_path / "again") as again:
            again.publish(100)
            again.run()
            again.check()
