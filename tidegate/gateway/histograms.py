"""Histograms of seconds: how many were below each of some bounds, and their sum. Added to in the event loop."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

__all__ = ["BOUNDS", "Histogram"]

#: Upper bounds, in seconds; above the last there is one more bucket.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """How many seconds things took. ``numbers`` has the count of each bucket and then the sum."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers: list[float] = [0] * (len(BOUNDS) + 2)

    def add(self, seconds: float, count: int = 1) -> None:
        """Count so many that took so long."""
        numbers = self.numbers
        numbers[bisect_left(BOUNDS, seconds)] += count
        numbers[-1] += seconds * count

    @staticmethod
    def cumulated(numbers: list[float]) -> list[tuple[str, float]]:
        """The buckets as Prometheus wants them: bounds as text, and how many were not above each."""
        bounds = [f"{bound:g}" for bound in BOUNDS]
        return list(zip([*bounds, "+Inf"], accumulate(numbers[:-1]), strict=True))
