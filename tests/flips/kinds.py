"""The files whose bits are flipped, and what they must answer: that, or an error of ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tidegate as tg
from tests.store.written_queues import few_frames_are_merged, filled
from tidegate.broker.batch_record import BatchRecord
from tidegate.runs.checkpoint import begun
from tidegate.stages.shard_state import ShardState
from tidegate.store import log_tail
from tidegate.store.cursors import Cursors
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log import read
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_reader import QueueReader
from tidegate.store.queues import Queues
from tidegate.store.registrations import Registration
from tidegate.store.session_records import SessionRecord

__all__ = ["KINDS", "FlippedKind"]

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)


def reading(number: int, **attributes: Any) -> tg.Publication:
    return tg.Publication(f"p{number}", "north", TIME + timedelta(seconds=number), attributes, location=(16, 46))


class FlippedKind(ABC):
    """One kind of file."""

    #: Whether opening it may write to it.
    mends = False

    @abstractmethod
    def write(self, directory: Path) -> None:
        """Write a small one."""

    @abstractmethod
    def answers(self, directory: Path) -> list[Any]:
        """What it says. May end with an error, after the first of its answers."""


class LogSegments(FlippedKind):
    """Two segments with frames of several columns."""

    mends = True

    def write(self, directory: Path) -> None:
        with tg.Log(directory, segment_bytes=3000) as log:
            for number in range(6):
                log.append([reading(number, n=number / 4, name="Žabnica"), reading(10 + number, list=[1.5, 2.5])])

    def answers(self, directory: Path) -> list[Any]:
        sync, log_tail._sync = log_tail._sync, lambda _: None  # mending an index waits for the disk
        try:
            with tg.Log(directory, create=False) as log:
                found = [frame for part in log.slices(0, log.end, 2) for frame in read(part)]
                rows = [(f.first_row, f.version, f.batch.to_pylist()) for f in found]
                return [*rows, log.end]
        finally:
            log_tail._sync = sync


class Snapshot(FlippedKind):
    """An engine with ranges, texts, places, bags, shapes and patterns that remember something."""

    where = (
        "n > 1 AND n < 3",
        "name = 'east' OR name LIKE 'w%'",
        "S_DWITHIN(location, POINT(16 46), 500) AND n > 2",
        "S_WITHIN(location, POLYGON((15 45, 18 45, 16 49, 15 45)))",
        "A_CONTAINEDBY(bag, (1, 2, 3))",
        "shape(curve, (1, 2, 4, 3)) <= 0.5",
        "topk(2, 'PT1M', n)",
        "together('PT10S', n > 3, name = 'east')",
        "n > 2 AND T_AFTER(start, past(n < 2, 'PT1M'))",
    )

    def write(self, directory: Path) -> None:
        with tg.Engine([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(self.where)]) as engine:
            engine.publish([reading(number, n=float(number), name="east") for number in range(4)])
            engine.save(directory)

    def answers(self, directory: Path) -> list[Any]:
        with tg.Engine.load(directory) as engine:
            later = [
                reading(5, n=4.5),
                reading(6, name="west", bag=[1, 2]),
                reading(7, curve=[1.0, 2.0, 4.0, 3.1]),
                reading(60, n=2.5),
            ]
            return [list(engine), engine.publish(later)]


class WrittenQueues(FlippedKind):
    """Queues with merged files, a base, and journals of some frames, for a reader or for their writer."""

    def __init__(self, opened: type[QueueReader]) -> None:
        self._opened = opened
        self.mends = opened is Queues

    def write(self, directory: Path) -> None:
        with few_frames_are_merged():
            filled(directory, 12)
            with Queues(directory) as writer:
                assert writer.retain(size=1) > 0
            filled(directory, 21)
        files = [path.suffix for path in directory.iterdir()]
        assert {".base", ".queues", ".journal", ".json"} <= set(files), files

    def answers(self, directory: Path) -> list[Any]:
        with self._opened(directory) as queues:
            return [[queue, queues.last_batch, queues.read(queue, 0, 1000)] for queue in queues]


class TheCursors(FlippedKind):
    """Cursors of many queues, and sessions. A cursor that is not found begins with none acknowledged: then deliveries
    come again.
    """

    queues = tuple(Queue(number, f"p{number}", "stream", f"{number:016x}") for number in range(60))

    def write(self, directory: Path) -> None:
        directory.mkdir()
        with Cursors(directory / "cursors.db") as cursors:
            cursors.acknowledge({queue: (queue.number + 1, 100) for queue in self.queues})
            said = [Registration(queue.number + 1, queue.principal, True) for queue in self.queues]
            cursors.sessions.follow(said, 60, 10**15)

    def answers(self, directory: Path) -> list[Any]:
        with Cursors(directory / "cursors.db") as cursors:
            some = [cursors.of(self.queues), *(cursors.of([queue]) for queue in self.queues[::20])]
            sessions, version = cursors.sessions.sessions(), cursors.sessions.version
        written = [SessionRecord(queue.principal, queue.number + 1, 10**15, seen_at=10**15) for queue in self.queues]
        are_right = [all(number in (0, queue.number + 1) for queue, number in found.items()) for found in some]
        return [*are_right, all(session in written for session in sessions), version in (0, 60)]


class TheRun(FlippedKind):
    """What a data directory is, what its checkpoint belongs to, and the record of batches."""

    mends = True

    def write(self, directory: Path) -> None:
        data = DataDirectory.made(directory, "process")
        begun(str(data.checkpoint), "log a", True, 1, runner="process")
        with BatchRecord(str(data.checkpoint)) as record:
            for batch in range(4):
                record.begin(batch, {"row": batch, "version": 3})
                record.end(ShardState(token=f"t{batch}"))
            record.begin(4, {"row": 4, "version": 3})

    def answers(self, directory: Path) -> list[Any]:
        data = DataDirectory.found(directory)
        assert data is not None
        known = begun(str(data.checkpoint), "log a", True, 1, runner="process")
        with BatchRecord(str(data.checkpoint)) as record:
            return [data.runner, known, record.batch, record.offset, record.begun, record.state]


KINDS: dict[str, FlippedKind] = {
    "log": LogSegments(),
    "snapshot": Snapshot(),
    "queues": WrittenQueues(QueueReader),
    "queues-writer": WrittenQueues(Queues),
    "cursors": TheCursors(),
    "run": TheRun(),
}
