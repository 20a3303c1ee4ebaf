"""From the call of ``append`` to the item in a reader's hands: a publisher, a run and a reader, each a process.

The run is ``tidegate run`` on a data directory with the runner *process*. The publisher appends in time, and in between
syncs a file of its own, so that both are measured on the same disk in the same seconds. Clocks of processes are one
clock: ``perf_counter`` counts from the start of the machine.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

import numpy as np

import tidegate as tg
from bench.boolean_intervals import ATTRIBUTES, PREDICATES
from bench.harness import Report, say
from bench.processes import Beside, SyncedFile, started
from bench.workload import Workload
from tidegate.errors import StoreError
from tidegate.store.data_directory import DataDirectory

__all__ = ["latency"]

SEED = 2026
#: Publications per second; about so many subscriptions match each.
RATE, MATCHES = 1_000, 0.05
#: Who is told of every publication, and how long anybody waits for anything.
WATCHER, _PATIENCE = "watcher", 120.0


def latency(report: Report, folder: Path, subscriptions: int, append: int, seconds: int) -> None:
    """A row: publications of ``seconds`` in appends of so many, after some that warm up."""
    say(f"latency: {subscriptions:,} subscriptions, {RATE:,} publications/s in appends of {append}")
    data = DataDirectory.made(folder, "process")
    with tg.Registry(data.registry) as registry:
        registry.subscribe(*_drawn(subscriptions).subscriptions(), tg.Subscription("all", WATCHER, "a0 >= 0"))
    warm = RATE * seconds // 6
    count = (RATE * seconds + warm) // append * append
    with started([sys.executable, "-m", "tidegate", "run", os.fspath(data.path)], folder.with_suffix(".output")) as run:
        publisher = Beside(partial(_publish, data, count, append, warm))
        reader = Beside(partial(_read, data, count))
        try:
            sent, syncs = publisher.result()
            seen = reader.result()
            if run.poll() is not None:
                raise SystemExit("bench queues: the run has ended")
        finally:
            publisher.end()
            reader.end()
    if len(seen) < count:
        raise SystemExit(f"bench queues: expected {count:,} items; got {len(seen):,}")
    numbers, taken = zip(*seen, strict=True)
    ms = 1e3 * (np.array(taken) - np.repeat(sent, append))[warm:]
    p50, p99, sync50, sync99 = (float(np.percentile(x, q)) for x in (ms, 1e3 * np.array(syncs)) for q in (50, 99))
    report.add(
        what=f"append → reader, appends of {append}",
        storage="Tidegate",
        principals=2,
        remark=f"{subscriptions:,} subscriptions, {_rate(sent, append):,.0f} publications/s",
        p50=p50,
        p99=p99,
        sync50=sync50,
        sync99=sync99,
        wanted=f"p50 ≤ {2 * sync50 + 3:.3g} ms, p99 ≤ {3 * sync99 + 10:.3g} ms",
        exact=list(numbers) == list(range(count)),
        seconds={"latency": (ms / 1e3).tolist(), "fdatasync": syncs},
    )


def _rate(sent: list[float], append: int) -> float:
    return (len(sent) - 1) * append / (sent[-1] - sent[0])


def _drawn(n: int) -> Workload:
    """Subscriptions of ten intervals, as wide as MATCHES asks."""
    width = (MATCHES / n) ** (1 / PREDICATES)
    return Workload.of_intervals(n, width, 0, ATTRIBUTES, PREDICATES, SEED)


def _publish(data: DataDirectory, count: int, append: int, warm: int) -> tuple[list[float], list[float]]:
    """When each append was called, and how long syncs took meanwhile. The first waits until the run has begun."""
    values = np.random.default_rng(SEED).random((1_000, ATTRIBUTES)).tolist()
    attributes = [{f"a{i}": value for i, value in enumerate(row)} for row in values]
    sent, syncs = list[float](), list[float]()
    with (
        tg.Registry(data.registry) as registry,
        tg.Log(data.log, version=lambda: registry.version) as log,
        SyncedFile(data.path.with_suffix(".synced")) as beside,
    ):
        _wait_for(data.queues / "manifest.json")
        begin = perf_counter()
        for first in range(0, count, append):
            sleep(max(0.0, begin + first / RATE - perf_counter()))
            some = range(first, first + append)
            now = datetime.now(UTC)
            given = [{"id": f"p{i}", "source": "bench", "time": now} | attributes[i % 1_000] for i in some]
            sent.append(perf_counter())
            log.append(given)
            if first >= warm and first % 50 == 0:
                syncs.append(beside.append())
    return sent, syncs


def _read(data: DataDirectory, count: int) -> list[tuple[int, float]]:
    """Of each delivery the number of its publication, and when it was here with its content."""
    _wait_for(data.queues / "manifest.json")
    found: list[tuple[int, float]] = []
    after, until = 0, monotonic() + _PATIENCE
    with tg.OpenQueues(data.path) as queues:
        while len(found) < count and monotonic() < until:
            queues.wait(1.0)
            while (page := _page(queues, after)) is not None:
                now = perf_counter()
                found += [(int(item["publication"]["id"][1:]), now) for item in page.items]
                after, until = page.next, monotonic() + _PATIENCE
    return found


def _page(queues: tg.OpenQueues, after: int) -> Any:
    """The next page of the watcher; None if there is nothing yet."""
    try:
        page = queues.page(WATCHER, after=after, limit=1_000)
    except StoreError:  # nobody was told anything so far
        return None
    return page if page.items else None


def _wait_for(file: Path) -> None:
    until = monotonic() + _PATIENCE
    while not file.exists():
        if monotonic() > until:
            raise SystemExit(f"bench queues: expected a run that makes {file.name}; got none")
        sleep(0.01)
