"""Warnings of the National Weather Service, and the publications that tell of them as they happen.

One warning is one event with a bag of counties, not one event per row of the file. Its rows begin at the same moment:
as events of their own they would start during each other, and every warning would look like a storm on the move, while
an event never matches itself. It ends when its last county is released.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path

import tidegate as tg
from examples.severe_weather.counties import State

__all__ = ["KINDS", "CountyWarning", "publications", "read"]

#: The service's own codes, as Stevens calls them (Figure 7.2) where it does.
KINDS = {"SV": "tstorm", "TO": "tornado", "FF": "flood", "MA": "marine"}


@dataclass(frozen=True)
class CountyWarning:
    """A warning in at least one county of the state; ``released`` has its counties and when it ended in each."""

    id: str
    office: str
    kind: str
    start: datetime
    released: dict[str, datetime]

    @property
    def counties(self) -> tuple[str, ...]:
        """Their terms."""
        return tuple(self.released)

    @property
    def end(self) -> datetime:
        """When the last county was released."""
        return max(self.released.values())

    @property
    def short(self) -> str:
        """The id without the year."""
        return self.id.rsplit(".", 1)[0].replace(".", " ")


def read(path: Path, state: State) -> list[CountyWarning]:
    """Those of the state, in order of their start.

    Offices count their warnings from 1, each kind apart and every year anew, so all four make the id. The times have
    their offset with them, always that of Central Daylight Time, also where people live by Mountain Time.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["ugc"] in state.by_ugc]

    def event(row: dict[str, str]) -> tuple[datetime, str]:
        start = datetime.fromisoformat(row["issue"])
        return start, f"{row['wfo']}.{row['phenomena']}.{row['eventid']}.{start.year}"

    return [
        CountyWarning(
            id,
            parts[0]["wfo"],
            KINDS[parts[0]["phenomena"]],
            start,
            {state.by_ugc[row["ugc"]]: datetime.fromisoformat(row["expire"]) for row in parts},
        )
        for (start, id), parts in ((key, list(group)) for key, group in groupby(sorted(rows, key=event), event))
    ]


def publications(warnings: list[CountyWarning], state: State) -> list[tg.Publication]:
    """A START and an END of each, in order of time; who hears the START does not know the end yet."""
    made = []
    for warning in warnings:
        centres = [state.counties[term].centre for term in warning.counties]
        location = (sum(lon for lon, _ in centres) / len(centres), sum(lat for _, lat in centres) / len(centres))
        attributes: dict[str, tg.Value | None] = {
            "severity": "warning",
            "kind": warning.kind,
            "counties": list(warning.counties),
        }
        for phase, time in (("START", warning.start), ("END", warning.end)):
            fields = {"start": time} if phase == "START" else {"end": time}
            made.append(
                tg.Publication(warning.id, warning.office, time, attributes, phase=phase, location=location, **fields)
            )
    return sorted(made, key=lambda publication: publication.time)
