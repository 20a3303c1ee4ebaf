"""Publications through the runner in process: what it drains, keeps up with, and how long one takes from append on."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate as tg
from bench.boolean_intervals import ATTRIBUTES, PREDICATES
from bench.clocked_flow import temporary_folder
from bench.harness import Report, say
from bench.processes import SyncedFile
from bench.workload import Workload, table
from tidegate.broker.process_run import ProcessRun
from tidegate.runs.sinks import Callback
from tidegate.runs.sources import LogSource

SEED = 2026
#: (subscriptions, rows of an append)
SIZES = ((10_000, 100), (10_000, 1_000), (100_000, 100), (100_000, 1_000))
#: Publications of one batch: small enough that the drained log has some.
BATCH = 50_000
#: About so many subscriptions match a publication.
MATCHES = 0.05

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "append": "rows of an append",
    "loading": "loading s",
    "rate": "publications/s",
    "cpu": "publications per CPU s",
    "batches": "batches",
    "per_publication": "notifications/pub",
    "p50": "p50 ms",
    "p99": "p99 ms",
    "sync50": "fdatasync p50 ms",
    "sync99": "fdatasync p99 ms",
    "breakdown": "where the time goes",
}

_fork = multiprocessing.get_context("fork")


def main(quick: bool = False) -> None:
    """All sizes in one process; who publishes live is another one."""
    report = Report("runner-in-process", SEED, COLUMNS)
    for n in dict.fromkeys(n for n, _ in SIZES[: 1 if quick else None]):
        work = _drawn(n, 100_000 if quick else 400_000)
        publications = table(work.values)
        with temporary_folder() as folder, tg.Registry(folder / "registry.db") as registry:
            say(f"{n:,} subscriptions")
            for begin in range(0, n, 50_000):
                registry.subscribe(*work.subscriptions(begin, min(n, begin + 50_000)))
            named = (replace(one, id=f"{one.subscriber}/{one.id}") for one in registry)  # as runs name them
            expected = _ids(tg.Engine(named).publish(publications))
            for append in (rows for size, rows in SIZES if size == n):
                say(f"  drained, appends of {append:,}")
                _drained(report, folder / f"drained-{append}", registry, publications, append, expected)
                say(f"  live, appends of {append:,}")
                _live(report, folder / f"live-{append}", registry, publications, append, expected)
            if n == SIZES[0][0]:
                for append in (1,) if quick else (10, 1):
                    say(f"  latency, appends of {append}")
                    _latency(report, folder / f"latency-{append}", registry, append, 3 if quick else 30)
    report.finish()


def _drawn(n: int, publications: int) -> Workload:
    """Subscriptions of ten intervals, as wide as MATCHES asks."""
    width = (MATCHES / n) ** (1 / PREDICATES)
    return Workload.of_intervals(n, width, publications, ATTRIBUTES, PREDICATES, SEED)


def _ids(notifications: pa.Table) -> set[bytes]:
    return set(notifications.column("notification_id").to_pylist())


class _Clocked:
    """A run that notes when each batch ended, by the clock and by the processor's time of this process."""

    def __init__(self, folder: Path, registry: tg.Registry, rows: int) -> None:
        self.ends: list[tuple[float, float, int]] = []
        self.tasks: list[dict[str, Any]] = []
        self.told: set[bytes] = set()
        self.notifications = 0
        source, sink = LogSource(folder / "log", rows=rows), Callback(self._tell)
        self.run = ProcessRun(source, registry, [sink], checkpoint=folder / "checkpoint", ahead=None)
        add = self.run.status.add

        def noted(batch: int, counts: Any, work: float, sinks: float, row: int = -1) -> None:
            publications = sum(task.get("publications", 0) for task in counts)
            self.ends.append((perf_counter(), process_time(), publications))
            self.tasks.append({"work": work, "sinks": sinks, **next(task for task in counts if "matching" in task)})
            add(batch, counts, work, sinks, row)

        self.run.status.add = noted  # type: ignore[method-assign]

    def _tell(self, batch: int, found: pa.Table) -> None:
        self.notifications += len(found)
        self.told |= _ids(found)

    def rates(self) -> tuple[float, float]:
        """Publications per second and per CPU second, of all batches but the first."""
        seconds, cpu = (self.ends[-1][i] - self.ends[0][i] for i in (0, 1))
        publications = sum(count for _, _, count in self.ends[1:])
        return publications / seconds, publications / cpu

    def seconds(self) -> list[float]:
        """Of each batch but the first, from one end to the next."""
        return [float(s) for s in np.diff([end for end, _, _ in self.ends])]

    def where_time_goes(self) -> str:
        """The share of all batches but the first, by who spent it."""
        total = self.ends[-1][0] - self.ends[0][0]
        spent = {name: sum(task[name] for task in self.tasks[1:]) for name in ("seconds", "matching", "writing")}
        work, sinks = (sum(task[name] for task in self.tasks[1:]) for name in ("work", "sinks"))
        parts = {
            "reading": spent["seconds"] - spent["matching"] - spent["writing"],
            "matching": spent["matching"],
            "writing": spent["writing"],
            "combine": work - spent["seconds"],
            "sinks": sinks,
            "record and waiting": total - work - sinks,
        }
        return ", ".join(f"{name} {100 * part / total:.0f} %" for name, part in parts.items())


def _pieces(publications: pa.Table, append: int) -> Iterator[pa.Table]:
    return (publications.slice(at, append) for at in range(0, len(publications), append))


def _drained(
    report: Report, folder: Path, registry: tg.Registry, publications: pa.Table, append: int, expected: set[bytes]
) -> None:
    """A log that was filled before. The first batch, which maps the layers, has a number of its own."""
    with tg.Log(folder / "log", version=lambda: registry.version) as log:
        for piece in _pieces(publications, append):
            log.append(piece)
    clocked, begin = _Clocked(folder, registry, BATCH), perf_counter()
    clocked.run.start(available_now=True)
    clocked.run.wait()
    clocked.run.close()
    _row(report, "drained", registry, clocked, append, clocked.ends[0][0] - begin, expected, len(publications))


def _live(
    report: Report, folder: Path, registry: tg.Registry, publications: pa.Table, append: int, expected: set[bytes]
) -> None:
    """Another process appends as fast as it can, and the runner takes what is there."""
    with tg.Log(folder / "log", version=lambda: registry.version) as log:
        log.append(publications.slice(0, append))  # a first batch, which maps the layers
    with _publisher(lambda going: _publish(folder, registry.version, publications.slice(append), append)) as going:
        clocked, begin = _Clocked(folder, registry, 1_000_000), perf_counter()
        clocked.run.start()
        while not clocked.ends:
            sleep(0.01)
        loading = clocked.ends[0][0] - begin
        going.value = 1
        clocked.ends[0] = perf_counter(), process_time(), 0
        while clocked.run.status.publications < len(publications):
            assert not clocked.run.wait(0.01)
        clocked.run.stop()
    _row(report, "live", registry, clocked, append, loading, expected, len(publications))


def _row(
    report: Report,
    what: str,
    registry: tg.Registry,
    clocked: _Clocked,
    append: int,
    loading: float,
    expected: set[bytes],
    publications: int,
) -> None:
    rate, cpu = clocked.rates()
    report.add(
        what=what,
        subscriptions=len(registry),
        append=append,
        loading=loading,
        rate=rate,
        cpu=cpu,
        batches=len(clocked.ends),
        per_publication=len(expected) / publications,
        breakdown=clocked.where_time_goes(),
        exact=clocked.told == expected and clocked.notifications == len(expected),
        seconds={"batches": clocked.seconds()},
    )


# --- another process --------------------------------------------------------------------------------------------------


@contextmanager
def _publisher(work: Callable[[Synchronized[int]], None]) -> Iterator[Synchronized[int]]:
    """A process that begins with its work when the number that is given becomes 1."""
    going = _fork.Value("i", 0)

    def run() -> None:
        while going.value == 0:
            sleep(0.001)
        work(going)
        os._exit(0)

    process = _fork.Process(target=run)
    process.start()
    try:
        yield going
    finally:
        process.join()


def _publish(folder: Path, version: int, publications: pa.Table, append: int) -> None:
    with tg.Log(folder / "log", version=lambda: version) as log:
        for piece in _pieces(publications, append):
            log.append(piece)


# --- latency ----------------------------------------------------------------------------------------------------------

#: Batches before the first that counts.
_WARM = 100


def _latency(report: Report, folder: Path, registry: tg.Registry, append: int, seconds: float) -> None:
    """1,000 publications/s by another process; from the call of ``append`` to that of the callback."""
    marked = f"marked-{append}"
    registry.subscribe(tg.Subscription(marked, "bench", "marked = 1"))
    count = int(1000 * seconds) // append + _WARM
    sent, synced = _fork.Array("d", count), _fork.Array("d", count)
    seen: dict[str, float] = {}

    def told(batch: int, found: pa.Table) -> None:
        now = perf_counter()
        for ids in found.column("publication_ids").to_pylist():
            seen.setdefault(ids[0], now)

    version = registry.version
    tg.Log(folder / "log").close()
    with _publisher(lambda _: _steadily(folder, version, append, sent, synced)) as going:
        source = LogSource(folder / "log")
        run = ProcessRun(source, registry, [Callback(told)], checkpoint=folder / "checkpoint", ahead=None)
        run.start()
        going.value = 1
        while run.status.publications < count * append:
            assert not run.wait(0.01)
        run.stop()
    registry.unsubscribe(f"bench/{marked}")
    ms = 1000 * np.array([seen[f"p{i}"] - sent[i] for i in range(_WARM, count) if f"p{i}" in seen])
    syncs = 1000 * np.array([second for second in synced[_WARM:] if second])
    p50, p99, sync50, sync99 = (float(np.percentile(x, q)) for x in (ms, syncs) for q in (50, 99))
    report.add(
        what="append → callback, 1,000/s",
        subscriptions=len(registry),
        append=append,
        rate=(count - _WARM) * append / (sent[count - 1] - sent[_WARM]),
        p50=p50,
        p99=p99,
        sync50=sync50,
        sync99=sync99,
        exact=all(f"p{i}" in seen for i in range(count)),
        seconds={"latency": (ms / 1000).tolist(), "fdatasync": (syncs / 1000).tolist()},
    )


def _steadily(folder: Path, version: int, append: int, sent: Any, synced: Any) -> None:
    """Append one piece after the other on time, and now and then sync a file of another kind."""
    rng = np.random.default_rng(SEED)
    tables = [_marked(table(rng.random((append, ATTRIBUTES)))) for _ in range(100)]
    with tg.Log(folder / "log", version=lambda: version) as log, SyncedFile(folder / "beside") as beside:
        begin = perf_counter()
        for number in range(len(sent)):
            sleep(max(0.0, begin + number * append / 1000 - perf_counter()))
            ids = pa.array([f"p{number}", *(f"q{number}-{i}" for i in range(1, append))])
            piece = tables[number % 100].set_column(0, "id", ids)
            sent[number] = perf_counter()
            log.append(piece)
            if number * append % 50 == 0:
                synced[number] = beside.append()


def _marked(publications: pa.Table) -> pa.Table:
    return publications.append_column("marked", pa.array([1.0] + [0.0] * (len(publications) - 1)))
