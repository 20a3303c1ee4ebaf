"""Ragged arrays: rows of different lengths, one after the other in a flat array, and where each begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["picked", "starts"]


def starts(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Where each row of a ragged array begins, and the end of the last."""
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start


def picked(start: NDArray[np.int64], rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some rows of a ragged array, in that order: their own starts, and the flat positions to take."""
    sizes = start[rows + 1] - start[rows]
    begins = starts(sizes)
    return begins, np.arange(begins[-1]) + np.repeat(start[rows] - begins[:-1], sizes)
