"""The rival from outside: FAISS, whose ``IndexFlat`` compares everything with everything by matrix products.

A radius per subscription is one dimension more: D² ≤ ε² says ⟨x, y⟩ + ε²/2 ≥ n for normal forms x, y of n numbers, and
the left side is the inner product of (x, ε²/2) and (y, 1). It computes in single precision, so what comes near the
limit is computed again in doubles. FAISS is in the ``dev`` group only and is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.timeseries.brute import Found, within

__all__ = ["SETTINGS", "Faiss", "FaissOfOneRadius", "Product", "Setting"]

Doubles = NDArray[np.float64]

_CHUNK = 4096


class Setting(NamedTuple):
    """How FAISS is asked: publications at a time, and from which number of them on it multiplies matrices."""

    batch: int
    products_from: int


#: What it is tried with. It comes with products only for batches much larger than ours, where they are the faster way.
SETTINGS = (Setting(1, 128_000), Setting(64, 128_000), Setting(64, 20), Setting(1024, 20))
#: Pairs that are verified at a time.
_VERIFIED = 1024


class Faiss:
    """An ``IndexFlatIP`` on series and tolerances; exact after verification."""

    def __init__(self, normals: Doubles, radii: Doubles, threads: int = 2) -> None:
        self._faiss: Any = import_module("faiss")
        self._faiss.omp_set_num_threads(threads)
        self.normals, self.radii = normals, radii
        rows, n = normals.shape
        # No two normal forms are further apart than 2√n: more would only blur the single precision.
        half = np.minimum(radii, 2.001 * sqrt(n)) ** 2 / 2
        #: Most that n + 1 products in single precision and their sum, in any order, can be off by.
        self.slack = (n + 8) * 2.0**-24 * (n + float(half.max(initial=0)))
        self._index = self._faiss.IndexFlatIP(n + 1)
        for begin in range(0, rows, _CHUNK):
            some = slice(begin, min(begin + _CHUNK, rows))
            self._index.add(np.column_stack((normals[some], half[some])).astype(np.float32))

    @property
    def vectors(self) -> NDArray[np.float32]:
        """What the index holds, where it lies."""
        rows, width = self._index.ntotal, self._index.d
        held: NDArray[np.float32] = self._faiss.rev_swig_ptr(self._index.get_xb(), rows * width).reshape(rows, width)
        return held

    def match(self, publications: Doubles, setting: Setting) -> Found:
        """The rows within their radius of each publication."""
        count, n = publications.shape
        asked = np.column_stack((publications, np.ones(count))).astype(np.float32)
        parts = []
        self._faiss.cvar.distance_compute_blas_threshold = setting.products_from
        for begin in range(0, count, setting.batch):
            limits, products, rows = self._index.range_search(asked[begin : begin + setting.batch], n - self.slack)
            owners = np.repeat(np.arange(begin, begin + len(limits) - 1), np.diff(limits.astype(np.int64)))
            held = products >= n + self.slack
            _verify(self.normals, self.radii, publications, owners, rows, held)
            parts.append((owners[held], rows[held]))
        return _grouped(parts, count)


class Product:
    """The same on FAISS's own copy of the series with nothing but numpy's matrix product: what brute force can do."""

    def __init__(self, faiss: Faiss) -> None:
        self._of = faiss

    def match(self, publications: Doubles) -> Found:
        """The rows within their radius of each publication, all publications at once."""
        of, (count, n) = self._of, publications.shape
        asked = np.column_stack((publications, np.ones(count))).astype(np.float32)
        parts = []
        for begin in range(0, len(of.vectors), _CHUNK):
            products = asked @ of.vectors[begin : begin + _CHUNK].T
            near = np.flatnonzero(products >= n - of.slack)
            owners, rows = np.divmod(near, products.shape[1])
            held = products.ravel()[near] >= n + of.slack
            rows += begin
            _verify(of.normals, of.radii, publications, owners, rows, held)
            parts.append((owners[held], rows[held]))
        owners, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(owners, kind="stable")
        return _grouped([(owners[order], rows[order])], count)


class FaissOfOneRadius:
    """An ``IndexFlatL2`` searched with the widest radius of all, for reference; what it finds is then sifted."""

    def __init__(self, normals: Doubles, radii: Doubles, threads: int = 2) -> None:
        self._faiss: Any = import_module("faiss")
        self._faiss.omp_set_num_threads(threads)
        self._normals, self._radii = normals, radii
        rows, n = normals.shape
        self._slack = 2 * (n + 8) * 2.0**-24 * 2 * n
        self._index = self._faiss.IndexFlatL2(n)
        for begin in range(0, rows, _CHUNK):
            self._index.add(normals[begin : begin + _CHUNK].astype(np.float32))

    def match(self, publications: Doubles, setting: Setting) -> Found:
        """The rows within their radius of each publication."""
        count = len(publications)
        asked, widest = publications.astype(np.float32), float(self._radii.max()) ** 2 + self._slack
        squares_of_radii = self._radii**2
        parts = []
        self._faiss.cvar.distance_compute_blas_threshold = setting.products_from
        for begin in range(0, count, setting.batch):
            limits, squares, rows = self._index.range_search(asked[begin : begin + setting.batch], widest)
            owners = np.repeat(np.arange(begin, begin + len(limits) - 1), np.diff(limits.astype(np.int64)))
            near = squares <= squares_of_radii[rows] + self._slack
            owners, rows, squares = owners[near], rows[near], squares[near]
            held = squares <= squares_of_radii[rows] - self._slack
            _verify(self._normals, self._radii, publications, owners, rows, held)
            parts.append((owners[held], rows[held]))
        return _grouped(parts, count)


def _verify(
    normals: Doubles,
    radii: Doubles,
    publications: Doubles,
    owners: NDArray[np.int64],
    rows: NDArray[np.int64],
    held: NDArray[np.bool_],
) -> None:
    """Decide in doubles those pairs that are not held yet."""
    doubtful = np.flatnonzero(~held)
    for begin in range(0, len(doubtful), _VERIFIED):
        some = doubtful[begin : begin + _VERIFIED]
        mine = rows[some]
        held[some[within(normals[mine], radii[mine], publications[owners[some]])]] = True


def _grouped(parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]], count: int) -> Found:
    owners, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=count), out=start[1:])
    return start, rows.astype(np.int32)
