"""Patterns over a batch DataFrame of any size: Spark sorts what passed their filters, and each shard takes it in order.

Each publication that passed is a row of its own, so that Spark's sort, which goes to disk where memory ends, brings
them in the order of time. A shard then holds one Arrow batch and what its patterns remember, never all there is.

    select ─► a row per publication and shard ─► sorted by Spark ─► Combine, batch by batch ─► notifications
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from tidegate.index.versioned import View
from tidegate.patterns import Combine
from tidegate.patterns.memory import LONG_AGO
from tidegate.pipeline.combine import RaisedBatch
from tidegate.pipeline.select import Select, SelectedBatch, Subscriptions, part
from tidegate.pipeline.shard_parts import PartWriter, Piece, pieces
from tidegate.runs.quarantine import Quarantine
from tidegate.store import array_bundle

__all__ = ["in_order"]

_ROWS = pa.schema(
    [
        ("shard", pa.int32()), ("time", pa.int64()), ("id", pa.string()), ("phase", pa.int32()),
        ("record", pa.binary()), ("hits", pa.binary()),
    ]
)  # fmt: skip
_SPARK = "shard int, time bigint, id string, phase int, record binary, hits binary"
#: The time of rows that say what a task saw: before all publications.
_FACTS = -(2**63)
#: Arrays of a piece that are not one entry per publication: ids and filters are columns of their own, keys are known.
_APART = ("offsets", "letters", "start", "hits", "keys")

Layout = list[tuple[str, str, list[int]]]


def in_order(
    source: DataFrame,
    select: Select,
    shards: Sequence[int],
    grouped: bool,
    combinations: int,
    schema: str,
    quarantine: Quarantine | None = None,
) -> DataFrame:
    """What patterns tell of all publications there are, which appear together: in order, and the clock ends at the
    newest. Rows that are no publications go to the quarantine, if there is one.
    """
    rows = source.mapInArrow(_Rows(select, shards, quarantine), _SPARK)
    each = rows.repartition(len(shards), "shard").sortWithinPartitions("time", "id", "phase")
    return each.mapInArrow(_Shard(select.subscriptions, shards, grouped, combinations), schema)


# --- rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Select for patterns: a row per publication and shard that wants it, and one per shard with what was seen."""

    select: Select
    shards: Sequence[int]
    quarantine: Quarantine | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first: int | None = None
        newest, layout, faults = LONG_AGO, Layout(), []
        for found in self.select(batches):
            faults += found.faults
            if found.publications:
                times = found.times
                first = int(times.min()) if first is None else min(first, int(times.min()))
                newest = max(newest, int(times.max()))
                for shard, piece in _pieces(found, self.shards):
                    layout = _layout(piece)
                    yield _as_rows(shard, piece, layout, found.view)
        if faults and self.quarantine is not None:
            self.quarantine.keep(0, part(), faults)
        if first is not None:
            yield _facts(self.shards, {"first": first, "newest": newest, "layout": layout})


def _pieces(found: SelectedBatch, shards: Sequence[int]) -> Iterator[tuple[int, Piece]]:
    """What each shard wants of some publications."""
    parting = PartWriter(None, shards, 0, 0)
    parting.take(found)
    for key, _, data in parting.whole():
        if data:
            for piece in pieces(array_bundle.unpacked(data)):
                yield key, piece


def _layout(piece: Piece) -> Layout:
    """The arrays that have an entry per publication, in the order in which a record has them."""
    return [
        (name, array.dtype.str, list(array.shape[1:]))
        for name, array in sorted(piece.arrays.items())
        if name not in _APART
    ]


def _as_rows(key: int, piece: Piece, layout: Layout, view: View) -> pa.RecordBatch:
    a, n = piece.arrays, len(piece.arrays["time"])
    records = np.concatenate([_bytes(a[name], n) for name, _, _ in layout], axis=1)
    known = {row.tobytes(): number for number, row in enumerate(view.patterns.keys)}
    number = np.array([known[row.tobytes()] for row in a["keys"]], np.int32)
    ids = pa.LargeStringArray.from_buffers(n, pa.py_buffer(a["offsets"]), pa.py_buffer(a["letters"]))
    columns = [
        pa.array(np.full(n, key, np.int32)),
        pa.array(a["time"]),
        ids.cast(pa.string()),
        pa.array(a["phase"].astype(np.int32)),
        _binary(np.arange(n + 1) * records.shape[1], records),
        _binary(a["start"] * 4, number[a["hits"]]),
    ]
    return pa.record_batch(columns, schema=_ROWS)


def _bytes(array: NDArray[Any], n: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(n, -1).view(np.uint8).reshape(n, -1)


def _binary(offsets: NDArray[np.int64], data: NDArray[Any]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _facts(shards: Sequence[int], facts: dict[str, Any]) -> pa.RecordBatch:
    told, n = orjson.dumps(facts), len(shards)
    columns = [list(shards), [_FACTS] * n, [""] * n, [0] * n, [told] * n, [b""] * n]
    return pa.record_batch([pa.array(c, field.type) for c, field in zip(columns, _ROWS, strict=True)], schema=_ROWS)


def _as_piece(rows: pa.RecordBatch, layout: Layout, view: View) -> Piece:
    """The publications of some rows, as select found them."""
    n = rows.num_rows
    ids, letters = _split(rows.column("id"))
    _, records = _split(rows.column("record"))
    start, hits = _split(rows.column("hits"))
    arrays: dict[str, NDArray[Any]] = {"offsets": ids, "letters": letters, "start": start // 4}
    arrays |= {"hits": hits.view(np.int32), "keys": view.patterns.keys}
    table, at = records.reshape(n, -1), 0
    for name, kind, shape in layout:
        dtype = np.dtype(kind)
        width = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.ascontiguousarray(table[:, at : at + width]).view(dtype).reshape(n, *shape)
        at += width
    return Piece(arrays, view.patterns.columns)


def _split(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets from 0 on, and the bytes, of texts or binaries; both are copies, as kernels want to write."""
    _, offsets, data = column.buffers()
    kind = np.int64 if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type) else np.int32
    found = np.frombuffer(offsets, kind)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    flat = np.frombuffer(data, np.uint8)[found[0] : found[-1]].copy() if data else np.empty(0, np.uint8)
    return found - found[0], flat


# --- shards ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shard:
    """Combine for a shard, whose rows come in order; what tasks saw comes first."""

    subscriptions: Subscriptions
    shards: Sequence[int]
    grouped: bool
    combinations: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: list[dict[str, Any]] = []
        taken: _Taken | None = None
        key = -1
        for batch in batches:
            if not batch.num_rows:
                continue
            key = batch.column("shard")[0].as_py()
            before = int(np.searchsorted(np.asarray(batch.column("time")), _FACTS, "right"))
            seen += [orjson.loads(told) for told in batch.column("record")[:before].to_pylist()]
            if before < batch.num_rows:
                taken = taken or self._begin(key, seen)
                yield from self._batches(taken.take(batch.slice(before)))
        if seen:  # silences may end after the last publication that somebody wants
            taken = taken or self._begin(key, seen)
            yield from self._batches(taken.end())

    def _begin(self, key: int, seen: list[dict[str, Any]]) -> _Taken:
        version = self.subscriptions.of_task()
        view = self.subscriptions.view(version, version)
        first, newest = min(facts["first"] for facts in seen), max(facts["newest"] for facts in seen)
        layout: Layout = next((facts["layout"] for facts in seen if facts["layout"]), [])
        return _Taken(view, self.shards.index(key), len(self.shards), self.combinations, layout, first, newest)

    def _batches(self, told: RaisedBatch) -> Iterator[pa.RecordBatch]:
        if told.notifications:
            yield from (told.grouped if self.grouped else told.flat).to_batches()


class _Taken:
    """A shard that has everybody from the beginning, and takes publications in order."""

    def __init__(
        self, view: View, shard: int, shards: int, combinations: int, layout: Layout, first: int, newest: int
    ) -> None:
        self._view, self._layout, self._first, self._newest = view, layout, first, newest
        self._combine = Combine(combinations=combinations)
        mine = np.flatnonzero(view.since[view.patterns.subscriptions] % shards == shard)
        self._combine.admit(
            standing._replace(owner=int(view.since[number]), since=-1)
            for number, standing in view.patterns.admitted(mine)
        )

    def take(self, rows: pa.RecordBatch) -> RaisedBatch:
        """Take some rows, and let the clock run to the last of them."""
        piece = _as_piece(rows, self._layout, self._view)
        arrivals = piece.arrivals(self._combine, self._first, 0)
        together = replace(arrivals, clock=np.full(len(arrivals), self._first))
        return RaisedBatch(self._combine.take([together], int(piece.arrays["time"][-1]), self._first), self._view)

    def end(self) -> RaisedBatch:
        """Let the clock run to the newest of all publications."""
        return RaisedBatch(self._combine.take([], self._newest, self._first), self._view)
