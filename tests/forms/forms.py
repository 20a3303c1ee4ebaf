"""The same readings in every form in which people have them. A reading is a flat dict, its missing values left out."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import tidegate as tg

Readings = list[dict[str, Any]]
FIELDS = ("id", "source", "time")


def objects(readings: Readings) -> list[tg.Publication]:
    """As objects, whose location is said outright."""
    return [
        tg.Publication(
            **{name: one[name] for name in FIELDS},
            attributes={name: value for name, value in one.items() if name not in FIELDS},
            location=(one["longitude"], one["latitude"]),
        )
        for one in readings
    ]


def dicts(readings: Readings) -> Readings:
    return readings


def dicts_of_others(readings: Readings) -> Readings:
    """Dicts with values of other libraries: numbers of numpy and ``Decimal``, texts for times, points of shapely."""

    def foreign(value: Any, i: int) -> Any:
        if isinstance(value, datetime):
            return value.isoformat() if i % 2 else pd.Timestamp(value)
        if isinstance(value, float):
            return np.float64(value) if i % 2 else Decimal(repr(value))
        return value

    return [
        {name: foreign(value, i) for name, value in one.items()}
        | {"location": shapely.Point(one["longitude"], one["latitude"])}
        for i, one in enumerate(readings)
    ]


def pandas(readings: Readings) -> pd.DataFrame:
    return pd.DataFrame(readings)


def pandas_by_time(readings: Readings) -> pd.DataFrame:
    """With the time as index, as series of measurements often have it."""
    return pd.DataFrame(readings).set_index("time")


def pandas_with_points(readings: Readings) -> pd.DataFrame:
    frame = pd.DataFrame(readings)
    return frame.assign(location=list(shapely.points(frame["longitude"], frame["latitude"])))


def arrow(readings: Readings) -> pa.Table:
    return pa.Table.from_pylist(readings, _schema(readings, pa.timestamp("us", "UTC")))


def arrow_of_parts(readings: Readings) -> pa.Table:
    """With ``location.lon`` and ``location.lat``, and the time as text."""
    found = arrow(readings)
    texts = pa.array([one["time"].isoformat(sep=" ") for one in readings])
    for part, name in (("lon", "longitude"), ("lat", "latitude")):
        found = found.append_column(f"location.{part}", found.column(name))
    return found.set_column(found.column_names.index("time"), "time", texts)


def record_batch(readings: Readings) -> pa.RecordBatch:
    return arrow(readings).combine_chunks().to_batches()[0]


def polars(readings: Readings) -> Any:
    import polars as pl

    return pl.from_arrow(arrow(readings))


def geopandas(readings: Readings) -> Any:
    import geopandas as gpd

    frame = pd.DataFrame(readings)
    points = gpd.points_from_xy(frame["longitude"], frame["latitude"], crs="EPSG:4326")
    return gpd.GeoDataFrame(frame, geometry=points)


def _schema(readings: Readings, time: pa.DataType) -> pa.Schema:
    names = dict.fromkeys(name for one in readings for name in one)
    kinds = {"id": pa.string(), "source": pa.string(), "time": time}
    return pa.schema([(name, kinds.get(name, pa.float64())) for name in names])


#: What an engine takes, by name; ``polars`` and ``geopandas`` need these packages.
IN_MEMORY = {
    form.__name__: form
    for form in (
        objects, dicts, dicts_of_others, pandas, pandas_by_time, pandas_with_points, arrow, arrow_of_parts,
        record_batch, polars, geopandas,
    )
}  # fmt: skip


# --- files ----------------------------------------------------------------------------------------------------------


def csv_file(readings: Readings, folder: Path) -> Path:
    path, names = folder / "readings.csv", list(dict.fromkeys(name for one in readings for name in one))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows({**one, "time": one["time"].isoformat()} for one in readings)
    return path


def csv_of_local_times(readings: Readings, folder: Path) -> Path:
    """Times as clocks in Zurich showed them; ``ZONE`` says so."""
    local = pd.DataFrame(readings)
    local["time"] = local["time"].dt.tz_convert("Europe/Zurich").dt.tz_localize(None)
    path = folder / "readings.csv"
    local.to_csv(path, index=False)
    return path


def jsonl_file(readings: Readings, folder: Path) -> Path:
    path = folder / "readings.jsonl"
    path.write_text("".join(f"{json.dumps({**one, 'time': one['time'].isoformat()})}\n" for one in readings))
    return path


def parquet_file(readings: Readings, folder: Path) -> Path:
    path = folder / "readings.parquet"
    pq.write_table(arrow(readings), path)
    return path


def parquet_of_nanoseconds(readings: Readings, folder: Path) -> Path:
    path = folder / "readings.parquet"
    found = arrow(readings)
    nanos = found.column("time").cast(pa.timestamp("ns", "UTC"))
    pq.write_table(found.set_column(found.column_names.index("time"), "time", nanos), path)
    return path


def parquet_of_pandas(readings: Readings, folder: Path) -> Path:
    """As pandas writes it, with local times in nanoseconds."""
    local = pd.DataFrame(readings)
    local["time"] = local["time"].dt.tz_convert("Europe/Zurich").dt.tz_localize(None).astype("datetime64[ns]")
    path = folder / "readings.parquet"
    local.to_parquet(path)
    return path


ZONE = "Europe/Zurich"
#: Writers of files, by name, with the time zone that their times need.
FILES = {
    "csv": (csv_file, None),
    "csv of local times": (csv_of_local_times, ZONE),
    "jsonl": (jsonl_file, None),
    "parquet": (parquet_file, None),
    "parquet of nanoseconds": (parquet_of_nanoseconds, None),
    "parquet of pandas": (parquet_of_pandas, ZONE),
}
