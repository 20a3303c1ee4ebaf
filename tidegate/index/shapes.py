"""The shapes of a segment: which of its shape terms the publications of a batch have, all looked up together.

Shape terms of one attribute and one length form a ``SphereGroup``; those that are stretched are drawn at the length of
each publication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch
from tidegate.index.ragged import starts
from tidegate.index.shape_terms import ShapeTerms
from tidegate.index.terms import FoundTerms, TermLookup
from tidegate.kernels.shape import distances, normal_form, normal_forms, pair_distances
from tidegate.predicates.column import Row
from tidegate.predicates.shape import drawn, numbers_of
from tidegate.shapes.normal_form import LONGEST, SHORTEST
from tidegate.shapes.sphere_group import DEFAULT_HOW, ShapeLookup, SphereGroup

__all__ = ["SegmentShapes", "ShapeHits", "look_up_with", "looked_up_with"]

#: Numbers of series that are brought to normal form together.
_TOGETHER = 1 << 22

#: The number of a publication alone.
_ALONE = np.zeros(1, np.int64)

_how: list[ShapeLookup] = [DEFAULT_HOW]


def look_up_with(how: ShapeLookup) -> ShapeLookup:
    """Set the transform and the structure of all groups that this process builds from now on; returns the old ones."""
    before = _how[0]
    _how[0] = how.checked()
    return before


def looked_up_with() -> ShapeLookup:
    """What ``look_up_with`` set last, or the default."""
    return _how[0]


class ShapeHits(FoundTerms):
    """What ``SegmentShapes.found`` has found for some publications: pairs of a publication and a shape term it has."""

    def __init__(self, shape_terms: ShapeTerms, publications: int) -> None:
        self._shape_terms = shape_terms
        self._pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._blank: list[tuple[NDArray[np.int64], int]] = []
        self._has_shape = np.zeros((len(shape_terms.attributes), publications), np.bool_)
        self._sorted: list[NDArray[np.int64]] = []
        self.shapeless: list[str] = []

    def take(self, publication: NDArray[np.int64], term: NDArray[np.int64]) -> None:
        """Record pairs of publications and shape terms that they have."""
        self._pairs.append((publication, term))

    def have_shape(self, attribute: int, publication: NDArray[np.int64]) -> None:
        """Record that these publications have a series with a shape in the attribute."""
        self._has_shape[attribute, publication] = True

    def cannot_be_drawn(self, publication: NDArray[np.int64], term: int) -> None:
        """Record that a stretched shape shows nothing at the length of these: they are neither near it nor far."""
        self._blank.append((publication, term))

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        publication = np.concatenate([np.empty(0, np.int64), *(p for p, _ in self._pairs)])
        term = np.concatenate([np.empty(0, np.int64), *(a for _, a in self._pairs)])
        if len(self._pairs) > 1:
            order = np.argsort(publication, kind="stable")
            publication, term = publication[order], term[order]
        return publication, term

    def holds(
        self, publication: NDArray[np.int64], term: NDArray[np.int64], negated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        asked = publication * len(self._shape_terms) + term
        near = _among(asked, self._keys(0))
        # The length need not be compared: it is one of the ranges of the clause, which held.
        fits = self._has_shape[self._shape_terms.attribute[term], publication]
        if negated.any() and self._blank:
            fits &= ~_among(asked, self._keys(1))
        return np.where(negated, fits & ~near, near)

    def _keys(self, which: int) -> NDArray[np.int64]:
        if not self._sorted:
            several: list[list[tuple[NDArray[np.int64], Any]]] = [list(self._pairs), list(self._blank)]
            for pairs in several:
                keys = [p * len(self._shape_terms) + term for p, term in pairs]
                self._sorted.append(np.sort(np.concatenate([np.empty(0, np.int64), *keys])))
        return self._sorted[which]


def _among(asked: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(keys):
        return np.zeros(len(asked), np.bool_)
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.asarray(keys[at] == asked)


@dataclass(frozen=True, slots=True)
class _TermsOfLength:
    """The shape terms of one attribute with series of one length: row r has those of start[r] … start[r + 1]."""

    group: SphereGroup
    start: NDArray[np.int64]
    term: NDArray[np.int64]
    bound: NDArray[np.float64]
    exact: NDArray[np.float64]


class SegmentShapes(TermLookup):
    """All shape terms of a segment's clauses."""

    def __init__(
        self, shape_terms: ShapeTerms, how: ShapeLookup | None = None, saved: dict[str, NDArray[Any]] | None = None
    ) -> None:
        self._shape_terms = shape_terms
        self.how = _how[0] if how is None else how
        self._kin: dict[tuple[int, int], _TermsOfLength] = {}
        self._stretched: dict[int, list[tuple[int, NDArray[np.int64]]]] = {}
        by_group = np.lexsort((
            shape_terms.series, shape_terms.length[shape_terms.series], shape_terms.attribute
        ))  # fmt: skip
        lengths = shape_terms.length[shape_terms.series[by_group]]
        attributes = shape_terms.attribute[by_group]
        edges = np.flatnonzero(np.diff(lengths, prepend=-1) | np.diff(attributes.astype(np.int32), prepend=-1))
        for begin, end in zip(edges, [*edges[1:], len(by_group)], strict=True):
            mine, at = by_group[begin:end], (int(attributes[begin]), int(lengths[begin]))
            if at[1]:
                self._kin[at] = self._kindred(mine, at, saved)
            else:
                series, first = np.unique(shape_terms.series[mine], return_index=True)
                self._stretched[at[0]] = list(zip(series.tolist(), np.split(mine, first[1:]), strict=True))

    @staticmethod
    def of(
        terms: ShapeTerms, drives: NDArray[np.bool_], facts: Any = None, arrays: dict[str, NDArray[Any]] | None = None
    ) -> SegmentShapes:
        """The shapes of a segment. If it was saved with a transform that has no name, its arrays are built again."""
        if facts is None:
            return SegmentShapes(terms)
        return SegmentShapes(terms, ShapeLookup.restored(facts), arrays if facts["transform"] else None)

    def _kindred(
        self, mine: NDArray[np.int64], at: tuple[int, int], saved: dict[str, NDArray[Any]] | None
    ) -> _TermsOfLength:
        shape_terms, n = self._shape_terms, at[1]
        series, first = np.unique(shape_terms.series[mine], return_index=True)
        start = np.append(first, len(mine)).astype(np.int64)
        begins = shape_terms.start[series]
        if len(series) and begins[-1] - begins[0] == n * (len(series) - 1):  # one after the other: no copy
            exact = shape_terms.values[begins[0] : begins[0] + n * len(series)].reshape(-1, n)
        else:
            exact = shape_terms.values[begins[:, None] + np.arange(n)]
        radii = np.maximum.reduceat(shape_terms.bound[mine], first)
        arrays = None
        if saved is not None and self.how.structure == "cascade":
            prefix = _prefix(at)
            arrays = {name[len(prefix) :]: array for name, array in saved.items() if name.startswith(prefix)} or None
        transform = self.how.transform_for(n)
        group = SphereGroup(
            exact, radii, transform=transform, structure=self.how.structure, features=self.how.features, arrays=arrays
        )
        return _TermsOfLength(group, start, mine, shape_terms.bound[mine], exact)

    @property
    def nbytes(self) -> int:
        return self._shape_terms.nbytes + sum(kin.group.nbytes for kin in self._kin.values())

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            f"{_prefix(at)}{name}": array
            for at, kin in self._kin.items()
            for name, array in kin.group.arrays.items()
        }  # fmt: skip

    @property
    def facts(self) -> Any:
        """The transform and the structure."""
        return self.how.plain()

    # --- matching ---------------------------------------------------------------------------------------------------

    def found(self, batch: Batch, begin: int, end: int) -> ShapeHits:
        found = ShapeHits(self._shape_terms, end - begin)
        for a, attribute in enumerate(self._shape_terms.attributes):
            series = batch.series(attribute)
            if series is None:
                continue
            offsets = series.offsets[begin : end + 1]
            lengths = np.diff(offsets)
            for n in np.unique(lengths).tolist():
                if not SHORTEST <= n <= LONGEST or ((a, n) not in self._kin and a not in self._stretched):
                    continue
                everyone = np.flatnonzero(lengths == n)
                step = max(1, _TOGETHER // n)
                for first in range(0, len(everyone), step):
                    rows = everyone[first : first + step]
                    normals, held = np.empty((len(rows), n)), np.empty(len(rows), np.bool_)
                    normal_forms(offsets, series.points, rows, normals, held)
                    if not held.all():
                        rows, normals = rows[held], normals[held]
                    self._near(a, rows, normals, found)
        return found

    def alone(self, row: Row) -> ShapeHits:
        found = ShapeHits(self._shape_terms, 1)
        for a, attribute in enumerate(self._shape_terms.attributes):
            value = row.value(attribute)
            numbers = numbers_of(value)
            n = 0 if numbers is None else len(numbers)
            normals = np.empty((1, n))
            if SHORTEST <= n <= LONGEST and normal_form(numbers, normals[0]):
                self._near(a, _ALONE, normals, found)
            elif value is not None:
                found.shapeless.append(attribute)
        return found

    def _near(self, a: int, rows: NDArray[np.int64], normals: NDArray[np.float64], found: ShapeHits) -> None:
        """Record what publications have, of which these are the normal forms of attribute a."""
        found.have_shape(a, rows)
        kin = self._kin.get((a, normals.shape[1]))
        if kin is not None:
            _matched(kin, rows, normals, found)
        for s, theirs in self._stretched.get(a, ()):
            self._drawn(s, theirs, rows, normals, found)

    def _drawn(
        self,
        s: int,
        shape_terms: NDArray[np.int64],
        rows: NDArray[np.int64],
        normals: NDArray[np.float64],
        found: ShapeHits,
    ) -> None:
        shape = drawn(np.array(self._shape_terms.of_series(s)), normals.shape[1])
        if shape is None:
            for term in shape_terms.tolist():
                found.cannot_be_drawn(rows, term)
            return
        far = distances(normals, shape)
        publication, which = np.nonzero(far[:, None] <= self._shape_terms.bound[shape_terms])
        found.take(rows[publication], shape_terms[which])


def _matched(kin: _TermsOfLength, rows: NDArray[np.int64], normals: NDArray[np.float64], found: ShapeHits) -> None:
    start, near = kin.group.match(normals)
    publication = np.repeat(np.arange(len(rows)), np.diff(start))
    sizes = kin.start[near + 1] - kin.start[near]
    if not len(near) or sizes.max() == 1:
        found.take(rows[publication], kin.term[kin.start[near]])
        return
    far = np.repeat(pair_distances(normals, publication, kin.exact, near), sizes)  # several tolerances of one series
    begins = starts(sizes)
    at = np.arange(begins[-1]) + np.repeat(kin.start[near] - begins[:-1], sizes)
    kept = far <= kin.bound[at]
    found.take(rows[np.repeat(publication, sizes)[kept]], kin.term[at[kept]])


def _prefix(at: tuple[int, int]) -> str:
    return f"{at[0]}-{at[1]}-"
