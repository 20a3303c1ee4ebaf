"""One publication per call, as a broker gets them: subscriptions, matches, patterns, a history, threads, newcomers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import numpy as np

import tidegate as tg
from bench.boolean_intervals import workload
from bench.harness import Report, median, one_core, rounds, say, timed
from bench.papers.temporal_kbn.stopwatch import Stopwatch
from bench.scan import scan
from bench.workload import Workload, table
from tidegate.index import ArrowBatch

SEED = 2026
SIZES = (1_000, 10_000, 100_000, 1_048_576)
#: Publications that are timed one by one, and those before them that warm up.
TIMED, WARM = 2_000, 200
#: Subscriptions with a pattern, and with the idle ones beside them.
PATTERNS = (1_000, 20_000)
STATIONS = 1_000
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "notified": "notifications/pub",
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
    "cpu_us": "CPU µs",
    "commit_us": "of that commit µs",
    "batch_us": "in batches µs/pub",
    "scan_us": "scan µs",
    "ratio": "scan ÷ p50",
    "threads": "2 threads ÷ 1",
}


def main(quick: bool = False) -> None:
    """All rows; on one core but for the threads."""
    report = Report("one-at-a-time", SEED, COLUMNS)
    with _on_one_core():
        for n in SIZES[: 2 if quick else None]:
            intervals(report, n)
        for matches in (0, 1, 100, 1_000):
            matched(report, 10_000, matches)
        everything(report, 10_000)
        newcomers(report, 10_000 if quick else 100_000)
        for family in (*PATTERN, "all families"):
            for n in PATTERNS[: 1 if quick else None]:
                patterns(report, family, n)
        with_history(report)
    for n in (SIZES[0], SIZES[1 if quick else -1]):
        in_threads(report, n)
    report.finish()


@contextmanager
def _on_one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    one_core()
    try:
        yield
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)


# --- measuring ------------------------------------------------------------------------------------------------------


def one_by_one(calls: Iterable[Callable[[], Any]]) -> tuple[dict[str, Any], list[Any]]:
    """Percentiles of the time of calls and the median of their CPU time; what they returned. The first ones warm up.

    A call is drawn right before it is timed, so that a publication that is made then was made a moment ago, as it is
    where publications come in one by one.
    """
    wall, cpu, found = [], [], []
    for call in calls:
        busy, begin = thread_time(), perf_counter()
        found.append(call())
        end, done = perf_counter(), thread_time()
        wall.append(end - begin)
        cpu.append(done - busy)
    warm = min(WARM, len(wall) // 10)
    p50, p99 = np.percentile(wall[warm:], (50, 99)) * 1e6
    return {"p50_us": float(p50), "p99_us": float(p99), "cpu_us": median(cpu[warm:]) * 1e6}, found


def objects(values: np.ndarray[Any, Any], begin: int = 0) -> Iterator[tg.Publication]:
    """A publication per row, a second apart; values as attributes a0, a1 …"""
    for i, row in enumerate(values, begin):
        attributes = {f"a{c}": float(v) for c, v in enumerate(row)}
        yield tg.Publication(f"p{i}", "bench", _BEGIN + timedelta(seconds=i), attributes)


def pairs(found: Iterable[list[tg.Notification]]) -> list[tuple[str, str]]:
    """Publication and subscription of all notifications, sorted."""
    return sorted((n.publications[0], n.subscription) for notifications in found for n in notifications)


# --- subscriptions without patterns -----------------------------------------------------------------------------------


def intervals(report: Report, n: int) -> None:
    """Ten intervals on twenty attributes: as objects and as tables of one row, beside a scan and beside batches."""
    say(f"intervals, {n:,} subscriptions")
    work = workload(n, np.random.default_rng(SEED))
    engine = tg.Engine(work.subscriptions())
    values = work.values[:TIMED]
    figures, found = one_by_one(partial(engine.publish, [one]) for one in objects(values))
    scans = min(TIMED, max(100, 50_000_000 // n))
    scanned, wanted = _scanned_singly(work, scans)
    told = pairs(found[:scans])
    batch = ArrowBatch(table(work.values))
    batch_us = median(rounds(lambda: engine._index.match(batch), 5)) / batch.length * 1e6
    common: dict[str, Any] = {
        "subscriptions": n,
        "notified": len(told) / scans,
        "batch_us": batch_us,
        "scan_us": scanned,
    }
    report.add(exact=told == wanted, what="object", **common, **figures, ratio=scanned / figures["p50_us"])
    one_row = table(values)
    figures, tables = one_by_one(partial(engine.publish, one_row.slice(i, 1)) for i in range(len(values)))
    columns = [(t.column("publication_ids").to_pylist(), t.column("subscription_id").to_pylist()) for t in tables]
    told = sorted((p[0], s) for ids, subscriptions in columns[:scans] for p, s in zip(ids, subscriptions, strict=True))
    report.add(exact=told == wanted, what="table of one row", **common, **figures, ratio=scanned / figures["p50_us"])


def _scanned_singly(work: Workload, publications: int) -> tuple[float, list[tuple[str, str]]]:
    """The median of scanning for one publication at a time, in microseconds, and what is found."""
    column = np.ascontiguousarray(work.column.T)
    bounds = np.ascontiguousarray(np.stack([work.low.T, work.high.T], axis=2))
    start, ids = np.empty(2, np.int64), np.empty(len(work.column), np.int32)
    took: list[float] = []
    found: list[tuple[str, str]] = []
    for i in range(publications):
        took.append(timed(partial(scan, work.values[i : i + 1], column, bounds, start, ids))[0])
        found += [(f"p{i}", f"s{s}") for s in ids[: start[1]].tolist()]
    return median(took) * 1e6, sorted(found)


def matched(report: Report, n: int, matches: int) -> None:
    """So many matches, as objects: the other subscriptions ask for an interval far away."""
    say(f"{matches:,} matches")
    wheres = ["a0 >= 0"] * matches + [f"a{i % 20} > {2 + i}" for i in range(n - matches)]
    engine = tg.Engine(tg.Subscription(f"s{i}", "bench", where) for i, where in enumerate(wheres))
    publications = list(objects(np.random.default_rng(SEED).random((TIMED, 20))))
    figures, found = one_by_one(partial(engine.publish, [one]) for one in publications)
    wanted = sorted((p.id, f"s{i}") for p in publications for i in range(matches))
    exact = pairs(found) == wanted
    report.add(exact=exact, what=f"object, {matches:,} matches", subscriptions=n, notified=matches, **figures)


def everything(report: Report, n: int) -> None:
    """Every subscription matches: ids as strings and as a dictionary, in batches, beside the bare scan."""
    say("everything matches")
    rng = np.random.default_rng(SEED)
    column = np.argsort(rng.random((n, 20), np.float32), axis=1)[:, :2].astype(np.uint16)
    work = Workload(column, np.zeros((n, 2)), np.full((n, 2), 2.0), rng.random((256, 20)), False)
    engine = tg.Engine(work.subscriptions())
    publications = table(work.values)
    run, (start, _) = work.scanned(len(work.values), n * len(work.values))
    scan_us = median(rounds(run, 9)) / len(work.values) * 1e6
    for what, as_dictionary in (("grouped, everything matches", False), ("the same, as a dictionary", True)):
        publish = partial(engine.publish, publications, grouped=True, as_dictionary=as_dictionary)
        batch_us = median(rounds(publish, 9)) / len(work.values) * 1e6
        told = engine.publish(publications, grouped=True, as_dictionary=as_dictionary).column("subscription_ids")
        exact = sum(map(len, told.to_pylist())) == int(start[-1])
        ratio = scan_us / batch_us
        report.add(exact=exact, what=what, subscriptions=n, notified=n, batch_us=batch_us, scan_us=scan_us, ratio=ratio)


def newcomers(report: Report, n: int) -> None:
    """A subscription and then a publication, again and again; and the first publication after 2,000 subscriptions."""
    say(f"newcomers among {n:,} subscriptions")
    work = workload(n + 6_000, np.random.default_rng(SEED))
    some = list(work.subscriptions())
    publications = list(objects(work.values[:1_000]))
    engine = tg.Engine(some[:n])
    engine.publish(publications[:1])

    def pair(new: tg.Subscription, one: tg.Publication) -> list[tg.Notification]:
        engine.subscribe(new)
        return engine.publish([one])

    figures, found = one_by_one(partial(pair, *each) for each in zip(some[n : n + 1_000], publications, strict=True))
    exact = all(
        {m.subscription for m in told} == {m.subscription for m in tg.Engine(some[: n + i + 1]).publish([one])}
        for i, (told, one) in list(enumerate(zip(found, publications, strict=True)))[:: len(publications) // 2 - 1]
    )
    report.add(exact=exact, what="subscribe, then publish", subscriptions=n, **figures)
    first: list[float] = []
    for begin in (n + 1_000, n + 3_000):
        for new in some[begin : begin + 2_000]:
            engine.subscribe(new)
        seconds, told = timed(partial(engine.publish, publications[:1]))
        first.append(seconds)
        exact &= told == tg.Engine(some[: begin + 2_000]).publish(publications[:1])
    report.add(
        exact=exact, what="first after 2,000 subscribed", subscriptions=n, p50_us=max(first) * 1e6,
        seconds={"first": first},
    )  # fmt: skip


# --- patterns -------------------------------------------------------------------------------------------------------

_SHAPE = ", ".join(str(i * i % 17) for i in range(16))
#: A subscription about one station, by family; none of them is ever fulfilled by what ``readings`` gives.
PATTERN: dict[str, Callable[[int], str]] = {
    "absent": lambda i: f"absent('PT3H', station = 'k{i}')",
    "topk": lambda i: f"station = 'k{i}' AND topk(1, 'PT3H', value)",
    "together": lambda i: f"together('PT10S', station = 'k{i}', station = 'none {i}')",
    "past": lambda i: f"station = 'k{i}' AND T_DURING(start, past(station = 'none {i}'))",
    "shape in a stream": lambda i: f"station = 'k{i}' AND shape(value, ({_SHAPE}), 'stream') <= 0.001",
}


def readings(count: int, stations: int = STATIONS) -> list[tg.Publication]:
    """A reading per second, station after station, each higher than the one before, which is worse for ``topk``."""
    return [
        tg.Publication(
            f"p{i}", f"station {i % stations}", _BEGIN + timedelta(seconds=i),
            {"station": f"k{i % stations}", "value": float(i)},
        )
        for i in range(count)
    ]  # fmt: skip


def patterns(report: Report, family: str, n: int) -> None:
    """Patterns of one family or of all, the first thousand about stations that publish; the others are idle."""
    say(f"{family}, {n:,} patterns")
    wanted = [PATTERN[family]] if family in PATTERN else list(PATTERN.values())
    stations = STATIONS // len(wanted)
    subscriptions = [tg.Subscription(f"s{i}", "bench", wanted[i % len(wanted)](i // len(wanted))) for i in range(n)]
    publications = readings(stations + TIMED, stations)
    with tg.Engine(subscriptions) as engine, tg.Engine(subscriptions) as together:
        for one in publications[:stations]:  # everybody has been heard once
            engine.publish([one])
        together.publish(publications[:stations])
        later = publications[stations:]
        figures, found = one_by_one(partial(engine.publish, [one]) for one in later)
        batch, told = timed(partial(together.publish, later))
        flat = sorted(n for notifications in found for n in notifications)
        report.add(
            exact=flat == sorted(told), what=family, subscriptions=n, notified=len(flat) / TIMED,
            batch_us=batch / len(later) * 1e6, **figures,
        )  # fmt: skip


def with_history(report: Report) -> None:
    """Events that are durable before ``publish`` returns, with the time of the commit apart."""
    say("with a history")
    subscriptions = [tg.Subscription(f"s{i}", "bench", PATTERN["past"](i)) for i in range(STATIONS)]
    subscriptions += [
        tg.Subscription(f"t{i}", "bench", f"station = 'none {i}' AND T_DURING(start, past(station = 'k{i}'))")
        for i in range(STATIONS)
    ]
    with TemporaryDirectory() as directory:
        history = tg.History(Path(directory) / "history.db")
        engine = tg.Engine(subscriptions, history=history)
        publications = readings(TIMED)
        commits: list[float] = []

        def publish(one: tg.Publication) -> list[tg.Notification]:
            found = engine.publish([one])
            commits.append(watch.take()["commit"])
            return found

        with Stopwatch().on(commit=(tg.History, "remember")) as watch:
            figures, found = one_by_one(partial(publish, one) for one in publications)
        remembered = history.last
        engine.close()
        history.close()
    report.add(
        exact=remembered == len(publications) and not any(found), what="past with a history",
        subscriptions=len(subscriptions), notified=0, commit_us=median(commits[WARM:]) * 1e6, **figures,
    )  # fmt: skip


# --- threads --------------------------------------------------------------------------------------------------------


def in_threads(report: Report, n: int) -> None:
    """Publications a second of two threads, divided by those of one; in turn, so that both meet the same machine."""
    say(f"two threads, {n:,} subscriptions")
    work = workload(n, np.random.default_rng(SEED))
    engine = tg.Engine(work.subscriptions())
    halves = [list(objects(work.values[half::2][:1_000], 10_000 * half)) for half in range(2)]
    found: list[list[list[tg.Notification]]] = [[], []]

    def publish(half: int) -> None:
        found[half] = [engine.publish([one]) for one in halves[half]]

    def both() -> None:
        threads = [threading.Thread(target=publish, args=(half,)) for half in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def alone() -> None:
        publish(0)
        publish(1)

    alone()
    wanted = [list(each) for each in found]
    ones, twos = [], []
    for _ in range(7):
        ones.append(timed(alone)[0])
        twos.append(timed(both)[0])
    report.add(
        exact=found == wanted, what="two threads", subscriptions=n, p50_us=median(ones) / 2_000 * 1e6,
        threads=median(ones) / median(twos), seconds={"one": ones, "two": twos},
    )  # fmt: skip
