"""Orthonormal changes of coordinates for normal forms, the most informative coordinates first.

Distances stay what they are, so the first few coordinates of two series are never further apart than the series: a
search in them misses none. Knows nothing of the structures that search, nor of subscriptions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import copysign
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError, shown
from tidegate.kernels.haar import differences
from tidegate.kernels.householder import reflected
from tidegate.shapes.normal_form import LONGEST, SHORTEST, normals

__all__ = ["FFT", "PAA", "PCA", "TRANSFORMS", "Haar", "Transform"]

Rows = NDArray[np.float64]

#: Numbers that are transformed at a time where a transform needs room beside its result: about a cache full.
_AT_A_TIME = 1 << 17


class Transform(ABC):
    """A change of coordinates: equal transforms give equal coordinates, here and in any other process."""

    name: ClassVar[str]

    def width(self, n: int) -> int:
        """How many coordinates a series of n numbers has: n − 1, or n where its mean, always 0, is among them."""
        return n - 1

    @abstractmethod
    def coordinates(self, normals: Rows, first: int | None = None) -> Rows:
        """The coordinates of each row of mean 0, all or only the first so many.

        They depend, to the last bit, on nothing but the row: not on the rows beside it, nor on how many are wanted.
        """

    def _room(self, normals: Rows, first: int | None) -> Rows:
        rows, n = normals.shape
        return np.empty((rows, self.width(n) if first is None else min(first, self.width(n))))


@dataclass(frozen=True)
class FFT(Transform):
    """Fourier coefficients from the lowest frequency up, each as its real and its imaginary part.

    Manassiev and Jacobsen 2004, §2.3. A real series has each coefficient but the first and, at even length, the middle
    one twice, as conjugates i and n − i. Here only one of the two is kept, scaled by √2, which is what lets equation 10
    divide the tolerance by √2; the middle one has no partner and is not scaled.
    """

    name: ClassVar[str] = "fft"

    def coordinates(self, normals: Rows, first: int | None = None) -> Rows:
        """Parts of coefficients 1, 2, …; the coefficient 0 is the mean."""
        n, found = normals.shape[1], self._room(normals, first)
        wanted, scale = found.shape[1], _scale(n)
        step = max(1, _AT_A_TIME // n)
        for begin in range(0, len(normals), step):
            spectrum = np.fft.rfft(np.ascontiguousarray(normals[begin : begin + step], np.float64), axis=1)
            parts = spectrum.view(np.float64)[:, 2 : 2 + wanted]
            np.multiply(parts, scale[:wanted], out=found[begin : begin + step])
        return found


@lru_cache(maxsize=64)
def _scale(n: int) -> Rows:
    """What makes the parts of the coefficients of n numbers orthonormal coordinates."""
    scale = np.full(n - 1, np.sqrt(2 / n))
    if n % 2 == 0:
        scale[-1] = np.sqrt(1 / n)
    return scale


@dataclass(frozen=True)
class Haar(Transform):
    """How the two halves of a series differ, then the halves of each half, and so on.

    Unbalanced where a length is odd (Girardi and Sweldens 1997), so that any length will do and nothing is padded.
    """

    name: ClassVar[str] = "haar"

    def coordinates(self, normals: Rows, first: int | None = None) -> Rows:
        """One coordinate per half that can be halved, the longest first, from left to right."""
        found = self._room(normals, first)
        tree = _halves(normals.shape[1], 1)
        differences(np.ascontiguousarray(normals, np.float64), *tree[:4], tree.top[:0], tree.top_weight[:0], found)
        return found


@dataclass(frozen=True)
class PAA(Transform):
    """Means of equal blocks, piecewise aggregate approximation, then what :class:`Haar` finds inside the blocks.

    Keogh et al. 2001; Yi and Faloutsos 2000. The means are no more telling at the front than at the back: of a prefix
    shorter than ``blocks`` the end of the series is missing. A series shorter than ``blocks`` is its own coordinates.
    """

    name: ClassVar[str] = "paa"

    blocks: int = 16

    def __post_init__(self) -> None:
        if not isinstance(self.blocks, int) or not 1 <= self.blocks <= LONGEST:
            raise SettingError(f"a number of blocks from 1 to {LONGEST}", shown(self.blocks), "PAA")

    def width(self, n: int) -> int:
        """As many as numbers: that the blocks' means add up to nothing is not made use of."""
        return n

    def coordinates(self, normals: Rows, first: int | None = None) -> Rows:
        """Block means, each times the root of its block's length, then differences of halves, the longest first."""
        found = self._room(normals, first)
        differences(
            np.ascontiguousarray(normals, np.float64),
            *_halves(normals.shape[1], min(self.blocks, normals.shape[1])),
            found,
        )
        return found


class _Halves(NamedTuple):
    """Arguments of :func:`differences`."""

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    left_weight: Rows
    right_weight: Rows
    top: NDArray[np.int32]
    top_weight: Rows


@lru_cache(maxsize=64)
def _halves(n: int, blocks: int) -> _Halves:
    """Of n numbers in blocks whose lengths differ by one at most, each halved until nothing is left to halve."""
    bounds = np.arange(blocks + 1) * n // blocks
    begin, end = bounds[:-1], bounds[1:]
    top_weight = 1 / np.sqrt(end - begin)
    places: list[NDArray[np.int64]] = []
    lengths: list[NDArray[np.int64]] = []
    nodes = 0
    while True:
        splits = end - begin > 1
        places.append(np.where(splits, n + nodes + np.cumsum(splits) - 1, begin))
        lengths.append(end - begin)
        nodes += int(splits.sum())
        if not splits.any():
            break
        begin, end = begin[splits], end[splits]
        middle = (begin + end) // 2
        begin, end = np.column_stack((begin, middle)).ravel(), np.column_stack((middle, end)).ravel()
    # Below the top every level lists the left and the right child of each node in turn.
    child, length = np.concatenate([places[0][:0], *places[1:]]), np.concatenate([lengths[0][:0], *lengths[1:]])
    a, b = length[0::2].astype(np.float64), length[1::2].astype(np.float64)
    return _Halves(
        child[0::2].astype(np.int32),
        child[1::2].astype(np.int32),
        np.sqrt(b / (a * (a + b))),
        np.sqrt(a / (b * (a + b))),
        places[0].astype(np.int32),
        top_weight,
    )


@dataclass(frozen=True)
class PCA(Transform):
    """The directions in which a sample of series differs most, then any others; for series of the sample's length.

    Korn, Jagadish and Faloutsos 1997. Made by :meth:`fit`. The basis is a product of Householder reflections, one for
    the mean and one per component, so that a series costs length × components and not its length squared.
    """

    name: ClassVar[str] = "pca"

    length: int
    mirrors: bytes = field(repr=False)
    """The reflections' vectors, one after another; bytes, so that they compare, hash and travel as they are."""

    @classmethod
    def fit(cls, sample: Rows, components: int) -> PCA:
        """From series as rows, in normal form or not; rows without a shape, being constant, tell nothing."""
        values = np.asarray(sample, np.float64)
        if values.ndim != 2 or not SHORTEST <= values.shape[1] <= LONGEST:
            raise SettingError(
                f"rows of {SHORTEST} to {LONGEST} numbers", f"an array of shape {values.shape}", "the sample of PCA"
            )
        n = values.shape[1]
        if not isinstance(components, int) or not 1 <= components < n:
            raise SettingError(f"1 to {n - 1} components for {n} numbers", shown(components), "PCA")
        whole = np.isfinite(values).all(axis=1)
        if not whole.all():
            raise SettingError("finite numbers", "NaN or infinity", f"row {int(np.argmin(whole))} of the sample of PCA")
        forms, held = normals(values)
        forms = forms[held]
        needed = f"more than {components} rows of different shapes for {components} components"
        if len(forms) <= components:
            raise SettingError(needed, f"{len(values)} rows, {len(forms)} of them not constant", "the sample of PCA")
        # Searches only ever use differences between series, so the mean of the sample is taken off first.
        _, spread, directions = np.linalg.svd(forms - forms.mean(axis=0), full_matrices=False)
        # A sample of equal rows is left with nothing but rounding, hence the normal forms' own size beside the spread.
        noise = max(forms.shape) * np.finfo(np.float64).eps * max(float(spread[0]), float(np.sqrt(forms.size)))
        rank = int((spread > noise).sum())
        if rank < components:
            raise SettingError(needed, f"rows that differ in {rank} directions", "the sample of PCA")
        return cls(n, _mirrors(np.vstack((np.ones(n), directions[:components]))).tobytes())

    @property
    def components(self) -> int:
        """How many coordinates come from the sample."""
        return len(self.mirrors) // (8 * self.length) - 1

    def width(self, n: int) -> int:
        """One less than the length of the sample."""
        if n != self.length:
            raise SettingError(f"series of {self.length} numbers, as in the sample of PCA", f"{n} numbers")
        return n - 1

    def coordinates(self, normals: Rows, first: int | None = None) -> Rows:
        """Along the components, then along directions orthogonal to them and to the mean."""
        found = self._room(normals, first)
        mirrors = np.frombuffer(self.mirrors).reshape(-1, self.length)
        reflected(mirrors, np.ascontiguousarray(normals, np.float64), found)
        return found


def _mirrors(directions: Rows) -> Rows:
    """Unit vectors whose reflections, one after another, turn direction j into axis j, up to its sign."""
    turned, found = directions.copy(), np.zeros_like(directions)
    for j in range(len(directions)):
        vector = found[j, j:]
        vector[:] = turned[j, j:]
        vector[0] += copysign(float(np.linalg.norm(vector)), vector[0])
        vector /= np.linalg.norm(vector)
        turned[:, j:] -= 2 * np.outer(turned[:, j:] @ vector, vector)
    return found


#: Transforms that need no sample, by name; the first is the default.
TRANSFORMS: dict[str, Callable[[], Transform]] = {kind.name: kind for kind in (FFT, Haar, PAA)}
