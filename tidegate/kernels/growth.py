"""Longer copies of arrays that have become too short for what kernels write into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.kernels.compiled import njit

__all__ = ["grown"]


@njit(cache=True, nogil=True)
def grown(array: Any, least: int = 0) -> Any:
    """The same rows in an array twice as long, or of ``least`` rows if that is more.

    They are copied in a loop because numba takes much longer to compile slices.
    """
    new = np.empty((max(2 * len(array), least), *array.shape[1:]), array.dtype)
    old, flat = array.reshape(-1), new.reshape(-1)
    for i in range(len(old)):
        flat[i] = old[i]
    return new
