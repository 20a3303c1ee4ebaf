"""The section ``[costs]`` of a TOML file: how a broker measures what subscriptions cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.runs.toml_sections import KeyPosition, count, key, number

__all__ = ["CostsSection"]

_MOST_PUBLICATIONS = 100_000


def _share(value: Any, at: KeyPosition) -> float:
    """A part of a core, or 0."""
    found = number(value, at)
    if found > 1:
        raise at.wrong("a number from 0 to 1", value)
    return found


def _publications(value: Any, at: KeyPosition) -> int:
    found = count(value, at)
    if not 100 <= found <= _MOST_PUBLICATIONS:
        raise at.wrong(f"a whole number from 100 to {_MOST_PUBLICATIONS}", value)
    return found


@dataclass(frozen=True)
class CostsSection:
    """``share`` of a core is used for measuring, with so many publications; a figure is renewed after ``interval``
    seconds; what takes more than ``threshold`` microseconds has a figure of its own.
    """

    share: float = key(_share, 0.02)
    interval: float = key(number, 3600.0)
    publications: int = key(_publications, 2_000)
    threshold: float = key(number, 1.0)
