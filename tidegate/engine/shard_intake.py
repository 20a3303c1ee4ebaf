"""``ShardIntake`` turns publications that passed filters of an engine into what one shard takes.

``PatternShards`` has one for each shard. It knows the shard's number of each filter of the engine and its columns of
values, and nothing of what patterns make of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.index.patterns import Passed, Patterns
from tidegate.kernels.memory import own_numbers
from tidegate.patterns import Combine
from tidegate.patterns.memory import Arrivals, Memory, rowless
from tidegate.predicates.column import Column

__all__ = ["ShardIntake"]


class ShardIntake:
    """The filters and columns of one shard, by those of the engine."""

    def __init__(self) -> None:
        self._numbers = np.full(64, -1, np.int32)
        """The shard's number of each filter of the engine, −1 for filters that only other shards have."""
        self._columns: Sequence[Column] = ()
        self._memory: Memory | None = None
        self._places = self._missing = np.empty(0, np.int64)
        self._are_same = False

    def know(self, filters: Sequence[int], patterns: Patterns, shard: Combine) -> None:
        """Note the shard's numbers of these filters."""
        self._reach(patterns.filters_given)
        self._numbers[filters] = shard.memory.numbered(patterns.keys_of(filters))

    def _reach(self, filters: int) -> None:
        if filters > len(self._numbers):
            larger = np.full(2 * filters, -1, np.int32)
            larger[: len(self._numbers)] = self._numbers
            self._numbers = larger

    def arrivals(
        self,
        found: Passed,
        patterns: Patterns,
        shard: Combine,
        clock: int,
        version: int | NDArray[np.int64],
        even_none: bool = False,
    ) -> Arrivals | None:
        """The publications that passed a filter of the shard, as it takes them; None if there are none.

        With ``even_none`` a single publication is there although it passed none.
        """
        self._reach(patterns.filters_given)
        memory, n = shard.memory, len(found.rows)
        start, hits = own_numbers(found.start, found.hits, self._numbers, memory.marks)
        if not len(hits) and not even_none:
            return None
        self._place(patterns.columns, memory)
        values = found.values if self._are_same else self._own(found.values)
        clocks = np.full(n, clock) if n > 1 else np.array([clock], np.int64)
        versions = np.full(n, version) if n > 1 else np.array([version], np.int64).reshape(1)
        everyone = Arrivals(
            found.time, clocks, np.zeros(n, np.int64), versions, rowless(n),
            found.offsets, found.letters, found.phase, found.hash, found.source, values, start, hits,
        )  # fmt: skip
        if n == 1:
            return everyone
        some = np.flatnonzero(np.diff(start))
        return everyone if len(some) == n else everyone.picked(some)

    def takes(self, found: Passed) -> NDArray[np.bool_]:
        """Which publications passed a filter of the shard."""
        own = np.concatenate(([0], np.cumsum(self._numbers[found.hits] >= 0)))
        there: NDArray[np.bool_] = own[found.start[1:]] > own[found.start[:-1]]
        return there

    def _own(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values in the shard's columns; NaN where the engine has no such column."""
        own = values[:, self._places] if values.shape[1] else np.empty((len(values), len(self._places)))
        if len(self._missing):
            own[:, self._missing] = np.nan
        return own

    def _place(self, columns: Sequence[Column], memory: Memory) -> None:
        """Find out where the shard's columns are among the engine's, and which are not there."""
        if columns is self._columns and memory is self._memory and len(memory.columns) == len(self._places):
            return
        known = {column: number for number, column in enumerate(columns)}
        places = np.array([known.get(column, -1) for column in memory.columns], np.int64)
        self._missing = np.flatnonzero(places < 0)
        self._places = np.maximum(places, 0)
        self._are_same = places.tolist() == list(range(len(columns)))
        self._columns, self._memory = columns, memory
