"""Queues: deliveries written, kept, replayed and acknowledged, beside SQLite, LMDB and RocksDB; append to reader."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import tidegate as tg
from bench.harness import Report, median, say, timed
from bench.processes import SyncedFile, apart, uncached
from bench.queue_deliveries import Deliveries, subscription_name
from bench.queue_latency import latency
from bench.queue_storages import RIVALS, Storage, ThroughSink, Tidegate, on_disk, principal_name
from bench.workload import table
from tidegate.store.cursors import Cursors
from tidegate.store.data_directory import DataDirectory
from tidegate.store.queue_reader import QueueReader

__all__ = ["main"]

SEED = 2026
#: Queues that are compared with what they must have, and replayed one after the other.
COMPARED = 20
#: Times that a writer is started, acknowledgements of one queue, and of all queues in one commit.
STARTS, ONES, BULKS = 5, 300, 5

KINDS: tuple[type[Storage], ...] = (Tidegate, *RIVALS)

COLUMNS = {
    "what": "what",
    "storage": "storage",
    "principals": "principals",
    "batch": "deliveries/batch",
    "deliveries": "deliveries",
    "rate": "deliveries/s",
    "p50": "p50 ms",
    "p99": "p99 ms",
    "sync50": "fdatasync p50 ms",
    "sync99": "fdatasync p99 ms",
    "bytes": "bytes/delivery",
    "wanted": "wanted",
    "remark": "remark",
}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    writing: tuple[tuple[int, int], ...]
    """(deliveries of a batch, of a row)"""
    principals: tuple[int, ...]
    many: Deliveries
    rivals: tuple[Deliveries, ...]
    seconds: int
    """Of each measurement of latency."""
    subscriptions: int


FULL = Sizes(
    ((1_000, 1_000_000), (10_000, 2_000_000), (100_000, 4_000_000)),
    (100, 100_000),
    Deliveries(100_000, 1_000, 100_000, SEED),
    (Deliveries(400, 1_000, 1_000, SEED), Deliveries(2_000, 1_000, 100_000, SEED)),
    30,
    10_000,
)
QUICK = Sizes(
    ((1_000, 20_000), (10_000, 40_000)),
    (100, 2_000),
    Deliveries(2_000, 100, 10_000, SEED),
    (Deliveries(200, 100, 1_000, SEED),),
    2,
    500,
)


def main(quick: bool = False) -> None:
    """Everything in one temporary directory, each part in processes of its own."""
    report, sizes = Report("queues", SEED, COLUMNS), QUICK if quick else FULL
    with TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        with SyncedFile(folder / "synced") as file:
            syncs = [file.append() for _ in range(100 if quick else 1_000)]
        report.add(what="fdatasync of 4 KiB", storage="file", **_each(syncs), exact=True)
        _writing(report, folder, sizes)
        _many(report, folder, sizes.many)
        for deliveries in sizes.rivals:
            for kind in KINDS:
                _rival(report, folder, kind, deliveries)
        for append in (1, 10):
            latency(report, folder / f"latency-{append}", sizes.subscriptions, append, sizes.seconds)
    report.finish()


def _spread(seconds: Sequence[float]) -> dict[str, Any]:
    """Median and 99th percentile, in milliseconds."""
    return {"p50": 1e3 * median(list(seconds)), "p99": 1e3 * float(np.percentile(seconds, 99))}


def _each(seconds: list[float]) -> dict[str, Any]:
    return {**_spread(seconds), "seconds": {"each": seconds}}


# --- writing ----------------------------------------------------------------------------------------------------------


class _Written(NamedTuple):
    commits: list[float]
    """Seconds of each commit."""
    whole: float
    """Seconds from the first commit until everything is merged."""
    deliveries: int
    memory: int
    """The most bytes that the process had in memory."""


def _write(kind: type[Storage], directory: Path, work: Deliveries, drawn: bool = True) -> _Written:
    """Write all batches; those of the first round, which makes the queues, do not count. ``drawn``: all beforehand."""
    warm = max(1, work.principals // work.batch)
    with closing(kind(directory, work.principals)) as storage:
        for number in range(warm):
            storage.commit(work.at(number))
        storage.settle()
        batches = map(work.at, range(warm, work.batches))
        begin_at: Any = list(batches) if drawn else batches
        begin = perf_counter()
        commits = [timed(partial(storage.commit, batch))[0] for batch in begin_at]
        storage.settle()
        whole = perf_counter() - begin
        storage.tidy()
    memory = getrusage(RUSAGE_SELF).ru_maxrss << 10
    return _Written(commits, whole, len(commits) * work.batch, memory)


def _is_right(kind: type[Storage], directory: Path, work: Deliveries) -> bool:
    """Whether every queue has as many deliveries as it must, and some have exactly those."""
    with closing(kind(directory, work.principals, reads=True)) as storage:
        return all(storage.last(principal) == work.rounds for principal in range(work.principals)) and all(
            storage.stored(storage.read(principal, 0, work.rounds + 1)) == work.expected(principal)
            for principal in _some(work)
        )


def _some(work: Deliveries) -> list[int]:
    """Principals, drawn."""
    found: list[int] = np.random.default_rng(SEED).choice(work.principals, COMPARED, replace=False).tolist()
    return found


def _row(report: Report, what: str, kind: type[Storage], work: Deliveries, written: _Written, **more: Any) -> None:
    report.add(
        what=what,
        storage=kind.name,
        principals=work.principals,
        batch=work.batch,
        deliveries=work.count,
        rate=written.deliveries / written.whole,
        **_spread(written.commits),
        **more,
        seconds={"commits": written.commits, "whole": [written.whole]},
    )


def _writing(report: Report, folder: Path, sizes: Sizes) -> None:
    ways: dict[str, type[Storage]] = {"writing": Tidegate, "writing, the whole sink": ThroughSink}
    for what, kind in ways.items():
        for principals in sizes.principals:
            for batch, count in sizes.writing:
                say(f"{what}: batches of {batch:,} to {principals:,} principals")
                work = Deliveries(principals, max(2, count // principals), batch, SEED)
                with TemporaryDirectory(dir=folder) as name:
                    directory = Path(name, "queues")
                    written = apart(partial(_write, kind, directory, work))
                    exact = apart(partial(_is_right, Tidegate, directory, work))
                    more = {"bytes": on_disk(directory) / work.count, "wanted": "≥ 300,000/s"}
                    _row(report, what, kind, work, written, exact=exact, **more)


# --- replay and restart -----------------------------------------------------------------------------------------------


class _Replayed(NamedTuple):
    opening: list[float]
    reading: list[float]
    stayed: float
    """The largest share of the files that stayed in the page cache although it was to be dropped."""
    exact: bool


def _replayed(kind: type[Storage], directory: Path, work: Deliveries, dropped: bool) -> _Replayed:
    """Each of some queues read as a whole by a new reader, which has nothing in memory yet."""
    opening, reading, stayed, exact = list[float](), list[float](), 0.0, True
    for principal in _some(work):
        if dropped:
            stayed = max(stayed, uncached(directory))
        took, storage = timed(partial(kind, directory, work.principals, reads=True))
        opening.append(took)
        took, found = timed(partial(storage.read, principal, 0, work.rounds))
        reading.append(took)
        exact &= storage.stored(found) == work.expected(principal)
        storage.close()
        del storage, found
    return _Replayed(opening, reading, stayed, exact)


def _restarted(kind: type[Storage], directory: Path, work: Deliveries, dropped: bool, first: int) -> list[float]:
    """A writer that opens the queues and commits one delivery, and is then killed; several times."""
    found = []
    for i in range(first, first + STARTS):
        if dropped:
            uncached(directory)
        found.append(apart(partial(_restart, kind, directory, work, i)))
    return found


def _restart(kind: type[Storage], directory: Path, work: Deliveries, before: int) -> float:
    def begun() -> Storage:
        storage = kind(directory, work.principals)
        storage.commit(work.after(work.batches + before))
        return storage

    seconds, storage = timed(begun)
    if storage.last(0) != work.rounds + before + 1:
        raise SystemExit("bench queues: a delivery was lost, or came twice, at a restart")
    return seconds


def _cold(dropped: bool) -> str:
    return "page cache dropped" if dropped else "page cache warm"


# --- many queues ------------------------------------------------------------------------------------------------------


def _many(report: Report, folder: Path, work: Deliveries) -> None:
    """As many queues as a service has, in a data directory with a log."""
    data = DataDirectory.made(folder / "many", "process")
    say(f"{work.principals:,} principals × {work.rounds:,}: the log")
    apart(partial(_log, data, work))
    say("  writing")
    written = apart(partial(_write, Tidegate, data.queues, work, drawn=False))
    say("  comparing")
    exact = apart(partial(_is_right, Tidegate, data.queues, work))
    more: dict[str, Any] = {"bytes": on_disk(data.queues) / work.count, "wanted": "≥ 300,000/s, ≤ 40 bytes"}
    more["remark"] = f"at most {written.memory / 1e9:.2g} GB in memory"
    _row(report, f"{work.rounds:,} each", Tidegate, work, written, exact=exact, **more)

    def add(what: str, seconds: list[float], wanted: str | None, exact: bool, remark: str | None = None) -> None:
        facts: dict[str, Any] = {
            "storage": Tidegate.name,
            "principals": work.principals,
            "wanted": wanted,
            "remark": remark,
        }
        report.add(what=what, **facts, **_each(seconds), exact=exact)

    for dropped in (False, True):
        say(f"  replay, {_cold(dropped)}")
        replayed = apart(partial(_replayed, Tidegate, data.queues, work, dropped))
        stayed = f"{100 * replayed.stayed:.1f} % stayed in the cache" if dropped else None
        add(f"a reader opens, {_cold(dropped)}", replayed.opening, "≤ 1 s", replayed.exact, stayed)
        what = f"replay of {work.rounds:,}, {_cold(dropped)}"
        add(what, replayed.reading, "≤ 10 ms", replayed.exact, stayed)
        contents, exact = apart(partial(_contents, data, work, dropped))
        add(f"{what}, with content", contents, None, exact)
    for dropped in (False, True):
        say(f"  restart, {_cold(dropped)}")
        seconds = _restarted(Tidegate, data.queues, work, dropped, STARTS * dropped)
        add(f"the writer restarts, {_cold(dropped)}", seconds, "≤ 1 s", True)
    say("  acknowledging")
    ones, bulks, exact = apart(partial(_acknowledged, data, work))
    add("one acknowledgement", ones, None, exact)
    add(f"{work.principals:,} acknowledgements in one commit", bulks, None, exact)


def _log(data: DataDirectory, work: Deliveries) -> None:
    """The publications, in appends of a batch each."""
    each = work.publications // work.batches
    values = np.random.default_rng(SEED).random((each, 4))
    with tg.Log(data.log) as log:
        for first in range(0, work.publications, each):
            ids = pa.array([f"p{first + i}" for i in range(each)])
            log.append(table(values).set_column(0, "id", ids))


def _contents(data: DataDirectory, work: Deliveries, dropped: bool) -> tuple[list[float], bool]:
    """Seconds to read queues with the content of their publications, each by a new reader; whether it is right."""
    seconds, exact = list[float](), True
    for principal in _some(work):
        if dropped:
            uncached(data.path)
        with tg.OpenQueues(data.path) as queues:
            took, page = timed(partial(queues.page, principal_name(principal), after=0, limit=work.rounds))
        seconds.append(took)
        items = [(item["number"], item["publication"]["id"], item["subscriptions"]) for item in page.items]
        expected = work.expected(principal)
        exact &= items == [(d.number, f"p{d.row}", list(map(subscription_name, d.subscriptions))) for d in expected]
    return seconds, exact


def _acknowledged(data: DataDirectory, work: Deliveries) -> tuple[list[float], list[float], bool]:
    with QueueReader(data.queues) as reader, Cursors(data.cursors) as cursors:
        queues = sorted(reader, key=lambda queue: queue.number)
        ones = [
            timed(partial(cursors.acknowledge, {queue: (1, reader.last(queue))}))[0] for queue in islice(queues, ONES)
        ]
        numbers = np.linspace(2, work.rounds, BULKS).astype(int).tolist()
        bulks = [
            timed(partial(cursors.acknowledge, {queue: (number, reader.last(queue)) for queue in queues}))[0]
            for number in numbers
        ]
        exact = set(cursors.of(queues).values()) == {work.rounds}
    return ones, bulks, exact


# --- rivals -----------------------------------------------------------------------------------------------------------


def _rival(report: Report, folder: Path, kind: type[Storage], work: Deliveries) -> None:
    """The same deliveries in each storage."""
    what = "side by side: "
    facts: dict[str, Any] = {"storage": kind.name, "principals": work.principals, "batch": work.batch}
    if not kind.is_there():
        remark = f"not measured: the package {kind.package} is not installed"
        report.add(what=f"{what}writing", **facts, remark=remark, exact=None)
        return
    say(f"{kind.name}: batches of {work.batch:,} to {work.principals:,} principals")
    with TemporaryDirectory(dir=folder) as name:
        directory = Path(name, "queues")
        written = apart(partial(_write, kind, directory, work))
        exact = apart(partial(_is_right, kind, directory, work))
        more = {"bytes": on_disk(directory) / work.count, "remark": f"version {kind.version()}"}
        _row(report, f"{what}writing", kind, work, written, exact=exact, **more)
        for dropped in (False, True):
            replayed = apart(partial(_replayed, kind, directory, work, dropped))
            remark = f"opened in {1e3 * median(replayed.opening):.3g} ms"
            named = f"{what}replay of {work.rounds:,}, {_cold(dropped)}"
            report.add(what=named, **facts, **_each(replayed.reading), remark=remark, exact=replayed.exact)
        seconds = _restarted(kind, directory, work, False, 0)
        report.add(what=f"{what}restart", **facts, **_each(seconds), exact=True)
