"""Initial matches: subscriptions that come to a million valid publications, one at a time and thousands at once.

A run's own sink of queues commits empty cuts, as it does when somebody subscribes and nobody publishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time_ns
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate as tg
from bench.harness import Report, median, say, timed
from tidegate.runs.cut import Cut
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sinks import Receipts
from tidegate.store.delivery_records import DeliveryKind
from tidegate.store.log_frames import Tombstone
from tidegate.store.queue_reader import QueueReader

__all__ = ["main"]

SEED = 2026
#: Subscriptions that come at once, how often, and how many of them name one attribute alone.
SIZES = ((1, 20), (100, 5), (10_000, 1))
_ROWS = 50_000

COLUMNS = {
    "what": "what",
    "valid": "valid publications",
    "subscriptions": "subscriptions at once",
    "matches": "initial matches",
    "ms": "median ms",
    "worst": "worst ms",
    "cpu": "CPU ms",
    "wanted": "wanted",
}


def main(quick: bool = False) -> None:
    """A log, a registry and a sink in a temporary directory."""
    report = Report("initial-matches", SEED, COLUMNS)
    count, sizes = (50_000, ((1, 5), (200, 1))) if quick else (1_000_000, SIZES)
    with TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        with tg.Registry(folder / "registry.db") as registry, _Run(folder, registry, count) as run:
            say(f"{count:,} publications that are valid")
            taken = run.commit()
            report.add(what="taken into the set", valid=count, ms=1e3 * taken, exact=True)
            for kind, where in _CONDITIONS.items():
                for size, times in sizes:
                    say(f"{kind}, {size:,} at once")
                    _measured(report, run, kind, where, size, times)
            say("unpublishing")
            _unpublished(report, run, 3 if quick else 20)
            run.close()
            opened, sink = timed(run.opened)
            report.add(what="opened again", valid=count, ms=1e3 * opened, exact=True)
            sink.close()
    report.finish()


#: Texts of conditions, for a generator, and which publications they match, by the columns of these.
_CONDITIONS = {
    "numbers": lambda r: _between(r, ("n", "m"), 0.01),
    "a text and a number": lambda r: _text_and(r, 0.1),
}


def _between(r: np.random.Generator, names: Sequence[str], width: float) -> tuple[str, Any]:
    lows = (r.random(len(names)) * (1 - width)).round(6)
    parts = [f"{name} BETWEEN {low} AND {low + width}" for name, low in zip(names, lows.tolist(), strict=True)]

    def holds(columns: dict[str, Any]) -> Any:
        held = [(columns[n] >= low) & (columns[n] <= low + width) for n, low in zip(names, lows.tolist(), strict=True)]
        return np.logical_and.reduce(held)

    return " AND ".join(parts), holds


def _text_and(r: np.random.Generator, width: float) -> tuple[str, Any]:
    where, holds = _between(r, ("n",), width)
    kind = int(r.integers(1000))
    return f"kind = 'k{kind}' AND {where}", lambda columns: (columns["kind"] == kind) & holds(columns)


class _Run:
    """The sink of a run, committing cuts at the end of the log."""

    def __init__(self, folder: Path, registry: tg.Registry, count: int) -> None:
        self.folder, self.registry, self.batch, self.cpu = folder, registry, -1, list[float]()
        rng = np.random.default_rng(SEED)
        self.random = rng
        self.columns = {"n": rng.random(count), "m": rng.random(count), "kind": rng.integers(0, 1000, count)}
        self.log = tg.Log(folder / "log", version=lambda: registry.version)
        until = pa.scalar(time_ns() // 1000 + 10 * 86_400 * 10**6, pa.timestamp("us", "UTC"))
        for begin in range(0, count, _ROWS):
            self.log.append(self._table(begin, min(count, begin + _ROWS), until))
        self.sink = self.opened()

    def _table(self, begin: int, end: int, until: pa.Scalar) -> pa.Table:
        some = slice(begin, end)
        times = pa.array(np.arange(begin, end) + time_ns() // 1000, pa.timestamp("us", "UTC"))
        kinds = [f"k{kind}" for kind in self.columns["kind"][some].tolist()]
        return pa.table({
            "id": [f"p{i}" for i in range(begin, end)],
            "source": [f"station-{i % 500}" for i in range(begin, end)],
            "time": times,
            "valid_until": pa.repeat(until, end - begin),
            "n": self.columns["n"][some],
            "m": self.columns["m"][some],
            "kind": kinds,
        })  # fmt: skip

    def opened(self) -> QueueSink:
        sink = QueueSink(self.folder / "queues", self.registry, most=1 << 30, log=self.folder / "log")
        sink.begin("bench")
        return sink

    def commit(self) -> float:
        """Commit a cut at the end of the log; how many seconds that took."""
        self.batch += 1
        cut = Cut(self.log.end, self.registry.version, time_ns() // 1000)
        began, worked = perf_counter(), process_time()
        self.sink.commit(self.batch, Receipts((), cut))
        self.cpu.append(process_time() - worked)
        return perf_counter() - began

    def subscribe(self, kind: Any, size: int) -> tuple[str, int]:
        """New subscriptions of a new principal; its name, and how many matches these have together, in plain numpy."""
        principal, matches, made = f"principal-{self.batch}", 0, []
        for number in range(size):
            where, holds = kind(self.random)
            made.append(tg.Subscription(f"s{number}", principal, where, initial=True))
            if number < 200:
                matches += int(np.count_nonzero(holds(self.columns)))
        self.registry.subscribe(made)
        return principal, matches

    def close(self) -> None:
        self.sink.close()

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()


def _measured(report: Report, run: _Run, kind: str, where: Any, size: int, times: int) -> None:
    seconds, exact, told = [], True, 0
    for _ in range(times + (size == 1)):
        principal, expected = run.subscribe(where, size)
        seconds.append(run.commit())
        with QueueReader(run.folder / "queues", most=1 << 30) as reader:
            queue = reader.queue(principal)
            deliveries = reader.read(queue, 0, 1 << 30).deliveries
        matches = sum(
            int(one.meanings[i][3:].split(b'"')[0]) < 200 for one in deliveries for i in range(len(one.meanings))
        )
        exact &= matches == expected and all(one.kind == DeliveryKind.INITIAL for one in deliveries)
        told = sum(len(one.meanings) for one in deliveries)
    if size == 1:
        seconds = seconds[1:]  # the first compiles nothing, but reads what was written just before
    wanted = {1: "≤ 50 ms", 10_000: "≤ 20 s"}.get(size)
    facts = {
        "ms": 1e3 * median(seconds),
        "worst": 1e3 * max(seconds),
        "wanted": wanted,
        "cpu": 1e3 * median(run.cpu[-len(seconds) :]),
    }
    report.add(what=kind, valid=len(run.columns["n"]), subscriptions=size, matches=told, **facts,
               exact=exact, seconds={"each": seconds})  # fmt: skip


def _unpublished(report: Report, run: _Run, times: int) -> None:
    """One publication at a time that some queue has is unpublished."""
    with QueueReader(run.folder / "queues", most=1 << 30) as reader:
        deliveries = sum(reader.last(queue) for queue in reader)
        rows = sorted({one.row for queue in reader for one in reader.read(queue, 0, 1 << 30).deliveries})
    seconds, retracted = [], 0
    for row in rows[:: max(1, len(rows) // times)][:times]:
        run.log.withdraw([Tombstone(f"station-{row % 500}", f"p{row}", [row])])
        seconds.append(run.commit())
    with QueueReader(run.folder / "queues", most=1 << 30) as reader:
        retracted = sum(reader.last(queue) for queue in reader) - deliveries
    report.add(what=f"unpublished, {deliveries:,} deliveries in queues", valid=len(run.columns["n"]),
               matches=retracted, ms=1e3 * median(seconds), worst=1e3 * max(seconds),
               cpu=1e3 * median(run.cpu[-times:]),
               exact=retracted >= times, seconds={"each": seconds})  # fmt: skip
