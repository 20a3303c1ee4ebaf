"""Unbalanced Haar wavelets: sums over the nodes of a tree of halves, and the differences of each node's two halves.

The sums are added up along the tree, so that rounding grows with its depth and not with the length of the series. Each
row is done on its own, so that its bits depend on nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = ["differences"]


@njit(cache=True, nogil=True, error_model="numpy")
def differences(
    rows: NDArray[np.float64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    left_weight: NDArray[np.float64],
    right_weight: NDArray[np.float64],
    top: NDArray[np.int32],
    top_weight: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Weighted sums of the places in ``top``, then weighted differences of the nodes, as many as ``out`` has room for.

    A place below n is a number of the series, place n + i is node i; children of a node come after it.
    """
    n, heads, wanted = rows.shape[1], len(top), out.shape[1]
    sums = np.empty(n + len(left))
    for r in range(len(rows)):
        for i in range(n):
            sums[i] = rows[r, i]
        for node in range(len(left) - 1, -1, -1):
            a, b = sums[left[node]], sums[right[node]]
            sums[n + node] = a + b
            if heads + node < wanted:
                out[r, heads + node] = b * right_weight[node] - a * left_weight[node]
        for i in range(min(heads, wanted)):
            out[r, i] = sums[top[i]] * top_weight[i]
