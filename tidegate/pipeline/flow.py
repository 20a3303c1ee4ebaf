"""``Flow``: the whole pipeline on one screen: a source, select, combine, the sinks, and Spark between them.

    source ──► mapInArrow( select ► worker halves of the sinks ) ──► receipts ──► driver halves of the sinks
      │             one task per piece of a batch                                       │
      └─ offsets: Spark's write-ahead log            batch number: what makes it once ──┘

With patterns a second stage, ``CombineStep``, stands between select and the receipts. Spark decides what a batch
contains, writes that down before it runs it, runs its tasks, retries them, and writes down that it is done.
``Flow._batch`` is called for each batch, on the driver, and sinks recognise by its number one that is run again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, perf_counter, sleep

import orjson
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.errors import SettingError
from tidegate.language.limits import DEFAULT_LIMITS
from tidegate.patterns.combine import KEEP
from tidegate.pipeline.begun_batches import check_offsets, note_batch
from tidegate.pipeline.combine import combined
from tidegate.pipeline.shard_keys import keys
from tidegate.pipeline.spark_failure import failure
from tidegate.pipeline.streams import stream
from tidegate.pipeline.worker_warmup import WorkerWarmup
from tidegate.runs.checkpoint import begun
from tidegate.runs.cut import Cut
from tidegate.runs.maintenance import Maintenance, look_after
from tidegate.runs.quarantine import Quarantine
from tidegate.runs.sinks import COUNTS, Receipts, Sink, WorkerHalf, check_batches, named_by
from tidegate.runs.sources import Source
from tidegate.runs.status import Status
from tidegate.stages.combine import CombineStep
from tidegate.stages.feed import fed_for
from tidegate.stages.live_shard import forget
from tidegate.stages.select import VERSION, Select, Subscriptions
from tidegate.stages.select_task import RECEIPTS, SHARDED, WATERMARK, ReceiptRows, SelectTask
from tidegate.stages.shard_parts import ShardFiles
from tidegate.stages.shard_state import CombineSettings
from tidegate.store.commit_lock import CommitLock
from tidegate.store.directory_lock import DirectoryLock
from tidegate.store.registry import Registry

__all__ = ["Flow"]


_LOG = logging.getLogger("tidegate")

#: Seconds of one wait for Spark; between two of them Python handles signals.
_TURN = 0.2


class _Stopped(Exception):
    """Raised by ``Flow._batch`` if a batch would begin after ``stop`` was called; the next run begins with it."""


#: Seconds of ten thousand years.
_LONGEST = 315_576_000_000


class Flow:
    """A streaming query on Spark that matches the publications of a source with a registry and feeds the sinks."""

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        registry: Registry,
        sinks: Sequence[Sink],
        *,
        checkpoint: str | os.PathLike[str],
        quarantine: str | os.PathLike[str] | None = None,
        interval: float = 0.0,
        lateness: float = 5.0,
        ahead: float | None = None,
        patterns: bool = True,
        clock: float = 0.0,
        combinations: int = DEFAULT_LIMITS.combinations,
        keep: float | None = None,
    ) -> None:
        if clock and not (source.ticks and patterns):
            got = "one without" if not source.ticks else "a run without patterns"
            raise SettingError("a source that can tell the time of day (the log) for a clock", got)
        self._clock = clock
        if ahead is not None and not source.dates:
            raise SettingError("a source that says when it took a publication (log, Kafka) for ahead", "one without")
        self._ahead = None if ahead is None else int(ahead * 1e6)
        if keep is not None and not 0 < keep <= _LONGEST:
            raise SettingError(f"seconds above 0 and at most {_LONGEST} as keep", f"{keep}")
        kept = KEEP if keep is None else int(keep * 1e6)
        self._settings = CombineSettings(int(lateness * 1e6), combinations, kept)
        if not patterns:
            version = registry.version
            registry.prepare(version, version)
            active = Subscriptions(registry.index_storage, registry).view(version, version)
            if unserved := len(active.patterns):
                raise SettingError("patterns = true for subscriptions with patterns", f"false, and {unserved} of them")
        self._spark, self._source, self._registry, self._sinks = spark, source, registry, sinks
        self._checkpoint = os.fspath(checkpoint).rstrip("/")
        self._interval = interval
        self._lock = DirectoryLock(self._checkpoint)
        self._commits = CommitLock(self._checkpoint)
        identity, cores = source.identity_seen_from(self._checkpoint), spark.sparkContext.defaultParallelism
        self._begun = begun(self._checkpoint, identity, patterns, cores, former=source.identity)
        self.query = self._begun.query
        self._files = ShardFiles(f"{self._checkpoint}/patterns") if self._begun.patterns else None
        self.quarantine = Quarantine.at(quarantine or f"{self._checkpoint}/quarantine")
        self.status = Status(registry)
        self._stopping = threading.Event()
        self._running: StreamingQuery | None = None
        self._warmup = WorkerWarmup(spark)
        self._maintenance = Maintenance(self._tidy)
        self._first = True
        self._has_complained = False

    def start(self, available_now: bool = False) -> None:
        """Start the query; with ``available_now`` it ends by itself when all that the source has now is done."""
        self._warmup.start()  # its thread starts the Python workers while Spark plans
        try:
            self._start_query(available_now)
        except Exception as error:
            self._warmup.stop()  # the session may be stopped next
            self._lock.release()
            raise (failure(error) if isinstance(error, Py4JError) else error) from None
        self._maintenance.start()

    def _start_query(self, available_now: bool) -> None:
        check_offsets(self._checkpoint)
        self._registry.needs(self.query, 0)  # keep all versions until the first batch says which it needs
        version = self._registry.version
        self._registry.prepare(version, version)
        with self._commits.shared():  # they cut off what a crash has left
            for sink in self._sinks:
                sink.begin(self.query)
        publications, feed = stream(self._source, self._spark, self.query, self._registry, self._clock)
        halves: tuple[WorkerHalf, ...] = tuple(dict.fromkeys(sink.half for sink in self._sinks))
        subscriptions = Subscriptions(self._registry.index_storage, self._registry)
        select = Select(fed_for(halves, feed, self._source.stamps), subscriptions, self._ahead)
        if self._files is None:
            receipts = publications.mapInArrow(SelectTask(select, ReceiptRows(halves), self.quarantine), RECEIPTS)
        else:
            shards = keys(self._begun.shards)
            select_task = SelectTask(select, ReceiptRows(halves, self._files, shards), self.quarantine)
            combine = CombineStep(self._files, shards, subscriptions, self._settings, halves, query=self.query)
            receipts = combined(publications.mapInArrow(select_task, SHARDED), combine, RECEIPTS)
        writer = receipts.writeStream.foreachBatch(self._batch)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif self._interval:
            writer = writer.trigger(processingTime=f"{self._interval} seconds")
        writer = writer.option("checkpointLocation", f"{self._checkpoint}/spark")
        with partitions(self._spark, self._begun.shards):
            self._running = writer.start()

    def _tidy(self) -> None:
        """End subscriptions whose time is over, and have registry, sinks and source drop what nobody can need any more.

        Called by the maintenance thread.
        """
        progress = self._running.lastProgress if self._running else None  # before sinks write down what they need of it
        look_after(self._registry, self._settings.lateness)
        for sink in self._sinks:
            sink.tidy()
        if progress and progress.sources[0].endOffset:
            self._source.done(orjson.loads(progress.sources[0].endOffset), named_by(self._sinks))

    def _batch(self, receipts: DataFrame, batch: int) -> None:
        """One batch: settle its version, have Spark run its tasks, and have every sink commit it."""
        if self._stopping.is_set():
            raise _Stopped
        began = perf_counter()
        tell = self._spark.sparkContext.setLocalProperty
        if self._first:
            check_batches(self._sinks, batch, f"{self._checkpoint}/spark/offsets")
            note_batch(self._checkpoint, batch)
            self.quarantine.begin(batch)
            self._first = False
        cut = None  # one that the source makes comes with the receipts
        if not self._source.stamps:
            version, at = self._registry.pinned(self.query, batch)
            self._registry.prepare(version, version)
            tell(VERSION, str(version))
            self._registry.needs(self.query, version)
            cut = Cut(-1, version, at)
        if self.status.newest is not None:
            tell(WATERMARK, str(self.status.newest - self._settings.lateness))
        found = Receipts.of_table(receipts.toArrow(), cut)
        worked = perf_counter()
        with self._commits.shared():
            for sink in self._sinks:
                sink.commit(batch, found)
        counts = [orjson.loads(payload) for payload in found.of(COUNTS)]
        self.status.add(batch, counts, worked - began, perf_counter() - worked, found.cut.row)
        if self._files is None and not self._has_complained and any(task.get("unserved") for task in counts):
            self._has_complained = True
            _LOG.error("subscriptions with patterns came to a run that was begun with patterns = false: not served")
        self._warmup.used()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the query to end; whether it has ended. A failure of it is raised as a ``TidegateError``."""
        assert self._running is not None, "a flow that was started"
        due = None if seconds is None else monotonic() + seconds
        try:
            while due is None or monotonic() < due:  # in short turns, between which Python handles signals
                if self._running.awaitTermination(_TURN):  # type: ignore[arg-type]  # fractions are taken too
                    return True
            return False
        except Exception as error:
            if self._stopping.is_set() and _Stopped.__name__ in str(error):
                return True
            raise failure(error) from None

    def stop(self) -> None:
        """End the query after the batch that is running. The next run takes the batches after it."""
        self._stopping.set()
        self._end_threads()
        running = self._running
        try:
            while running is not None and running.isActive:
                if not running.status["isTriggerActive"]:
                    running.stop()
                sleep(0.01)
        except Py4JJavaError:
            raise
        except (Py4JError, OSError):  # Java is gone, and with it the query
            pass
        self.close()

    def close(self) -> None:
        """Close the source and the sinks, and remove the live arrays of patterns from this machine."""
        self._end_threads()
        self._source.close()
        forget(self.query)
        for sink in self._sinks:
            sink.close()
        self._lock.release()

    def _end_threads(self) -> None:
        """End the threads of WorkerWarmup and Maintenance, which talk with Java, before the query ends."""
        self._warmup.stop()
        self._maintenance.stop()


@contextmanager
def partitions(spark: SparkSession, count: int) -> Iterator[None]:
    """Set Spark's shuffle partitions to the number of shards while a query starts, which keeps that number."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, str(count))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
