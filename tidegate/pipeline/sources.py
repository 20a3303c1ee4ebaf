"""Where publications come from: the log, files, the generator, Kafka. Each gives a streaming DataFrame and its feed.

All of them replay: asked again for the same offsets they give the same publications, which is what exactly once
rests on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.demo import tables
from tidegate.errors import SettingError, shown
from tidegate.files import FORMATS
from tidegate.index.shapes import looked_up_with
from tidegate.pipeline import feed
from tidegate.pipeline.logsource import ROWS, LogSource
from tidegate.store.log import Log
from tidegate.store.registry import Registry

__all__ = ["FilesSource", "GeneratorSource", "KafkaSource", "LoggedSource", "Source"]


class Source(Protocol):
    """One way in."""

    @property
    def identity(self) -> str:
        """What a checkpoint belongs to: offsets of one source mean nothing to another."""

    @property
    def stamps(self) -> bool:
        """Whether publications carry the version at which they appeared."""

    @property
    def ticks(self) -> bool:
        """Whether it can tell patterns the time of day."""

    def stream(
        self, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0
    ) -> tuple[DataFrame, feed.Feed]:
        """The publications as a streaming DataFrame, and how workers read it; with the time of day every so often."""

    def done(self, offset: dict[str, Any]) -> None:
        """Everything before this offset has been processed, and need not be kept for us. Called now and then."""

    def close(self) -> None: ...


class LoggedSource:
    """The durable local log. What is older than ``keep_seconds`` or beyond ``keep_bytes`` and done with is dropped."""

    stamps = True
    ticks = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows: int = ROWS,
        pieces: int | None = None,
        keep_seconds: float | None = None,
        keep_bytes: int | None = None,
    ) -> None:
        self._path, self._rows, self._pieces = os.path.abspath(path), rows, pieces
        self._age = None if keep_seconds is None else timedelta(seconds=keep_seconds)
        self._size = keep_bytes
        self.identity = f"log {self._path}"
        Log(self._path).close()  # publishers may come later than the query

    def stream(
        self, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0
    ) -> tuple[DataFrame, feed.Feed]:
        spark.dataSource.register(LogSource)
        pieces = self._pieces or spark.sparkContext.defaultParallelism
        options = {"path": self._path, "rows": str(self._rows), "pieces": str(pieces), "query": query}
        if clock:
            options["clock"] = str(clock)
        if registry is not None:
            options |= {"registry": registry.url, "storage": os.fspath(registry.shelf)}
            options["shapes"] = orjson.dumps(looked_up_with().plain()).decode()
        return spark.readStream.format("tidegate-log").options(**options).load(), feed.slices

    def done(self, offset: dict[str, Any]) -> None:
        if self._age is not None or self._size is not None:
            with Log(self._path) as log:
                log.retain(before=offset["row"], age=self._age, size=self._size)

    def close(self) -> None:
        return None


class FilesSource:
    """Files of a folder, and those that come to it later; Spark remembers which it has seen, workers read them."""

    stamps = False
    ticks = False

    def __init__(self, path: str, *, format: str | None = None, files: int = 16) -> None:
        if format is not None and format not in FORMATS:
            raise SettingError(f"one of {', '.join(FORMATS)} as format", shown(format))
        if "://" not in path and not Path(path).is_dir():
            raise SettingError("a folder that exists", shown(path))
        self._path, self._files = path if "://" in path else os.path.abspath(path), files
        endings = [ending for name, known in FORMATS.items() if format in (None, name) for ending in known]
        self._glob = f"*{{{','.join(endings)}}}"
        self.identity = f"files {self._path}"

    def stream(
        self, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0
    ) -> tuple[DataFrame, feed.Feed]:
        found = (
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("pathGlobFilter", self._glob)
            .option("maxFilesPerTrigger", self._files)
            .load(self._path)
        )
        return found.select("path"), feed.files

    def done(self, offset: dict[str, Any]) -> None:
        return None

    def close(self) -> None:
        return None


class KafkaSource:
    """A topic whose values are publications in JSON."""

    stamps = False
    ticks = False

    def __init__(
        self, servers: str, topic: str, *, starting: str = "earliest", options: Mapping[str, str] = {}
    ) -> None:
        self._options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": starting, **options}
        self.identity = f"kafka {topic}"

    def stream(
        self, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0
    ) -> tuple[DataFrame, feed.Feed]:
        rows = spark.readStream.format("kafka").options(**self._options).load()
        return rows.select("value"), feed.texts

    def done(self, offset: dict[str, Any]) -> None:
        return None

    def close(self) -> None:
        return None


class GeneratorSource:
    """The valley of ``tidegate.demo``, written to a log by a thread at a steady rate and read from there.

    The same seed gives the same publications; after a restart it goes on where the log ends.
    """

    stamps = True
    ticks = False  # the valley's time is its own

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        seed: int = 7,
        rate: float = 2000.0,
        publications: int | None = None,
        rows: int = ROWS,
    ) -> None:
        if seed < 0:
            raise SettingError("a seed of 0 or more", f"{seed}")
        if rate <= 0:
            raise SettingError("a rate above 0", f"{rate}")
        if publications is not None and publications < 1:
            raise SettingError("1 publication or more", f"{publications}")
        self._logged = LoggedSource(directory, rows=rows)
        self._directory, self._seed, self._rate, self._total = os.fspath(directory), seed, rate, publications
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None
        self.identity = f"generator {seed}"

    def stream(
        self, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0
    ) -> tuple[DataFrame, feed.Feed]:
        stream = self._logged.stream(spark, query, registry)
        self._thread = threading.Thread(target=self._run, args=(registry,), name="tidegate-generator", daemon=True)
        self._thread.start()
        return stream

    def done(self, offset: dict[str, Any]) -> None:
        self._logged.done(offset)

    def _run(self, registry: Registry | None) -> None:
        try:
            with Log(self._directory, version=(lambda: registry.version) if registry else (lambda: 0)) as log:
                began, first = monotonic(), log.end
                for table in self._pieces(first):
                    due = began + (log.end - first) / self._rate
                    if self._stopping.wait(max(0.0, due - monotonic())):
                        return
                    log.append(table)
        except BaseException as error:
            self.failure = error

    def _pieces(self, done: int) -> Iterator[pa.Table]:
        """The valley's tables in pieces of a tenth of a second or so, from row ``done`` on."""
        size = max(1, int(self._rate / 10))
        row, end = 0, self._total
        for hour in tables(np.random.default_rng(self._seed)):
            for start in range(0, len(hour), size):
                piece = hour.slice(start, size)
                first, row = row, row + len(piece)
                if end is not None and row > end:
                    piece = piece.slice(0, end - first)
                if row > done and len(piece):
                    yield piece.slice(max(0, done - first))
                if end is not None and row >= end:
                    return

    def close(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
