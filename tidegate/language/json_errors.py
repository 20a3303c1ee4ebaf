"""Mistakes in CQL2-JSON: which object is at fault, where it is, and how its content reads in a message.

``cql2json`` calls it only when something is wrong, so searching the whole JSON is not too slow. Knows JSON values, not
expressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.errors import ParseError, shown

__all__ = ["JsonFault", "got", "index_of", "keys", "path_of"]


class JsonFault(Exception):
    """A mistake in ``holder``, an object of the JSON, at ``step`` below it."""

    def __init__(self, error: ParseError, holder: object, step: str = "") -> None:
        self.error, self.holder, self.step = error, holder, step
        super().__init__(error)


def got(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | dict):  # its repr may be endless
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, np.ndarray):
        kind = "an array" if type(value) is np.ndarray else f"a {type(value).__name__}"
        return f"{kind} of {value.dtype} with {value.ndim} dimension{'s' * (value.ndim != 1)}"
    if isinstance(value, int) and value.bit_length() > 256:
        return "an integer of more than 77 digits"
    return shown(value) if isinstance(value, bool | int | float | str) else type(value).__name__


def keys(value: dict[Any, Any]) -> str:
    keys = [str(key)[:40] for key in list(value)[:5]]
    return f"one with {', '.join(keys)}{', …' * (len(value) > 5)}" if keys else "an empty one"


def index_of(holder: list[Any], item: object) -> str:
    return next((f"[{index}]" for index, other in enumerate(holder) if other is item), "")


#: The types of a ``holder``. Numbers and texts are none, so ``path_of`` need not look at them.
_HOLDERS = frozenset({dict, list, np.ndarray})


def path_of(root: object, target: object) -> str:
    """The path in the JSON to this very object, list or array. Each is looked into once, so that cycles end."""
    stack: list[tuple[Any, str]] = [(root, "$")]
    seen: set[int] = set()
    while stack:
        value, path = stack.pop()
        if value is target:
            return path
        if id(value) in seen:
            continue
        if type(value) is dict:
            seen.add(id(value))
            stack.extend([(inner, f"{path}.{key}") for key, inner in value.items() if type(inner) in _HOLDERS][::-1])
        elif type(value) is list:
            seen.add(id(value))
            found = [(inner, f"{path}[{index}]") for index, inner in enumerate(value) if type(inner) in _HOLDERS]
            stack.extend(found[::-1])
    return "$"
