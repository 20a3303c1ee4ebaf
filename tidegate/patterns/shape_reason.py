"""How near the window that a reading closes is to a shape, and what it does to an excursion, in words and as facts.

``ShapePattern.reason`` reads the track from its state; nothing here knows where it is kept.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.patterns.reason import Reason, number
from tidegate.shapes.normal_form import distance, normal

__all__ = ["Excursion", "ShapeCondition", "window_reason"]


class ShapeCondition(NamedTuple):
    """The normal form of the shape that is looked for, and how near is near enough."""

    form: NDArray[np.float64]
    limit: float
    is_strict: bool

    def is_near(self, far: float) -> bool:
        """Whether a window at that distance is near enough."""
        return far < self.limit if self.is_strict else far <= self.limit


class Excursion(NamedTuple):
    """An excursion that goes on: its best distance so far, and the id of the reading that closed that window."""

    best: float
    reading: str | None


def window_reason(
    readings: NDArray[np.float64], shape: ShapeCondition, excursion: Excursion | None, holds: bool
) -> Reason:
    """Why a reading, the last of ``readings``, ends an excursion or not; ``holds`` if the subscriber is told."""
    length, limit = len(shape.form), shape.limit
    facts: dict[str, Any] = {"readings": len(readings), "length": length, "distance": None, "tolerance": limit}
    if excursion is not None:
        facts |= {"best": excursion.best, "best_reading": excursion.reading}
    if len(readings) < length:
        return Reason(f"a window has {length} readings, and its source {len(readings)} with it", facts, False)
    form = normal(readings)
    far = inf if form is None else distance(form, shape.form)
    is_near = shape.is_near(far)
    if isfinite(far):
        facts["distance"] = far
        text = f"distance {number(far)}, tolerance {number(limit)}: {'near' if is_near else 'far'}"
    else:
        text = "the window is constant, and so far from every shape"
    best = "" if excursion is None else f"{number(excursion.best)} at {excursion.reading}"
    if is_near:
        goes = "an excursion begins" if excursion is None else f"the excursion goes on, its best so far {best}"
        return Reason(f"{text}; {goes}, and is told when a window is far", facts, False)
    if excursion is None:
        return Reason(f"{text}; there is no excursion to end", facts, False)
    ends = f"{text}; it ends the excursion, whose best is {best}"
    return Reason(ends if holds else f"{ends}, after the subscription's end", facts, holds)
