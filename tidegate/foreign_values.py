"""Values of other libraries as the plain values that a publication has: of numpy, ``Decimal``, shapely and GeoJSON.

``Publication`` calls ``plain`` for a value whose type it does not know at once. What is not known here either comes
back as it is, for the model to refuse. No library is imported for it: points are known by ``__geo_interface__``.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import nan
from typing import Any

import numpy as np

__all__ = ["geo_interface", "plain", "point"]

#: Kinds of numpy's types that are truth values, numbers or texts, or any objects.
_TAKEN = frozenset("biufUO")


def plain(value: Any) -> Any:
    """The plain value: a number, text, list or point; or what was given."""
    if isinstance(value, str):
        return str.__str__(value)  # numpy's text, and members of an enumeration of texts
    if isinstance(value, np.generic):
        return _scalar(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Decimal):
        return _rounded(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return value if isinstance(value, bool) else int(value)
    found = point(value)
    return value if found is None else found


def point(value: Any) -> tuple[Any, Any] | None:
    """Longitude and latitude of ``{"lon": …, "lat": …}``, of a GeoJSON point or of an object that gives one, or None.

    A height is left out.
    """
    if not isinstance(value, Mapping):
        value = geo_interface(value)
        if value is None:
            return None
    if len(value) == 2 and "lon" in value and "lat" in value:
        return value["lon"], value["lat"]
    kind, coordinates = value.get("type"), value.get("coordinates")
    if not isinstance(kind, str) or kind != "Point" or not isinstance(coordinates, list | tuple):
        return None
    return (coordinates[0], coordinates[1]) if len(coordinates) in (2, 3) else None


def geo_interface(value: Any) -> Mapping[str, Any] | None:
    """GeoJSON of an object that gives it, as shapely's do, or None."""
    try:
        found = value.__geo_interface__
    except Exception:  # there is none, or the object cannot make it
        return None
    return found if isinstance(found, Mapping) else None


def _scalar(value: np.generic) -> Any:
    if isinstance(value, np.floating):
        return float(value)  # ``item`` leaves a long double as it is
    return value.item() if value.dtype.kind in _TAKEN else value


def _array(value: np.ndarray[Any, Any]) -> Any:
    kind = value.dtype.kind
    if kind not in _TAKEN or value.ndim > 1:
        return value
    if kind == "f" and value.dtype.itemsize != 8:
        value = value.astype(np.float64)
    return value.tolist()


def _rounded(value: Decimal) -> float:
    try:
        return float(value)
    except ValueError:  # a signalling NaN
        return nan
