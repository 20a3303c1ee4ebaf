"""Patterns over a batch DataFrame of any size: Spark sorts what passed their filters, and each shard takes it in order.

Each publication that passed is a row of its own, so that Spark's sort, which spills to disk, brings the rows in the
order of time. A shard then holds one Arrow batch and what its patterns remember, never the whole DataFrame.
``tg.match`` calls ``in_order``.

    select ─► a row per publication and shard ─► sorted by Spark ─► Combine, batch by batch ─► notifications
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from tidegate.index.versioned import View
from tidegate.patterns import Combine
from tidegate.patterns.memory import LONG_AGO, Arrivals
from tidegate.runs.quarantine import Quarantine
from tidegate.stages.combine import RaisedBatch
from tidegate.stages.select import Select, SelectedBatch, Subscriptions
from tidegate.stages.select_task import Outlet, OutletWriter, SelectTask
from tidegate.stages.shard_parts import Appeared, Piece, pieces_of

__all__ = ["in_order"]

_ROWS = pa.schema(
    [
        ("shard", pa.int32()), ("time", pa.int64()), ("id", pa.string()), ("phase", pa.int32()),
        ("source", pa.binary()), ("record", pa.binary()), ("hits", pa.binary()),
    ]
)  # fmt: skip
_SPARK = "shard int, time bigint, id string, phase int, source binary, record binary, hits binary"
#: The time of rows that hold a ``_Seen``: they are sorted before all publications.
_SEEN = -(2**63)
#: The arrays of ``Arrivals`` with an entry per publication, in the order in which a record has them; ids and filters
#: have columns of their own.
_RECORD = tuple(field.name for field in fields(Arrivals) if field.name not in ("offsets", "letters", "start", "hits"))

Layout = list[tuple[str, str, list[int]]]


def in_order(
    source: DataFrame,
    select: Select,
    shards: Sequence[int],
    form: str,
    combinations: int,
    schema: str,
    quarantine: Quarantine | None = None,
) -> DataFrame:
    """The notifications of patterns over a batch DataFrame, whose publications count as having appeared together.

    Patterns take them in order of time, and the clock ends at the newest. Rows that are no publications go to the
    quarantine, if there is one.
    """
    rows = source.mapInArrow(SelectTask(select, _PublicationRows(shards), quarantine), _SPARK)
    each = rows.repartition(len(shards), "shard").sortWithinPartitions("time", "id", "phase", "source")
    return each.mapInArrow(_ShardInOrder(select.subscriptions, shards, form, combinations), schema)


# --- rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    """What one select task saw: the first and newest time of its publications, and how its records are laid out."""

    first: int
    newest: int
    layout: Layout

    @staticmethod
    def from_json(data: bytes) -> _Seen:
        return _Seen(**orjson.loads(data))


@dataclass(frozen=True)
class _PublicationRows(Outlet):
    """A row per publication and shard that wants it, and from each task one row per shard with its ``_Seen``."""

    shards: Sequence[int]

    def writer(self) -> OutletWriter:
        return _PublicationWriter(self.shards)


class _PublicationWriter(OutletWriter):
    def __init__(self, shards: Sequence[int]) -> None:
        self._shards = shards
        self._first: int | None = None
        self._newest, self._layout = LONG_AGO, Layout()

    def take(self, found: SelectedBatch) -> Iterator[pa.RecordBatch]:
        if not found.publications:
            return
        first, newest = int(found.times.min()), int(found.times.max())
        self._first = first if self._first is None else min(first, self._first)
        self._newest = max(newest, self._newest)
        for shard, piece in pieces_of(found, Appeared.together(found), len(self._shards)):
            self._layout = _layout(piece.arrivals)
            yield _as_rows(self._shards[shard], piece, self._layout, found.view)

    def close(self, rejected: int) -> Iterator[pa.RecordBatch]:
        if self._first is not None:
            seen, n = orjson.dumps(_Seen(self._first, self._newest, self._layout)), len(self._shards)
            columns = [list(self._shards), [_SEEN] * n, [""] * n, [0] * n, [b""] * n, [seen] * n, [b""] * n]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)]
            yield pa.record_batch(arrays, schema=_ROWS)


def _layout(arrivals: Arrivals) -> Layout:
    arrays = ((name, getattr(arrivals, name)) for name in _RECORD)
    return [(name, array.dtype.str, list(array.shape[1:])) for name, array in arrays]


def _as_rows(key: int, piece: Piece, layout: Layout, view: View) -> pa.RecordBatch:
    a, n = piece.arrivals, len(piece.arrivals)
    records = np.concatenate([_bytes(getattr(a, name), n) for name, _, _ in layout], axis=1)
    known = {row.tobytes(): number for number, row in enumerate(view.patterns.keys)}
    number = np.array([known[row.tobytes()] for row in piece.keys], np.int32)
    ids = pa.LargeStringArray.from_buffers(n, pa.py_buffer(a.offsets), pa.py_buffer(a.letters))
    columns = [
        pa.array(np.full(n, key, np.int32)),
        pa.array(a.time),
        ids.cast(pa.string()),
        pa.array(a.phase.astype(np.int32)),
        _binary(np.arange(n + 1) * 16, a.source.astype(">u8")),  # bytes that Spark sorts as the numbers are
        _binary(np.arange(n + 1) * records.shape[1], records),
        _binary(a.start * 4, number[a.hits]),
    ]
    return pa.record_batch(columns, schema=_ROWS)


def _bytes(array: NDArray[Any], n: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(n, -1).view(np.uint8).reshape(n, -1)


def _binary(offsets: NDArray[np.int64], data: NDArray[Any]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _as_piece(rows: pa.RecordBatch, layout: Layout, view: View) -> Piece:
    """The piece that ``_as_rows`` made rows of."""
    n = rows.num_rows
    ids, letters = _split(rows.column("id"))
    _, records = _split(rows.column("record"))
    start, hits = _split(rows.column("hits"))
    arrays: dict[str, NDArray[Any]] = {"offsets": ids, "letters": letters, "start": start // 4}
    arrays["hits"] = hits.view(np.int32)
    table, at = records.reshape(n, -1), 0
    for name, kind, shape in layout:
        dtype = np.dtype(kind)
        width = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.ascontiguousarray(table[:, at : at + width]).view(dtype).reshape(n, *shape)
        at += width
    return Piece(Arrivals(**arrays), view.patterns.keys, view.patterns.columns)


def _split(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets from 0 on, and the bytes, of texts or binaries; both are copies, because kernels take writable arrays."""
    _, offsets, data = column.buffers()
    kind = np.int64 if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type) else np.int32
    found = np.frombuffer(offsets, kind)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    flat = np.frombuffer(data, np.uint8)[found[0] : found[-1]].copy() if data else np.empty(0, np.uint8)
    return found - found[0], flat


# --- shards ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ShardInOrder:
    """The function that Spark maps over shards: it combines sorted rows, of which those with a ``_Seen`` come first."""

    subscriptions: Subscriptions
    shards: Sequence[int]
    form: str
    combinations: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: list[_Seen] = []
        taken: _OpenShard | None = None
        key = -1
        for batch in batches:
            if not batch.num_rows:
                continue
            key = batch.column("shard")[0].as_py()
            before = int(np.searchsorted(np.asarray(batch.column("time")), _SEEN, "right"))
            seen += [_Seen.from_json(data) for data in batch.column("record")[:before].to_pylist()]
            if before < batch.num_rows:
                taken = taken or self._begin(key, seen)
                yield from self._batches(taken.take(batch.slice(before)))
        if seen:  # an ``absent`` may end after the last publication that this shard wants
            taken = taken or self._begin(key, seen)
            yield from self._batches(taken.end())

    def _begin(self, key: int, seen: list[_Seen]) -> _OpenShard:
        version = self.subscriptions.of_task()
        view = self.subscriptions.view(version, version)
        first, newest = min(task.first for task in seen), max(task.newest for task in seen)
        layout: Layout = next((task.layout for task in seen if task.layout), [])
        return _OpenShard(view, self.shards.index(key), len(self.shards), self.combinations, layout, first, newest)

    def _batches(self, told: RaisedBatch) -> Iterator[pa.RecordBatch]:
        if told.notifications:
            yield from getattr(told, self.form).to_batches()


class _OpenShard:
    """A shard whose subscriptions are all admitted at the beginning, and which takes publications in order of time."""

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
        arrivals = piece.taken_by(self._combine, self._first, 0)
        together = replace(arrivals, clock=np.full(len(arrivals), self._first))
        return RaisedBatch(self._combine.take([together], int(piece.arrivals.time[-1]), self._first), self._view)

    def end(self) -> RaisedBatch:
        """Let the clock run to the newest of all publications."""
        return RaisedBatch(self._combine.take([], self._newest, self._first), self._view)
