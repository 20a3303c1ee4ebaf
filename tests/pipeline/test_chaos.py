"""SIGKILL at random points, on the driver and on Python workers: in the end the notifications of a quiet run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import datetime

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.parts.tied_process import tied
from tests.registered import registered

TIME = np.datetime64(datetime(2026, 11, 15).isoformat(), "us")
ATTRIBUTES = ("a", "b", "c")
CONFIG = """
[source]
type = "{source}"
{place}

[subscriptions]
registry = "registry.db"

[[sinks]]
type = "parquet"
path = "out"

[[sinks]]
type = "sql"
url = "notes.db"

[run]
checkpoint = "checkpoint"
lateness = 0
ahead = "off"
"""


def readings(rng, first, count):
    return pa.table(
        {
            "id": pa.array(np.char.add("p", np.arange(first, first + count).astype(str))),
            "source": pa.array(["z"] * count),
            "time": pa.array(TIME + np.arange(first, first + count).astype("m8[s]"), pa.timestamp("us", "UTC")),
            **{name: pa.array(rng.uniform(0, 100, count)) for name in ATTRIBUTES},
        }
    )


def events(rng, first, count):
    """The same as events: whole ones, and every fifth a START or the END of the one five before."""
    table, numbers = readings(rng, first, count), np.arange(first, first + count)
    phase = np.where(numbers % 5 != 0, None, np.where(numbers % 10 == 0, "START", "END"))
    names = np.where(phase == "END", numbers - 5, numbers).astype(str)
    return table.set_column(0, "id", pa.array(np.char.add("p", names))).append_column(
        "phase", pa.array(phase.tolist(), pa.string())
    )


def drawn(rng, id):
    low, high = np.sort(rng.uniform(0, 100, 2))
    a, b = rng.choice(ATTRIBUTES, 2, replace=False)
    where = f"{a} BETWEEN {low:.3f} AND {min(high, low + 2):.3f} AND {b} < {rng.uniform(2, 10):.3f}"
    return tg.Subscription(id, f"user-{id}", where)


def pattern(rng, id):
    """A subscription with a pattern: one of each kind that has state."""
    a, b, c = rng.permutation(ATTRIBUTES)
    low = rng.uniform(0, 98)
    where = (
        f"{a} < 10 AND topk(3, 'PT{int(rng.integers(600, 7200))}S', {b} - {rng.uniform(0, 1):.3f} * {c})",
        f"{a} < 10 AND topk(2, {int(rng.integers(50, 500))}, distance(({b}, {c}), ({low:.3f}, {low:.3f})))",
        f"together('PT2M', {a} BETWEEN {low:.3f} AND {low + 2:.3f}, {b} > 98, {c} < 2)",
        f"absent('PT{int(rng.integers(300, 900))}S', {a} BETWEEN {low:.3f} AND {low + 0.5:.3f}, source)",
        f"{a} < 10 AND shape({b}, (0, 1, 0, {rng.uniform(1, 3):.3f}, 0), 'stream') <= 1.2",
        f"{a} > 97 AND T_DURING(time, past({b} BETWEEN {low:.3f} AND {low + 2:.3f} AND phase = 'START'))",
        f"{a} > 97 AND {b} > past({b}, {c} > 98 AND T_AFTER(event, past({a} < 2, 'PT1M')), 20)",
    )[int(id.lstrip("pq")) % 7]
    return tg.Subscription(id, f"user-{id}", where)


class Run:
    """``tidegate run --available-now`` in a process of its own."""

    def __init__(self, config, *options):
        command = [sys.executable, "-m", "tidegate", "run", str(config), "--available-now", *options]
        with config.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(tied(command), stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def is_over(self):
        return self.process.poll() is not None

    def family(self):
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def workers(self):
        """Python workers at work: forks of the daemon, which is the only one of them that Java started."""
        found = []
        for process in self.family():
            try:
                parent = process.parent()
                if parent and "tidegate.pipeline.worker_daemon" in process.cmdline() and "java" not in parent.name():
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def kill(self, patience=20):
        """The driver and, as it would go with a machine, its Java; by id, all of them."""
        family = self.family()
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=patience)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=20)


def disturbed(config, progress, rng, most_drivers, most_workers):
    """Run to the end, with kills on the way. ``progress()`` says how much has come out so far."""
    drivers, workers = 0, 0
    deadline = time.monotonic() + 900
    while True:
        run, before = Run(config), progress()
        while drivers < most_drivers or workers < most_workers:
            assert time.monotonic() < deadline
            if run.is_over:
                break
            if progress() == before:  # let each run do something
                time.sleep(0.05)
                continue
            time.sleep(rng.uniform(0, 0.6))
            if workers < most_workers and rng.random() < 0.6:
                if living := run.workers():
                    rng.choice(living).kill()
                    workers += 1
                    before = progress()
                continue
            if drivers < most_drivers:
                run.kill()
                drivers += 1
                break
        else:
            run.process.wait(600)
        if run.is_over and run.process.returncode >= 0:
            assert run.process.returncode == 0, config.with_suffix(".log").read_text()[-2000:]
            return drivers, workers


def told(grouped):
    """Publication, time and subscription of every notification, in order."""
    lists = grouped.column("subscription_ids").combine_chunks()
    rows = pc.list_parent_indices(lists)
    publications = grouped.column("publication_id").combine_chunks().take(rows).fill_null("-").cast(pa.string())
    times = grouped.column("time").combine_chunks().take(rows).cast(pa.int64()).cast(pa.string())
    return pc.binary_join_element_wise(publications, times, pc.list_flatten(lists).cast(pa.string()), " ").sort()


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("source", ["log", "files"])
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path, source):
    """With TIDEGATE_CHAOS=full the log has a million publications and the driver is killed ten times."""
    total, step, kills = {
        ("log", True): (1_000_000, 25_000, (10, 5)),
        ("log", False): (300_000, 25_000, (3, 2)),
    }.get((source, os.environ.get("TIDEGATE_CHAOS") == "full"), (150_000, 10_000, (1, 1)))
    assert survives(tmp_path, source, total, step, kills) > 10_000


@pytest.mark.spark
def test_nothing_is_lost_after_a_kill(tmp_path):
    """The same in small: the log, patterns and plain subscriptions that come and go, and one kill of the driver."""
    assert survives(tmp_path, "log", 60_000, 10_000, (1, 0)) > 1_000


def survives(tmp_path, source, total, step, kills):
    """Whether a run with so many kills, of the driver and of workers, tells what an engine tells; how much that is."""
    registry = tg.Registry(tmp_path / "registry.db")
    log = tg.Log(tmp_path / "log", version=lambda: registry.version) if source == "log" else None
    wanted, in_groups = published(registry, log, tmp_path / "in", total, step)
    config = tmp_path / "run.toml"
    place = 'path = "in"\nfiles = 1' if log is None else f'path = "log"\nrows = {step}'
    config.write_text(CONFIG.format(source=source, place=place))
    out = tmp_path / "out"
    killed = disturbed(config, lambda: len(list(out.glob("batch=*"))), random.Random(5), *kills)
    assert killed == kills
    store = tg.NotificationStore(tmp_path / "notes.db")
    assert len(store) == len(wanted)
    assert (
        store.read()
        .column("notification_id")
        .combine_chunks()
        .sort()
        .equals(wanted.column("notification_id").combine_chunks().sort())
    )
    assert told(pq.read_table(out)).equals(told(in_groups))
    return len(wanted)


def published(registry, log, directory, total, step):
    """Fill the registry, and the log or else the directory; what an engine tells of it, one by one and in groups.

    Only a log knows what was subscribed when, so that only there subscriptions come and go, with patterns among them.
    """
    rng = np.random.default_rng(11)
    registry.subscribe(*(drawn(rng, f"s{i}") for i in range(500)))
    directory.mkdir()
    if log is not None:
        registry.subscribe(*(pattern(rng, f"p{i}") for i in range(60)))
    engine, again = tg.Engine(map(registered, registry)), tg.Engine(map(registered, registry))
    expected, in_groups = [], []
    for number, first in enumerate(range(0, total, step)):
        table = readings(rng, first, step) if log is None else events(rng, first, step)
        if log is not None:
            log.append(table)
            new = [drawn(rng, f"t{number}"), pattern(rng, f"q{number}")]
        else:
            pq.write_table(table, directory / f"{number:04d}.parquet")
            new = []
        expected.append(engine.publish(table))
        in_groups.append(again.publish(table, grouped=True))
        for change in (registry, engine, again) if new else ():
            change.unsubscribe(f"user-s{number}/s{number}")
            change.unsubscribe(f"user-p{number}/p{number}")
            for subscription in new:
                change.subscribe(subscription if change is registry else registered(subscription))
    return pa.concat_tables(expected), pa.concat_tables(in_groups)
