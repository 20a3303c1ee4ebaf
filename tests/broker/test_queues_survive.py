"""SIGKILL at random moments while principals read: every queue has every number once, and says what an engine says."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from datetime import datetime

import numpy as np
import orjson
import pyarrow as pa
import pytest

import tidegate as tg
from tests.broker.queue_readers import digest_of
from tests.parts.killed_runs import Run, drawn, events, pattern
from tests.parts.tied_process import tied
from tests.registered import registered
from tidegate.store.data_directory import DataDirectory

PRINCIPALS = tuple(f"user{number}" for number in range(40))
DELIVER = ("stream", "stream", "mqtt", {"webhook": "a"}, {"webhook": "b"})
CONFIG = """
[source]
type = "log"
path = "broker/log"
rows = {rows}

[[sinks]]
type = "queues"
most = 10000000

[[sinks]]
type = "sql"
url = "notes.db"

[run]
runner = "{runner}"
data = "broker"
lateness = 0
ahead = "off"
"""


class World(ExitStack):
    """A data directory, a thread that publishes and changes subscriptions, and readers in another process."""

    def __init__(self, directory, runner, total, rows):
        super().__init__()
        self.config, self.total, self.rows = directory / "run.toml", total, rows
        self.config.write_text(CONFIG.format(runner=runner, rows=rows))
        self.data = DataDirectory.made(directory / "broker", runner)
        self._registry = self.enter_context(tg.Registry(self.data.registry))
        self._log = self.enter_context(tg.Log(self.data.log, version=lambda: self._registry.version))
        self.steps, self.subscriptions, self._rng = [], {}, np.random.default_rng(11)
        self._living, self._allowed, self.published = [], threading.Event(), 0
        self._subscribe([drawn(self._rng, f"s{number}") for number in range(400)])
        self._subscribe([pattern(self._rng, f"p{number}") for number in range(42)])
        self._until, self._grown = 0, threading.Condition()
        self.publisher = threading.Thread(target=self._publish, daemon=True)

    def _subscribe(self, subscriptions):
        """Subscribe in the name of principals, several of whom have the same ids."""
        given = []
        for one in subscriptions:
            id, deliver = f"{one.id[0]}{int(one.id[1:]) % 30}", DELIVER[self._rng.integers(len(DELIVER))]
            free = [name for name in PRINCIPALS if f"{name}/{id}" not in self.subscriptions]
            given.append(dataclasses.replace(one, id=id, subscriber=str(self._rng.choice(free)), deliver=deliver))
            self.subscriptions[given[-1].registered_id] = given[-1]
        self._registry.subscribe(given)
        self._living += [one.registered_id for one in given]
        self.steps.append(("subscribe", list(map(registered, given))))

    def _unsubscribe(self):
        id = self._living.pop(self._rng.integers(len(self._living)))
        self._registry.unsubscribe(id)
        self.steps.append(("unsubscribe", id))

    def allow(self, until):
        """Let the publisher go on up to so many publications."""
        with self._grown:
            self._until = until
            self._grown.notify_all()

    def _publish(self):
        change = self.total // 50
        while self.published < self.total:
            with self._grown:
                self._grown.wait_for(lambda: self._until > self.published)
            most = min(self._until - self.published, int(self._rng.choice([1, 1, 7, 300, 3000, 9000])))
            table = events(self._rng, self.published, most)
            self._log.append(table)
            self.steps.append(("publish", table))
            before, self.published = self.published, self.published + most
            if before // change < self.published // change:
                number = self.published // change
                self._unsubscribe()
                self._unsubscribe()
                self._subscribe([drawn(self._rng, f"t{number}"), pattern(self._rng, f"q{number}")])

    def committed(self):
        try:
            return (self.data.queues / "committed").read_bytes()
        except FileNotFoundError:
            return b""


def reading(world):
    """The readers, in a process of their own."""
    command = [sys.executable, "-m", "tests.broker.queue_readers", str(world.config), "5", *PRINCIPALS]
    with world.config.with_suffix(".readers").open("wb") as log:
        return subprocess.Popen(tied(command), stdout=log, stderr=log, start_new_session=True)


def survived(world, kills, rng, patience):
    """Publish all, with so many kills of the run on the way, then run to the end."""
    batches_between = world.total // world.rows // (kills + 1)
    world.publisher.start()
    readers = reading(world)
    try:
        for number in range(kills):
            run, seen, began = Run(world.config), {world.committed()}, time.monotonic()
            world.allow(world.total * (number + 1) // (kills + 1))
            batches = rng.randrange(1, 2 + batches_between)
            at_once = rng.uniform(0, 3) if rng.random() < 0.15 else patience  # maybe while it starts
            while len(seen) <= batches and time.monotonic() < began + at_once:
                assert not run.is_over, world.config.with_suffix(".log").read_text()[-2000:]
                assert readers.poll() is None, world.config.with_suffix(".readers").read_text()[-2000:]
                time.sleep(0.01)
                seen.add(world.committed())
            assert at_once < patience or len(seen) > 1
            time.sleep(rng.uniform(0, 0.3))
            run.kill()
        world.allow(world.total)
        world.publisher.join(patience * 5)
        assert world.published == world.total
        run = Run(world.config, "--available-now")
        assert run.process.wait(patience * 10) == 0, world.config.with_suffix(".log").read_text()[-2000:]
        world.config.with_suffix(".toml.done").touch()
        assert readers.wait(patience * 5) == 0, world.config.with_suffix(".readers").read_text()[-2000:]
    finally:
        readers.kill()
        readers.wait()
    return orjson.loads(world.config.with_suffix(".toml.seen").read_bytes())


def expected(world):
    """What an engine tells that is fed with the same publications and changes, one after the other: the notifications,
    and by queue what each delivery must say.
    """
    with tg.Engine() as engine:
        tables = []
        for what, given in world.steps:
            if what == "publish":
                tables.append(engine.publish(given))
            elif what == "subscribe":
                for one in given:
                    engine.subscribe(one)
            else:
                engine.unsubscribe(given)
    table = pa.concat_tables(tables)
    queues, plain = defaultdict(Counter), defaultdict(set)
    for one in table.select(["subscription_id", "time", "publication_ids", "score", "distance"]).to_pylist():
        subscription = world.subscriptions[one["subscription_id"]]
        queue = subscription.subscriber, subscription.destination
        if subscription.id[0] in "pq":  # a pattern
            said = tuple(one["publication_ids"]), (subscription.id,), one["time"], one["score"], one["distance"]
            queues[queue][said] += 1
        else:
            plain[queue, one["publication_ids"][0], one["time"]].add(subscription.id)
    for (queue, publication, moment), ids in plain.items():
        queues[queue][(publication,), tuple(sorted(ids)), moment, None, None] += 1
    return table, queues


def delivered(world):
    """By queue the epoch, the acknowledged number, all items in their order."""
    found = {}
    with tg.OpenQueues(world.config) as queues:
        for principal in PRINCIPALS:
            for state in queues.states(principal):
                items, after = [], 0
                while (page := queues.page(principal, after=after, limit=1000, destination=state.destination)).items:
                    items, after = items + page.items, page.next
                assert [item["number"] for item in items] == list(range(1, state.last + 1))
                found[principal, state.destination] = state.epoch, state.acknowledged, items
    return found


def said(item):
    publications = item.get("publications") or [item["publication"]]
    assert all({"id", "source", "time", "attributes"} <= one.keys() for one in publications)
    ids, moment = tuple(one["id"] for one in publications), datetime.fromisoformat(item["time"])
    return ids, tuple(sorted(item["subscriptions"])), moment, item.get("score"), item.get("distance")


def check(directory, runner, total, kills, rows, patience):
    rng = random.Random(5)
    began = time.monotonic()
    with World(directory, runner, total, rows) as world:
        seen = survived(world, kills, rng, patience)
        took = time.monotonic() - began
        table, wanted = expected(world)
    found = delivered(world)
    assert found.keys() == wanted.keys()
    for queue, (_, _, items) in found.items():
        assert Counter(map(said, items)) == wanted[queue], queue
        moments = [item["time"] for item in items if "publication" in item]
        assert moments == sorted(set(moments)), queue  # each publication is a second after the one before
    by_readers = {(principal, to): (epoch, upto, digests) for principal, to, epoch, upto, digests in seen["queues"]}
    assert by_readers == {
        queue: (epoch, upto, [digest_of(item) for item in items]) for queue, (epoch, upto, items) in found.items()
    }
    with tg.NotificationStore(directory / "notes.db") as store:
        ids = store.read().column("notification_id").combine_chunks().sort()
    assert ids.equals(table.column("notification_id").combine_chunks().sort())
    deliveries = sum(len(items) for _, _, items in found.values())
    print(
        f"{runner}: {total:,} publications, {kills} kills, {table.num_rows:,} notifications, {deliveries:,} deliveries "
        f"in {len(found)} queues, {seen['connections']} connections of readers, {took:.0f} s of running"
    )
    return deliveries


def sizes(full, otherwise):
    """With TIDEGATE_CHAOS=full a million publications."""
    return full if os.environ.get("TIDEGATE_CHAOS") == "full" else otherwise


@pytest.mark.thorough  # tests/gateway/test_gateway_survives.py is shorter
def test_queues_survive_kills(tmp_path):
    assert check(tmp_path, "process", 60_000, 2, 5000, 60) > 10_000


@pytest.mark.thorough
def test_queues_survive_many_kills(tmp_path):
    assert check(tmp_path, "process", *sizes((1_000_000, 20), (200_000, 5)), 5000, 120) > 50_000


@pytest.mark.spark
@pytest.mark.thorough
def test_queues_survive_many_kills_of_spark(tmp_path):
    assert check(tmp_path, "spark", *sizes((1_000_000, 5), (200_000, 2)), 25_000, 300) > 50_000
