"""The cascade: the default structure for finding near shapes, and our own. ``SphereGroup`` builds and searches it.

A row is the normal form of one series with its radius. ``Cascade`` lays rows out so that neighbours resemble each
other, 64 to a block, and drops most blocks by their bounding box alone. The coordinates of the other rows are compared
in a few steps, called rungs, with bounds from both sides, as ``kernels.cascade`` describes. Unlike the structures of
``structures.py``, which only propose candidates, ``Cascade.match`` gives exact results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.cascade import (
    BLOCK,
    FIRST,
    TILE,
    PointRungs,
    RowRungs,
    cut_into_rungs,
    find_near,
    find_near_one,
)
from tidegate.shapes.structures import Candidates
from tidegate.shapes.threads import in_chunks, shared

__all__ = ["ARRAYS", "Cascade", "NearRows", "bounds"]

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]

#: Where the rungs end, in coordinates, and the steps within the last.
_RUNGS = (FIRST - 1, 63, 255)
_STEPS = (511, 1023, 2047, 4095, 16_383)
#: What rounding to single precision may do to a distance: absolutely, as a share of the norm √n, and relatively to its
#: square. A number is off by 2⁻²⁴ of itself, so the difference of two series by 2⁻²³ √n; sums of at most 256 squares
#: are off by less than 2⁻¹⁵ of themselves, in whatever order they are taken, and longer ones are summed in doubles.
_ABSOLUTE, _RELATIVE = 2.0**-20, 2.0**-14
#: The weight of the radius when rows are put into blocks. A block is as hard to drop as its row of largest radius.
_ALIKE = 4
#: Rows that are written before they are gathered.
_ROOM = 1 << 20
#: The arrays that a snapshot keeps as they are; the rows in doubles and their radii are kept by the caller.
ARRAYS = RowRungs._fields[:-2]


class NearRows(NamedTuple):
    """The rows near point p are ``rows[start[p]:start[p + 1]]``, in no particular order."""

    start: NDArray[np.int64]
    rows: NDArray[np.int32]


class Cascade:
    """Rows of one length with a radius each, to be searched with points."""

    def __init__(self, exact: Doubles, radii: Doubles, arrays: dict[str, NDArray[Any]]) -> None:
        self.exact, self.radii, self.arrays = exact, radii, arrays

    @staticmethod
    def saved(exact: Doubles, radii: Doubles, width: int, arrays: dict[str, NDArray[Any]]) -> Cascade:
        """The cascade of a snapshot, of rows with so many coordinates; a ``ValueError`` if its arrays do not fit."""
        rows, blocks, number = len(exact), -(-len(exact) // BLOCK), arrays["number"]
        rungs = Ladder.of(width if rows else 0).room(0, np.asarray(exact[:0]))
        wanted = {
            "blocks": (blocks, FIRST, BLOCK), "low": (FIRST, blocks), "high": (FIRST, blocks), "widest": (blocks,),
            "reject": (blocks * BLOCK,), "accept": (rows,), "number": (rows,), "rest": (len(rungs.rest), rows),
            **{name: (rows, getattr(rungs, name).shape[1]) for name in ("second", "third", "last")},
        }  # fmt: skip
        for name, shape in wanted.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} of shape {arrays[name].shape}, not {shape}")
        if rows and (number.min() < 0 or number.max() >= rows):
            raise ValueError(f"a row {number.max()} of {rows}")
        return Cascade(exact, radii, arrays)

    @property
    def nbytes(self) -> int:
        """Bytes that matching reads; the doubles, which it reads only in doubt, are not among them."""
        return int(self.radii.nbytes + sum(self.arrays[name].nbytes for name in ARRAYS))

    @staticmethod
    def build(exact: Doubles, radii: Doubles, coordinates: Callable[[Doubles], Doubles]) -> Cascade:
        """The cascade of these normal forms, which may lie in a mapped file."""
        rows, n = exact.shape
        ladder = Ladder.of(coordinates(exact[:1]).shape[1] if rows else 0)
        first = np.zeros((rows, FIRST), np.float32)

        def look(begin: int, end: int) -> None:  # the first rung alone: it decides the order of rows
            some = coordinates(exact[begin:end])[:, : ladder.ends[0]]
            first[begin:end, : ladder.ends[0]] = some
            first[begin:end, FIRST - 1] = np.sqrt(np.maximum(n - (some * some).sum(1), 0))

        in_chunks(look, rows)
        outer, inner = bounds(radii, n)
        places = -(-rows // BLOCK) * BLOCK
        number = _laid_out(first, np.sqrt(np.maximum(outer, 0))).astype(np.int32)
        laid = ladder.room(rows, np.asarray(exact[:0]))

        def lay(begin: int, end: int) -> None:
            cut_into_rungs(coordinates(exact[number[begin:end]]), ladder.cuts, laid, begin)

        in_chunks(lay, rows)
        reject = np.full(places, -1, np.float32)  # rows that fill up the last block are never near
        reject[:rows], accept = outer[number], inner[number]
        blocks = np.zeros((places, FIRST), np.float32)
        blocks[:rows] = laid.first
        blocks[rows:] = laid.first[rows - 1 :]
        blocks = blocks.reshape(-1, BLOCK, FIRST)
        arrays = {
            "blocks": np.ascontiguousarray(blocks.transpose(0, 2, 1)),
            "low": np.ascontiguousarray(blocks.min(1, initial=np.inf).T),
            "high": np.ascontiguousarray(blocks.max(1, initial=-np.inf).T),
            "widest": reject.reshape(-1, BLOCK).max(1, initial=-1),
            "second": laid.second, "third": laid.third, "last": laid.last, "rest": laid.rest,
            "reject": reject, "accept": accept, "number": number,
        }  # fmt: skip
        return Cascade(exact, radii, arrays)

    def match(self, normals: Doubles, coordinates: Callable[[Doubles], Doubles]) -> NearRows:
        """The rows within their radius of each point, exactly; in no particular order."""
        if len(normals) == 1:
            alone = self._alone(coordinates(normals), normals)
            return NearRows(np.array([0, len(alone)]), alone)
        start, rows, _ = self._shared(normals, coordinates, self.arrays)
        return NearRows(start, rows)

    def _alone(self, coordinates: Doubles, normals: Doubles) -> NDArray[np.int32]:
        """The rows near one point, in one compiled call."""
        ladder = Ladder.of(coordinates.shape[1])
        found: NDArray[np.int32] = find_near_one(coordinates, ladder.cuts, ladder.steps, normals, self._laid)
        return found

    @cached_property
    def _laid(self) -> RowRungs:
        return self._laid_of(self.arrays)

    def _laid_of(self, arrays: dict[str, NDArray[Any]]) -> RowRungs:
        exact = np.asarray(self.exact)  # what lies in a mapped file is an array like others
        return RowRungs(**{name: arrays[name] for name in ARRAYS}, exact=exact, radius=self.radii)

    def candidates(self, normals: Doubles, coordinates: Callable[[Doubles], Doubles]) -> Candidates:
        """The rows that boxes and the first rung leave for each point, ascending: comparable to other structures."""
        arrays = dict(self.arrays)
        for name in ("second", "third", "last"):
            arrays[name] = arrays[name][:, :0]
        arrays["accept"] = np.full_like(arrays["accept"], np.inf)  # so that every row that is left is taken
        start, rows, tested = self._shared(normals, coordinates, arrays)
        for p in range(len(normals)):
            rows[start[p] : start[p + 1]].sort()
        return Candidates(start, rows, tested)

    def _shared(
        self, normals: Doubles, coordinates: Callable[[Doubles], Doubles], arrays: dict[str, NDArray[Any]]
    ) -> Candidates:
        """Search with all cores, each for some of the points."""
        laid = self._laid_of(arrays)

        def find(some: slice, ends: NDArray[np.int64], tested: NDArray[np.int64]) -> NDArray[np.int32]:
            points = np.ascontiguousarray(normals[some])
            found = coordinates(points)
            ladder = Ladder.of(found.shape[1])
            cut = ladder.room(len(points), points)
            cut_into_rungs(found, ladder.cuts, cut, 0)
            start, lists, begin, before = np.zeros(len(points) + 1, np.int64), [], 0, 0
            work = np.zeros(6, np.int64)
            while begin < len(points):
                room = np.empty(max(min(2 * TILE, len(points)) * len(laid.number), _ROOM), np.int32)
                written, after = find_near(cut, laid, begin, len(points), start, room, work)
                lists.append(room[:written].copy() if 4 * written < len(room) else room[:written])
                ends[begin:after] = start[begin + 1 : after + 1] + before
                begin, before = after, before + written
            tested[:] = (work[0] + work[1]) // max(1, len(tested))  # boxes are tested for many at a time
            return np.concatenate([np.empty(0, np.int32), *lists])

        return shared(find, len(normals), len(self.radii))


class Ladder(NamedTuple):
    """Where rungs end for series of so many coordinates."""

    ends: tuple[int, ...]
    """Of the four rungs."""
    cuts: NDArray[np.int64]
    """The same, with the steps within the last rung."""
    steps: NDArray[np.int64]
    """These steps alone, in coordinates of the last rung."""

    @staticmethod
    @lru_cache(maxsize=256)
    def of(width: int) -> Ladder:
        ends = tuple(min(rung, width) for rung in _RUNGS)
        inner = [step for step in _STEPS if step < width]
        steps = np.array([ends[-1], *inner, width], np.int64)
        return Ladder((*ends, width), np.array([*ends, *inner, width], np.int64), steps - ends[-1])

    def room(self, rows: int, normals: Doubles) -> PointRungs:
        """Rungs for so many rows or points; of rows, ``normals`` are kept elsewhere."""
        a, b, c, d = self.ends
        second, third, last = (np.empty((rows, n), np.float32) for n in (b - a, c - b, d - c))
        rest = np.zeros((len(self.steps) + 2, rows), np.float32)
        return PointRungs(np.zeros((rows, FIRST), np.float32), second, third, last, rest, self.steps, normals)


def _laid_out(first: Singles, radius: NDArray[Any]) -> NDArray[np.int64]:
    """The rows in an order in which those of a block are near each other, and alike in their radius.

    Halved where they spread most, again and again, as in a k-d tree; the radius is one coordinate more.
    """
    spread = np.concatenate([first, _ALIKE * radius[:, None]], 1)
    order = np.arange(len(first))
    parts = [(0, len(first))]
    while parts:
        begin, end = parts.pop()
        if end - begin <= BLOCK:
            continue
        mine = order[begin:end]
        here = spread[mine]
        axis = int(np.argmax(here.std(0)))
        half = -(-(end - begin) // (2 * BLOCK)) * BLOCK
        order[begin:end] = mine[np.argpartition(here[:, axis], half - 1)] if half < end - begin else mine
        parts += [(begin, begin + half), (begin + half, end)]
    return order


def bounds(radii: Doubles, n: int) -> tuple[Singles, Singles]:
    """Squares of distances in single precision above which a pair is surely too far, and below which surely near."""
    slack = _ABSOLUTE * sqrt(n)
    within = np.minimum(radii, 3 * sqrt(n))  # no two shapes are farther apart than 2 √n
    outer = np.where(radii >= 0, (within + slack) ** 2 * (1 + _RELATIVE), -1.0)
    inner = np.where(radii > slack, (within - slack) ** 2 * (1 - _RELATIVE), 0.0)
    return outer.astype(np.float32), inner.astype(np.float32)
