"""Select in a Python worker: publications in, who is told out. Stateless, so any task may run it, and run it again.

A worker maps the index layers that stand for the versions of its publications and matches. Which version applies is
decided elsewhere and found here: stamped on the publications by the log, set for the batch by the flow, or pinned in
the registry by the first task that asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from time import perf_counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index import Matches, notification_tables
from tidegate.index.shapes import look_up_with, looked_up_with
from tidegate.index.versioned import View
from tidegate.pipeline.feed import Arrived, Feed
from tidegate.pipeline.task_context import local_property, query_id
from tidegate.shapes.sphere_group import ShapeLookup
from tidegate.store.index_layers import IndexLayers
from tidegate.store.registry import Registry

__all__ = ["VERSION", "Select", "SelectedBatch", "Subscriptions"]

#: The local property by which the flow tells tasks the version of their batch.
VERSION = "tidegate.version"


@dataclass(frozen=True)
class Subscriptions:
    """What is matched, as plain data that travels to the workers: snapshots, and maybe the registry they are of."""

    index_storage: str
    registry: Registry | None = None
    version: int | None = None
    """The version of all publications, where it is settled beforehand."""
    how: ShapeLookup = field(default_factory=looked_up_with)
    """What shapes are looked up with where this was made, which is the driver."""

    def of_task(self) -> int:
        """The version for the publications of this task."""
        if self.version is not None:
            return self.version
        if version := local_property(VERSION):
            return int(version)
        if self.registry is None:
            raise RuntimeError("subscriptions without a version and without a registry")
        query, batch = query_id(), local_property("streaming.sql.batchId")
        return self.registry.pin(query, int(batch)) if query and batch else self.registry.version

    def view(self, oldest: int, version: int) -> View:
        """What stands for these versions; whoever needs a version that is not there yet has it made."""
        layers = _layers(self.index_storage)
        look_up_with(self.how)
        if self.registry is not None and not layers.covers(oldest, version):
            self.registry.prepare(oldest, version)
        return layers.view(oldest, version)


@lru_cache(maxsize=8)
def _layers(location: str) -> IndexLayers:
    """One per location and process, so that layers are mapped once for all the batches that a worker sees."""
    return IndexLayers(location)


class SelectedBatch:
    """Some publications and who is told of them. They are matched when somebody first asks who that is.

    What patterns want is asked of the patterns' own index (``shard_parts.py``), so a task that only feeds patterns
    never matches the others. ``seconds`` is what matching took.
    """

    def __init__(self, arrived: Arrived) -> None:
        self.batch, self.view, self.versions, self.faults, self.sizes, self.first_row, self.clock = arrived
        self.publications = self.batch.length
        self.seconds = 0.0

    @cached_property
    def _matches(self) -> Matches:
        began = perf_counter()
        found = self.view.match(self.batch, self.versions)
        self.seconds = perf_counter() - began
        return found

    @property
    def notifications(self) -> int:
        """How many there are."""
        return len(self._matches.owners)

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """When the publications happened, in microseconds since 1970."""
        return self.batch.times()

    @cached_property
    def grouped(self) -> pa.Table:
        """A row per publication that matched something."""
        return notification_tables.grouped(self.batch, self._matches, self.view.catalogue)

    @cached_property
    def flat(self) -> pa.Table:
        """A row per notification."""
        return notification_tables.flat(self.batch, self._matches, self.view.catalogue)


@dataclass(frozen=True)
class Select:
    """A feed and the subscriptions that its publications are matched with."""

    feed: Feed
    subscriptions: Subscriptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SelectedBatch]:
        return map(SelectedBatch, self.feed(batches, self.subscriptions))
