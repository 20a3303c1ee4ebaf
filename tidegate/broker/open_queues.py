"""The queues that a run writes, opened for those who read them: the queues, the cursors, and the log they refer to."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tidegate.broker.delivered_items import DeliveredItems
from tidegate.closing import Closing
from tidegate.errors import SettingError, StoreError, shown
from tidegate.runs.config import Config
from tidegate.runs.sink_sections import QueuesOutput
from tidegate.runs.source_sections import GeneratorInput, LogInput
from tidegate.store.cursors import Cursors
from tidegate.store.log_rows import LogRows
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_reader import QueueReader

__all__ = ["OpenQueues", "QueueState"]

#: The file of the cursors, beside the directory of the queues.
CURSORS = "cursors.db"


class QueueState(NamedTuple):
    """How a queue stands: its numbers, how many deliveries wait to be acknowledged, and since when (µs since 1970)."""

    principal: str
    destination: str
    epoch: str
    oldest: int
    last: int
    acknowledged: int
    waiting: int
    waiting_since: int | None


class OpenQueues(Closing):
    """The queues of the run that a file or a data directory describes. They must have been made by a run."""

    def __init__(self, config: Config) -> None:
        found = [sink for sink in config.sinks if isinstance(sink, QueuesOutput)]
        if not found:
            raise SettingError("a run with a sink of type queues", "one without", str(config.file))
        self.directory = Path(found[0].path)
        if not (self.directory / "manifest.json").exists():
            raise StoreError("queues, which the first run makes", "none", str(self.directory))
        with ExitStack() as opened:
            self.reader = opened.enter_context(QueueReader(self.directory, most=found[0].most))
            self.cursors = opened.enter_context(Cursors(self.directory.with_name(CURSORS)))
            source, rows = config.source, None
            if isinstance(source, LogInput | GeneratorInput):
                rows = opened.enter_context(LogRows(source.path))
            self.items = DeliveredItems(self.reader, rows)
            self._opened = opened.pop_all()

    @staticmethod
    def are_there(config: Config) -> bool:
        """Whether a run has made the queues that are described."""
        found = [sink for sink in config.sinks if isinstance(sink, QueuesOutput)]
        return bool(found) and Path(found[0].path, "manifest.json").exists()

    def of(self, principal: str) -> list[Queue]:
        """The queues of a principal; an error if there is none."""
        found = [queue for queue in self.reader if queue.principal == principal]
        if not found:
            raise StoreError("a principal with a queue", shown(principal), str(self.directory))
        return found

    def acknowledge(self, queue: Queue, number: int) -> None:
        """Acknowledge the deliveries of a queue up to a number."""
        self.cursors.acknowledge({queue: (number, self.reader.last(queue))})

    def states(self, queues: list[Queue]) -> list[QueueState]:
        """How these queues stand."""
        acknowledged = self.cursors.of(queues)
        return [self._state(queue, acknowledged[queue]) for queue in queues]

    def _state(self, queue: Queue, acknowledged: int) -> QueueState:
        oldest, last = self.reader.oldest(queue), self.reader.last(queue)
        first = max(acknowledged + 1, oldest)
        since = self.reader.read(queue, first - 1, 1).deliveries[0].matched_at if first <= last else None
        names = queue.principal, queue.destination, queue.epoch
        return QueueState(*names, oldest, last, acknowledged, last - first + 1, since)

    def furthest_behind(self, most: int) -> tuple[int, list[QueueState]]:
        """How many deliveries wait in all queues together, and the queues with most of them, first the longest."""
        queues = list(self.reader)
        acknowledged = self.cursors.of(queues)
        waiting = {queue: min(self.reader.last(queue) - acknowledged[queue], self.reader.most) for queue in queues}
        longest = sorted(queues, key=lambda queue: -waiting[queue])[:most]
        states = [self._state(queue, acknowledged[queue]) for queue in longest if waiting[queue]]
        return sum(waiting.values()), states

    def close(self) -> None:
        self._opened.close()
