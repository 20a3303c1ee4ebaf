"""Means over seeds and how sure they are: a 95 % confidence interval after Student. Knows numbers only."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import cos, pi, sin, sqrt, tan

__all__ = ["ENOUGH", "Estimate", "estimate", "student"]

#: Values from which on an interval is narrow enough to judge by; of two values it reaches almost anything.
ENOUGH = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of ``count`` values; ``half`` is half the width of its interval, None where there is but one value."""

    mean: float
    half: float | None
    count: int

    @property
    def low(self) -> float:
        """The lower end of the interval; the mean itself where there is none."""
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + (self.half or 0.0)


def estimate(values: Iterable[float]) -> Estimate:
    """The mean and its 95 % confidence interval, for values that are independent of each other."""
    found = [float(value) for value in values]
    mean = statistics.fmean(found)
    if len(found) < 2:
        return Estimate(mean, None, len(found))
    return Estimate(mean, student(len(found) - 1) * statistics.stdev(found) / sqrt(len(found)), len(found))


@lru_cache
def student(degrees: int, confidence: float = 0.95) -> float:
    """How many standard errors lie on each side of the mean.

    The share of Student's distribution within ±t has a closed form for whole degrees of freedom (Abramowitz and
    Stegun, 26.7.3 and 26.7.4); t is found by halving.
    """
    low, high = 0.0, pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return sqrt(degrees) * tan(low)


def _within(angle: float, degrees: int) -> float:
    """The share within ±t, where t = √degrees · tan(angle)."""
    odd = degrees % 2
    term = total = 0.0 if degrees == 1 else cos(angle) ** odd
    for k in range(2 + odd, degrees - 1, 2):
        term *= (k - 1) / k * cos(angle) ** 2
        total += term
    return (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total
