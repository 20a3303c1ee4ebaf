"""SensorScope's Grand-St-Bernard readings (EPFL, 2007) as publications: one per station, attribute and moment.

The files are read in place and are not part of the project. They have no coordinates: stations are put on a
grid of our own around the pass, 800 m apart, five in a row, and the five sensors of a station 100 m around it. Spikes
are left in, NaN is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

__all__ = [
    "AROUND",
    "ATTRIBUTES",
    "FOLDER",
    "LAT",
    "LON",
    "MESH",
    "ROW",
    "Readings",
    "columns_of",
    "metres_east",
    "metres_north",
    "readings",
]

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "sensorscope"

#: The five attributes of Jurca et al., §VI-A, and the columns of the files they stand in.
ATTRIBUTES = {"ambient": 8, "surface": 9, "humidity": 11, "wind_speed": 15, "wind_direction": 16}

#: The corner of the grid, its mesh in metres, the stations of a row, and how far sensors are from their station.
LON, LAT, MESH, ROW, AROUND = 7.169, 45.869, 800.0, 5, 100.0
_DEGREE = 111_195.08  # metres of a degree of latitude on the sphere of the language


def metres_east(metres: float) -> float:
    """Degrees of longitude at the pass."""
    return metres / (_DEGREE * cos(radians(LAT)))


def metres_north(metres: float) -> float:
    """Degrees of latitude."""
    return metres / _DEGREE


@dataclass(frozen=True)
class Readings:
    """Readings in order of time; station and attribute are numbers into ``stations`` and ATTRIBUTES."""

    stations: list[int]
    location: NDArray[np.float64]
    """Of the stations."""
    time: NDArray[np.int64]
    station: NDArray[np.int64]
    attribute: NDArray[np.int64]
    value: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)

    def source(self, station: int, attribute: int) -> str:
        """The name of a stream."""
        return f"z{self.stations[station]}-{list(ATTRIBUTES)[attribute]}"

    def places(self) -> NDArray[np.float64]:
        """Longitude and latitude of each sensor, those of a station one after the other."""
        angle = 2 * np.pi * np.arange(len(ATTRIBUTES)) / len(ATTRIBUTES)
        around = np.column_stack([metres_east(AROUND) * np.cos(angle), metres_north(AROUND) * np.sin(angle)])
        return (self.location[:, None, :] + around[None, :, :]).reshape(-1, 2)

    def table(self) -> pa.Table:
        """As publications. Ids count upwards with equal length, so that order of time and order of ids agree."""
        streams = [self.source(s, a) for s in range(len(self.stations)) for a in range(len(ATTRIBUTES))]
        stream = pa.array(self.station * len(ATTRIBUTES) + self.attribute)
        place = self.places()
        lon, lat = (pa.array(place[self.station * len(ATTRIBUTES) + self.attribute, i]) for i in (0, 1))
        columns: dict[str, pa.Array] = {
            "id": pa.array([f"r{i:08d}" for i in range(len(self))]),
            "source": pa.array(streams).take(stream),
            "time": pa.array(self.time, pa.timestamp("us", "UTC")),
            "location": pa.StructArray.from_arrays([lon, lat], ["lon", "lat"]),
        }
        for a, name in enumerate(ATTRIBUTES):
            columns[name] = pa.array(self.value, mask=self.attribute != a)
        return pa.table(columns)


def readings(stations: int = 20, limit: int = 600_000) -> Readings:
    """The first readings of the stations with most rows, from when the last of these stations has begun."""
    if not FOLDER.is_dir():
        raise SystemExit(f"bench: SensorScope's files are not there ({FOLDER}); they are no part of the project")
    files = [columns_of(path) for path in FOLDER.glob("stbernard-meteo-*.txt.gz")]
    most = sorted(files, key=lambda rows: (-len(rows), rows[0, 0]))[:stations]
    chosen = sorted(most, key=lambda rows: float(rows[0, 0]))
    begin = max(rows[:, 1].min() for rows in chosen)
    parts: list[NDArray[np.float64]] = []
    for number, rows in enumerate(chosen):
        rows = rows[rows[:, 1] >= begin]
        for a in range(len(ATTRIBUTES)):
            there = rows[~np.isnan(rows[:, 2 + a])]
            fixed = np.broadcast_to([float(number), float(a)], (len(there), 2))
            parts.append(np.column_stack([there[:, 1], fixed, there[:, 2 + a]]))
    every = np.concatenate(parts)
    every = every[np.lexsort((every[:, 2], every[:, 1], every[:, 0]))][:limit]
    places = [divmod(i, ROW) for i in range(len(chosen))]
    location = [(LON + metres_east(column * MESH), LAT + metres_north(row * MESH)) for row, column in places]
    return Readings(
        [int(rows[0, 0]) for rows in chosen],
        np.array(location),
        (every[:, 0] * 1_000_000).astype(np.int64),
        every[:, 1].astype(np.int64),
        every[:, 2].astype(np.int64),
        np.ascontiguousarray(every[:, 3]),
    )


def columns_of(path: Path) -> NDArray[np.float64]:
    """Station, epoch and the five attributes of a file; NaN where there is nothing."""
    names = [f"c{i}" for i in range(17)]
    table = csv.read_csv(
        path,
        csv.ReadOptions(column_names=names, use_threads=False),
        csv.ParseOptions(delimiter=" "),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.float64()),
            include_columns=["c0", "c7", *(f"c{i}" for i in ATTRIBUTES.values())],
        ),
    )
    return np.column_stack([column.to_numpy() for column in table.columns])
