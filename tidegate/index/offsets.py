"""Checks of arrays that a file holds: each is a ``ValueError`` where an array leads out of another."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

__all__ = ["below", "fits", "offsets"]

#: Offsets that are looked at each time.
_FEW = 1 << 16


def offsets(name: str, given: NDArray[Any], count: int, end: int, thoroughly: bool = True, is_all: bool = True) -> None:
    """So many rows that begin at offsets from 0 to ``end``; with ``is_all`` nothing is left behind the last."""
    if given.ndim != 1 or len(given) != count + 1:
        raise ValueError(f"{name} of shape {given.shape} for {count} rows")
    last = int(given[-1])
    if given[0] != 0 or last > end or (is_all and last != end):
        raise ValueError(f"{name} from {given[0]} to {last} for {end}")
    if (thoroughly or len(given) <= _FEW) and (given[1:] < given[:-1]).any():
        raise ValueError(f"{name} that falls")


def below(name: str, numbers: NDArray[Any], end: int) -> None:
    """Numbers from 0 to before ``end``."""
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < end):
        raise ValueError(f"{name} from {numbers.min()} to {numbers.max()} of {end}")


def fits(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """An array of the wanted shape."""
    if shape != wanted:
        raise ValueError(f"{name} of shape {shape}, not {wanted}")
