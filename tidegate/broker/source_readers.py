"""How the runner in process reads each source: offsets of batches, and the input of the select stage."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial, singledispatch
from time import sleep
from typing import Any, ClassVar

import orjson
import pyarrow as pa

from tidegate.errors import SettingError
from tidegate.index.shapes import looked_up_with
from tidegate.runs.sources import FilesSource, GeneratorSource, LogSource, Source
from tidegate.stages import feed
from tidegate.stages.log_planner import LogPlanner
from tidegate.store.registry import Registry
from tidegate.store.wakeups import Wakeup

__all__ = ["Offset", "SourceReader", "reader_of"]

Offset = dict[str, Any]


class SourceReader(ABC):
    """A source as the runner reads it, batch by batch."""

    feed: feed.Feed
    poll: ClassVar[float]
    """Seconds after which to look again where nothing was new."""

    @abstractmethod
    def first(self) -> Offset:
        """Where a new checkpoint begins."""

    @abstractmethod
    def next(self, start: Offset) -> Offset | None:
        """Where the batch that begins at ``start`` ends; None if nothing is new."""

    @abstractmethod
    def batches(self, start: Offset, end: Offset) -> Iterator[Any]:
        """What lies between, for the feed. The same offsets always give the same."""

    def wait(self, seconds: float) -> None:
        """Wait until something may be new, or so long."""
        sleep(seconds)

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""


@singledispatch
def reader_of(source: Source, query: str, registry: Registry, clock: float, checkpoint: str) -> SourceReader:
    """The reader of a source; ``clock``: seconds between two ticks of the time of day, 0 for none."""
    raise SettingError('a log or files as the source of runner = "process"', f"a {type(source).__name__}")


class _LogReader(SourceReader):
    poll = 0.05

    def __init__(self, source: LogSource, query: str, registry: Registry, clock: float) -> None:
        self.feed = feed.references
        self._planner = LogPlanner({
            "path": source.path, "rows": source.rows, "pieces": 1, "query": query, "starting": source.starting,
            "clock": clock, "registry": registry.url, "storage": registry.index_storage,
            "shapes": orjson.dumps(looked_up_with().plain()).decode(),
        })  # fmt: skip
        self._wakeup = Wakeup(source.path)
        self._registry = registry

    def first(self) -> Offset:
        return self._planner.initial_offset()

    def next(self, start: Offset) -> Offset | None:
        found = self._planner.next_offset(start, self._planner.newest_offset(), self._planner.rows)
        return None if found == start else found

    def batches(self, start: Offset, end: Offset) -> Iterator[Any]:
        return iter(self._planner.references(start, end))

    def wait(self, seconds: float) -> None:
        self._wakeup.wait(seconds)

    def close(self) -> None:
        self._wakeup.close()
        self._planner.close()


class _FilesReader(SourceReader):
    """Files that were there when a batch began, in the order of their times and names. A file that was read is not read
    again, also if it has changed: ``files.seen`` in the checkpoint has the names of those of all batches before the
    last one.
    """

    poll = 0.5

    def __init__(self, source: FilesSource, checkpoint: str) -> None:
        if "://" in source.path:
            raise SettingError('a folder of this machine for runner = "process"', source.path)
        self.feed = partial(feed.files, zone=source.zone)
        self._source = source
        self._file = os.open(f"{checkpoint}/files.seen", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        whole = os.pread(self._file, os.fstat(self._file).st_size, 0).rpartition(b"\n")[0]
        self._seen = {orjson.loads(line) for line in whole.splitlines()}

    def first(self) -> Offset:
        return {"files": []}

    def next(self, start: Offset) -> Offset | None:
        self._note(start["files"])
        endings = tuple(self._source.endings)
        with os.scandir(self._source.path) as entries:
            new = [entry for entry in entries if entry.name.endswith(endings) and entry.path not in self._seen]
            found = [(entry.stat().st_mtime_ns, entry.path) for entry in new]
        some = [path for _, path in sorted(found)[: self._source.files]]
        return {"files": some} if some else None

    def _note(self, files: list[str]) -> None:
        """Note the files of a batch that has ended, before another one takes its place in the record."""
        new = [path for path in files if path not in self._seen]
        if new:
            os.write(self._file, b"".join([orjson.dumps(path) + b"\n" for path in new]))
            os.fsync(self._file)
            self._seen.update(new)

    def batches(self, start: Offset, end: Offset) -> Iterator[Any]:
        yield pa.record_batch({"path": pa.array(end["files"], pa.string())})

    def close(self) -> None:
        os.close(self._file)


@reader_of.register
def _(source: LogSource, query: str, registry: Registry, clock: float, checkpoint: str) -> SourceReader:
    return _LogReader(source, query, registry, clock)


@reader_of.register
def _(source: FilesSource, query: str, registry: Registry, clock: float, checkpoint: str) -> SourceReader:
    return _FilesReader(source, checkpoint)


@reader_of.register
def _(source: GeneratorSource, query: str, registry: Registry, clock: float, checkpoint: str) -> SourceReader:
    reader = _LogReader(source.log, query, registry, clock)
    source.start(registry)
    return reader
