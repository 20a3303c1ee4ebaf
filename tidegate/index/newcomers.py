"""Newcomers: the clauses of a draft, matched one after the other until a segment is made of them.

Building a segment takes milliseconds, and no publication shall wait for it. ``Index.match`` scans a draft as
``Newcomers`` instead, as long as that is faster, and has the segment built in the thread of the index.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tidegate.index.publication_points import Layout, PublicationPoints
from tidegate.index.segment_draft import Draft
from tidegate.index.single_segment import OwnersFound
from tidegate.kernels.select_one import scan_one
from tidegate.predicates.column import Row
from tidegate.predicates.filter import Filter

__all__ = ["Newcomers"]


class Newcomers:
    """What a draft held at some moment. It never changes."""

    def __init__(self, draft: Draft, layout: Layout) -> None:
        start, column, low, high = draft.arrays()
        owner = np.array(draft.owner, np.int32)
        self._filters: Mapping[int, Filter] = dict(draft.filters)
        """The filters, by owner, of those whose clauses have predicates that ranges do not decide."""
        self.series = draft.series
        """The attributes of which a shape is asked."""
        constants = [[text.encode() for text in draft.texts.get(c, ())] for c in range(len(draft.columns))]
        sizes = [len(text) for texts in constants for text in texts]
        self._arrays = (
            layout.places_of(draft.columns),
            np.cumsum([0, *map(len, constants)], dtype=np.int64),
            np.cumsum([0, *sizes], dtype=np.int64),
            np.frombuffer(b"".join([*(text for texts in constants for text in texts), b"\0"]), np.uint8),
            start, column, low, high, owner,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._arrays[-1])

    def match_one(self, row: Row, points: PublicationPoints, dead: NDArray[np.uint8], found: OwnersFound) -> None:
        """Find the living owners whose clauses hold for a publication, which has these points."""
        begin = found.length
        if begin + len(self) > len(found.array):
            found.grow(len(self))
        end = int(scan_one(*points.arrays, *self._arrays, dead, begin, found.array))
        if self._filters and end > begin:
            ask = self._filters.get
            kept = [who for who in found.array[begin:end].tolist() if (f := ask(who)) is None or f.holds(row)]
            end = begin + len(kept)
            found.array[begin:end] = kept
        found.length = end
