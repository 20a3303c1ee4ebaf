"""Patterns through Spark, from the log to grouped Parquet: the share of the in-process rate, the same notifications.

The publications and subscriptions of *topk* and *together*. The pipeline must tell exactly what one engine in process
tells; both are read batch by batch into a count and a sum over all that was told, for there may be a hundred million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import ceil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tidegate as tg
from bench.clocked_flow import ClockedFlow, batch_seconds, temporary_folder, where_time_goes
from bench.harness import Report, median, say, timed
from bench.notification_arrays import Told
from bench.together import Correlation
from bench.topk import Case, Ranking
from tidegate.pipeline.session import session
from tidegate.runs.parquet_sink import Parquet
from tidegate.runs.sources import LogSource

SEED = 2026
#: Subscriptions of topk, and publications of their windows. More subscriptions with the small one only tell more.
CASES = ((1_000, 1_000), (1_000, 100_000), (10_000, 100_000))
#: Publications of a batch, and how many batches.
BATCHES = ((50_000, 7), (200_000, 4))
#: SensorScope has fewer; the first batch is not measured.
FEWER = ((50_000, 7), (200_000, 3))
#: Rows of a frame of the log, and of a call of publish: publications that appear together.
FRAME = 25_000

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "window": "window",
    "batch": "publications/batch",
    "rate": "publications/s",
    "process": "in process/s",
    "share": "of in process",
    "per_publication": "notifications/pub",
    "breakdown": "where the time goes",
}


def main(quick: bool = False) -> None:
    """Everything on one session of this machine."""
    report = Report("patterns-on-spark", SEED, COLUMNS)
    spark = session(memory="4g")
    try:
        for n, window in CASES[:1] if quick else CASES:
            for batch, batches in ((10_000, 4),) if quick else BATCHES:
                topk(report, spark, n, window, batch, batches)
        for batch, batches in ((10_000, 4),) if quick else FEWER:
            together(report, spark, 1_000 if quick else 10_000, batch, batches)
    finally:
        spark.stop()
        report.finish()


def topk(report: Report, spark: SparkSession, n: int, window: int, batch: int, batches: int) -> None:
    """The nearest 10 of a window of time; batches before the window is full are not measured."""
    ranking = Ranking.drawn(Case(n, window), batch * batches)
    what, skip = f"topk, {window:,}", max(0, ceil(window / batch) - 1)
    _rate(report, spark, what, ranking.subscriptions(), ranking.table, batch, batches, skip, window)


def together(report: Report, spark: SparkSession, n: int, batch: int, batches: int) -> None:
    """SensorScope's readings within five minutes."""
    work = Correlation.drawn(n)

    def table(begin: int, end: int) -> pa.Table:
        return work.table.slice(begin, end - begin)

    _rate(report, spark, "together", work.subscriptions(), table, batch, batches, 0, None)


def _rate(
    report: Report,
    spark: SparkSession,
    what: str,
    subscriptions: list[tg.Subscription],
    table: Callable[[int, int], pa.Table],
    batch: int,
    batches: int,
    skip: int,
    window: int | None,
) -> None:
    n = len(subscriptions)
    say(f"{what}: {n:,} subscriptions, batches of {batch:,}")
    frames = [
        [table(begin, min(begin + FRAME, end)) for begin in range(end - batch, end, FRAME)]
        for end in range(batch, batch * (batches + 1), batch)
    ]
    say("  in process")
    process_seconds, expected = _in_process(subscriptions, frames)
    say("  the pipeline")
    with temporary_folder() as folder, tg.Registry(folder / "registry.db") as registry:
        for begin in range(0, n, 50_000):
            registry.subscribe(*subscriptions[begin : begin + 50_000])
        with tg.Log(folder / "log", version=lambda: registry.version) as log:
            for pieces in frames:
                for piece in pieces:
                    log.append(piece)
        flow = ClockedFlow(
            spark,
            LogSource(folder / "log", rows=batch),
            registry,
            [Parquet(folder / "out")],
            checkpoint=folder / "checkpoint",
            lateness=0,
        )
        flow.start(available_now=True)
        flow.wait()
        flow.close()
        found = _digest(pq.read_table(path) for path in sorted(Path(folder / "out").glob("batch=*")))
        whole = flow.status.publications == batch * batches and len(flow.ends) == batches
    seconds = batch_seconds(flow)[skip:]
    rate, process = batch / median(seconds), batch / median(process_seconds[1 + skip :])
    report.add(
        what=what,
        subscriptions=n,
        window=window,
        batch=batch,
        rate=rate,
        process=process,
        share=rate / process,
        per_publication=expected[0] / (batch * batches),
        breakdown=where_time_goes(flow),
        exact=whole and found == expected,
        seconds={"batches": seconds, "in process": process_seconds[1 + skip :]},
    )


def _in_process(
    subscriptions: list[tg.Subscription], batches: list[list[pa.Table]]
) -> tuple[list[float], tuple[int, int]]:
    """Seconds of each batch through one engine, grouped; and what was told."""
    seconds, count, sum = [], 0, 0
    with tg.Engine(subscriptions) as engine:
        for frames in batches:
            tables, spent = [], 0.0
            for frame in frames:
                once, found = timed(partial(engine.publish, frame, grouped=True))
                spent += once
                tables.append(found)
            seconds.append(spent)
            more, mixed = _digest(tables)
            count, sum = count + more, sum + mixed
    return seconds, (count, sum % 2**64)


def _digest(tables: Iterable[pa.Table]) -> tuple[int, int]:
    digests = [Told.of(table).digest() for table in tables]
    return sum(count for count, _ in digests), sum(mixed for _, mixed in digests) % 2**64
