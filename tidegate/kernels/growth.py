"""Arrays that have become too short for what is written into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.kernels.compiled import njit

__all__ = ["grown"]


@njit(cache=True, nogil=True)
def grown(array: Any, least: int = 0) -> Any:
    """The same rows in an array of twice as many, or at least so many. In a loop: numba compiles slices much longer."""
    new = np.empty((max(2 * len(array), least), *array.shape[1:]), array.dtype)
    old, flat = array.reshape(-1), new.reshape(-1)
    for i in range(len(old)):
        flat[i] = old[i]
    return new
