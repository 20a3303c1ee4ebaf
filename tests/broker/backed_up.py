"""A data directory that tests publish to, run, back up and restore; and what its queues must say in the end."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import tidegate as tg
from tests.broker.test_queues_survive import expected, said
from tests.parts.killed_runs import drawn, events, pattern
from tests.registered import registered
from tidegate.broker.process_run import ProcessRun
from tidegate.broker.restore import restore
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sources import LogSource
from tidegate.store.data_directory import DataDirectory
from tidegate.store.queue_reader import QueueReader

__all__ = ["World", "all_items", "restored"]

PRINCIPALS = tuple(f"user{number}" for number in range(4))


class World:
    """A data directory, and what was done in it. ``publish`` and changes are to be called by one thread."""

    def __init__(self, data, seed, steps=(), subscriptions=(), published=0):
        self.data, self.steps, self.subscriptions = data, list(steps), dict(subscriptions)
        self.published, self._rng = published, np.random.default_rng(seed)
        self.registry = tg.Registry(data.registry)
        self.log = tg.Log(data.log, version=lambda: self.registry.version, segment_bytes=30_000)

    @staticmethod
    def made(directory, seed, runner="process"):
        return World(DataDirectory.made(directory, runner), seed)

    def close(self):
        self.log.close()
        self.registry.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- what is done -----------------------------------------------------------------------------------------------

    def subscribe(self, plain=3, patterns=2):
        first = len(self.subscriptions)
        some = [(pattern if i < patterns else drawn)(self._rng, f"{'p' if i < patterns else 's'}{first + i}")
                for i in range(patterns + plain)]  # fmt: skip
        given = [dataclasses.replace(one, subscriber=str(self._rng.choice(PRINCIPALS))) for one in some]
        self.registry.subscribe(given)
        self.subscriptions |= {one.registered_id: one for one in given}
        self.steps.append(("subscribe", list(map(registered, given))))

    def unsubscribe(self):
        living = sorted(one.registered_id for one in self.registry)
        if living:
            id = str(self._rng.choice(living))
            self.registry.unsubscribe(id)
            self.steps.append(("unsubscribe", id))

    def publish(self, count):
        table = events(self._rng, self.published, count)
        self.log.append(table)
        self.published += count
        self.steps.append(("publish", table))

    def make_run(self, rows=500):
        source = LogSource(self.data.log, rows=rows)
        sinks = [QueueSink(self.data.queues, self.registry, most=10**7)]
        where = {"checkpoint": self.data.checkpoint, "quarantine": self.data.quarantine}
        return ProcessRun(source, self.registry, sinks, lateness=0, **where)

    def run(self, rows=500, killed_by=()):
        """Run what is there now; whether it came to its end, and was not killed by an exception of these kinds."""
        run = self.make_run(rows)
        try:
            run.start(available_now=True)
            run.wait()
        except killed_by:  # what was not written is lost with the process
            if hasattr(run, "_record"):
                run._record._unwritten = b""
            return False
        finally:
            run.close()
        return True

    # --- what came of it --------------------------------------------------------------------------------------------

    def check(self):
        """The queues say what an engine tells of the same steps, each once, numbered without gaps. A principal whom
        nothing was told has an empty queue.
        """
        _, wanted = expected(SimpleNamespace(steps=self.steps, subscriptions=self.subscriptions))
        found = all_items(self.data)
        assert {queue: Counter(map(said, items)) for queue, (_, items) in found.items() if items} == {
            queue: told for queue, told in wanted.items() if told
        }
        assert all(self.registry.registered(principal) is not None for principal, _ in found)
        return found


def all_items(data):
    """By queue its epoch and all items."""
    if not (data.queues / "manifest.json").exists():
        return {}
    with QueueReader(data.queues) as reader:
        names = [(queue.principal, queue.destination, queue.epoch) for queue in reader]
    found = {}
    with tg.OpenQueues(data.path) as queues:
        for principal, destination, epoch in names:
            items, after = [], 0
            while (page := queues.page(principal, after=after, limit=1000, destination=destination)).items:
                items, after = items + page.items, page.next
            assert [item["number"] for item in items] == list(range(1, page.last + 1))
            found[principal, destination] = epoch, items
    return found


def steps_until(world, manifest):
    """What was done in a world until its backup, by the rows of the log and the versions of the registry."""
    rows, version, steps = 0, 0, []
    for what, given in world.steps:
        if what == "publish":
            rows += given.num_rows
        else:
            version += len(given) if what == "subscribe" else 1
        if rows > manifest.rows[1] or version > manifest.version:
            break
        steps.append((what, given))
    return steps


def restored(world, backup, where: Path, seed=0):
    """The world that a backup of another one has."""
    found = restore(backup, where)
    assert found.queues == len(all_items(found.data))
    steps = steps_until(world, found.manifest)
    published = sum(given.num_rows for what, given in steps if what == "publish")
    assert published == found.manifest.rows[1]
    return World(found.data, seed, steps, world.subscriptions, published)
