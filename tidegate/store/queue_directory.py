"""Which queues there are, and the number of the last delivery of each; learnt from frames, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from tidegate import checked_json
from tidegate.errors import StoreError
from tidegate.store.queue_frames import QueueFrame

__all__ = ["Queue", "QueueDirectory"]

#: Of the list before the oldest file. The one before knew of no cuts and no renewed epochs, and not since when there
#: are queues.
_FORMAT, _BEFORE = 2, 1


class Queue(NamedTuple):
    """A queue: the deliveries of a principal to a destination. Its epoch tells it from earlier ones of both.

    ``since`` is the version of the registry that brought it.
    """

    number: int
    principal: str
    destination: str
    epoch: str
    since: int = 0


class QueueDirectory:
    """The queues after a batch. Numbers of queues are not used again."""

    def __init__(self) -> None:
        self.batch = -1
        """The last batch that was committed."""
        self.next = 0
        """The number of the next queue."""
        self.run: str | None = None
        """The run whose batches these are."""
        self.renewed: dict[int, str] = {}
        """By number of a queue the epoch that it got later than it was made."""
        self.row = 0
        """The row of the log up to which tombstones have retracted what they withdrew."""
        self.version = 0
        """The version of the registry up to which queues were made and ended, and initial matches told."""
        self.last = np.zeros(1024, np.int64)
        """By queue the number of its last delivery."""
        self.changes = 0
        """How often a queue was made or has ended."""
        self._queues: dict[tuple[str, str], Queue] = {}
        self._by_number: dict[int, Queue] = {}
        self._destinations: dict[str, tuple[str, ...]] = {}

    def __iter__(self) -> Iterator[Queue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def __contains__(self, queue: Queue) -> bool:
        return self._by_number.get(queue.number) == queue

    def find(self, principal: str, destination: str) -> Queue | None:
        """The queue of a principal to a destination."""
        return self._queues.get((principal, destination))

    def of(self, principal: str) -> list[Queue]:
        """The queues of a principal."""
        there = (self.find(principal, destination) for destination in self._destinations.get(principal, ()))
        return [queue for queue in there if queue is not None]

    def make(self, queue: Queue) -> None:
        """Note a new queue."""
        self.changes += 1
        known = self._destinations.get(queue.principal, ())
        if queue.destination not in known:
            self._destinations[queue.principal] = *known, queue.destination
        self._queues[queue.principal, queue.destination] = self._by_number[queue.number] = queue
        self.next = max(self.next, queue.number + 1)
        if queue.number >= len(self.last):
            larger = np.zeros(2 * queue.number, np.int64)
            larger[: len(self.last)] = self.last
            self.last = larger

    def end(self, number: int) -> None:
        """Note that a queue has ended."""
        self.changes += 1
        queue = self._by_number.pop(number, None)
        if queue is not None and self._queues.get(queue[1:3]) == queue:
            del self._queues[queue.principal, queue.destination]
            left = tuple(one for one in self._destinations[queue.principal] if one != queue.destination)
            self._destinations[queue.principal] = left
            if not left:
                del self._destinations[queue.principal]

    def take(self, frame: QueueFrame) -> None:
        """Note which queues a frame made and ended, and the last numbers in it."""
        for line in frame.array("changes").tobytes().splitlines():
            what, *facts = orjson.loads(line)
            if what == "made":
                made = Queue(*facts)
                self.make(made._replace(epoch=self.renewed.get(made.number, made.epoch)))
            elif what == "ended":
                self.end(facts[0])
            elif what == "cut":
                self.row, self.version = facts
            else:
                self.run = facts[0]
        self.last[frame.queue] = frame.first + np.diff(frame.begin) - 1
        self.batch = frame.last_batch

    # --- what was before the oldest frame ---------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """All of it, for a file."""
        queues = [[*queue, int(self.last[queue.number])] for queue in self]
        renewed = [[number, epoch] for number, epoch in self.renewed.items() if number >= self.next]
        facts = {"run": self.run, "batch": self.batch, "next": self.next, "row": self.row, "version": self.version}
        return checked_json.packed({"format": _FORMAT, **facts, "queues": queues, "renewed": renewed})

    @staticmethod
    def from_file(path: Path) -> QueueDirectory:
        """What ``to_bytes`` gave."""
        found = QueueDirectory()
        try:
            facts = checked_json.unpacked(path.read_bytes())
            if facts["format"] not in (_FORMAT, _BEFORE):
                raise StoreError(f"queues of format {_FORMAT}", f"format {facts['format']}", str(path))
            for *queue, last in facts["queues"]:
                found.make(Queue(*queue))
                found.last[queue[0]] = last
            found.run, found.batch, found.next = facts["run"], facts["batch"], facts["next"]
            found.renewed = dict(facts.get("renewed", ()))
            found.row, found.version = facts.get("row", 0), facts.get("version", 0)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError("a list of queues", f"{type(error).__name__}: {error}", str(path)) from None
        return found
