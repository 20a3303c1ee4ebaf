"""The room of tracks: slabs of a common pool that hold the last readings of one source.

A slab grows while its track does and gives back what no window needs any more. ``kernels/excursion.py`` and
``patterns/shape.py`` use it; nothing here knows of shapes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = ["TrackSlabs", "pack_tracks", "room_of", "unneeded"]

_jit = njit(cache=True, nogil=True, error_model="numpy")


class TrackSlabs(NamedTuple):
    """For each track its group, where its slab begins, how much fits, how many readings it has, and the last of them
    that is older than one before it (−1: none is).
    """

    group: NDArray[np.int64]
    base: NDArray[np.int64]
    room: NDArray[np.int64]
    filled: NDArray[np.int64]
    tangle: NDArray[np.int64]


@_jit
def room_of(longest: int) -> int:
    """The room that a track needs: its window, and some more, so that it seldom has to move."""
    return longest + (longest >> 3) + 8


@_jit
def unneeded(base: int, count: int, longest: int, ended: int, pool_version: Any) -> int:
    """How many of the oldest readings of a track no window will ever need.

    A subscription's own readings are those that appeared while it was active. A reading that waited to be put in order
    may have an earlier version than readings before it in the track. A reading *counts* if none before it is of a later
    version that matters. Take the last counting ones, as many as the longest window has: for each subscription, either
    all of them are its own and fill its window, or the first of them, and so all before it, are older than the
    subscription.
    """
    if not longest:
        return count
    found = 0
    for i in range(base + count - 1, base - 1, -1):
        if pool_version[i] & 1 and pool_version[i] >> 1 < ended:
            found += 1
            if found == longest:
                return i - base
    return 0


@_jit
def pack_tracks(
    order: NDArray[np.int64],
    longest: NDArray[np.int64],
    ended: int,
    tracks: TrackSlabs,
    pool_value: NDArray[np.float64],
    pool_version: NDArray[np.int64],
) -> int:
    """Move the slabs together, in the order they lie in, and take room back that is no longer needed; the new end.

    ``ended`` is the first version at which a subscription that is still kept ended.
    """
    end = 0
    for t in order:
        base, count, wanted = tracks.base[t], tracks.filled[t], room_of(longest[tracks.group[t]])
        if tracks.room[t] > 2 * wanted:
            gone = unneeded(base, count, longest[tracks.group[t]], ended, pool_version)
            base, count = base + gone, count - gone
            tracks.tangle[t] = max(tracks.tangle[t] - gone, -1)
            tracks.filled[t], tracks.room[t] = count, max(count, wanted)
        for i in range(count):
            pool_value[end + i], pool_version[end + i] = pool_value[base + i], pool_version[base + i]
        tracks.base[t] = end
        end += tracks.room[t]
    return end
