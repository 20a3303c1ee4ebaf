"""Parts: what select hands to combine. A part is a file with the publications that passed a filter of one shard.

``PartWriter`` collects what a task selected, writes one file per shard that wants any of it, and makes a
``PartReference`` for every shard; ``shard_step.py`` reads the files, also to build a shard's state again. The reference
also says which versions and times appeared, which moves the clock of all shards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.errors import StoreError
from tidegate.index.patterns import passed
from tidegate.kernels.memory import own_numbers
from tidegate.patterns.combine import Combine
from tidegate.patterns.memory import LONG_AGO, Arrivals
from tidegate.predicates.column import Column
from tidegate.stages.select import SelectedBatch
from tidegate.stages.shard_state import TOGETHER, PartReference
from tidegate.stages.task_context import query_id
from tidegate.store.storage import storage_at

__all__ = ["PART", "Appeared", "PartWriter", "Piece", "ShardFiles", "pieces_of", "read_pieces"]

#: The kind of the rows that are references to parts.
PART = "part"

_ARRAYS = tuple(field.name for field in fields(Arrivals))


@dataclass(frozen=True)
class ShardFiles:
    """The directory of a query's parts and states, at a path or URL. Spark sends it to the workers."""

    location: str
    per_query: bool = False
    """Whether each streaming query has a directory of its own in it, named by Spark's id of the query."""

    def of_task(self) -> ShardFiles:
        """The files of the query that the calling task belongs to."""
        return ShardFiles(f"{self.location}/{query_id()}") if self.per_query else self

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole. Like Spark's own checkpoint it is safe from crashes of programs, not of the machine."""
        if "://" in self.location:
            storage_at(self.location).write(name, data)
            return
        aside = Path(self.location, f".{name}-{uuid4().hex}")
        try:
            os.makedirs(self.location, exist_ok=True)
            aside.write_bytes(data)
            os.replace(aside, f"{self.location}/{name}")
        except OSError as error:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise StoreError("room to write", f"{error.strerror or error}", self.location) from None

    def read(self, name: str) -> tuple[dict[str, NDArray[Any]], Any]:
        """A bundle by name."""
        if "://" not in self.location:
            return array_bundle.read(Path(self.location, name))
        data = storage_at(self.location).read(name)
        if data is None:
            raise StoreError("a file with a bundle of arrays", "none", f"{self.location}/{name}")
        # writable, because kernels are compiled for writable arrays
        return array_bundle.unpacked(bytearray(data), f"{self.location}/{name}")

    def tidy(self, shard: int, batch: int, named: set[str]) -> None:
        """Remove the files of a shard from batches before this one, except those in ``named``."""
        where = storage_at(self.location)
        for name in where.names():
            _, number, *rest = name.split("-")
            if int(number) < batch and int(rest[-2]) == shard and name not in named:
                where.remove(name)


# --- pieces ---------------------------------------------------------------------------------------------------------


class Appeared(NamedTuple):
    """When each publication of a batch appeared."""

    newest: NDArray[np.int64]
    """The newest time among the publications that appeared before it in this part."""
    turn: NDArray[np.int64]
    """A number that grows in the order of appearance; publications that appeared together have the same."""
    version: NDArray[np.int64]
    """The version of the registry at that moment."""

    @staticmethod
    def together(found: SelectedBatch) -> Appeared:
        """For a batch whose publications all appeared at once."""
        n = found.publications
        return Appeared(np.full(n, LONG_AGO), np.zeros(n, np.int64), np.broadcast_to(found.versions, n))


@dataclass(frozen=True, slots=True)
class Piece:
    """Publications that passed filters of one shard, found with one view of the subscriptions."""

    arrivals: Arrivals
    """Its filters are positions in ``keys``, its values are in the order of ``columns``, its clock is
    ``Appeared.newest``.
    """
    keys: NDArray[np.uint8]
    """The keys of the filters."""
    columns: list[Column]

    def between(self, begin: int, end: int) -> Piece:
        """The publications that appeared at versions from one up to another."""
        version = self.arrivals.version
        return replace(self, arrivals=self.arrivals.picked(np.flatnonzero((begin <= version) & (version < end))))

    def taken_by(self, shard: Combine, clock: int | None, lateness: int) -> Arrivals:
        """The arrivals with the shard's own numbers of filters and columns; ``clock`` is its clock before the part."""
        given, memory = self.arrivals, shard.memory
        number = np.array([memory.filters.get(key.tobytes(), -1) for key in self.keys], np.int32)
        start, hits = own_numbers(given.start, given.hits, number, memory.marks)
        values = np.full((len(given), len(memory.columns)), np.nan)
        for i, column in enumerate(memory.columns):
            if column in self.columns:
                values[:, i] = given.values[:, self.columns.index(column)]
        clocks = np.maximum(given.clock - lateness, LONG_AGO if clock is None else clock)
        return replace(given, clock=clocks, values=values, start=start, hits=hits)


def pieces_of(found: SelectedBatch, appeared: Appeared, shards: int) -> Iterator[tuple[int, Piece]]:
    """For each shard, by its number, the piece of a batch that it wants; shards that want nothing are left out."""
    view, patterns = found.view, found.view.patterns
    if not len(patterns):
        return
    p = passed(found.batch, patterns.index.match(found.batch), patterns.columns)
    newest, turn, version = (array[p.rows] for array in appeared)
    rows = found.rows[p.rows]
    was_hit = np.zeros(patterns.filters_given, np.bool_)
    was_hit[p.hits] = True
    for shard in range(shards):
        wanted = np.zeros(patterns.filters_given, np.bool_)
        wanted[view.filters_of(shard, shards)] = True
        mine = np.flatnonzero(wanted & was_hit)
        if not len(mine):
            continue
        number = np.full(patterns.filters_given, -1, np.int32)
        number[mine] = np.arange(len(mine))
        start, hits = own_numbers(p.start, p.hits, number, np.full(len(mine), -1))
        everyone = Arrivals(
            p.time, newest, turn, version, rows, p.offsets, p.letters, p.phase, p.hash, p.source, p.values, start, hits
        )
        yield shard, Piece(everyone.picked(np.flatnonzero(np.diff(start))), patterns.keys[mine], patterns.columns)


def _packed(pieces: Sequence[Piece]) -> bytes:
    """Pieces as the bytes of a file."""
    arrays = {f"{i}/{name}": getattr(piece.arrivals, name) for i, piece in enumerate(pieces) for name in _ARRAYS}
    arrays |= {f"{i}/keys": piece.keys for i, piece in enumerate(pieces)}
    return array_bundle.packed(arrays, [[column.plain() for column in piece.columns] for piece in pieces])


def read_pieces(part: tuple[dict[str, NDArray[Any]], Any], at: str) -> list[Piece]:
    """The pieces of a part, which is a bundle; ``at`` is named if its arrays do not fit together."""
    arrays, described = part
    try:
        pieces = [
            Piece(
                Arrivals(**{name: arrays[f"{i}/{name}"] for name in _ARRAYS}),
                arrays[f"{i}/keys"],
                [Column.restored(*plain) for plain in columns],
            )
            for i, columns in enumerate(described)
        ]
        if all(_fits(piece) for piece in pieces):
            return pieces
        got = "arrays of other lengths"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        got = f"{type(error).__name__}: {error}"
    raise StoreError("a part of a batch", got, at)


def _fits(piece: Piece) -> bool:
    """Whether every offset of a piece leads into what it is an offset of: kernels rely on it."""
    given, keys = piece.arrivals, piece.keys
    count = len(given.time)
    rows = (given.clock, given.turn, given.version, given.row, given.phase, given.hash, given.source)
    return (
        all(len(array) == count for array in rows)
        and given.values.shape == (count, len(piece.columns))
        and keys.shape == (len(keys), 16)
        and _are_offsets(given.offsets, count, len(given.letters))
        and _are_offsets(given.start, count, len(given.hits))
        and (not len(given.hits) or (int(given.hits.min()) >= 0 and int(given.hits.max()) < len(keys)))
    )


def _are_offsets(offsets: NDArray[np.int64], count: int, end: int) -> bool:
    return offsets.shape == (count + 1,) and bool(
        offsets[0] == 0 and offsets[-1] == end and (offsets[1:] >= offsets[:-1]).all()
    )


# --- the writer of a task -------------------------------------------------------------------------------------------


class PartWriter:
    """Collects what one task selected, and writes a part for each shard that wants any of it."""

    def __init__(self, files: ShardFiles, keys: Sequence[int], batch: int, partition: int) -> None:
        self._files, self._keys, self._batch, self._partition = files, keys, batch, partition
        self._pieces: list[list[Piece]] = [[] for _ in keys]
        self._order: int | None = None
        self._first: int | None = None
        self._wall: int | None = None
        self._versions: dict[int, int] = {}
        self._newest = LONG_AGO

    def take(self, found: SelectedBatch) -> None:
        """Keep the pieces of a batch that shards want, and note which versions and times appeared."""
        if found.clock is not None:
            self._wall = found.clock if self._wall is None else max(found.clock, self._wall)
        if found.cut is not None:  # maybe without publications, but with a version at which subscriptions came or ended
            self._versions.setdefault(found.cut.version, LONG_AGO)
        if found.publications:
            for shard, piece in pieces_of(found, self._appeared(found), len(self._keys)):
                self._pieces[shard].append(piece)

    def _appeared(self, found: SelectedBatch) -> Appeared:
        """When the publications of a batch appeared, which comes after all that this task has taken before.

        Versions and newest times are noted for the ``PartReference``, which moves the clock of all shards.
        """
        times = found.times
        versions = np.broadcast_to(found.versions, found.publications)
        edges = np.flatnonzero(np.diff(versions, prepend=versions[0] - 1))
        for version, top in zip(versions[edges].tolist(), np.maximum.reduceat(times, edges).tolist(), strict=True):
            self._versions[version] = max(top, self._versions.get(version, LONG_AGO))
        if found.sizes is None:  # all of a batch appears together, in no order
            self._order = TOGETHER
            first = int(times.min())
            self._first = first if self._first is None else min(first, self._first)
            self._newest = max(self._newest, int(times.max()))
            return Appeared.together(found)
        sizes = found.sizes
        starts = np.cumsum(sizes) - sizes
        tops = np.maximum.accumulate(np.maximum.reduceat(times, starts))
        before = np.maximum(self._newest, np.concatenate(([LONG_AGO], tops[:-1])))
        self._newest = max(self._newest, int(tops[-1]))
        if self._first is None:
            self._order, self._first = int(found.rows[0]), int(times[: sizes[0]].min())
        return Appeared(np.repeat(before, sizes), np.repeat(found.rows[starts], sizes), versions)

    def close(self) -> Iterator[tuple[int, PartReference]]:
        """Write the files; for each shard its key and its reference."""
        seen = PartReference(self._order, self._first, tuple(self._versions.items()), self._wall)
        files = self._files.of_task()
        for shard, key in enumerate(self._keys):
            reference = seen
            if self._pieces[shard]:
                data = _packed(self._pieces[shard])
                name = f"part-{self._batch:012d}-{self._partition}-{shard}-{uuid4().hex}"
                files.write(name, data)
                reference = replace(seen, file=name, size=len(data))
            yield key, reference
