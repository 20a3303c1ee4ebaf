"""Storms that never were, on the paths of Stevens's Figure 7.4: A from the west, B from the north; C from nowhere."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from examples.severe_weather.county_warnings import CountyWarning

__all__ = ["PATHS", "warnings"]

#: The counties that each is warned of in, one after the other; its first warning is so many hours after noon.
PATHS = {
    "A": (2, ("ne:Hall", "ne:Hamilton", "ne:York")),
    "B": (5, ("ne:Merrick", "ne:Hamilton", "ne:Fillmore")),
    "C": (8, ("ne:Hamilton",)),
}
_NOON = datetime(2030, 6, 1, 12, 0, tzinfo=timezone(timedelta(hours=-5)))
_EVERY, _LASTS = timedelta(minutes=30), timedelta(minutes=45)


def warnings() -> list[CountyWarning]:
    """A warning every half hour, each of 45 minutes, so that one starts while the one before still runs."""
    made = []
    for path, (hours, counties) in PATHS.items():
        for i, county in enumerate(counties):
            start = _NOON + timedelta(hours=hours) + i * _EVERY
            made.append(CountyWarning(f"{path}.{i + 1}.2030", "synthetic", "tstorm", start, {county: start + _LASTS}))
    return made
