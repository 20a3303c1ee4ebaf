"""SIGKILL at random points, on the driver and on Python workers: in the end the notifications of a quiet run."""

from __future__ import annotations

import os
import random
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.parts.killed_runs import Run, drawn, events, pattern, readings
from tests.registered import registered

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


def disturbed(config, progress, rng, most_drivers, most_workers):
    """Run to the end, with kills on the way. ``progress()`` says how much has come out so far."""
    drivers, workers = 0, 0
    deadline = time.monotonic() + 900
    while True:
        run, before = Run(config, "--available-now"), progress()
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
