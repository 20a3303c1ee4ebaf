"""Publications through Spark, end to end: rates, latency, where the time goes; beside the bare kernel and Spark SQL."""

from __future__ import annotations

import multiprocessing
import os
from time import perf_counter, sleep, time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate as tg
from bench.boolean_intervals import ATTRIBUTES, PREDICATES
from bench.clocked_flow import ClockedFlow, batch_seconds, drain, temporary_folder, where_time_goes
from bench.harness import Report, median, say, timed
from bench.workload import Workload, table
from tidegate.index import ArrowBatch
from tidegate.pipeline.session import session
from tidegate.runs.parquet_sink import Parquet
from tidegate.runs.sinks import Callback
from tidegate.runs.sources import LogSource
from tidegate.store.index_layers import IndexLayers

SEED = 2026
#: (subscriptions, width of their intervals, publications of a batch, batches)
RATES = (
    (1_000, "few", 50_000, 6),
    (10_000, "few", 50_000, 6),
    (100_000, "few", 10_000, 6),
    (100_000, "few", 50_000, 6),
    (100_000, "few", 200_000, 4),
    (10_000, "many", 10_000, 4),
    (100_000, "many", 2_000, 4),
    (1_000_000, "few", 50_000, 4),
)
#: How wide the ten intervals of a subscription are: of 100,000, 0.6 match a publication, or 1,350.
WIDTHS = {"few": 0.3, "many": 0.65}

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "mix": "matches",
    "batch": "publications/batch",
    "rate": "publications/s",
    "kernel": "bare kernel, 2 cores",
    "share": "of kernel",
    "join": "broadcast join/s",
    "ratio": "÷ join",
    "columns": "filter columns/s",
    "per_publication": "notifications/pub",
    "p50": "p50 ms",
    "p95": "p95 ms",
    "p99": "p99 ms",
    "breakdown": "where the time goes",
}


def main(quick: bool = False) -> None:
    """Everything on one session of this machine."""
    report = Report("pipeline", SEED, COLUMNS)
    spark = session(memory="4g")  # the joins want room; the pipeline does not
    try:
        _plumbing(report, spark, 2_000_000 if quick else 20_000_000)
        for interval in (0.01,) if quick else (0.01, 0.001):
            _latency(report, spark, 10_000, interval, 5 if quick else 20)
        for n, mix, batch, batches in RATES[:2] if quick else RATES:  # the one that takes minutes to load is the last
            _rate(report, spark, n, mix, batch, batches)
    finally:
        spark.stop()
        report.finish()


def _drawn(n: int, width: float, publications: int, seed: int = SEED) -> Workload:
    return Workload.of_intervals(n, width, publications, ATTRIBUTES, PREDICATES, seed)


# --- rates ----------------------------------------------------------------------------------------------------------


def _plumbing(report: Report, spark: SparkSession, publications: int) -> None:
    """A pipeline whose subscriptions are trivial: what everything but matching takes."""
    say(f"plumbing: {publications:,} publications, one subscription that never matches")
    with temporary_folder() as folder, tg.Registry(folder / "registry.db") as registry:
        registry.subscribe(tg.Subscription("never", "bench", "a0 > 2"))
        piece = table(np.random.default_rng(SEED).random((100_000, 1)))
        with tg.Log(folder / "log", version=lambda: registry.version) as log:
            for _ in range(publications // 100_000):
                log.append(piece)
        flow = drain(spark, folder, registry, 4_000_000, [Parquet(folder / "out")])
        seconds = batch_seconds(flow) or [flow.ends[0]]
        report.add(
            what="plumbing",
            subscriptions=1,
            mix="none",
            batch=4_000_000,
            rate=4_000_000 / median(seconds),
            breakdown=where_time_goes(flow),
            per_publication=0.0,
            exact=flow.status.publications == publications and flow.status.notifications == 0,
            seconds={"batches": seconds},
        )


def _rate(report: Report, spark: SparkSession, n: int, mix: str, batch: int, batches: int) -> None:
    say(f"{n:,} subscriptions, {mix} matches, batches of {batch:,}")
    work = _drawn(n, WIDTHS[mix], batch)
    publications = table(work.values)
    with temporary_folder() as folder, tg.Registry(folder / "registry.db") as registry:
        for begin in range(0, n, 50_000):
            registry.subscribe(*work.subscriptions(begin, min(n, begin + 50_000)))
        version = registry.version
        registry.prepare(version, version)
        say("  the bare kernel")
        kernel, expected = _bare(registry, publications, version)
        say("  the pipeline")
        with tg.Log(folder / "log", version=lambda: registry.version) as log:
            for _ in range(batches):
                for start in range(0, batch, 25_000):
                    log.append(publications.slice(start, 25_000))
        flow = drain(spark, folder, registry, batch, [Parquet(folder / "out")])
        seconds = batch_seconds(flow)
        found = pq.read_table(folder / "out")
        exact = _pairs(found.filter(pa.compute.equal(found.column("batch"), 0))) == expected
        join = columns = None
        if n <= 10_000 and mix == "few":
            say("  the broadcast join")
            join = _joined(spark, work, publications, 2_000 if n <= 1_000 else 500, expected)
            if n <= 1_000:
                say("  one filter column per subscription")
                columns = _columns(spark, work, publications, 2_000)
    rate = batch / median(seconds)
    report.add(
        what="log → grouped Parquet",
        subscriptions=n,
        mix=mix,
        batch=batch,
        rate=rate,
        kernel=kernel,
        share=rate / kernel,
        join=join,
        ratio=rate / join if join else None,
        columns=columns,
        per_publication=len(expected) / batch,
        breakdown=where_time_goes(flow),
        exact=exact,
        seconds={"batches": seconds},
    )


def _pairs(grouped: pa.Table) -> set[tuple[str, str]]:
    rows = zip(
        grouped.column("publication_id").to_pylist(), grouped.column("subscription_ids").to_pylist(), strict=True
    )
    return {(publication, id) for publication, ids in rows for id in ids}


def _bare(registry: tg.Registry, publications: pa.Table, version: int) -> tuple[float, set[tuple[str, str]]]:
    """The index alone on as many cores as the pipeline has: half of the publications in each of two processes."""
    view = IndexLayers(registry.index_storage).view(version, version)
    found = view.match(ArrowBatch.trusted(publications), version)
    ids = view.catalogue.texts("id", found.owners).to_pylist()
    names = publications.column("id").to_pylist()
    rows = np.repeat(np.arange(len(names)), np.diff(found.start))
    expected = {(names[row], id) for row, id in zip(rows.tolist(), ids, strict=True)}
    half = len(publications) // 2
    parts = [publications.slice(0, half), publications.slice(half)]
    barrier = multiprocessing.get_context("fork").Barrier(3)
    processes = [
        multiprocessing.get_context("fork").Process(target=_match_often, args=(view, part, version, barrier))
        for part in parts
    ]
    for process in processes:
        process.start()
    seconds = []
    for _ in range(_ROUNDS):
        barrier.wait()
        begin = perf_counter()
        barrier.wait()
        seconds.append(perf_counter() - begin)
    for process in processes:
        process.join()
    return len(publications) / median(seconds[1:]), expected


_ROUNDS = 5


def _match_often(view: Any, part: pa.Table, version: int, barrier: Any) -> None:
    for _ in range(_ROUNDS):
        barrier.wait()
        for start in range(0, len(part), 65_536):
            view.match(ArrowBatch.trusted(part.slice(start, 65_536)), version)
        barrier.wait()
    os._exit(0)


# --- what a Spark user would write ----------------------------------------------------------------------------------


def _bounds(work: Workload, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every subscription as an interval on every attribute; all of the line where it asks nothing."""
    low, high = np.full((n, ATTRIBUTES), -np.inf), np.full((n, ATTRIBUTES), np.inf)
    np.put_along_axis(low, work.column[:n].astype(np.int64), work.low[:n], 1)
    np.put_along_axis(high, work.column[:n].astype(np.int64), np.nextafter(work.high[:n], -np.inf), 1)
    return low, high


def _joined(
    spark: SparkSession, work: Workload, publications: pa.Table, count: int, expected: set[tuple[str, str]]
) -> float:
    """Publications/s of a broadcast join on range conditions; fewer publications, for it is slow."""
    n = len(work.column)
    low, high = _bounds(work, n)
    columns = {f"low{i}": low[:, i] for i in range(ATTRIBUTES)} | {f"high{i}": high[:, i] for i in range(ATTRIBUTES)}
    subscriptions = spark.createDataFrame(
        pa.table({"subscription": [f"bench/s{i}" for i in range(n)], **columns})
    ).cache()
    some = spark.createDataFrame(publications.slice(0, count)).repartition(2).cache()
    some.count(), subscriptions.count()
    condition = F.lit(True)
    for i in range(ATTRIBUTES):
        condition &= (F.col(f"a{i}") >= F.col(f"low{i}")) & (F.col(f"a{i}") <= F.col(f"high{i}"))
    joined = some.join(F.broadcast(subscriptions), condition).select("id", "subscription")
    rows: list[Any] = joined.collect()
    ids = set(publications.slice(0, count).column("id").to_pylist())
    if {(row[0], row[1]) for row in rows} != {pair for pair in expected if pair[0] in ids}:
        raise SystemExit("bench pipeline: the broadcast join found something else")
    seconds = median([timed(lambda: _written(joined))[0] for _ in range(3)])
    some.unpersist(), subscriptions.unpersist()
    return count / seconds


def _columns(spark: SparkSession, work: Workload, publications: pa.Table, count: int) -> float:
    """Publications/s with one Boolean column per subscription."""
    highs = np.nextafter(work.high, -np.inf)
    some = spark.createDataFrame(publications.slice(0, count)).repartition(2).cache()
    some.count()
    rows = zip(work.column.tolist(), work.low.tolist(), highs.tolist(), strict=True)
    tests = [F.expr(_sql(*row)).alias(f"s{i}") for i, row in enumerate(rows)]
    frame = some.select("id", *tests)
    seconds = timed(lambda: _written(frame))[0]  # once: it takes minutes, most of them to compile the plan
    some.unpersist()
    return count / seconds


def _sql(columns: list[int], lows: list[float], highs: list[float]) -> str:
    ranges = zip(columns, lows, highs, strict=True)
    return " AND ".join(f"a{c} BETWEEN {low!r}D AND {high!r}D" for c, low, high in ranges)


def _written(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


# --- latency --------------------------------------------------------------------------------------------------------


#: Batches after which Java has compiled what it will.
_WARM = 200


def _latency(report: Report, spark: SparkSession, n: int, interval: float, seconds: float) -> None:
    """1,000 publications/s, appended every ``interval`` seconds; from the call of append to the callback."""
    size = max(1, round(1000 * interval))
    say(f"latency: {n:,} subscriptions, 1,000 publications/s in appends of {size}")
    work = _drawn(n, WIDTHS["few"], 1)
    sent: dict[str, float] = {}
    seen: dict[str, float] = {}

    def told(batch: int, found: pa.Table) -> None:
        now = time()
        for ids in found.column("publication_ids").to_pylist():
            seen.setdefault(ids[0], now)

    with temporary_folder() as folder, tg.Registry(folder / "registry.db") as registry:
        registry.subscribe(*work.subscriptions(0, n), tg.Subscription("all", "bench", "marked = 1"))
        log = tg.Log(folder / "log", version=lambda: registry.version)
        flow = ClockedFlow(
            spark, LogSource(folder / "log"), registry, [Callback(told)], checkpoint=folder / "checkpoint"
        )
        flow.start()
        rng, number = np.random.default_rng(SEED), 0
        begin, measured = perf_counter(), None
        while measured is None or perf_counter() - measured < seconds:
            if measured is None and flow.status.batches >= _WARM:
                measured = perf_counter()
                say(f"  warm after {measured - begin:.0f} s")
            publications = table(rng.random((size, ATTRIBUTES)))
            ids = [f"p{number + i}" for i in range(size)]
            publications = publications.set_column(0, "id", pa.array(ids))
            publications = publications.append_column("marked", pa.array([1.0] + [0.0] * (size - 1)))
            if measured is not None:
                sent[ids[0]] = time()
            log.append(publications)
            number += size
            sleep(max(0.0, number / 1000 - (perf_counter() - begin)))
        while len([id for id in sent if id in seen]) < len(sent):
            sleep(0.1)
        where = where_time_goes(flow)
        flow.stop()
        log.close()
    ms = np.array([1000 * (seen[id] - at) for id, at in sent.items()])
    p50, p95, p99 = (float(np.percentile(ms, q)) for q in (50, 95, 99))
    report.add(
        what=f"append → callback, appends of {size}",
        subscriptions=n,
        mix="few",
        rate=number / (perf_counter() - begin),
        p50=p50,
        p95=p95,
        p99=p99,
        breakdown=where,
        exact=len(seen) >= len(sent),
        seconds={"latency": [float(x) / 1000 for x in ms]},
    )
