"""The workload of Table 1: random walks as subscriptions and publications, and tolerances that a factor scales.

Manassiev and Jacobsen 2004, §5.1. Knows nothing of what searches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from tidegate.shapes.normal_form import normals
from tidegate.shapes.transforms import FFT

__all__ = ["STEP", "Series", "features", "scale", "walks"]

Doubles = NDArray[np.float64]

#: Steps are uniform in (−STEP, STEP).
STEP = 500.0
#: Series that are drawn at a time; what is drawn does not depend on it.
_CHUNK = 2048
#: Bytes.
_MUCH = 1 << 28


@dataclass(frozen=True)
class Series:
    """Normal forms of subscriptions and of publications, and for each subscription a tolerance yet to be scaled."""

    subscriptions: Doubles
    tolerances: Doubles
    """Uniform in (0, 1)."""
    publications: Doubles

    @property
    def length(self) -> int:
        """Numbers of each series."""
        return int(self.subscriptions.shape[1])

    @property
    def unit(self) -> float:
        """What c multiplies: √(1000 · L)."""
        return sqrt(1000 * self.length)

    def radii(self, c: float) -> Doubles:
        """The tolerances, uniform in (0, c · √(1000 · L))."""
        return self.tolerances * (c * self.unit)

    def first(self, subscriptions: int, publications: int | None = None) -> Series:
        """Fewer of them."""
        return Series(
            self.subscriptions[:subscriptions], self.tolerances[:subscriptions], self.publications[:publications]
        )


def walks(seed: int, subscriptions: int, publications: int, length: int) -> Series:
    """Random walks in normal form. The first ones are the same however many are drawn."""
    of_subscriptions, of_tolerances, of_publications = np.random.default_rng(seed).spawn(3)
    return Series(
        _drawn(of_subscriptions, subscriptions, length),
        of_tolerances.random(subscriptions),
        _drawn(of_publications, publications, length),
    )


def _drawn(rng: np.random.Generator, count: int, length: int) -> Doubles:
    found = _room(count, length)
    for begin in range(0, count, _CHUNK):
        some = found[begin : begin + _CHUNK]
        some[:], held = normals(np.cumsum(rng.uniform(-STEP, STEP, some.shape), axis=1))
        assert held.all()
    return found


def _room(count: int, length: int) -> Doubles:
    """In a file without a name if it is much: what is read once and then seldom need not stay in memory."""
    if count * length * 8 < _MUCH:
        return np.empty((count, length))
    with TemporaryFile() as file:
        return np.memmap(file, np.float64, "w+", shape=(count, length))


def features(normal_forms: Doubles, k: int) -> Doubles:
    """The first k Fourier coefficients, as 2k coordinates."""
    return FFT().coordinates(normal_forms, 2 * k)


def scale(series: Series, of_subscriptions: Doubles, of_publications: Doubles, share: float) -> float:
    """The c with which this share of all pairs are candidates.

    A pair is one from the c on at which the tolerance has grown to its distance in feature space: c is a quantile.
    """
    unit = series.tolerances * series.unit
    needed = [np.sqrt(((of_subscriptions - point) ** 2).sum(axis=1)) / unit for point in of_publications]
    return float(np.quantile(np.concatenate(needed), share))
