"""The contract of a structure that finds, among spheres in feature space, those that a point lies in.

A sphere stands for a subscription: its centre are the features of a series, its radius the tolerance. Structures are
exchangeable by name; each may propose too many spheres, none may miss one. ``SphereGroup`` verifies what they propose.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["STRUCTURES", "Candidates", "Structure", "structure"]


class Candidates(NamedTuple):
    """The spheres proposed for point p are ``rows[start[p]:start[p + 1]]``, ascending."""

    start: NDArray[np.int64]
    rows: NDArray[np.int32]
    tested: NDArray[np.int64]
    """How many entries were looked at for each point, inner ones of a tree included."""


class Structure(ABC):
    """Spheres to be searched with points. They are given once and never change."""

    name: ClassVar[str]
    extra: ClassVar[str | None] = None
    """The optional extra whose package is needed to build the structure; None if it needs none."""

    @abstractmethod
    def __init__(self, features: NDArray[np.float64], radii: NDArray[np.float64]) -> None: ...

    @abstractmethod
    def candidates(self, points: NDArray[np.float64]) -> Candidates:
        """The spheres that each point may lie in."""


#: Every structure by name.
STRUCTURES: dict[str, type[Structure]] = {}


def structure(cls: type[Structure]) -> type[Structure]:
    """Register a structure; decorates its class."""
    STRUCTURES[cls.name] = cls
    return cls
