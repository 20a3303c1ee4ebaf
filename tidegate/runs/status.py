"""``Status``: counts what a flow has done and how fast, for the terminal, Prometheus and ``tidegate status``."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from tidegate.patterns.memory import LONG_AGO
from tidegate.store.registry import Registry

__all__ = ["Status", "StatusSnapshot"]

#: Seconds over which rates are taken.
_WINDOW = 10.0
#: Seconds after which subscriptions are counted again: a database takes a while to count a million.
_COUNTED = 2.0


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """The numbers at one moment."""

    publications: int
    notifications: int
    quarantined: int
    batches: int
    last_batch: int
    publications_per_second: float
    notifications_per_second: float
    batch_seconds: float
    task_seconds: float
    sink_seconds: float
    subscriptions: int
    late: int
    ahead: int
    shapeless: int
    oversized: int
    patterns: int
    state_bytes: int
    state_bytes_per_pattern: float
    waiting: int
    unscored: int
    cut: int
    refused: int
    combine_seconds: float
    row: int
    """The row of the log up to which batches are done; −1 before the first, and where the source is no log."""
    state: str


class Status:
    """Counts batches as they are done. A lock lets other threads call ``snapshot`` while the flow calls ``add``."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._recent: deque[tuple[float, int, int]] = deque()
        self._began = monotonic()
        self.publications = self.notifications = self.quarantined = self.batches = 0
        self.late = self.ahead = self.shapeless = self.oversized = 0
        self.newest: int | None = None
        self._last, self._batch_seconds, self._task_seconds, self._sink_seconds = -1, 0.0, 0.0, 0.0
        self._count, self._counted, self._row = 0, float("-inf"), -1
        self._shards: dict[int, Mapping[str, Any]] = {}
        self.state = "starting"

    def add(self, batch: int, counts: Sequence[Mapping[str, Any]], work: float, sinks: float, row: int = -1) -> None:
        """A batch is done: what its tasks counted, how long tasks and sinks took, and the row of its cut."""
        names = ("publications", "notifications", "quarantined", "late", "ahead", "shapeless", "oversized")
        publications, notifications, quarantined, late, ahead, shapeless, oversized = (
            sum(task.get(name, 0) for task in counts) for name in names
        )
        with self._lock:
            self.publications += publications
            self.notifications += notifications
            self.quarantined += quarantined
            self.late += late
            self.ahead += ahead
            self.shapeless += shapeless
            self.oversized += oversized
            if publications:
                newest = max(task.get("newest", LONG_AGO) for task in counts)
                self.newest = newest if self.newest is None else max(newest, self.newest)
            self.batches += 1
            self._last, self._row = batch, row
            if self.state == "starting":
                self.state = "running"
            self._batch_seconds, self._sink_seconds = work + sinks, sinks
            self._task_seconds = max((task["seconds"] for task in counts), default=0.0)
            self._recent.append((monotonic(), publications, notifications))
            for task in counts:
                if "shard" in task:
                    self._shards[task["shard"]] = task

    def _subscriptions(self, now: float) -> int:
        if now >= self._counted + _COUNTED:
            self._count, self._counted = len(self._registry), now
        return self._count

    def snapshot(self) -> StatusSnapshot:
        """The numbers now."""
        with self._lock:
            now = monotonic()
            while self._recent and self._recent[0][0] < now - _WINDOW:
                self._recent.popleft()
            span = max(min(_WINDOW, now - self._began), 1e-9)
            patterns = sum(sum(task["sizes"].values()) for task in self._shards.values())
            size, waiting, unscored, cut = (
                sum(task[name] for task in self._shards.values())
                for name in ("state_bytes", "waiting", "unscored", "cut")
            )
            refused = max((task["refused"] for task in self._shards.values()), default=0)  # each shard counts all
            rates = [sum(entry[i] for entry in self._recent) / span for i in (1, 2)]
            return StatusSnapshot(
                self.publications,
                self.notifications,
                self.quarantined,
                self.batches,
                self._last,
                rates[0],
                rates[1],
                self._batch_seconds,
                self._task_seconds,
                self._sink_seconds,
                self._subscriptions(now),
                self.late,
                self.ahead,
                self.shapeless,
                self.oversized,
                patterns,
                size,
                size / patterns if patterns else 0.0,
                waiting,
                unscored,
                cut,
                refused,
                max((task["combining"] for task in self._shards.values()), default=0.0),
                self._row,
                self.state,
            )
