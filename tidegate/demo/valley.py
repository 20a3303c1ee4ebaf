"""A synthetic mountain valley: forty stations, their weather, their log lines, and events on the slopes.

``tables`` yields Arrow tables of one hour of event time each, without end, the same for the same random generator. A
storm comes through every third day; temperature follows the sun and falls with height, snow builds up above the snow
line, traffic has rush hours, batteries run down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["BEGIN", "PER_TABLE", "STATIONS", "Station", "tables"]

BEGIN = datetime(2026, 11, 15, tzinfo=UTC)
MINUTES = 60

_PLACES = {
    "village": ["Alderbrook", "Stonegate", "Larchwood", "Millford", "Fenton", "Ursin", "Highmeadow", "Oldbridge"],
    "road": ["Alder Bend", "Gorge Tunnel", "Mill Viaduct", "Fen Crossing", "Ursin Hairpin", "Pass Road", "Pass Summit"],
    "slope": ["North Couloir", "Marmot Bowl", "Raven Face", "Long Gully", "Sheep Terrace", "Silver Scree", "East Spur"],
    "ridge": ["Raven Ridge", "Needle", "Twin Horns", "Frost Peak", "White Saddle", "Storm Tooth"],
    "hut": ["Black Larch Hut", "Marmot Hut", "Twin Horns Hut", "Saddle Hut", "Glacier Hut", "Shepherd Hut"],
    "gauge": ["Alder River", "Mill Weir", "Fen Lake", "Ursin Torrent", "Glacier Lake", "Gorge Outlet"],
}
_HEIGHTS = {
    "village": (600, 1300),
    "road": (700, 2100),
    "slope": (1600, 2700),
    "ridge": (2500, 3400),
    "hut": (1500, 2900),
    "gauge": (550, 2300),
}
_MESSAGES = (
    "link up after {n} s",
    "clock adjusted by {n} ms",
    "Failed password for admin from 10.0.{n}.3",
    "anemometer fault: rotor frozen",
    "rain gauge fault: bucket blocked",
    "battery low: 11.{n} V",
    "Reboot after watchdog timeout",
    "Störung am Regensensor {n}",
)
_EVENTS = ("avalanche", "rockfall", "lift stop", "roadworks", "helicopter")


@dataclass(frozen=True, slots=True)
class Station:
    """Where readings come from."""

    name: str
    source: str
    kind: str
    lon: float
    lat: float
    altitude: float


def _stations() -> tuple[Station, ...]:
    """The valley runs from south-west to north-east; heights fill the range of their kind. Always the same."""
    rng = np.random.default_rng(1786)
    found = []
    for kind, names in _PLACES.items():
        low, high = _HEIGHTS[kind]
        for i, name in enumerate(names):
            share = (i + 0.5) / len(names)
            aside = (low - 550) / 30_000 * rng.choice([-1, 1])
            lon = round(7.05 + 0.28 * share + rng.normal(0, 0.006), 4)
            lat = round(45.79 + 0.14 * share + aside + rng.normal(0, 0.004), 4)
            altitude = float(round(low + (high - low) * share))
            found.append(Station(name, f"{kind}-{i + 1}", kind, lon, lat, altitude))
    return tuple(found)


STATIONS = _stations()
#: Readings in one table; log lines and events come on top.
PER_TABLE = MINUTES * len(STATIONS)

_KINDS = np.array([station.kind for station in STATIONS])
_ALTITUDES = np.array([station.altitude for station in STATIONS])
_POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
_INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("time", _INSTANT),
        ("start", _INSTANT),
        ("end", _INSTANT),
        ("location", _POINT),
        ("station", pa.string()),
        ("kind", pa.string()),
        ("altitude", pa.float64()),
        ("temperature", pa.float64()),
        ("dew_point", pa.float64()),
        ("humidity", pa.float64()),
        ("wind", pa.float64()),
        ("gust", pa.float64()),
        ("snow_depth", pa.float64()),
        ("no2", pa.float64()),
        ("battery", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("levels", pa.list_(pa.float64())),
        ("message", pa.string()),
        ("size", pa.int64()),
    ]
)


def tables(rng: np.random.Generator) -> Iterator[pa.Table]:
    """One hour of publications after the other, in order of time, without end."""
    snow = np.clip((_ALTITUDES - 1500) / 1200, 0, None)
    charge = rng.uniform(11.9, 12.9, len(STATIONS))
    drift = rng.normal(0, 1, len(STATIONS))
    number = 0
    while True:
        hours = number + np.arange(MINUTES)[:, None] / MINUTES
        drift = 0.9 * drift + rng.normal(0, 0.4, len(STATIONS))
        readings = _readings(number, hours, snow, charge, drift, rng)
        everything = pa.concat_tables([readings, _logs(number, rng), _events(number, rng)])
        yield everything.sort_by([("time", "ascending"), ("id", "ascending")])
        storm = float(_storm(np.array(number + 0.5)))
        snow = np.clip(snow + np.where(_ALTITUDES > 1400, 0.06 * storm, 0) - 0.002, 0, None)
        charge = np.where(charge < 11.2, 12.9, charge - rng.uniform(0, 0.03, len(STATIONS)))
        number += 1


def _storm(hours: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 in fair weather, 1 at its height, about 16 hours into every third day."""
    return np.exp(-(((hours % 72 - 16) / 5) ** 2))


def _readings(
    number: int,
    hours: NDArray[np.float64],
    snow: NDArray[np.float64],
    charge: NDArray[np.float64],
    drift: NDArray[np.float64],
    rng: np.random.Generator,
) -> pa.Table:
    shape = (MINUTES, len(STATIONS))
    storm = _storm(hours)
    sun = np.sin((hours - 9) * np.pi / 12)
    temperature = 6 + 5 * sun - 6 * storm - 6.5 * (_ALTITUDES - 1000) / 1000 + drift + rng.normal(0, 0.2, shape)
    humidity = np.clip(72 - 12 * sun + 25 * storm + 3 * drift + rng.normal(0, 2, shape), 12, 100)
    wind = np.abs((1 + _ALTITUDES / 500) * (0.4 + 2.2 * storm) + drift + rng.normal(0, 0.8, shape))
    gust = wind * rng.uniform(1.2, 1.9, shape)
    rush = np.exp(-((hours % 24 - 7.5) ** 2)) + np.exp(-((hours % 24 - 17.5) ** 2))
    no2 = np.clip(14 + 45 * rush - 8 * storm + 3 * drift + rng.normal(0, 4, shape), 0, None)
    roadside = np.broadcast_to(np.isin(_KINDS, ("road", "village")), shape).ravel()
    level = 1.2 + 2.5 * storm + 0.2 * drift
    stations = STATIONS * MINUTES
    weather = {"t": temperature, "h": humidity, "w": wind, "g": gust}
    flat = {name: array.ravel().round(1) for name, array in weather.items()}
    falling = np.broadcast_to(storm > 0.3, shape).ravel().tolist()
    said = zip(*(flat[name].tolist() for name in "thg"), falling, strict=True)
    tags = [_tags(station.kind, *now) for station, now in zip(stations, said, strict=True)]
    levels = [
        [round(here * f, 2) for f in (0.6, 1.0, 1.7)] if station.kind == "gauge" else None
        for station, here in zip(stations, level.ravel().tolist(), strict=True)
    ]
    first = number * PER_TABLE
    columns: dict[str, Any] = {
        "id": [f"r{first + i}" for i in range(PER_TABLE)],
        "source": [station.source for station in stations],
        "time": [BEGIN + timedelta(hours=number, minutes=i // len(STATIONS)) for i in range(PER_TABLE)],
        "location": [{"lon": station.lon, "lat": station.lat} for station in stations],
        "station": [station.name for station in stations],
        "kind": [station.kind for station in stations],
        "altitude": np.tile(_ALTITUDES, MINUTES),
        "temperature": flat["t"],
        "dew_point": (flat["t"] - (100 - flat["h"]) / 5).round(1),
        "humidity": flat["h"],
        "wind": flat["w"],
        "gust": flat["g"],
        "snow_depth": pa.array(np.broadcast_to(snow, shape).ravel().round(2), mask=np.tile(_ALTITUDES < 1400, MINUTES)),
        "no2": pa.array(no2.ravel().round(1), mask=~roadside),
        "battery": np.tile(charge, MINUTES).round(2),
        "tags": tags,
        "levels": levels,
    }
    return _table(columns, PER_TABLE)


def _tags(kind: str, temperature: float, humidity: float, gust: float, falling: bool) -> list[str]:
    """The tags of a station's reading; a second 'alarm' means that two things are wrong at once."""
    tags = [kind]
    if falling:
        tags.append("snowing" if temperature < 1 else "raining")
    if temperature < 0 and humidity > 85:
        tags.append("ice")
    tags += ["alarm"] * ((gust > 22) + (temperature < -9) + (humidity > 97))
    return tags


def _logs(number: int, rng: np.random.Generator) -> pa.Table:
    count = int(rng.poisson(30))
    where = [STATIONS[i] for i in rng.integers(0, len(STATIONS), count)]
    seconds = rng.integers(0, 3600, count).tolist()
    which, numbers = rng.integers(0, len(_MESSAGES), count).tolist(), rng.integers(1, 10, count).tolist()
    messages = [_MESSAGES[i].format(n=n) for i, n in zip(which, numbers, strict=True)]
    columns = {
        "id": [f"l{number}-{i}" for i in range(count)],
        "source": [station.source for station in where],
        "time": [BEGIN + timedelta(hours=number, seconds=s) for s in seconds],
        "station": [station.name for station in where],
        "message": messages,
    }
    return _table(columns, count)


def _events(number: int, rng: np.random.Generator) -> pa.Table:
    """Events that have just ended, with the time from their start to their end."""
    count = int(rng.poisson(1.5 + 6 * float(_storm(np.array(float(number))))))
    where = [STATIONS[i] for i in rng.integers(0, len(STATIONS), count)]
    ends = [BEGIN + timedelta(hours=number, seconds=int(s)) for s in rng.integers(0, 3600, count)]
    lasted = rng.integers(1, 90, count)
    aside = rng.normal(0, 0.01, (count, 2)).tolist()
    columns = {
        "id": [f"e{number}-{i}" for i in range(count)],
        "source": ["observer"] * count,
        "time": ends,
        "start": [end - timedelta(minutes=int(m)) for end, m in zip(ends, lasted, strict=True)],
        "end": ends,
        "location": [
            {"lon": round(s.lon + x, 4), "lat": round(s.lat + y, 4)} for s, (x, y) in zip(where, aside, strict=True)
        ],
        "station": [station.name for station in where],
        "kind": [_EVENTS[i] for i in rng.integers(0, len(_EVENTS), count)],
        "size": rng.integers(1, 6, count),
    }
    return _table(columns, count)


def _table(columns: dict[str, Any], length: int) -> pa.Table:
    """The columns that are given, and nulls for the others."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(length, field.type)
        for field in SCHEMA
    ]
    return pa.table(arrays, SCHEMA)
