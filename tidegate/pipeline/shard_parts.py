"""What select hands to combine: per shard, the publications that passed a filter of its patterns, as a file.

A task writes one file per shard that has any and sends a reference; the same file is what the shard's state is built
again from, if need be. The reference also says what appeared when, which moves the clock of all shards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.errors import StoreError
from tidegate.index.patterns import Passed, passed
from tidegate.index.versioned import View
from tidegate.kernels.memory import own_numbers
from tidegate.patterns.combine import Combine
from tidegate.patterns.memory import LONG_AGO, Arrivals
from tidegate.pipeline.select import SelectedBatch
from tidegate.predicates.column import Column
from tidegate.store import array_bundle
from tidegate.store.storage import storage_at

__all__ = ["PART", "PartWriter", "Piece", "ShardFiles", "pieces"]

#: The kind of the rows that are references to parts.
PART = "part"

_FIELDS = ("time", "offsets", "letters", "phase", "hash", "source", "values", "start", "hits")


@dataclass(frozen=True)
class ShardFiles:
    """The directory of a query's parts and states, at a path or URL; travels to the workers."""

    location: str

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole. Like Spark's own checkpoint it is safe from crashes of programs, not of the machine."""
        if "://" in self.location:
            storage_at(self.location).write(name, data)
            return
        os.makedirs(self.location, exist_ok=True)
        aside = f"{self.location}/.{name}-{uuid4().hex}"
        with open(aside, "wb") as file:
            file.write(data)
        os.replace(aside, f"{self.location}/{name}")

    def read(self, name: str) -> tuple[dict[str, NDArray[Any]], Any]:
        """A bundle by name."""
        if "://" not in self.location:
            return array_bundle.read(Path(self.location, name))
        data = storage_at(self.location).read(name)
        if data is None:
            raise StoreError("a file with a bundle of arrays", "none", f"{self.location}/{name}")
        return array_bundle.unpacked(
            bytearray(data), f"{self.location}/{name}"
        )  # writable: kernels are compiled for such

    def tidy(self, shard: int, batch: int, named: set[str]) -> None:
        """Remove what a shard has of batches before this one, unless it is named."""
        where = storage_at(self.location)
        for name in where.names():
            _, number, *rest = name.split("-")
            if int(number) < batch and int(rest[-2]) == shard and name not in named:
                where.remove(name)


class PartWriter:
    """Collects what one task found, and writes it."""

    def __init__(self, files: ShardFiles | None, keys: Sequence[int], batch: int, part: int) -> None:
        self._files, self._keys, self._batch, self._part = files, keys, batch, part
        self._pieces: list[list[tuple[dict[str, NDArray[Any]], list[Any]]]] = [[] for _ in keys]
        self._order: int | None = None
        self._first: int | None = None
        self._wall: int | None = None
        self._versions: dict[int, int] = {}
        self._newest = LONG_AGO

    def take(self, found: SelectedBatch) -> None:
        """Keep what patterns may want of what was found."""
        if found.clock is not None:
            self._wall = found.clock if self._wall is None else max(found.clock, self._wall)
            # nothing need have appeared with it, but somebody may have come or gone
            self._versions.setdefault(int(np.max(found.versions)), LONG_AGO)
        if not found.publications:
            return
        times, sizes = found.times, found.sizes
        versions = np.broadcast_to(found.versions, found.publications)
        if sizes is None:  # all of a batch appears together, in no order
            sizes, self._order = np.array([found.publications]), -1
            before, turns = np.full(1, LONG_AGO), np.zeros(1, np.int64)
            newest = max(self._newest, int(times.max()))
            self._first = min(int(times.min()), self._first if self._first is not None else int(times.min()))
        else:
            starts = np.cumsum(sizes) - sizes
            turns = found.first_row + starts
            tops = np.maximum.accumulate(np.maximum.reduceat(times, starts))
            before = np.maximum(self._newest, np.concatenate(([LONG_AGO], tops[:-1])))
            newest = max(self._newest, int(tops[-1]))
            if self._first is None:
                self._order, self._first = found.first_row, int(times[: sizes[0]].min())
        self._newest = newest
        edges = np.flatnonzero(np.diff(versions, prepend=versions[0] - 1))
        for version, top in zip(versions[edges].tolist(), np.maximum.reduceat(times, edges).tolist(), strict=True):
            self._versions[version] = max(top, self._versions.get(version, LONG_AGO))
        patterns = found.view.patterns
        if len(patterns):
            matches = patterns.index.match(found.batch)
            appeared = np.repeat(before, sizes), np.repeat(turns, sizes), versions
            self._keep(passed(found.batch, matches, patterns.columns), *appeared, found.view)

    def _keep(
        self,
        found: Passed,
        high: NDArray[np.int64],
        turns: NDArray[np.int64],
        versions: NDArray[np.int64],
        view: View,
    ) -> None:
        patterns = view.patterns
        was_hit = np.zeros(patterns.filters_given, np.bool_)
        was_hit[found.hits] = True
        columns = [column.plain() for column in patterns.columns]
        for shard in range(len(self._keys)):
            wanted = np.zeros(patterns.filters_given, np.bool_)
            wanted[view.filters_of(shard, len(self._keys))] = True
            mine = np.flatnonzero(wanted & was_hit)
            if not len(mine):
                continue
            number = np.full(patterns.filters_given, -1, np.int32)
            number[mine] = np.arange(len(mine))
            start, hits = own_numbers(found.start, found.hits, number, np.empty(len(mine), np.int64))
            everyone = Arrivals(
                found.time, high[found.rows], turns[found.rows], versions[found.rows], found.offsets, found.letters,
                found.phase, found.hash, found.source, found.values, start, hits,
            )  # fmt: skip
            kept = everyone.picked(np.flatnonzero(np.diff(start)))
            arrays = {name: getattr(kept, name) for name in (*_FIELDS, "turn", "version")}
            arrays |= {"high": kept.clock, "keys": patterns.keys[mine]}
            self._pieces[shard].append((arrays, columns))

    def close(self) -> Iterator[tuple[int, str, bytes]]:
        """A reference for each shard: its key, a kind, and what it refers to."""
        for shard, key in enumerate(self._keys):
            facts, data = self._of(shard)
            if data:
                assert self._files is not None
                facts["file"] = f"part-{self._batch:012d}-{self._part}-{shard}-{uuid4().hex}"
                self._files.write(facts["file"], data)
            yield key, PART, orjson.dumps(facts)

    def whole(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The same with what it refers to, and no file."""
        for shard, key in enumerate(self._keys):
            facts, data = self._of(shard)
            yield key, orjson.dumps(facts), data

    def _of(self, shard: int) -> tuple[dict[str, Any], bytes]:
        pieces, data = self._pieces[shard], b""
        if pieces:
            arrays = {f"{i}/{name}": a for i, (piece, _) in enumerate(pieces) for name, a in piece.items()}
            data = array_bundle.packed(arrays, [columns for _, columns in pieces])
        facts: dict[str, Any] = {
            "order": self._order, "first": self._first, "versions": list(self._versions.items()),
            "wall": self._wall, "file": None, "bytes": len(data),
        }  # fmt: skip
        return facts, data


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a part: publications that were found with one view of the subscriptions."""

    arrays: dict[str, NDArray[Any]]
    columns: list[Column]

    def arrivals(self, shard: Combine, clock: int | None, lateness: int) -> Arrivals:
        """As the shard takes them: ``clock`` is how far the clock was before the part."""
        a, memory = self.arrays, shard.memory
        known = memory.filters
        number = np.array([known.get(key.tobytes(), -1) for key in a["keys"]], np.int32)
        start, hits = own_numbers(a["start"], a["hits"], number, np.empty(memory.key.length, np.int64))
        values = np.full((len(a["time"]), len(memory.columns)), np.nan)
        for i, column in enumerate(memory.columns):
            if column in self.columns:
                values[:, i] = a["values"][:, self.columns.index(column)]
        clocks = np.maximum(a["high"] - lateness, LONG_AGO if clock is None else clock)
        return Arrivals(
            a["time"], clocks, a["turn"], a["version"], a["offsets"], a["letters"], a["phase"], a["hash"], a["source"],
            values, start, hits,
        )  # fmt: skip


def pieces(part: tuple[dict[str, NDArray[Any]], Any]) -> list[Piece]:
    """The pieces of a part, which is a bundle."""
    arrays, described = part
    found: list[dict[str, NDArray[Any]]] = [{} for _ in described]
    for path, array in arrays.items():
        number, field = path.split("/")
        found[int(number)][field] = array
    columns = [[Column.restored(*plain) for plain in listed] for listed in described]
    return [Piece(piece, listed) for piece, listed in zip(found, columns, strict=True)]
