"""The counties of a state: their names, codes, outlines and neighbours, read from the files of the Census.

Knows nothing of warnings and of how a map is drawn.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from shapely.geometry import Polygon

__all__ = ["PREFIX", "County", "State"]

#: Of the terms that name counties: ``ne:RedWillow``.
PREFIX = "ne"

Point = tuple[float, float]


@dataclass(frozen=True)
class County:
    """A county as it is drawn; ``ugc`` is its code in warnings, ``fips`` the one of the Census."""

    name: str
    fips: str
    ugc: str
    outline: tuple[Point, ...]

    @property
    def term(self) -> str:
        """The name of the individual, without blanks."""
        return f"{PREFIX}:{''.join(word[0].upper() + word[1:] for word in self.name.split())}"

    @cached_property
    def centre(self) -> Point:
        """The centroid, in degrees."""
        centroid = Polygon(self.outline).centroid
        return centroid.x, centroid.y


@dataclass(frozen=True)
class State:
    """Counties by term, and which of them are next to each other: each pair once, in the order of their terms."""

    counties: dict[str, County]
    neighbours: tuple[tuple[str, str], ...]

    @cached_property
    def by_ugc(self) -> dict[str, str]:
        """The terms by the codes that warnings use."""
        return {county.ugc: term for term, county in self.counties.items()}

    @classmethod
    def read(cls, folder: Path) -> State:
        """Outlines and neighbours. Counties of other states are neighbours too in the file; they are left out."""
        found = json.loads((folder / "nebraska_counties.geojson").read_text("utf-8"))
        counties = [_county(feature) for feature in found["features"]]
        terms = {county.fips: county.term for county in counties}
        with (folder / "nebraska_county_adjacency.csv").open(encoding="utf-8", newline="") as lines:
            pairs = {
                tuple(sorted((terms[row["fips"]], terms[row["neighbor_fips"]])))
                for row in csv.DictReader(lines)
                if row["fips"] in terms and row["neighbor_fips"] in terms and row["fips"] != row["neighbor_fips"]
            }
        ordered = sorted(counties, key=lambda county: county.term)
        return cls({county.term: county for county in ordered}, tuple(sorted((a, b) for a, b in pairs)))


def _county(feature: dict[str, dict[str, object]]) -> County:
    properties, geometry = feature["properties"], feature["geometry"]
    rings = geometry["coordinates"]
    if geometry["type"] != "Polygon" or not isinstance(rings, list) or len(rings) != 1:
        raise ValueError(f"expected a county of one ring; got a {geometry['type']}; at {properties['name']}")
    name, fips, ugc = (str(properties[key]) for key in ("name", "fips", "ugc"))
    return County(name, fips, ugc, tuple((float(lon), float(lat)) for lon, lat in rings[0]))
