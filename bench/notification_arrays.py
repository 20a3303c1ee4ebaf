"""What an engine or a rival of it told, as arrays that can be compared. Knows no pattern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["Told"]


@dataclass(frozen=True)
class Told:
    """Who was told of which publication and when, all as numbers; with scores, NaN where they are not known."""

    subscription: NDArray[np.int64]
    publication: NDArray[np.int64]
    time: NDArray[np.int64]
    score: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of(cls, table: pa.Table) -> Told:
        """What the engine gave, flat or grouped. Ids are a letter and a number; of several publications the first."""
        if "subscription_ids" in table.column_names:
            lists = table.column("subscription_ids").combine_chunks()
            counts = np.diff(lists.offsets.to_numpy()) if len(lists) else np.zeros(0, np.int64)
            subscriptions = lists.flatten()
            publications = np.repeat(_number(table.column("publication_id")), counts)
            times = np.repeat(_micros(table.column("time")), counts)
            return cls(_number(subscriptions), publications, times, np.full(len(times), np.nan))
        firsts = pc.list_element(table.column("publication_ids"), 0)
        score = table.column("score").cast(pa.float64()).fill_null(np.nan).to_numpy()
        return cls(_number(table.column("subscription_id")), _number(firsts), _micros(table.column("time")), score)

    @classmethod
    def joined(cls, parts: list[Told]) -> Told:
        """One after the other."""
        names = ("subscription", "publication", "time", "score")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def among(self, subscriptions: int) -> Told:
        """Only what the first so many subscriptions were told."""
        kept = self.subscription < subscriptions
        return Told(self.subscription[kept], self.publication[kept], self.time[kept], self.score[kept])

    def equals(self, other: Told) -> bool:
        """The same subscriptions were told of the same publications at the same times, with the same scores."""
        if len(self) != len(other):
            return False
        a, b = self._ordered(), other._ordered()
        for name in ("subscription", "publication", "time"):
            if not np.array_equal(getattr(a, name), getattr(b, name)):
                return False
        known = ~(np.isnan(a.score) | np.isnan(b.score))
        return bool(np.allclose(a.score[known], b.score[known], rtol=1e-12, atol=0))

    def _ordered(self) -> Told:
        order = np.lexsort((self.time, self.publication, self.subscription))
        return Told(self.subscription[order], self.publication[order], self.time[order], self.score[order])

    def digest(self) -> tuple[int, int]:
        """How many, and a sum over all that does not depend on their order."""
        mixed = np.zeros(len(self), np.uint64)
        for part in (self.subscription, self.publication, self.time):
            mixed ^= part.astype(np.uint64)
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
        return len(self), int(mixed.sum(dtype=np.uint64))


def _number(ids: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = pc.utf8_slice_codeunits(ids, 1).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _micros(times: pa.ChunkedArray) -> NDArray[np.int64]:
    micros: NDArray[np.int64] = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    return micros
