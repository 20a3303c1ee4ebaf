"""Rehearsals: which notifications subscriptions would have sent over a history.

``tidegate rehearse`` calls ``history``, which reads Parquet of any size with Spark, and ``rehearsed``, which matches it
with ``tg.match``. Notifications are written to Parquet if that is wanted, and counted by subscription and day or hour
on the workers, so that only counts reach the driver.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import PublicationError, TidegateError
from tidegate.model import Subscription
from tidegate.pipeline.match import match
from tidegate.pipeline.parquet_times import NANOS_AS_LONG, with_instants
from tidegate.pipeline.spark_failure import failure

__all__ = ["Extent", "Outcome", "extent", "history", "rehearsed", "watched"]

#: How much Parquet one task reads: small enough to show progress, large enough to be worth a task.
_PIECE = "32m"
_TALLY = pa.schema(
    [
        ("subscription", pa.string()),
        ("begin", pa.timestamp("us", "UTC")),
        ("count", pa.int64()),
        ("first", pa.string()),
    ]
)
_SPARK = "subscription string, begin timestamp, count bigint, first string"


@dataclass(frozen=True)
class Extent:
    """How many rows a history has, and from when to when."""

    rows: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True)
class Outcome:
    """Notifications by subscription and by the begin of their day or hour, the first few of them, and what was no
    publication.
    """

    counts: Counter[tuple[str, datetime]]
    firsts: list[dict[str, Any]]
    left_out: int
    reason: str


# --- the history ----------------------------------------------------------------------------------------------------


def history(
    spark: SparkSession, paths: Sequence[str], begin: datetime | None = None, end: datetime | None = None
) -> DataFrame:
    """Parquet as publications, from ``begin`` on and before ``end``; columns x.lon and x.lat are a point x."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", _PIECE)
    try:
        spark.conf.set(NANOS_AS_LONG, "true")
        found = with_instants(spark.read.option("mergeSchema", "true").parquet(*paths))
    except Exception as error:  # Spark and Java raise many kinds
        raise PublicationError("Parquet whose columns agree", failure(error).got, ", ".join(paths)) from None
    names = found.columns
    for name in [name.removesuffix(".lon") for name in names if name.endswith(".lon")]:
        if f"{name}.lat" in names and name not in names:
            lon, lat = (F.col(f"`{name}.{part}`") for part in ("lon", "lat"))
            point = F.when(lon.isNotNull(), F.struct(lon.alias("lon"), lat.alias("lat")))
            found = found.withColumn(name, point).drop(f"`{name}.lon`", f"`{name}.lat`")
    if "time" in names:
        found = found if begin is None else found.where(F.col("time") >= begin)
        found = found if end is None else found.where(F.col("time") < end)
    return found


def extent(found: DataFrame) -> Extent:
    """How many rows there are, and from when to when. Spark reads only one column of the Parquet for this."""
    if "time" not in found.columns:
        raise PublicationError("a column time", f"columns {', '.join(found.columns)}")
    with _told():
        row = found.agg(F.count(F.lit(1)).alias("n"), F.min("time").alias("a"), F.max("time").alias("b")).toArrow()
    n, first, last = (column[0].as_py() for column in row.columns)
    return Extent(n, first, last)


# --- matching -------------------------------------------------------------------------------------------------------


def rehearsed(
    publications: DataFrame,
    subscriptions: Sequence[Subscription],
    every: timedelta,
    storage: str,
    out: str | None = None,
    firsts: int = 5,
) -> Outcome:
    """What they would have sent; written to ``out``, which must not exist, if that is given.

    ``storage`` is a directory for the index and for rows that are no publications.
    """
    kept = f"{storage}/quarantine"
    with _told():
        found = match(publications, subscriptions, storage=storage, quarantine=kept)
        if out is not None:
            found.write.parquet(out)
            found = publications.sparkSession.read.parquet(out)
        rows = found.mapInArrow(_CountPerPeriod(every, firsts), _SPARK).toArrow().to_pylist()
    counts: Counter[tuple[str, datetime]] = Counter()
    for row in rows:
        if row["first"] is None:
            counts[row["subscription"], row["begin"]] += row["count"]
    told = nsmallest(firsts, (orjson.loads(row["first"]) for row in rows if row["first"] is not None), key=_order)
    left_out, reason = _left_out(Path(kept))
    return Outcome(counts, told, left_out, reason)


def _left_out(quarantine: Path) -> tuple[int, str]:
    """How many rows are in a quarantine, and why the first is."""
    count, reason = 0, ""
    for file in sorted(quarantine.glob("*.jsonl")) if quarantine.is_dir() else ():
        with file.open("rb") as lines:
            for line in lines:
                reason = reason or orjson.loads(line)["reason"]
                count += 1
    return count, reason


def _order(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["time"], row["subscription_id"], row["notification_id"]


@dataclass(frozen=True)
class _CountPerPeriod:
    """Counts notifications by subscription and time, and keeps the first few, in a worker."""

    every: timedelta
    firsts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = self.every // timedelta(microseconds=1)
        counts: Counter[tuple[str, int]] = Counter()
        first: list[dict[str, Any]] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            table = pa.Table.from_batches([batch])
            micros = table.column("time").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            number = pc.floor(pc.divide(micros.cast(pa.float64()), float(step))).cast(pa.int64())
            grouped = pa.table({"s": table.column("subscription_id"), "b": number}).group_by(["s", "b"])
            for row in grouped.aggregate([([], "count_all")]).to_pylist():
                counts[row["s"], row["b"] * step] += row["count_all"]
            earliest = table.sort_by([(name, "ascending") for name in ("time", "subscription_id", "notification_id")])
            some = [_plain(row) for row in earliest.slice(0, self.firsts).to_pylist()]
            first = nsmallest(self.firsts, [*first, *some], key=_order)
        rows: list[tuple[Any, ...]] = [(s, begin, count, None) for (s, begin), count in counts.items()]
        rows += [(None, None, None, orjson.dumps(row).decode()) for row in first]
        columns = list(zip(*rows, strict=True)) or [()] * len(_TALLY)
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _TALLY, strict=True)], schema=_TALLY)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"time": row["time"].astimezone(UTC).isoformat(timespec="microseconds")}


# --- while it runs --------------------------------------------------------------------------------------------------


@contextmanager
def watched(spark: SparkSession, show: Callable[[int, int], None], seconds: float = 0.3) -> Iterator[None]:
    """Call ``show`` now and then with how many tasks are done, of how many, in the stages that run."""
    tracker, over = spark.sparkContext.statusTracker(), threading.Event()

    def look() -> None:
        while not over.wait(seconds):
            try:
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            except (Py4JError, OSError):  # Java is gone; the thread that waits for the work will raise an error
                return
            there = [stage for stage in stages if stage is not None]
            if there:
                show(sum(stage.numCompletedTasks for stage in there), sum(stage.numTasks for stage in there))

    thread = threading.Thread(target=look, name="tidegate-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _told() -> Iterator[None]:
    """Turn what Spark raises into a ``TidegateError`` of one sentence."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        raise failure(error) from None
