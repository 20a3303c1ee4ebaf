"""The subscriptions of a range of versions, ready to match: each publication with those active when it appeared.

A ``Layer`` is an immutable snapshot of some subscriptions with the version each was made at. A ``View`` puts layers
together, without copying their arrays, and leaves out subscriptions that were not yet made at a publication's version
or had ended by then, and those that do not want what has expired. ``store/index_layers.py`` writes the layers, and the
pipeline matches with views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import SnapshotError
from tidegate.index import Batch, Index, Matches
from tidegate.index.catalogue import Catalogue
from tidegate.index.patterns import Patterns, read_patterns
from tidegate.index.segment import Segment
from tidegate.index.snapshot import assembled, read

__all__ = ["Ended", "Layer", "View"]

#: Versions are of 64 bits; a subscription that has not ended ends here.
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Layer:
    """A snapshot in memory-mapped files, and the version at which each of its subscriptions was made; the numbers of
    those that want also publications that have expired.
    """

    segment: Segment
    subscriptions: pa.Table
    since: NDArray[np.int64]
    expired: NDArray[np.int64]
    patterns: tuple[Segment, pa.Table, pa.Table] | None = None

    @staticmethod
    def open(directory: Path) -> Layer:
        """Map the files of a layer."""
        segment, subscriptions = read(directory)
        try:
            since, expired = (
                np.asarray(np.load(directory / f"{name}.npy", mmap_mode="c")) for name in ("since", "expired")
            )
        except (OSError, ValueError) as error:
            raise SnapshotError("a layer of an index", f"{error}", str(directory)) from None
        if len(since) != subscriptions.num_rows:
            raise SnapshotError(f"{subscriptions.num_rows} versions", f"{len(since)}", str(directory))
        if len(expired) and not 0 <= expired.min() <= expired.max() < len(since):
            raise SnapshotError(f"numbers below {len(since)}", "others", str(directory / "expired.npy"))
        return Layer(segment, subscriptions, since, expired, read_patterns(directory))


@dataclass(frozen=True, slots=True)
class Ended:
    """Subscriptions of a layer that have ended: their numbers in it, and the versions of their ends."""

    numbers: Sequence[int] = ()
    versions: Sequence[int] = ()


class View:
    """Layers put together. It answers for every version from ``oldest`` to ``version``."""

    def __init__(self, layers: Sequence[Layer], ended: Sequence[Ended], oldest: int, version: int) -> None:
        self.oldest, self.version = oldest, version
        self.index: Index
        self.catalogue: Catalogue
        self.index, self.catalogue = assembled([(layer.segment, layer.subscriptions) for layer in layers])
        self.patterns = Patterns.assembled([(layer.subscriptions.num_rows, layer.patterns) for layer in layers])
        self.since = np.concatenate([layer.since for layer in layers]) if layers else np.zeros(0, np.int64)
        self._newest = max((int(layer.since.max()) for layer in layers if len(layer.since)), default=0)
        self._until: NDArray[np.int64] | None = None
        starts = np.cumsum([0, *(len(layer.since) for layer in layers)])
        self._want_expired = [start + layer.expired for start, layer in zip(starts, layers, strict=False)]
        for start, gone in zip(starts, ended, strict=False):
            if len(gone.numbers):
                if self._until is None:
                    self._until = np.full(len(self.since), _NEVER)
                self._until[start + np.asarray(gone.numbers, np.int64)] = gone.versions

        self._filters: dict[tuple[int, int], NDArray[np.int64]] = {}

    def covers(self, oldest: int, version: int) -> bool:
        """Whether it answers for all these versions."""
        return self.oldest <= oldest and version <= self.version

    def __len__(self) -> int:
        """Subscriptions active at the newest version."""
        alive = self.since <= self.version
        if self._until is not None:
            alive &= self._until > self.version
        return int(np.count_nonzero(alive))

    @cached_property
    def names(self) -> set[str]:
        """The names of the attributes that some subscription asks about."""
        return self.index.names | self.patterns.names

    def until(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The versions at which subscriptions ended; ``_NEVER`` for those that have not."""
        return np.full(len(numbers), _NEVER) if self._until is None else self._until[numbers]

    @cached_property
    def wants_expired(self) -> NDArray[np.bool_]:
        """Whether each subscription wants also publications that have expired."""
        wanted = np.zeros(len(self.since), np.bool_)
        for numbers in self._want_expired:
            wanted[numbers] = True
        return wanted

    @cached_property
    def _by_since(self) -> NDArray[np.int64]:
        return np.argsort(self.since, kind="stable")

    def numbers(self, since: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of subscriptions by the versions at which they were made; −1 for those that are not here."""
        if not len(self.since):
            return np.full(len(since), -1)
        order = self._by_since
        found = order[np.minimum(np.searchsorted(self.since, since, sorter=order), len(order) - 1)]
        return np.where(self.since[found] == since, found, -1)

    def filters_of(self, shard: int, shards: int) -> NDArray[np.int64]:
        """The filters that some pattern of a shard has; a subscription is in shard ``version % shards``."""
        if (shard, shards) not in self._filters:
            mine = self.since[self.patterns.subscriptions] % shards == shard
            self._filters[shard, shards] = self.patterns.filters_by(mine)
        return self._filters[shard, shards]

    def match(
        self, batch: Batch, versions: int | NDArray[np.int64], expired: NDArray[np.bool_] | None = None
    ) -> Matches:
        """The owners per publication that were active at its version: one version for all, or one for each. Of
        publications that had ``expired``, only the owners that want these.
        """
        matches = self.index.match(batch)
        is_active = self._until is None and np.min(versions, initial=self._newest) >= self._newest
        if not len(matches.owners) or (is_active and expired is None):
            return matches
        start, owners = matches
        rows = np.repeat(np.arange(batch.length), np.diff(start))
        at = versions[rows] if isinstance(versions, np.ndarray) else np.int64(versions)
        there = self.since[owners] <= at
        if self._until is not None:
            there &= self._until[owners] > at
        if expired is not None:
            there &= ~expired[rows] | self.wants_expired[owners]
        kept = np.zeros(batch.length + 1, np.int64)
        np.cumsum(np.bincount(rows[there], minlength=batch.length), out=kept[1:])
        return Matches(kept, owners[there])
