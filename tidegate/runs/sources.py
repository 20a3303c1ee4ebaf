"""Sources, where publications come from: the log, files, Kafka, and the generator of the demo.

A runner reads a source in batches; ``pipeline/streams.py`` does it on Spark. All sources replay: asked again for the
same offsets they give the same publications, which exactly once delivery rests on. Knows nothing of Spark.
"""

from __future__ import annotations

import os
import threading
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.demo import tables
from tidegate.errors import SettingError, shown
from tidegate.runs.limits import BATCH_ROWS
from tidegate.runs.publication_files import FORMATS
from tidegate.store.data_directory import log_to_append
from tidegate.store.log import Log
from tidegate.store.registry import Registry
from tidegate.time_zones import TimeZone, Zone

__all__ = ["FilesSource", "GeneratorSource", "KafkaSource", "LogSource", "Source"]


#: Which rows of a range somebody may still be shown.
NamedRows = Callable[[int, int], NDArray[np.int64]]
#: Where a new checkpoint may begin in a log.
STARTING = ("earliest", "latest")


class Source(ABC):
    """A source of publications. A checkpoint belongs to one ``identity``, because offsets mean nothing elsewhere."""

    identity: str
    log_path: str | None = None
    """The directory of the log whose rows its publications have; None where they have no rows."""
    stamps: ClassVar[bool] = False
    """Whether publications carry the version of the registry at which they appeared."""
    ticks: ClassVar[bool] = False
    """Whether it can give patterns the time of day, so that their clock runs without publications."""
    dates: ClassVar[bool] = False
    """Whether it can say when it took a publication, so that one dated far ahead of that is known."""

    def done(self, offset: dict[str, Any], named: NamedRows) -> None:
        """All before this offset is processed and need not be kept for this run, but that sinks may still show rows to
        somebody: ``named`` finds which of a range. The runner calls it once a minute.
        """
        return

    def check(self) -> None:
        """Raise an error that happened in a thread of the source, if there was one. ``tidegate run`` calls it."""
        return

    def close(self) -> None:
        """Close what is open."""
        return


class LogSource(Source):
    """The durable local log. What is processed and older than ``keep_seconds`` or beyond ``keep_bytes`` is dropped.

    ``starting`` says where a new checkpoint begins: with the ``earliest`` publication or after the ``latest``.
    """

    stamps = True
    ticks = True
    dates = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows: int = BATCH_ROWS,
        pieces: int | None = None,
        keep_seconds: float | None = None,
        keep_bytes: int | None = None,
        starting: str = "earliest",
    ) -> None:
        if starting not in STARTING:
            raise SettingError(f"one of {', '.join(STARTING)} as starting", shown(starting))
        self.starting = starting
        self.path, self.rows, self.pieces = os.path.abspath(path), rows, pieces
        self.log_path = self.path
        self._age = None if keep_seconds is None else timedelta(seconds=keep_seconds)
        self._size = keep_bytes
        self.identity = f"log {self.path}"
        Log(self.path).close()  # creates the log: the run may start before the first publisher

    def done(self, offset: dict[str, Any], named: NamedRows) -> None:
        if self._age is not None or self._size is not None:
            with Log(self.path) as log:
                log.retain(before=offset["row"], age=self._age, size=self._size, named=named)


class FilesSource(Source):
    """Files of a folder, and those that come to it later; ``files`` of them in a batch at most.

    ``timezone`` is that of times without one, which are refused otherwise.
    """

    def __init__(self, path: str, *, format: str | None = None, files: int = 16, timezone: Zone = None) -> None:
        if format is not None and format not in FORMATS:
            raise SettingError(f"one of {', '.join(FORMATS)} as format", shown(format))
        if "://" not in path and not Path(path).is_dir():
            raise SettingError("a folder that exists", shown(path))
        self.path, self.files = path if "://" in path else os.path.abspath(path), files
        self.endings = [ending for name, known in FORMATS.items() if format in (None, name) for ending in known]
        self.zone = TimeZone.named(timezone)
        self.identity = f"files {self.path}"


class KafkaSource(Source):
    """A topic whose values are publications in JSON. ``options`` are those of Spark's connector.

    ``timezone`` is that of times without one, which are refused otherwise.
    """

    dates = True

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        starting: str = "earliest",
        options: Mapping[str, str] = {},
        timezone: Zone = None,
    ) -> None:
        self.zone = TimeZone.named(timezone)
        self.options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": starting, **options}
        self.identity = f"kafka {topic}"


class GeneratorSource(Source):
    """The valley of ``tidegate.demo``, written to a log by a thread at a steady rate and read from there.

    The same seed gives the same publications; after a restart it goes on where the log ends.
    """

    stamps = True  # no ``ticks`` and no ``dates``: the valley has a time of its own, not the time of day

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        seed: int = 7,
        rate: float = 2000.0,
        publications: int | None = None,
        rows: int = BATCH_ROWS,
    ) -> None:
        if seed < 0:
            raise SettingError("a seed of 0 or more", f"{seed}")
        if rate <= 0:
            raise SettingError("a rate above 0", f"{rate}")
        if publications is not None and publications < 1:
            raise SettingError("1 publication or more", f"{publications}")
        self.log = LogSource(directory, rows=rows)
        self.log_path = self.log.path
        self._directory, self._seed, self._rate, self._total = os.fspath(directory), seed, rate, publications
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None
        self.identity = f"generator {seed}"

    def start(self, registry: Registry | None) -> None:
        """Begin to write, each publication stamped with the version that the registry has then."""
        self._thread = threading.Thread(target=self._run, args=(registry,), name="tidegate-generator", daemon=True)
        self._thread.start()

    def done(self, offset: dict[str, Any], named: NamedRows) -> None:
        self.log.done(offset, named)

    def _run(self, registry: Registry | None) -> None:
        try:
            with log_to_append(self._directory, version=lambda: registry.version if registry else 0) as log:
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

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
