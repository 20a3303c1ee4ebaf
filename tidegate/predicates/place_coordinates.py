"""The coordinates of a point as columns: degrees, and the point on a sphere of radius 1.

``predicates/place.py`` and pattern families with distances use these readings; nothing here knows them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.predicates.column import READINGS, ColumnReading, Points, Row, Table, reading
from tidegate.predicates.ranges import Point

__all__: list[str] = []


class _Coordinate(ColumnReading):
    index: int

    def point(self, operand: str, publication: Row) -> Point | None:
        value = publication.value(operand)
        return float(value[self.index]) if isinstance(value, tuple) else None

    def points(self, operand: str, table: Table) -> Points | None:
        array = table.array(operand)
        if array is None or not pa.types.is_struct(array.type):
            return None
        part = pc.struct_field(array, self.name)
        return np.asarray(pc.if_else(array.is_valid(), part, None).cast(pa.float64()).fill_null(np.nan))


@reading
class Longitude(_Coordinate):
    """Degrees east of a point."""

    name = "lon"
    index = 0


@reading
class Latitude(_Coordinate):
    """Degrees north of a point."""

    name = "lat"
    index = 1


class _Unit(ColumnReading):
    """A coordinate of the point on a sphere of radius 1: where distances are bounded by differences."""

    def point(self, operand: str, publication: Row) -> Point | None:
        value = publication.value(operand)
        return float(self._of(np.radians(value[0]), np.radians(value[1]))) if isinstance(value, tuple) else None

    def points(self, operand: str, table: Table) -> Points | None:
        lon, lat = (READINGS[name].points(operand, table) for name in ("lon", "lat"))
        return None if lon is None or lat is None else self._of(np.radians(lon), np.radians(lat))

    @abstractmethod
    def _of(self, lon: Any, lat: Any) -> Any:
        """The coordinate of a point whose longitude and latitude are given in radians."""


@reading
class UnitX(_Unit):
    """Towards longitude 0 on the equator."""

    name = "x"

    def _of(self, lon: Any, lat: Any) -> Any:
        return np.cos(lat) * np.cos(lon)


@reading
class UnitY(_Unit):
    """Towards longitude 90 on the equator."""

    name = "y"

    def _of(self, lon: Any, lat: Any) -> Any:
        return np.cos(lat) * np.sin(lon)


@reading
class UnitZ(_Unit):
    """Towards the north pole."""

    name = "z"

    def _of(self, lon: Any, lat: Any) -> Any:
        return np.sin(lat)
