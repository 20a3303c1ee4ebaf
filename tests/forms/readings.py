"""Readings of weather stations as flat dicts, made up or of SensorScope, and twenty subscriptions to them.

SensorScope has no coordinates, so its stations get a layout of ours.
"""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from math import isnan
from pathlib import Path

import numpy as np

import tidegate as tg

SENSORSCOPE = Path(__file__).parents[3] / "shared" / "data" / "sensorscope"
#: The columns of SensorScope after the time, as attributes.
NAMES = ("ambient", "surface", "solar", "humidity", "moisture", "watermark", "rain", "wind", "direction")
BEGIN = datetime(2007, 10, 1, 4, tzinfo=UTC)

WHERE = [
    "ambient > 6",
    "ambient BETWEEN -5 AND 0",
    "humidity > 80 AND wind > 2",
    "solar IS NULL AND ambient > 10",
    "NOT (wind < 1.5 OR humidity < 50)",
    "source IN ('st-2', 'st-11', 'st-18') AND rain > 0",
    "source LIKE 'st-1%' AND surface - ambient > 6",
    "ambient < surface AND solar > 400",
    "S_DWITHIN(location, POINT(7.17 45.87), 1500) AND ambient > 4",
    "S_INTERSECTS(location, POLYGON((7.1 45.8, 7.2 45.8, 7.2 45.9, 7.1 45.8))) AND humidity > 75",
    "S_WITHIN(location, BBOX(7.15, 45.86, 7.19, 45.89)) AND wind > 1",
    "longitude > 7.18 AND latitude < 45.88 AND humidity > 75",
    "time >= TIMESTAMP('2007-10-01T06:30:00+02:00') AND time < TIMESTAMP('2007-10-01T06:00:00Z') AND ambient > 2",
    "T_DURING(time, INTERVAL('2007-10-01T05:00:00Z', '2007-10-01T07:30:00Z')) AND rain > 0",
    "moisture % 2 < 0.05",
    "topk(3, 'PT1H', -wind)",
    "topk(2, 'PT2H', distance(location, POINT(7.17 45.87)))",
    "together('PT5M', 3000, ambient < 1, wind > 1.5)",
    "absent('PT7M', ambient IS NOT NULL, source)",
    "humidity > 85 AND ambient < past(ambient, humidity > 85, 20)",
]
SUBSCRIPTIONS = [tg.Subscription(f"s{i:02}", f"ann{i % 3}", where) for i, where in enumerate(WHERE)]

_STATIONS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 25, 28, 29, 31, 32)


def _place(station: int) -> dict[str, float]:
    at = _STATIONS.index(station)
    return {"longitude": 7.14 + 0.012 * (at % 5), "latitude": 45.85 + 0.009 * (at // 5)}


def _reading(station: int, when: datetime, values: list[float]) -> dict:
    read = {name: value for name, value in zip(NAMES, values, strict=True) if not isnan(value)}
    return {"id": f"{station}-{when:%d%H%M%S}", "source": f"st-{station}", "time": when, **_place(station), **read}


def made_up(rng: np.random.Generator, minutes: int = 240) -> list[dict]:
    """Readings of eight stations, every two minutes or so; each lacks some, and one station falls silent."""
    found = []
    for station in _STATIONS[::3]:
        cold = rng.normal(0, 4)
        for minute in range(0, minutes if station != _STATIONS[3] else minutes // 2, 2):
            when = BEGIN + timedelta(minutes=minute, seconds=int(rng.integers(0, 60)))
            values = rng.normal([3 + cold, 4, 300, 88, 26, -8, 0.2, 5, 180], [3, 4, 200, 9, 2, 1, 0.4, 3, 60])
            values = np.where(rng.random(len(NAMES)) < 0.15, np.nan, np.round(values, 3))
            found.append(_reading(station, when, values.tolist()))
    return found


def of_sensorscope(begin: datetime, end: datetime) -> list[dict]:
    """The readings of all stations in that time."""
    found = {}
    for station in _STATIONS:
        with gzip.open(SENSORSCOPE / f"stbernard-meteo-{station}.txt.gz", "rt") as lines:
            for line in lines:
                cells = line.split()
                when = datetime.fromtimestamp(int(cells[7]), UTC)
                if begin <= when < end:
                    one = _reading(station, when, [float(cell) for cell in cells[8:]])
                    found.setdefault(one["id"], one)  # a few rows are there twice
    return list(found.values())
