"""The rivals in process: an early-exit linear scan in numba, and PyPI's ``rule-engine``.

The scan is what one would write without an index, compiled, in the faster of the layouts we tried: the two bounds of a
predicate side by side, and the first predicates of all subscriptions one after the other, since most fail there.
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
    column: NDArray[np.uint16],
    bounds: NDArray[np.float64],
    start_out: NDArray[np.int64],
    out: NDArray[np.int32],
) -> int:
    """Subscriptions whose predicates low ≤ value < high all hold, per publication; how many ids were written.

    Predicate k of subscription s is on column[k, s], between bounds[k, s, 0] and bounds[k, s, 1].
    """
    predicates, subscriptions = column.shape
    written = 0
    for p in range(len(values)):
        start_out[p] = written
        publication = values[p]
        for s in range(subscriptions):
            held = True
            for k in range(predicates):
                v = publication[column[k, s]]
                if not bounds[k, s, 0] <= v < bounds[k, s, 1]:
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
