"""Times of many publications in a few numbers: what the paper's tables have, and a mean that stalls do not disturb."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import sqrt
from typing import Any

__all__ = ["correlation", "spread", "typical"]


def spread(seconds: Sequence[float]) -> dict[str, Any] | None:
    """Mean, standard deviation, count and standard error in microseconds; None of nothing."""
    if not seconds:
        return None
    mean = statistics.fmean(seconds)
    deviation = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {
        "mean": round(mean * 1e6, 2),
        "sd": round(deviation * 1e6, 2),
        "count": len(seconds),
        "sem": round(deviation / sqrt(len(seconds)) * 1e6, 2),
    }


def typical(stretches: Sequence[Sequence[float]]) -> float:
    """The median of the means of stretches of publications, in microseconds.

    A publication's time depends on what it is, so a median of publications would be that of one kind; a mean of all is
    at the mercy of one that the machine stalled.
    """
    return statistics.median(statistics.fmean(each) for each in stretches if each) * 1e6


def correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Pearson's R."""
    return statistics.correlation(x, y)
