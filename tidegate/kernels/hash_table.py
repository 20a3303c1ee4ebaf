"""An open hash table of things that are told apart by a number and a source: watches, tracks.

The table has their places, or −1; it is a power of two and less than half full. Knows nothing of what the things are.
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
    """Where a thing is in the table, or where it would be; ``one`` and ``two`` are the halves of its source."""
    mask = np.uint64(len(table) - 1)
    i = mixed(one ^ mixed(np.uint64(number))) & mask
    while True:
        at = table[i]
        if at < 0 or (numbers[at] == number and sources[at, 0] == one and sources[at, 1] == two):
            return int(i)
        i = (i + np.uint64(1)) & mask


@_jit
def place_all(table: NDArray[np.int64], numbers: NDArray[np.int64], sources: NDArray[np.uint64]) -> None:
    """Fill an empty table with all things there are."""
    for at in range(len(numbers)):
        table[spot_of(table, numbers[at], sources[at, 0], sources[at, 1], numbers, sources)] = at
