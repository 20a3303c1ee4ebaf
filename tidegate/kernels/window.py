"""The publications of one subscription's window, and their scores: what ``explain`` reads of the state.

``TopK.reason`` and ``Together.reason`` call it for a single subscription. Publications never go through it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown
from tidegate.kernels.score import DEPTH, scores

__all__ = ["window_items", "window_scores"]

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def window_items(
    pair: int, before: int, oldest: int, most: int, since: int, until: int,
    time: Any, version: Any, pair_item: Any, pair_before: Any,
) -> NDArray[np.int64]:  # fmt: skip
    """The last ``most`` publications of a filter that are a subscription's own, the newest first.

    ``pair`` is the filter's last pair. Only publications that patterns saw before the one at the place ``before``, and
    only those after the moment ``oldest``.
    """
    found, n = np.empty(64, np.int64), 0
    while pair >= 0 and n < most:
        p = pair_item[pair]
        if time[p] <= oldest:
            break
        if p < before and since <= version[p] < until:
            if n == len(found):
                found = grown(found)
            found[n] = p
            n += 1
        pair = pair_before[pair]
    return found[:n]


@_jit
def window_scores(steps: Any, values: Any, rows: Any, numbers: Any, place: int) -> NDArray[np.float64]:
    """The scores of these rows of ``values`` for the subscription at one place; not finite where there is none."""
    found, stack = np.empty(len(rows)), np.empty((DEPTH, 1))
    for i in range(len(rows)):
        scores(steps, values, rows[i], numbers, place, 1, stack)
        found[i] = stack[0, 0]
    return found
