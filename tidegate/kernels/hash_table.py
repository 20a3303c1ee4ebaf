"""An open hash table of entries whose key is a number and the hash of a source or an id: watches, tracks, events.

The table has the places of entries in the caller's arrays, or −1; its length is a power of two, and it is less than
half full. Nothing here knows what the entries are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.encode import mixed

__all__ = ["place_all", "spot_of"]

_jit = njit(cache=True, nogil=True)


@_jit
def spot_of(table: Any, number: int, one: Any, two: Any, numbers: Any, sources: Any) -> int:
    """Where in the table an entry is, or would be; ``one`` and ``two`` are the halves of the hash of its source."""
    mask = np.uint64(len(table) - 1)
    i = mixed(one ^ mixed(np.uint64(number))) & mask
    while True:
        at = table[i]
        if at < 0 or (numbers[at] == number and sources[at, 0] == one and sources[at, 1] == two):
            return int(i)
        i = (i + np.uint64(1)) & mask


@_jit
def place_all(table: NDArray[np.int64], numbers: NDArray[np.int64], sources: NDArray[np.uint64]) -> None:
    """Fill an empty table with all entries of the arrays."""
    for at in range(len(numbers)):
        table[spot_of(table, numbers[at], sources[at, 0], sources[at, 1], numbers, sources)] = at
