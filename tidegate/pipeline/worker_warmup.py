"""``WorkerWarmup``: starts Spark's Python workers before the first batch, and keeps them when no batches come.

Spark ends idle workers after a minute, and the first of them takes seconds to start. ``Flow`` has one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic

import pyarrow as pa
from pyspark.sql import SparkSession

__all__ = ["WorkerWarmup"]

#: Seconds of quiet after which workers are given something to do.
_QUIET = 20.0


class WorkerWarmup:
    """A thread that runs an empty job on every core at its start, and again when no batch has run for a while."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._last = float("-inf")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-worker-warmup", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def used(self) -> None:
        """Note that a batch has just run. Called by ``Flow``."""
        self._last = monotonic()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            if monotonic() - self._last > _QUIET:
                try:
                    cores = self._spark.sparkContext.defaultParallelism
                    self._spark.range(cores, numPartitions=cores).mapInArrow(_nothing, "id bigint").collect()
                except Exception:  # the session is ending, so no workers are needed
                    return
                self.used()
            self._ending.wait(1.0)


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
