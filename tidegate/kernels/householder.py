"""Householder reflections of rows, one after another: a change to an orthonormal basis that is never written out.

Golub and Van Loan, Matrix Computations, §5.1. Each row is done on its own and its sums in one fixed order, so that its
bits depend on nothing else; a matrix product of BLAS would not promise that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = ["reflected"]


@njit(cache=True, nogil=True, error_model="numpy")
def reflected(vectors: NDArray[np.float64], rows: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """The rows after all reflections, without their first number and as far as ``out`` has room.

    Vector j has length 1 and nothing before its place j; number j is final after reflection j.
    """
    n, wanted = rows.shape[1], out.shape[1]
    mirrors = min(len(vectors), wanted + 1)
    row = np.empty(n)
    for r in range(len(rows)):
        for i in range(n):
            row[i] = rows[r, i]
        for j in range(mirrors):
            vector = vectors[j]
            whole = j + (n - j) // 4 * 4
            # Four sums at a time: each addition of one sum waits for the one before, those of four do not.
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for i in range(j, whole, 4):
                a += vector[i] * row[i]
                b += vector[i + 1] * row[i + 1]
                c += vector[i + 2] * row[i + 2]
                d += vector[i + 3] * row[i + 3]
            for i in range(whole, n):
                a += vector[i] * row[i]
            twice = 2.0 * ((a + b) + (c + d))
            for i in range(j, n):
                row[i] -= twice * vector[i]
        for i in range(wanted):
            out[r, i] = row[i + 1]
