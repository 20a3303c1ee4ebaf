"""``Scan`` tests all spheres one after another: the baseline that every structure must beat.

Also how spheres are laid out in groups and rounded, which the trees use too. Knows no tree.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.spheres import SPHERES, in_spheres
from tidegate.shapes.structures import Candidates, Structure, structure
from tidegate.shapes.threads import shared

__all__ = ["Groups", "Scan", "aligned", "ends_of", "grouped", "limits_of"]

#: By what share each radius is enlarged, so that rounding never loses a sphere; and what is added to its square, for
#: radii whose squares are rounded to nearly nothing.
SLACK, TINY = 1e-9, 1e-300

_Floats = NDArray[np.float64]


class Groups(NamedTuple):
    """Spheres by groups, coordinate by coordinate, flat; spheres that fill up a group contain no point."""

    centres: _Floats
    limits: _Floats
    names: NDArray[np.int32]


def limits_of(radii: _Floats) -> _Floats:
    """The largest sum of squares within each sphere; nothing is in a sphere whose radius is negative or NaN."""
    with np.errstate(over="ignore"):
        squares = np.square(radii * (1 + SLACK)) + TINY
    return np.where(radii >= 0, squares, -1.0)


def ends_of(centres: _Floats, radii: _Floats) -> tuple[_Floats, _Floats]:
    """The lowest and the highest numbers that spheres reach to; of one without a radius, its centre."""
    with np.errstate(over="ignore"):
        reach = np.where(radii >= 0, radii * (1 + SLACK) + TINY**0.5, 0.0)
        return centres - reach, centres + reach


def aligned(shape: tuple[int, ...], value: float) -> _Floats:
    """An array that begins with a cache line, so that no vector of numbers lies in two of them."""
    size = int(np.prod(shape))
    room = np.full(size + 8, value)
    return room[-room.ctypes.data % 64 // 8 :][:size].reshape(shape)


def grouped(features: _Floats, radii: _Floats, places: NDArray[np.int64], count: int, size: int) -> Groups:
    """That many groups of that size, each sphere in its place among them."""
    centres = aligned((count, features.shape[1], size), 0.0)
    limits, names = aligned((count * size,), -1.0), np.full(count * size, -1, np.int32)
    centres[places // size, :, places % size] = features
    limits[places] = limits_of(radii)
    names[places] = np.arange(len(features))
    return Groups(centres.reshape(-1), limits, names)


@structure
class Scan(Structure):
    """Compiled linear scan with early abandoning (Manassiev and Jacobsen 2004, §5.2). Can be pickled."""

    name: ClassVar[str] = "scan"

    def __init__(self, features: _Floats, radii: _Floats) -> None:
        self._size, self._width = features.shape
        self._groups = grouped(features, radii, np.arange(self._size), -(-self._size // SPHERES), SPHERES)

    @classmethod
    def inserted(cls, features: _Floats, radii: _Floats) -> Scan:
        """The same, made by adding one sphere after another to arrays that double when they are full."""
        made, limits, none = cls(features[:0], radii[:0]), limits_of(radii), np.zeros(0, np.int64)
        centres = made._groups.centres.reshape(-1, made._width, SPHERES)
        for row in range(len(features)):
            group, lane = divmod(row, SPHERES)
            if group == len(centres):
                old = made._groups
                made._groups = grouped(features[:0], radii[:0], none, max(1, 2 * group), SPHERES)
                made._groups.centres[: len(old.centres)] = old.centres
                made._groups.limits[: len(old.limits)] = old.limits
                centres = made._groups.centres.reshape(-1, made._width, SPHERES)
            centres[group, :, lane] = features[row]
            made._groups.limits[row] = limits[row]
            made._size += 1
        return made

    def candidates(self, points: _Floats) -> Candidates:
        """Exactly the spheres that each point lies in; all are tested."""
        flat = np.ascontiguousarray(points, np.float64).ravel()

        def find(some: slice, ends: NDArray[np.int64], tested: NDArray[np.int64]) -> NDArray[np.int32]:
            tested[:] = self._size
            part = flat[some.start * self._width : some.stop * self._width]
            rows: NDArray[np.int32] = in_spheres(self._groups.centres, self._groups.limits, part, self._width, ends)
            return rows

        return shared(find, len(points), self._size)
