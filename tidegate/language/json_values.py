"""What Python programs have where JSON has lists, objects and numbers: tuples, geometries, numbers of other libraries.

``from_json`` calls ``plain_json`` only where it cannot read a value, so that ordinary JSON costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from tidegate.foreign_values import geo_interface, plain

__all__ = ["plain_json"]

_ORDINARY = frozenset({dict, list, str, int, float, bool, type(None), np.ndarray})


def plain_json(value: Any) -> Any:
    """The value with lists for tuples, objects for what has a ``__geo_interface__``, and plain numbers.

    The value itself if nothing in it is of that kind. What is there twice, or within itself, stays so.
    """
    stack, seen, odd = [value], set[int](), False
    while stack and not odd:
        one = stack.pop()
        kind = type(one)
        if kind not in _ORDINARY:
            odd = _replaced(one) is not one
        elif (kind is dict or kind is list) and id(one) not in seen:
            seen.add(id(one))
            stack.extend(one.values() if kind is dict else one)
    return _copied(value) if odd else value


def _replaced(value: Any) -> Any:
    """What stands for a value that is no ordinary JSON; the value itself if nothing does."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.generic | Decimal):
        return plain(value)
    if isinstance(value, Mapping) or (value := geo_interface(given := value)) is not None:
        return dict(value)
    return given


def _copied(value: Any) -> Any:
    outer: list[Any] = [value]
    stack: list[Any] = [outer]
    made: dict[int, tuple[Any, Any]] = {}  # with the original, so that its id stays its own
    while stack:
        holder = stack.pop()
        for key, inner in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if id(inner) in made:
                holder[key] = made[id(inner)][1]
                continue
            plainer = inner if type(inner) in _ORDINARY else _replaced(inner)
            if type(plainer) is dict or type(plainer) is list:
                plainer = plainer.copy() if plainer is inner else plainer
                stack.append(plainer)
                made[id(inner)] = inner, plainer
            holder[key] = plainer
    return outer[0]
