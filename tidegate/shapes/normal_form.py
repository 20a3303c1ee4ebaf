"""Series in normal form: which series have a shape, and how far two shapes are apart.

These few functions define what ``shape`` means in the language. Knows nothing of features, structures or subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.shape import distance_of, normal_form, normal_forms

__all__ = ["LONGEST", "SHORTEST", "distance", "normal", "normals", "rendered"]

#: Numbers of a series that has a shape: two numbers have but two shapes.
SHORTEST, LONGEST = 3, 65_536

#: Numbers whose differences may be too large for a double. A scale does not matter to a shape.
_LARGE = 1e300

Series = NDArray[np.float64]


def normal(series: Sequence[float] | Series) -> Series | None:
    """The normal form, mean 0 and standard deviation 1; None where a series has none."""
    values = np.array(series, np.float64)  # a copy: the kernel is compiled for arrays that may be written to
    if values.ndim != 1 or not SHORTEST <= len(values) <= LONGEST:
        return None
    found = np.empty(len(values))
    return found if normal_form(values, found) else None


def normals(matrix: Series) -> tuple[Series, NDArray[np.bool_]]:
    """The normal form of each row, zeros where a row has none, and which have one."""
    rows, n = matrix.shape
    found, held = np.zeros((rows, n)), np.zeros(rows, np.bool_)
    if SHORTEST <= n <= LONGEST:
        flat = np.ascontiguousarray(matrix, np.float64).ravel()
        normal_forms(np.arange(rows, dtype=np.int64) * n, flat, np.arange(rows, dtype=np.int64), found, held)
    return found, held


def distance(a: Series, b: Series) -> float:
    """How far two normal forms of the same length are apart."""
    return float(distance_of(a, b))


def rendered(points: Sequence[float] | Series, n: int) -> Series:
    """Control points, evenly spaced and joined by straight lines, as a series of n numbers."""
    controls = np.asarray(points, np.float64)
    if np.abs(controls).max() > _LARGE:  # differences between them would overflow
        controls = np.ldexp(controls, -512)
    return np.interp(np.arange(n) * (len(controls) - 1) / (n - 1), np.arange(len(controls)), controls)
