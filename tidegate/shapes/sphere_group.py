"""``SphereGroup``: series of one length with a tolerance each, and the search for those that a given series is near.

It combines a transform for coordinates, a structure for candidates, and verification in doubles; ``ShapeLookup`` names
them. The answer is the same with any of them. ``cascade`` is the fastest and the default; the others are there for
comparison, and for data that suits them better.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError, shown
from tidegate.extras import require
from tidegate.kernels.cascade import Verified, verify
from tidegate.shapes import interval_trees, rstar_tree, scan  # noqa: F401 (they register themselves)
from tidegate.shapes.cascade import ARRAYS, Cascade, NearRows, bounds
from tidegate.shapes.structures import STRUCTURES, Candidates
from tidegate.shapes.threads import in_chunks, shared
from tidegate.shapes.transforms import TRANSFORMS, Transform

__all__ = ["DEFAULT_HOW", "ShapeLookup", "SphereGroup", "structures"]

Doubles = NDArray[np.float64]

CASCADE = "cascade"
#: Coordinates that structures index: five Fourier coefficients.
FEATURES = 10
_SLACK = 1e-11


def structures() -> list[str]:
    """The names of all structures, the default first."""
    return [CASCADE, *STRUCTURES]


class ShapeLookup(NamedTuple):
    """The transform and the structure with which a deployment looks shapes up. The answers do not depend on them."""

    transform: str | Transform = "fft"
    """The name of a transform, or one that was fitted to data; lengths that it was not fitted to use the default."""
    structure: str = CASCADE
    features: int = FEATURES

    def transform_for(self, n: int) -> Transform:
        """The transform of series of that length."""
        if isinstance(self.transform, str):
            return TRANSFORMS[self.transform]()
        try:
            self.transform.width(n)
        except SettingError:
            return TRANSFORMS["fft"]()
        return self.transform

    def plain(self) -> dict[str, Any]:
        """As a JSON value; of a transform without a name it only records that there was one."""
        name = self.transform if isinstance(self.transform, str) else self.transform.name
        known = name in TRANSFORMS and self.transform in (name, TRANSFORMS[name]())
        return {"transform": name if known else "", "structure": self.structure, "features": self.features}

    @staticmethod
    def restored(plain: dict[str, Any]) -> ShapeLookup:
        """What ``plain`` wrote; the default for a transform without a name, since any gives the same answers."""
        return ShapeLookup(**{**plain, "transform": plain["transform"] or DEFAULT_HOW.transform})

    def checked(self) -> ShapeLookup:
        """Itself, or an error that says what is wrong."""
        if not isinstance(self.transform, Transform) and self.transform not in TRANSFORMS:
            raise SettingError(f"one of {', '.join(TRANSFORMS)} as transform", shown(self.transform))
        if self.structure not in structures():
            raise SettingError(f"one of {', '.join(structures())} as structure", shown(self.structure))
        if self.structure != CASCADE and (extra := STRUCTURES[self.structure].extra) is not None:
            require(extra, f"the structure {self.structure}")
        if isinstance(self.features, bool) or not isinstance(self.features, int) or not 2 <= self.features <= 64:
            raise SettingError("a number of features from 2 to 64", shown(self.features))
        return self


DEFAULT_HOW = ShapeLookup()


class SphereGroup:
    """Normal forms, a row each, with a radius each; a negative radius is never reached."""

    def __init__(
        self,
        normals: Doubles,
        radii: Doubles,
        *,
        transform: Transform | None = None,
        structure: str = CASCADE,
        features: int = FEATURES,
        arrays: dict[str, NDArray[Any]] | None = None,
    ) -> None:
        self._transform = TRANSFORMS["fft"]() if transform is None else transform
        self._normals, self._radii, self.structure = normals, radii, structure
        if structure == CASCADE:
            self._cascade = (
                Cascade.build(normals, radii, self._transform.coordinates)
                if arrays is None
                else Cascade.saved(normals, radii, self._transform.width(normals.shape[1]), arrays)
            )
            return
        if structure not in STRUCTURES:
            raise SettingError(f"one of {', '.join(structures())} as structure", shown(structure))
        n = normals.shape[1]
        self._features = min(max(2, features), self._transform.width(n))
        self._reject, self._accept = bounds(radii, n)
        self._rows, some = self._transformed(normals)
        slack = _SLACK * sqrt(n)  # for the rounding of coordinates
        self._structure = STRUCTURES[structure](some, np.maximum(radii, 0.0) + slack)

    def _transformed(self, normals: Doubles, chunk: int = 1024) -> tuple[NDArray[np.float32], Doubles]:
        """All coordinates in single precision, and the first few as they are."""
        whole = np.empty((len(normals), self._transform.width(normals.shape[1])), np.float32)
        few = np.empty((len(normals), self._features))

        def transform(begin: int, end: int) -> None:
            found = self._transform.coordinates(normals[begin:end])
            whole[begin:end], few[begin:end] = found, found[:, : self._features]

        in_chunks(transform, len(normals), chunk)
        return whole, few

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a snapshot keeps of it, so that nothing is computed again: the cascade's arrays."""
        return {name: self._cascade.arrays[name] for name in ARRAYS} if self.structure == CASCADE else {}

    @property
    def nbytes(self) -> int:
        """Bytes of series and bounds that matching reads; the doubles, read only in doubt, are not among them."""
        if self.structure == CASCADE:
            return self._cascade.nbytes
        return int(self._rows.nbytes + self._reject.nbytes + self._accept.nbytes + self._radii.nbytes)

    def candidates(self, normals: Doubles) -> Candidates:
        """The filter step alone, in feature space."""
        if self.structure == CASCADE:
            return self._cascade.candidates(normals, self._transform.coordinates)
        return self._structure.candidates(self._transformed(normals, 32)[1])

    def match(self, normals: Doubles) -> NearRows:
        """The rows within their radius of each series, exactly; in no particular order."""
        if not len(normals) or not len(self._radii):
            return NearRows(np.zeros(len(normals) + 1, np.int64), np.empty(0, np.int32))
        if self.structure == CASCADE:
            return self._cascade.match(normals, self._transform.coordinates)
        points, features = self._transformed(normals, 32)
        proposed = self._structure.candidates(features)
        pairs = Verified(points, normals, self._rows, self._reject, self._accept, self._normals, self._radii)

        def find(some: slice, ends: NDArray[np.int64], tested: NDArray[np.int64]) -> NDArray[np.int32]:
            found = np.empty(proposed.start[some.stop] - proposed.start[some.start], np.int32)
            sizes = np.zeros(len(normals), np.int64)
            n = verify(pairs, proposed.start, proposed.rows, some.start, some.stop, sizes, found)
            ends[:] = np.cumsum(sizes[some])
            return found[:n]

        start, rows, _ = shared(find, len(normals), len(self._radii))
        return NearRows(start, rows)
