"""What people have, as what an engine or a log takes: a list of ``Publication`` objects or an Arrow table.

``as_publications`` is the one place that knows dicts and the tables of other libraries. pandas, polars and GeoPandas
are known by their protocols, or by looking whether they are imported already; none is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from tidegate.errors import PublicationError, shown
from tidegate.model import Publication
from tidegate.records.record import publication
from tidegate.records.tables import table
from tidegate.time_zones import TimeZone

__all__ = ["Given", "Tabular", "as_publications"]


class Tabular(Protocol):
    """A table of Arrow, pandas, polars or another library that has Arrow's protocol."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: Publications in any form that ``as_publications`` takes.
Given: TypeAlias = Publication | Mapping[str, Any] | Iterable[Publication | Mapping[str, Any]] | Tabular

_EXPECTED = "a publication, a dict, a list of these, or a table of Arrow, pandas or polars"


def as_publications(given: Given, zone: TimeZone | None = None) -> list[Publication] | pa.Table | pa.RecordBatch:
    """Objects for objects and dicts, an Arrow table for every kind of table.

    Times without a time zone are in ``zone``, except those of a table, which ``ArrowBatch`` looks at.
    """
    if type(given) is list and set(map(type, given)) == {Publication}:
        return given.copy()
    if isinstance(given, pa.Table | pa.RecordBatch):
        return given
    if isinstance(given, Publication):
        return [given]
    if isinstance(given, Mapping):
        return [publication(given, "", zone)]
    found = _table(given, zone)
    if found is not None:
        return found
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise PublicationError(_EXPECTED, shown(given))
    return [_one(one, i, zone) for i, one in enumerate(given)]


def _one(one: object, number: int, zone: TimeZone | None) -> Publication:
    if isinstance(one, Publication):
        return one
    if isinstance(one, Mapping):
        return publication(one, f"item {number}", zone)
    raise PublicationError("publications or dicts", shown(one), f"item {number}")


# --- tables ---------------------------------------------------------------------------------------------------------


def _table(given: Any, zone: TimeZone | None) -> pa.Table | None:
    """The Arrow table of a table of another library; None if it is no table."""
    if _is_a(given, "geopandas", "GeoDataFrame"):
        return _of_geopandas(given, zone)
    if _is_a(given, "pandas", "DataFrame"):
        return _of_pandas(given, zone)
    if not hasattr(given, "__arrow_c_stream__") and not hasattr(given, "__arrow_c_array__"):
        return None
    try:
        return pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        raise PublicationError(_EXPECTED, f"a {type(given).__name__}, of which Arrow says: {_said(wrong)}") from None


def _is_a(given: object, library: str, name: str) -> bool:
    """Whether it is an object of that class, which only a library that is imported can have made."""
    kind = getattr(sys.modules.get(library), name, None)
    return isinstance(kind, type) and isinstance(given, kind)


def _of_pandas(frame: Any, zone: TimeZone | None) -> pa.Table:
    """The columns of a frame, and of its index if that has a name."""
    is_named = all(name is not None for name in frame.index.names)
    try:
        return pa.Table.from_pandas(frame, preserve_index=is_named)
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        found = _by_rows(frame.reset_index() if is_named else frame, zone)
        if found is None:
            raise PublicationError("columns with values of one kind each", _said(wrong), "a pandas DataFrame") from None
        return found


def _by_rows(frame: Any, zone: TimeZone | None) -> pa.Table | None:
    """The table of a frame with objects that Arrow does not know, such as points of shapely."""
    missing = frame.isna()
    rows: Sequence[dict[Any, Any]] = frame.to_dict("records")
    absent: Sequence[dict[Any, bool]] = missing.to_dict("records")
    return table(
        [
            publication({name: value for name, value in row.items() if not gone[name]}, f"row {i}", zone)
            for i, (row, gone) in enumerate(zip(rows, absent, strict=True))
        ],
        marked=True,
    )


def _of_geopandas(frame: Any, zone: TimeZone | None) -> pa.Table:
    """The columns of a frame, its active geometry as ``location``, in degrees of longitude and latitude."""
    name = frame.active_geometry_name
    if name is None:
        return _of_pandas(frame, zone)
    if frame.crs is not None and not frame.crs.equals("EPSG:4326", ignore_axis_order=True):
        frame = frame.to_crs("EPSG:4326")
    is_named = all(one is not None for one in frame.index.names)
    found = pa.table(frame.to_arrow(index=is_named, geometry_encoding="WKB"))
    return found.rename_columns(["location" if column == name else column for column in found.column_names])


def _said(wrong: Exception) -> str:
    text = wrong.args[0] if wrong.args and isinstance(wrong.args[0], str) else str(wrong)
    return next(iter(text.splitlines()), type(wrong).__name__)
