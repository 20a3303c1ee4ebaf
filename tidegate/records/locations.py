"""Where the rows of a table are: the column ``location`` in the forms that people have it, and columns of its parts.

``located`` makes one column of points (struct lon, lat) of them. What is no point gets a null as its part, so that the
rule for points refuses the row. Which types and values other columns may have is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.model import COORDINATES, LOCATION_PARTS
from tidegate.records.json_column import POINT

__all__ = ["located", "with_points"]

_FORMS = "points (struct lon, lat; GeoJSON; WKB; lists of two numbers) as location"


def located(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The columns with a location: the one that is there, or that of ``location.lon`` and ``location.lat``.

    Rows that then have none are at their ``longitude`` and ``latitude``, which stay columns of their own.
    """
    parts = [name for name in LOCATION_PARTS if name in columns]
    if parts:
        columns = _joined(columns, parts)
    elif "location" in columns:
        columns = {**columns, "location": _points(columns["location"])}
    lon, lat = (columns.get(name) for name in COORDINATES)
    if lon is None or lat is None or not (_is_number(lon.type) and _is_number(lat.type)):
        return columns
    found, given = _pairs(lon, lat, pc.or_), columns.get("location")
    if given is not None and pa.types.is_struct(given.type):
        found = pc.if_else(given.is_valid(), _doubles(given, "lon", "lat"), found) if given.null_count else given
    return {**columns, "location": found}


def with_points(table: pa.Table) -> pa.Table:
    """Columns x.lon and x.lat as one column x of points, where there is no x: files have points in this form."""
    for name in [name.removesuffix(".lon") for name in table.column_names if name.endswith(".lon")]:
        parts = f"{name}.lon", f"{name}.lat"
        if name in table.column_names or any(table.column_names.count(part) != 1 for part in parts):
            continue
        lon, lat = (table.column(part).combine_chunks() for part in parts)
        for part, array in zip(parts, (lon, lat), strict=True):
            _check_number(array, part)
        table = table.drop_columns(list(parts)).append_column(name, _pairs(lon, lat, pc.and_))
    return table


def _joined(columns: dict[str, pa.Array], parts: list[str]) -> dict[str, pa.Array]:
    wanted = "location, or both location.lon and location.lat"
    if "location" in columns:
        raise PublicationError(wanted, f"columns location and {parts[0]}")
    if len(parts) < 2:
        raise PublicationError(wanted, f"a column {parts[0]} alone")
    for name in parts:
        _check_number(columns[name], name)
    lon, lat = (columns[name] for name in LOCATION_PARTS)
    points = _pairs(lon, lat, pc.and_)
    return {**{name: array for name, array in columns.items() if name not in parts}, "location": points}


def _check_number(array: pa.Array, name: str) -> None:
    if not _is_number(array.type) and not pa.types.is_null(array.type):
        raise PublicationError(f"numbers as {name}", f"{array.type}", f"column {shown(name)}")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _pairs(lon: pa.Array, lat: pa.Array, missing: Callable[..., pa.Array]) -> pa.Array:
    """Points, null where both parts are (``pc.and_``) or where either is (``pc.or_``)."""
    # a number too large to be exact is out of range anyway
    parts = [part.cast(pa.float64(), safe=False) for part in (lon, lat)]
    return pa.StructArray.from_arrays(parts, ["lon", "lat"], mask=missing(lon.is_null(), lat.is_null()))


# --- forms of a column of points ------------------------------------------------------------------------------------


def _points(array: pa.Array) -> pa.Array:
    """The column as points; as it is where it is of no such form, to be refused by its type."""
    kind = array.type
    if pa.types.is_struct(kind):
        names = {field.name for field in kind}
        if names == {"type", "coordinates"}:
            return _of_geojson(array)
        return _doubles(array, "x", "y") if {"x", "y"} <= names and not {"lon", "lat"} & names else array
    if _is_list(kind) and _is_number(kind.value_type):
        return _of_lists(array, np.ones(len(array), np.bool_))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _of_wkb(array)
    return array


def _doubles(array: pa.Array, *names: str) -> pa.Array:
    lon, lat = (pc.struct_field(array, name).cast(pa.float64(), safe=False) for name in names)
    return pa.StructArray.from_arrays([lon, lat], ["lon", "lat"], mask=array.is_null())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _of_geojson(array: pa.Array) -> pa.Array:
    kinds, coordinates = (pc.struct_field(array, name) for name in ("type", "coordinates"))
    if not _is_list(coordinates.type) or not _is_number(coordinates.type.value_type):
        raise PublicationError(_FORMS, f"{array.type}", "column 'location'")
    are_points = np.asarray(pc.equal(kinds.cast(pa.string()), "Point").fill_null(False))
    return _masked(_of_lists(coordinates, are_points), array)


def _of_lists(array: pa.Array, good: NDArray[np.bool_]) -> pa.Array:
    """The first two numbers of each list of two or three."""
    lengths = np.asarray(pc.list_value_length(array).fill_null(0))
    starts = np.cumsum(lengths) - lengths
    good = good & (lengths >= 2) & (lengths <= 3)
    values = array.flatten().cast(pa.float64(), safe=False)
    parts = [values.take(pa.array(starts + i, pa.int64(), mask=~good)) for i in (0, 1)]
    return pa.StructArray.from_arrays(parts, ["lon", "lat"], mask=array.is_null())


def _of_wkb(array: pa.Array) -> pa.Array:
    import shapely

    found: Any = shapely.from_wkb(array.to_numpy(zero_copy_only=False), on_invalid="ignore")
    parts = [pa.array(part, pa.float64(), from_pandas=True) for part in (shapely.get_x(found), shapely.get_y(found))]
    return pa.StructArray.from_arrays(parts, ["lon", "lat"], mask=array.is_null())


def _masked(points: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(like.is_valid(), points, pa.scalar(None, POINT)) if like.null_count else points
