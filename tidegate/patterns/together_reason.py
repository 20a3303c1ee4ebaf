"""Which readings stand for the filters of a ``together`` and which filters miss one, in words and as facts.

``Together.reason`` reads the readings from its state; nothing here knows where they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.score import metres
from tidegate.patterns.memory import Memory
from tidegate.patterns.reason import Coming, Reason, id_of, lasting, named, number

__all__ = ["FilterReadings", "combination_reason"]


class FilterReadings(NamedTuple):
    """What there is for one filter."""

    is_passed: bool
    """Whether the publication itself passes it."""
    places: NDArray[np.int64]
    """Where in memory the readings in the window are, the last first."""
    last: int
    """Where the last reading of all that are remembered is; −1 if there is none."""
    points: NDArray[np.float64] | None
    """Longitude and latitude of the readings, if distances count."""

    def nearest(self, here: NDArray[np.float64], near: float) -> int:
        """The last reading that is near enough; −1 if there is none."""
        if self.points is None:
            return int(self.places[0]) if len(self.places) else -1
        for place, (lon, lat) in zip(self.places.tolist(), self.points.tolist(), strict=True):
            if metres(here[0], here[1], lon, lat) < near:
                return int(place)
        return -1


def combination_reason(
    memory: Memory,
    filters: Sequence[FilterReadings],
    window: int,
    near: float,
    here: NDArray[np.float64],
    coming: Coming,
) -> Reason:
    """Why a publication completes a combination or not; ``here`` is where it is, if distances count."""
    if isfinite(near) and isnan(here[0]):
        return Reason("it has no location, so it takes no part", {"missing": [], "readings": []}, False)
    found = [-1 if filter.is_passed else filter.nearest(here, near) for filter in filters]
    missing = [i + 1 for i, filter in enumerate(filters) if not filter.is_passed and found[i] < 0]
    ids = [None if filter.is_passed else id_of(memory, place) for filter, place in zip(filters, found, strict=True)]
    each = tuple(_stands(memory, *pair, window, near, coming) for pair in zip(filters, found, strict=True))
    facts = {"missing": missing, "readings": ids}
    if coming.raised:
        return Reason("it completes a combination", facts, True, each)
    if missing:
        which = ", ".join(map(str, missing))
        text = f"filter{'s' * (len(missing) > 1)} {which} of {len(filters)} miss{'es' * (len(missing) == 1)} a reading"
        return Reason(text, facts, False, each)
    if coming.is_late:
        return Reason("each filter had a reading", facts, False, each)
    if isfinite(near):
        return Reason(f"no readings are all nearer than {number(near)} m to each other", facts, False, each)
    return Reason("the subscription is not active any more", facts, False, each)


def _stands(memory: Memory, filter: FilterReadings, place: int, window: int, near: float, coming: Coming) -> str:
    """What stands for a filter."""
    if filter.is_passed:
        return "it stands for this one itself"
    if place >= 0:
        return f"{named(memory, place)} stands for this one"
    if len(filter.places):
        return f"{len(filter.places)} in the last {lasting(window)}, none nearer than {number(near)} m"
    if filter.last < 0:
        return "no reading is remembered"
    age = lasting(coming.time - int(memory.time.data[filter.last]))
    return f"the last reading, {named(memory, filter.last)}, is {age} old; the window is {lasting(window)}"
