"""What the patterns of a shard raise, to become notifications: ``Combine.take`` returns a ``Raised``.

Subscriptions are numbers, those with which the caller admitted them; publications are named by their ids. Knows
nothing of subscribers or of tables of notifications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.kernels.memory import rows_of, texts_of

__all__ = ["SILENCE", "PublicationIds", "Raised"]


class PublicationIds(NamedTuple):
    """Ids of publications: that of i is ``letters[offsets[i]:offsets[i + 1]]``, in UTF-8; an empty one for none."""

    offsets: NDArray[np.int64]
    letters: NDArray[np.uint8]

    def listed(self) -> list[str]:
        """The ids as Python has them."""
        ends, letters = self.offsets.tolist(), self.letters.tobytes()
        if letters.isascii():
            text = letters.decode()
            return [text[begin:end] for begin, end in pairwise(ends)]
        return [letters[begin:end].decode() for begin, end in pairwise(ends)]

    @staticmethod
    def joined(parts: Sequence[PublicationIds]) -> PublicationIds:
        """The ids of several, one after the other."""
        return PublicationIds(
            _joined_starts([part.offsets for part in parts]), np.concatenate([part.letters for part in parts])
        )

    def array(self) -> pa.Array:
        """The ids as Arrow has them, null for none."""
        sizes = np.diff(self.offsets)
        buffers = [pa.py_buffer(self.offsets), pa.py_buffer(self.letters)]
        texts = pa.LargeStringArray.from_buffers(len(sizes), *buffers)
        return texts if sizes.all() else pa.compute.if_else(pa.array(sizes == 0), None, texts)


@dataclass(frozen=True, slots=True)
class Raised:
    """Owners, moments, scores, distances (NaN: none), ids of publications as lists with their rows in the log (−1:
    none), the id of the one that raised it with its row and its hash of 128 bits, and 128 bits of the publications for
    the notification's id.
    """

    owner: NDArray[np.int64]
    moment: NDArray[np.int64]
    score: NDArray[np.float64]
    distance: NDArray[np.float64]
    start: NDArray[np.int64]
    ids: PublicationIds
    """Those of i are ``start[i]`` to ``start[i + 1]``."""
    rows: NDArray[np.int64]
    raised: PublicationIds
    raised_row: NDArray[np.int64]
    raised_hash: NDArray[np.uint64]
    digest: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.owner)

    @staticmethod
    def joined(parts: Sequence[Raised]) -> Raised:
        """What was raised one after the other."""
        some = [part for part in parts if len(part)]
        if len(some) < 2:
            return some[0] if some else SILENCE
        fields: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in some]) for name in _EACH}
        fields |= {name: PublicationIds.joined([getattr(part, name) for part in some]) for name in ("ids", "raised")}
        return Raised(start=_joined_starts([part.start for part in some]), **fields)

    def of(self, owner: int) -> Raised:
        """What was raised of one subscription."""
        rows = np.flatnonzero(self.owner == owner)
        if not len(rows):
            return SILENCE
        start, places = rows_of(self.start, np.arange(self.start[-1], dtype=np.int32), rows)
        return Raised(
            self.owner[rows], self.moment[rows], self.score[rows], self.distance[rows], start,
            PublicationIds(*texts_of(places.astype(np.int64), *self.ids)), self.rows[places],
            PublicationIds(*texts_of(rows, *self.raised)), self.raised_row[rows], self.raised_hash[rows],
            self.digest[rows],
        )  # fmt: skip


_EACH = ("owner", "moment", "score", "distance", "rows", "raised_row", "raised_hash", "digest")


def _joined_starts(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Where each begins, and the last ends, if what these are starts of stands one after the other."""
    return np.concatenate(([0], np.cumsum(np.concatenate([np.diff(start) for start in parts])))).astype(np.int64)


_NO_TEXTS = PublicationIds(np.zeros(1, np.int64), np.empty(0, np.uint8))
SILENCE = Raised(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0), np.zeros(1, np.int64),
    _NO_TEXTS, np.empty(0, np.int64), _NO_TEXTS, np.empty(0, np.int64),
    np.empty((0, 2), np.uint64), np.empty((0, 2), np.uint64),
)  # fmt: skip
