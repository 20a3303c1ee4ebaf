"""``Select`` in a Python worker: finds the subscriptions that publications match. Stateless, so any task may repeat it.

A worker maps the index layers for the versions of its publications, and matches. ``Subscriptions`` finds out which
version applies: stamped on each publication by the log, set for the batch by ``Flow``, or pinned in the registry by the
first task that asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index import Matches, notification_tables
from tidegate.index.expiry import had_expired
from tidegate.index.shapes import look_up_with, looked_up_with
from tidegate.index.versioned import View
from tidegate.patterns.memory import rowless
from tidegate.patterns.past import Fates
from tidegate.records.row_objects import row_objects
from tidegate.runs.references import MatchReferences
from tidegate.shapes.sphere_group import ShapeLookup
from tidegate.stages.feed import Arrived, Feed
from tidegate.stages.task_context import local_property, query_id
from tidegate.store.index_layers import IndexLayers
from tidegate.store.registry import Registry

__all__ = ["VERSION", "Select", "SelectedBatch", "Subscriptions"]

#: The local property by which the flow tells tasks the version of their batch.
VERSION = "tidegate.version"


@dataclass(frozen=True)
class Subscriptions:
    """Where the index layers are, and maybe the registry that makes them, as plain data that Spark sends to workers."""

    index_storage: str
    registry: Registry | None = None
    version: int | None = None
    """The version of all publications, where the driver has settled it."""
    how: ShapeLookup = field(default_factory=looked_up_with)
    """How the driver, which makes this object, looks up shapes; workers do the same."""

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
        """The view of the index for these versions. If a version is not there yet, the registry makes its layer now."""
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
    """Some publications, and the notifications of subscriptions without a pattern, which are matched on first use.

    ``shard_parts.py`` asks the patterns' own index what patterns want, so a task that only feeds patterns never matches
    the other subscriptions. What had expired when the source took it matches only those that want it nevertheless, and
    patterns see it as ever. ``seconds`` is the time that matching took.
    """

    def __init__(self, arrived: Arrived) -> None:
        self.batch, self.view, self.versions, self.faults, self.sizes, self._rows, self.clock = arrived[:7]
        self._taken, self.ahead, self.cut = arrived.taken, arrived.ahead, arrived.cut
        self.publications = self.batch.length
        self.seconds = 0.0
        self.fates: Fates | None = None  # patterns judge events, in the next stage

    @cached_property
    def _matches(self) -> Matches:
        began = perf_counter()
        found = self.view.match(self.batch, self.versions, had_expired(self.batch, self._taken))
        self.seconds = perf_counter() - began
        return found

    @property
    def notifications(self) -> int:
        """How many notifications there are."""
        return len(self._matches.owners) if self.publications else 0

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """When the publications happened, in microseconds since 1970."""
        return self.batch.times()

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each publication in the log; −1 where the source is no log."""
        return rowless(self.publications) if self._rows is None else self._rows

    @cached_property
    def references(self) -> MatchReferences:
        """The matches as rows and numbers; no text is made for them."""
        start, owners = self._matches
        publication = np.repeat(np.arange(self.publications), np.diff(start))
        return MatchReferences(publication, self.rows[publication], self.view.since[owners], self._contents)

    def _contents(self, publications: NDArray[np.int64]) -> list[dict[str, Any]]:
        return row_objects(pa.table(self.batch.picked(publications).arrays))

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
    ahead: int | None = None
    """How far after they were taken publications may be dated, in microseconds; None if no matter."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SelectedBatch]:
        for arrived in self.feed(batches, self.subscriptions):
            yield SelectedBatch(arrived if self.ahead is None else arrived.timely(self.ahead))
