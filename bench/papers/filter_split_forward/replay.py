"""The readings that a simulated network publishes: moments of SensorScope's deployment, or generated weather.

SensorScope's Grand-St-Bernard files (EPFL, 2007; Jurca et al., §VI-A) are read in place and are no part of the project;
where they are absent a small generator stands in. Knows stations and attributes by number, and nothing of networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench import sensorscope
from tidegate.errors import SettingError, shown

__all__ = ["ATTRIBUTES", "INTERVAL", "Replay", "replay"]

#: Seconds between two readings of a sensor, in the deployment and in the generator.
INTERVAL = 120

ATTRIBUTES = tuple(sensorscope.ATTRIBUTES)

_FILES = "stbernard-meteo-*.txt.gz"
_STATIONS = 23
_WIDTH = 17

#: Intervals that are replayed one after the other, before another moment of the deployment follows: longer than a
#: window, and short, so that a replay that is affordable has all kinds of weather. And how far apart such moments are.
_BURST, _APART = 5, 10
#: How often bursts are drawn until each station has one with all attributes: anemometers are silent in calm air.
_DRAWS = 1_000

#: When generated readings begin: 15 November 2026, 00:00 UTC, in seconds.
_BEGIN = 1_794_700_800


@dataclass(frozen=True, eq=False)
class Replay:
    """Readings in order of time; ``station`` counts from 0, ``attribute`` is a number into ``attributes``."""

    data: str
    """``sensorscope`` or ``generated``."""
    stations: tuple[int, ...]
    """What the stations are called in the deployment."""
    attributes: tuple[str, ...]
    time: NDArray[np.int64]
    """Microseconds since 1970, never falling."""
    station: NDArray[np.int64]
    attribute: NDArray[np.int64]
    value: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)


def replay(folder: Path | None, stations: int, rounds: int, rng: np.random.Generator) -> Replay:
    """What some stations report during ``rounds`` intervals; from the generator where there is no folder.

    Of SensorScope these are bursts of consecutive intervals from all over the six weeks, in which all chosen stations
    report something: an unbroken stretch would be one afternoon, and medians of an afternoon say little about a
    stream. Spikes stay in; what is missing is absent. Readings of the same moment come in random order.
    """
    if stations < 1:
        raise SettingError("at least 1 station to replay", shown(stations))
    if rounds < 1:
        raise SettingError("at least 1 reporting interval to replay", shown(rounds))
    if folder is None:
        return _ordered("generated", tuple(range(stations)), _generated(stations, rounds, rng), rng)
    deployment = _deployment(folder.resolve())
    chosen, bursts = deployment.bursts(stations, rounds, rng)
    parts = []
    for number, which in enumerate(chosen):
        rows = deployment.rows[which]
        for begin, end in bursts:
            burst = rows[slice(*np.searchsorted(rows[:, 0], [begin, end]))]
            parts.append((np.full(len(burst), number), burst))
    station, every = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    numbers = tuple(deployment.stations[which] for which in chosen)
    return _ordered("sensorscope", numbers, (station, every), rng)


def _ordered(
    data: str,
    stations: tuple[int, ...],
    rows: tuple[NDArray[np.int64], NDArray[np.float64]],
    rng: np.random.Generator,
) -> Replay:
    """Rows of an epoch and five values become readings, each on its own."""
    station, table = rows
    row, attribute = np.nonzero(np.isfinite(table[:, 1:]))
    time = (table[row, 0] * 1_000_000).astype(np.int64)
    order = np.lexsort((rng.random(len(row)), time))
    row, attribute = row[order], attribute[order]
    return Replay(data, stations, ATTRIBUTES, time[order], station[row], attribute, table[row, attribute + 1])


# --- SensorScope ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Deployment:
    """All rows of the files: epoch and the five attributes, in order of time, by station."""

    folder: Path
    stations: tuple[int, ...]
    rows: tuple[NDArray[np.float64], ...]
    begin: float
    reported: NDArray[np.int32]
    """By station, attribute and interval: in how many intervals before this one there was a reading."""
    heard: NDArray[np.int32]
    """By station and interval: in how many intervals before this one there was a reading of any attribute."""

    def bursts(
        self, stations: int, rounds: int, rng: np.random.Generator
    ) -> tuple[list[int], list[tuple[float, float]]]:
        """Stations, as positions in ``rows``, and the epochs from which to which they are replayed."""
        if stations > len(self.stations):
            raise SettingError(f"at most {len(self.stations)} stations", shown(stations), str(self.folder))
        able = self.heard[:, _BURST:] - self.heard[:, :-_BURST] == _BURST
        enough = np.flatnonzero(able.sum(axis=0) >= stations)
        if not len(enough):
            raise SettingError(
                f"SensorScope files in which {stations} stations report at one time", "none such", str(self.folder)
            )
        chosen = rng.choice(np.flatnonzero(able[:, rng.choice(enough)]), stations, replace=False)
        starts = np.flatnonzero(able[chosen].all(axis=0))
        reported = self.reported[chosen]
        for _ in range(_DRAWS):
            begins = self._apart(starts, rounds, rng)
            ends = [min(begin + _BURST, begin + rounds - i * _BURST) for i, begin in enumerate(begins)]
            seen = reported[:, :, ends] > reported[:, :, begins]
            if seen.all(axis=1).any(axis=1).all():
                return chosen.tolist(), [
                    (self.begin + begin * INTERVAL, self.begin + end * INTERVAL)
                    for begin, end in zip(begins, ends, strict=True)
                ]
        expected = f"moments in which {stations} stations report all of {', '.join(ATTRIBUTES)} in {rounds} intervals"
        raise SettingError(expected, "none such; more intervals have more", str(self.folder))

    def _apart(self, starts: NDArray[np.int64], rounds: int, rng: np.random.Generator) -> list[int]:
        """As many of the starts as so many intervals take, in order of time, none near another."""
        found: list[int] = []
        near: set[int] = set()
        for start in rng.permutation(starts).tolist():
            if start not in near:
                found.append(start)
                near.update(range(start - _APART + 1, start + _APART))
                if len(found) * _BURST >= rounds:
                    return sorted(found)
        raise SettingError(f"at most {len(found) * _BURST} reporting intervals", shown(rounds), str(self.folder))


@lru_cache(maxsize=1)
def _deployment(folder: Path) -> _Deployment:
    """The files of a folder, parsed once in a process: it takes a second, and a process measures many cells."""
    paths = {int(path.name.split("-")[2].split(".")[0]): path for path in _files(folder)}
    stations = tuple(sorted(paths))
    rows = tuple(_rows(paths[station], station) for station in stations)
    begin = min(float(table[0, 0]) for table in rows)
    intervals = int((max(float(table[-1, 0]) for table in rows) - begin) // INTERVAL) + 1
    there = np.zeros((len(rows), len(ATTRIBUTES), intervals + 1), np.int32)
    for which, table in enumerate(rows):
        interval = ((table[:, 0] - begin) // INTERVAL).astype(np.int64)
        for attribute in range(len(ATTRIBUTES)):
            there[which, attribute, 1 + interval[np.isfinite(table[:, 1 + attribute])]] = 1
    reported = np.cumsum(there, axis=2, dtype=np.int32)
    return _Deployment(folder, stations, rows, begin, reported, np.cumsum(there.max(axis=1), axis=1, dtype=np.int32))


def _files(folder: Path) -> list[Path]:
    expected = f"a folder with SensorScope's {_STATIONS} files {_FILES}"
    if not folder.is_dir():
        raise SettingError(expected, "a file" if folder.exists() else "no such folder", str(folder))
    found = [path for path in folder.glob(_FILES) if path.name.split("-")[2].split(".")[0].isdecimal()]
    if len(found) != _STATIONS:
        raise SettingError(expected, f"{len(found)} of them", str(folder))
    return found


def _rows(path: Path, station: int) -> NDArray[np.float64]:
    """Epoch and the five attributes of a file, NaN where there is nothing."""
    expected = f"SensorScope rows of {_WIDTH} numbers with blanks between them"
    try:
        rows = sensorscope.columns_of(path)
    except (pa.ArrowException, OSError) as error:
        raise SettingError(expected, shown(str(error).splitlines()[0]), str(path)) from error
    if not len(rows):
        raise SettingError(expected, "none", str(path))
    if not (rows[:, 0] == station).all():
        raise SettingError(f"rows of station {station}", "rows of another one", str(path))
    if not np.isfinite(rows[:, 1]).all():
        raise SettingError("seconds since 1970 in every row", "a row without", str(path))
    return np.ascontiguousarray(rows[np.argsort(rows[:, 1], kind="stable"), 1:])


# --- generated weather ----------------------------------------------------------------------------------------------


def _generated(stations: int, rounds: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Days and nights, weather that all stations share and drift of their own; 3 % of the readings are missing.

    Stations report at moments of their own within an interval. The first round is whole: every sensor has a reading.
    """
    hour = int(rng.integers(24)) + np.arange(rounds)[:, None] * INTERVAL / 3600
    sun = np.sin((hour - 9) * np.pi / 12)
    front = _drift(rounds, 1, rng)
    own = [_drift(rounds, stations, rng) for _ in ATTRIBUTES]
    height = rng.uniform(-3, 3, stations)
    ambient = 3 + 4 * sun + 2 * front - height + own[0]
    surface = ambient + 5 * np.clip(sun, 0, None) - 1 + own[1]
    humidity = np.clip(78 - 3 * (ambient + height - 3) + 4 * own[2], 5, 100)
    wind_speed = np.clip(3 + 1.2 * front + 0.3 * height + own[3], 0, None)
    wind_direction = (rng.uniform(0, 360, stations) + 30 * front + 25 * own[4]) % 360
    values = np.stack([ambient, surface, humidity, wind_speed, wind_direction], axis=2).round(2)
    missing = rng.random(values.shape) < 0.03
    missing[0] = False
    values[missing] = np.nan
    time = _BEGIN + (np.arange(rounds) * INTERVAL)[:, None] + rng.integers(INTERVAL, size=stations)
    rows = np.concatenate([time[:, :, None].astype(np.float64), values], axis=2)
    return np.tile(np.arange(stations), rounds), rows.reshape(-1, 1 + len(ATTRIBUTES))


def _drift(rounds: int, stations: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Noise with a memory of about an hour and variance 1, one column per station."""
    memory = 0.97
    noise = rng.normal(0, 1, (rounds, stations))
    noise[1:] *= np.sqrt(1 - memory**2)
    for now in range(1, rounds):
        noise[now] += memory * noise[now - 1]
    return noise
