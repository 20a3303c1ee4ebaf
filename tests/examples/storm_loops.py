"""What the severe-weather case study must tell, in obvious loops over its files. Imports nothing of the example."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from datetime import datetime
from itertools import pairwise


def centroid(ring):
    area = x = y = 0.0
    for (x0, y0), (x1, y1) in pairwise(ring):
        cross = x0 * y1 - x1 * y0
        area, x, y = area + cross, x + (x0 + x1) * cross, y + (y0 + y1) * cross
    return x / (3 * area), y / (3 * area)


def seen_from(a, b):
    """The direction in which the point a is, seen from b: the one of the eight whose own bearing is nearest."""
    east, north = (a[0] - b[0]) * math.cos(math.radians((a[1] + b[1]) / 2)), a[1] - b[1]
    h = math.sqrt(0.5)
    ways = {"North": (0, 1), "NorthEast": (h, h), "East": (1, 0), "SouthEast": (h, -h)}
    ways |= {"South": (0, -1), "SouthWest": (-h, -h), "West": (-1, 0), "NorthWest": (-h, h)}
    return max(ways, key=lambda way: ways[way][0] * east + ways[way][1] * north)


def rows_of(path):
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


class World:
    """The files, as dictionaries."""

    def __init__(self, data):
        features = json.loads((data / "ontologies" / "nebraska_counties.geojson").read_text())["features"]
        self.name = {f["properties"]["ugc"]: f["properties"]["name"] for f in features}
        self.centre = {f["properties"]["name"]: centroid(f["geometry"]["coordinates"][0]) for f in features}
        by_fips = {f["properties"]["fips"]: f["properties"]["name"] for f in features}
        self.side = {}
        for row in rows_of(data / "ontologies" / "nebraska_county_adjacency.csv"):
            a, b = by_fips.get(row["fips"]), by_fips.get(row["neighbor_fips"])
            if a and b and a != b:
                self.side[a, b] = seen_from(self.centre[a], self.centre[b])
        self.rows = defaultdict(list)
        for row in rows_of(data / "severe_weather" / "county_warnings.csv"):
            if row["ugc"] in self.name:
                self.rows[row["issue"], f"{row['wfo']} {row['phenomena']} {row['eventid']}"].append(
                    (self.name[row["ugc"]], datetime.fromisoformat(row["expire"]))
                )

    def warnings(self):
        """Name, start, and the end in each county; in order of start."""
        return sorted((datetime.fromisoformat(issue), id, dict(parts)) for (issue, id), parts in self.rows.items())

    def led_to(self, county, side, at, mine, *, exact=False):
        """Whether a warning that was published before mine ran then in a county on that side of the county."""
        for start, id, ends in self.warnings():
            for before in ends:
                end = ends[before] if exact else max(ends.values())
                if (start, id) < (at, mine) and at <= end and self.side.get((before, county)) == side:
                    return True
        return False

    def told(self, *, exact=False):
        """(time, subscriber, warning) of those who live east of a county that a storm came into from the west."""
        return sorted(
            (f"{start:%H:%M}", who, id)
            for start, id, ends in self.warnings()
            for who in self.centre
            if any(self.side.get((c, who)) == "West" and self.led_to(c, "West", start, id, exact=exact) for c in ends)
        )

    def next_door(self):
        return sum(any((c, who) in self.side for c in ends) for _, _, ends in self.warnings() for who in self.centre)

    def people(self):
        hamilton = [(start, id) for start, id, ends in self.warnings() if "Hamilton" in ends]
        emma, harry = (
            sum(self.led_to("Hamilton", side, start, id) for start, id in hamilton) for side in ("West", "North")
        )
        return emma + harry + len(hamilton)
