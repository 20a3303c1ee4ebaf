"""What the patterns of a shard remember in common: publications in order, and which of them passed which filter.

``Combine`` has one ``Memory`` per shard; families read it through a ``Step``. A *pair* is a publication and a filter
that it passed. Filters are numbered here, and the values of publications that patterns need have columns here. What no
window reaches any more is removed from time to time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.memory import (
    FilterPairs,
    FilterWindows,
    by_filters,
    chain,
    compact_pairs,
    log_rows_of,
    order_ties,
    rows_of,
    take_one,
    texts_of,
)
from tidegate.patterns.arrays import Arrays
from tidegate.patterns.raised import PublicationIds
from tidegate.predicates.column import Column

__all__ = ["LONG_AGO", "Arrivals", "Memory", "Step", "rowless"]

LONG_AGO = -(2**62)
#: Publications and pairs that are kept before it is worth looking for what may be forgotten.
_FEW = 16_384


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Publications that passed some filter of a shard, as they appeared and so in any order."""

    time: NDArray[np.int64]
    clock: NDArray[np.int64]
    """The clock before they appeared: what is older than that is late."""
    turn: NDArray[np.int64]
    """In which order they appeared; those that appeared together have the same."""
    version: NDArray[np.int64]
    """The version of the registry (or count of calls, in process) at which they appeared."""
    row: NDArray[np.int64]
    """The row of each in the log; −1 where the source has no rows."""
    offsets: NDArray[np.int64]
    letters: NDArray[np.uint8]
    """The ids: that of i is ``letters[offsets[i]:offsets[i + 1]]``."""
    phase: NDArray[np.uint8]
    hash: NDArray[np.uint64]
    """128 bits of source, id and phase."""
    source: NDArray[np.uint64]
    """128 bits of the source."""
    values: NDArray[np.float64]
    """A column per column of the memory."""
    start: NDArray[np.int64]
    hits: NDArray[np.int32]
    """The filters of i, by the memory's numbers, are ``hits[start[i]:start[i + 1]]``."""

    def __len__(self) -> int:
        return len(self.time)

    def picked(self, rows: NDArray[np.int64]) -> Arrivals:
        """The publications of these rows, in that order."""
        offsets, letters = texts_of(rows, self.offsets, self.letters)
        start, hits = rows_of(self.start, self.hits, rows)
        time, clock, turn, version, row = (a[rows] for a in (self.time, self.clock, self.turn, self.version, self.row))
        rest = self.phase[rows], self.hash[rows], self.source[rows], self.values[rows]
        return Arrivals(time, clock, turn, version, row, offsets, letters, *rest, start, hits)

    def in_order(self, by_turn: bool) -> NDArray[np.int64]:
        """The rows in the order of time, then of appearance if ``by_turn``, then of id, phase and source."""
        order = np.argsort(self.time, kind="stable")
        turn = self.turn if by_turn else np.zeros(len(self), np.int64)
        order_ties(order, self.time, turn, self.offsets, self.letters, self.phase, self.source)
        return order

    @staticmethod
    def joined(parts: Sequence[Arrivals]) -> Arrivals:
        """The publications of several ``Arrivals``, one after the other."""
        if len(parts) == 1:
            return parts[0]
        fields: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _EACH}
        for name in ("offsets", "start"):
            ends = np.cumsum([0, *(getattr(part, name)[-1] for part in parts)])
            shifted = [getattr(part, name)[1:] + end for part, end in zip(parts, ends, strict=False)]
            fields[name] = np.concatenate([np.zeros(1, np.int64), *shifted])
        return Arrivals(**fields)


_EACH = ("time", "clock", "turn", "version", "row", "letters", "phase", "hash", "source", "values", "hits")
_ONE_ROWLESS = np.full(1, -1)


def rowless(publications: int) -> NDArray[np.int64]:
    """``Arrivals.row`` of so many publications of a source without rows."""
    return np.full(publications, -1) if publications > 1 else _ONE_ROWLESS[:publications]


class Step(NamedTuple):
    """A batch that the memory has taken, for the families."""

    first_item: int
    first_pair: int
    start: NDArray[np.int64]
    hits: NDArray[np.int32]
    filters: NDArray[np.int32]
    """The filters that the batch passed, each once."""
    filter_start: NDArray[np.int64]
    by_filter: NDArray[np.int64]
    """The pairs of filter d of ``filters`` are ``by_filter[filter_start[d]:filter_start[d + 1]]``."""
    before: NDArray[np.int64]
    """The last pair of each of ``filters`` before the batch."""
    families: int
    """A bit for each family that has one of ``filters``."""
    combinations: int
    """How many combinations of one publication may raise a notification at most."""
    strict: bool
    """Whether some subscription may not see some publication of the batch, so that versions must be compared."""
    phase: NDArray[np.uint8]
    keep: int
    """How long events are remembered, in microseconds."""
    most: int
    """How many remembered publications back an ended event is forgotten."""


class Memory:
    """Publications and pairs of one shard."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        get = arrays.get
        self.time, self.version = get("time", np.int64), get("version", np.int64)
        self.row = get("row", np.int64)
        self.hash, self.source = get("hash", np.uint64, 2), get("source", np.uint64, 2)
        self.values = get("values", np.float64, 0)
        self.text_end, self.letters = get("text_end", np.int64), get("letters", np.uint8)
        self.pair_item, self.pair_before = get("pair_item", np.int64), get("pair_before", np.int64)
        self.pair_number, self.pair_filter = get("pair_number", np.int64), get("pair_filter", np.int32)
        self._items = self.time, self.version, self.row, self.hash, self.source, self.values
        self._pairs = self.pair_item, self.pair_before, self.pair_number, self.pair_filter
        self.head, self.count = get("head", np.int64), get("count", np.int64)
        self.reach, self.depth = get("reach", np.int64), get("depth", np.int64)
        self.recent_time, self.key = get("recent_time", np.int64), get("key", np.uint8, 16)
        if not self.text_end.length:
            self.text_end.extend(np.zeros(1, np.int64))
        if self.row.length < self.time.length:  # a snapshot from before publications had rows
            self.row.extend(rowless(self.time.length - self.row.length))
        self._numbers: dict[bytes, int] = {}
        self._columns: list[Column] = []
        self._marks = np.full(0, -1)
        self._oldest: int | None = None
        self.families = np.empty(0, np.uint8)
        """A bit for each family that has a filter, by filter; ``Combine`` fills it in."""

    def __len__(self) -> int:
        return self.time.length

    # --- filters and columns ----------------------------------------------------------------------------------------

    @property
    def filters(self) -> dict[bytes, int]:
        """The number of each filter by its key."""
        if len(self._numbers) != self.key.length:  # another process may have added some
            self._numbers = {row.tobytes(): number for number, row in enumerate(self.key.used)}
        return self._numbers

    def numbered(self, keys: Sequence[bytes]) -> list[int]:
        """The numbers of filters, new ones for those that are not known."""
        known = self.filters
        fresh = [key for key in dict.fromkeys(keys) if key not in known]
        if fresh:
            known.update(zip(fresh, range(self.key.length, self.key.length + len(fresh)), strict=True))
            self.key.extend(np.frombuffer(b"".join(fresh), np.uint8).reshape(-1, 16))
            self.head.extend(np.full(len(fresh), -1))
            self.recent_time.extend(np.full(len(fresh), LONG_AGO))
            for array in (self.count, self.reach, self.depth):
                array.extend(np.zeros(len(fresh), np.int64))
        return [known[key] for key in keys]

    @property
    def columns(self) -> list[Column]:
        """The columns of values, in order."""
        told = self.arrays.facts.columns
        if len(told) != len(self._columns):
            self._columns = [Column.restored(*plain) for plain in told]
        return self._columns

    def want(self, columns: Iterable[Column]) -> None:
        """Add the columns that are missing; earlier publications have no values in new ones."""
        known = self.columns
        new = [column for column in dict.fromkeys(columns) if column not in known]
        if new:
            self.arrays.facts.columns += [column.plain() for column in new]
            wider = np.full((len(self), len(self.columns)), np.nan)
            wider[:, : self.values.data.shape[1]] = self.values.used
            self.values.replace(wider)

    @property
    def marks(self) -> NDArray[np.int64]:
        """An element for each filter, all −1, for kernels, which leave them so."""
        if len(self._marks) < self.key.length:
            self._marks = np.full(2 * self.key.length, -1)
        return self._marks

    # --- publications -----------------------------------------------------------------------------------------------

    @property
    def oldest_version(self) -> int:
        """No publication appeared at an older version than this."""
        if self._oldest is None:
            self._oldest = int(self.version.used.min(initial=2**62))
        return self._oldest

    def take(self, batch: Arrivals, strict: bool, combinations: int, keep: int, most: int) -> Step:
        """Append a batch that is in order."""
        if self._oldest is not None:
            self._oldest = min(self._oldest, int(batch.version.min(initial=2**62)))
        if len(batch) == 1:
            return self._take_one(batch, strict, combinations, keep, most)
        first_item, first_pair, n = len(self), self.pair_item.length, len(batch.hits)
        self.time.extend(batch.time)
        self.version.extend(batch.version)
        self.row.extend(batch.row)
        self.hash.extend(batch.hash)
        self.source.extend(batch.source)
        self.values.extend(batch.values)
        self.text_end.extend(batch.offsets[1:] + self.letters.length)
        self.letters.extend(batch.letters[: batch.offsets[-1]])
        filters, filter_start, by_filter, before, families = by_filters(
            batch.hits, first_pair, self.head.data, self.marks, self.families
        )
        pairs = FilterPairs(*(array.reserve(n) for array in self._pairs))
        chain(batch.start, batch.hits, first_item, first_pair, self.head.data, self.count.data, pairs)
        for array in self._pairs:
            array.length += n
        return Step(
            first_item, first_pair, batch.start, batch.hits, filters, filter_start, by_filter, before, families,
            combinations, strict, batch.phase, keep, most,
        )  # fmt: skip

    def _take_one(self, batch: Arrivals, strict: bool, combinations: int, keep: int, most: int) -> Step:
        """``take`` for a single publication, in one compiled call."""
        hits, letters = batch.hits, int(batch.offsets[1])
        n, first_item, first_letter, first_pair = len(hits), len(self), self.letters.length, self.pair_item.length
        for array in self._items:
            if array.length == len(array.data):
                array.reserve(1)
        for array in self._pairs:
            if array.length + n > len(array.data):
                array.reserve(n)
        before, families = take_one(
            batch.time, batch.version, batch.row, batch.hash, batch.source, batch.values, batch.letters[:letters], hits,
            first_item, first_letter, first_pair,
            self.time.data, self.version.data, self.row.data, self.hash.data, self.source.data, self.values.data,
            self.text_end.reserve(1), self.letters.reserve(letters),
            self.head.data, self.count.data, self.pair_item.data, self.pair_before.data, self.pair_number.data,
            self.pair_filter.data, self.families,
        )  # fmt: skip
        for array in self._items:
            array.length += 1
        for array in self._pairs:
            array.length += n
        self.text_end.length += 1
        self.letters.length += letters
        by_filter = np.arange(first_pair, first_pair + n)
        return Step(
            first_item, first_pair, batch.start, hits, hits, np.arange(n + 1), by_filter, before, families,
            combinations, strict, batch.phase, keep, most,
        )  # fmt: skip

    def texts(self, items: NDArray[np.int64]) -> PublicationIds:
        """The ids of publications; an empty one for −1."""
        return PublicationIds(*texts_of(items, self.text_end.data, self.letters.data))

    def rows(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of publications in the log; −1 for −1, and for those of a source without rows."""
        found: NDArray[np.int64] = log_rows_of(items, self.row.data)
        return found

    def hashes(self, items: NDArray[np.int64]) -> NDArray[np.uint64]:
        """128 bits of publications; zeros for −1."""
        found, there = np.zeros((len(items), 2), np.uint64), items >= 0
        found[there] = self.hash.data[items[there]]
        return found

    @property
    def is_large(self) -> bool:
        """Whether it is worth to look for what may be forgotten."""
        facts = self.arrays.facts
        return len(self) > 2 * facts.kept_items + _FEW or self.pair_item.length > 2 * facts.kept_pairs + _FEW

    def forget(self, clock: int, named: Sequence[NDArray[np.int64]]) -> None:
        """Remove what no window reaches. ``named`` are arrays of places of publications to keep; they are updated."""
        wanted = np.zeros(len(self) + 1, np.uint8)
        for items in named:
            wanted[items] = 1  # −1, for none, marks the extra last one
        wanted[-1] = 0
        windows = FilterWindows(self.reach.data, self.depth.data, self.head.used)
        old = FilterPairs(*(array.data for array in self._pairs))
        pairs = compact_pairs(clock, self.pair_item.length, self.time.data, self.version.data, windows, old, wanted)
        rows = np.flatnonzero(wanted)
        place = np.full(len(self) + 1, -1)
        place[rows] = np.arange(len(rows))
        for items in named:
            items[:] = place[items]
        self.pair_item.data[:pairs] = place[self.pair_item.data[:pairs]]
        for array in self._pairs:
            array.length = pairs
        offsets, letters = self.texts(rows)
        for array in self._items:
            array.replace(array.used[rows])
        self.text_end.replace(offsets)
        self.letters.replace(letters)
        self.arrays.facts.kept_items, self.arrays.facts.kept_pairs = len(rows), pairs
        self._oldest = None
