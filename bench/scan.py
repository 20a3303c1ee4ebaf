"""The rivals in process: an early-exit linear scan in numba, and PyPI's ``rule-engine``.

The scan keeps the two bounds of a predicate side by side and stops at the first predicate that fails; it is what one
would write without an index, compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import rule_engine
from numba import njit
from numpy.typing import NDArray

__all__ = ["Rules", "scan"]


@njit(cache=True)
def scan(
    values: NDArray[np.float64],
    start: NDArray[np.int64],
    column: NDArray[np.uint16],
    bounds: NDArray[np.float64],
    start_out: NDArray[np.int64],
    out: NDArray[np.int32],
) -> int:
    """Subscriptions whose predicates low ≤ value < high all hold, per publication; how many ids were written."""
    written = 0
    for p in range(len(values)):
        start_out[p] = written
        for s in range(len(start) - 1):
            held = True
            for k in range(start[s], start[s + 1]):
                v = values[p, column[k]]
                if not bounds[k, 0] <= v < bounds[k, 1]:
                    held = False
                    break
            if held:
                out[written] = s
                written += 1
    start_out[len(values)] = written
    return written


class Rules:
    """Subscriptions as rule-engine rules, tried one by one."""

    def __init__(self, texts: list[str]) -> None:
        self.rules = [rule_engine.Rule(text) for text in texts]

    def match(self, publications: list[dict[str, Any]]) -> list[set[int]]:
        return [{i for i, rule in enumerate(self.rules) if rule.matches(p)} for p in publications]
