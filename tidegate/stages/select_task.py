"""``SelectTask``, the function that Spark maps over the partitions of a batch, for ``Flow`` and ``tg.match`` alike.

It runs ``Select``, and an ``Outlet`` makes rows for Spark of what was selected. There are three outlets.
``NotificationRows`` gives the notifications themselves. ``ReceiptRows`` gives *receipts*, a few rows that the driver
collects: what each sink's worker half has written, tables for the sinks that run in the driver, and counts; and for
each shard of patterns a reference to what passed their filters. The third, in ``match_batch.py``, is for patterns over
a batch DataFrame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tidegate.rejected_row import QuarantinedRow
from tidegate.runs.cut import Cut
from tidegate.runs.quarantine import Quarantine
from tidegate.runs.sinks import COUNTS, CUT, Receipt, WorkerHalf
from tidegate.stages.select import Select, SelectedBatch
from tidegate.stages.shard_parts import PART, PartWriter, ShardFiles
from tidegate.stages.shard_state import PartReference
from tidegate.stages.task_context import batch_number, local_property, partition_number, query_id

__all__ = [
    "RECEIPTS",
    "SHARDED",
    "WATERMARK",
    "NotificationRows",
    "Outlet",
    "OutletWriter",
    "ReceiptRows",
    "ReceiptTask",
    "ReceiptWriter",
    "SelectTask",
]

RECEIPTS = "kind string, payload binary"
#: The columns of receipts with the key of the shard that takes each, where patterns are combined after select.
SHARDED = f"shard int, {RECEIPTS}"
_RECEIPTS = pa.schema([("kind", pa.string()), ("payload", pa.binary())])
_SHARDED = pa.schema([("shard", pa.int32()), *_RECEIPTS])

#: The local property by which the flow tells tasks before which event time a publication is late.
WATERMARK = "tidegate.watermark"
_LONG_AGO = -(2**63)


class OutletWriter(ABC):
    """Makes rows of what one task selects."""

    @abstractmethod
    def take(self, found: SelectedBatch) -> Iterator[pa.RecordBatch]:
        """Rows of some of what the task selected, if the writer does not keep it until ``close``."""

    @abstractmethod
    def close(self, rejected: int) -> Iterator[pa.RecordBatch]:
        """The rows that are left at the end of the task, of whose input ``rejected`` rows are no publications."""


class Outlet(ABC):
    """Makes a writer for each task. Spark pickles it and sends it to the workers."""

    @abstractmethod
    def writer(self) -> OutletWriter: ...


@dataclass(frozen=True)
class SelectTask:
    """The function that Spark maps over the partitions of a batch."""

    select: Select
    outlet: Outlet
    quarantine: Quarantine | None
    """Where rows that are no publications go; None where another stage reads the same rows and writes them there."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, rejected = self.outlet.writer(), list[QuarantinedRow]()
        for found in self.select(batches):
            rejected += found.faults
            yield from writer.take(found)
        self._keep(rejected)
        yield from writer.close(len(rejected))

    def _keep(self, rejected: Sequence[QuarantinedRow]) -> None:
        if not rejected or self.quarantine is None:
            return
        quarantine, query = self.quarantine, query_id()
        if quarantine.query and query:  # several share it: a stream's files have Spark's id, the same after a restart
            quarantine = replace(quarantine, query=query)
        quarantine.keep(batch_number(), partition_number(), rejected)


@dataclass(frozen=True)
class ReceiptTask(SelectTask):
    """The same in the process of a run, which needs no rows for Spark: ``outlet`` is that of receipts."""

    outlet: ReceiptRows

    def receipts(self, given: Iterable[Any]) -> tuple[list[PartReference], list[Receipt]]:
        """What the only shard of patterns takes of what was given to the feed, and the receipts."""
        writer, rejected = self.outlet.writer(), list[QuarantinedRow]()
        for found in self.select(given):
            rejected += found.faults
            writer.keep(found)
        self._keep(rejected)
        parts, receipts = writer.end(len(rejected))
        return [part for _, part in parts], receipts


# --- notifications --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotificationRows(Outlet):
    """The notifications of subscriptions without a pattern, ``flat`` or ``grouped``."""

    form: str

    def writer(self) -> OutletWriter:
        return _NotificationWriter(self.form)


class _NotificationWriter(OutletWriter):
    def __init__(self, form: str) -> None:
        self._form = form

    def take(self, found: SelectedBatch) -> Iterator[pa.RecordBatch]:
        yield from getattr(found, self._form).to_batches()

    def close(self, rejected: int) -> Iterator[pa.RecordBatch]:
        return iter(())


# --- receipts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReceiptRows(Outlet):
    """Receipts of the sinks' worker halves and, if there are shards, references to what their patterns want."""

    halves: Sequence[WorkerHalf]
    files: ShardFiles | None = None
    """Where the parts for patterns are written; None where there are no patterns."""
    shards: Sequence[int] = ()
    """The keys of the shards that combine the parts."""

    def writer(self) -> ReceiptWriter:
        return ReceiptWriter(self)


class ReceiptWriter(OutletWriter):
    """Makes the receipts of a task."""

    def __init__(self, outlet: ReceiptRows) -> None:
        self._began = perf_counter()
        batch, partition = batch_number(), partition_number()
        self._watermark = int(local_property(WATERMARK) or _LONG_AGO)
        self._writers = [half.writer(batch, partition) for half in outlet.halves]
        self._shards = outlet.shards
        self._parts = PartWriter(outlet.files, outlet.shards, batch, partition) if outlet.files is not None else None
        counted = ("publications", "notifications", "late", "ahead", "shapeless", "oversized")
        self._counts = {**dict.fromkeys(counted, 0), "newest": _LONG_AGO}
        self._matching = self._writing = 0.0
        self._cut: Cut | None = None

    def take(self, found: SelectedBatch) -> Iterator[pa.RecordBatch]:
        self.keep(found)
        return iter(())

    def keep(self, found: SelectedBatch) -> None:
        """Hand what was selected to the sinks' worker halves and to the shards of patterns, and count it."""
        counts = self._counts
        counts["publications"] += found.publications
        counts["ahead"] += found.ahead
        self._cut = found.cut or self._cut
        if found.publications:
            counts["late"] += int(np.count_nonzero(found.times < self._watermark))
            counts["newest"] = max(counts["newest"], int(found.times.max()))
        if self._writers:
            counts["notifications"] += found.notifications
            self._matching += found.seconds
            before = perf_counter()
            for writer in self._writers:
                writer.take(found)
            self._writing += perf_counter() - before
        if self._parts is None:
            counts["unserved"] = len(found.view.patterns)
        else:
            before = perf_counter()
            self._parts.take(found)
            self._matching += perf_counter() - before
        counts["shapeless"] += found.batch.shapeless  # read after the filters of patterns, which add to it
        counts["oversized"] += found.batch.oversized

    def end(self, rejected: int) -> tuple[list[tuple[int, PartReference]], list[Receipt]]:
        """References to parts by the keys of their shards, and the receipts of the whole task."""
        before = perf_counter()
        receipts = [receipt for writer in self._writers for receipt in writer.close()]
        now = perf_counter()
        seconds = {"seconds": now - self._began, "matching": self._matching, "writing": self._writing + now - before}
        receipts.append((COUNTS, orjson.dumps({**self._counts, "quarantined": rejected, **seconds})))
        if self._cut is not None:
            receipts.append((CUT, orjson.dumps(list(self._cut))))
        return [] if self._parts is None else list(self._parts.close()), receipts

    def close(self, rejected: int) -> Iterator[pa.RecordBatch]:
        parts, receipts = self.end(rejected)
        if self._parts is None:
            yield _batch(receipts, _RECEIPTS)
            return
        references = [(key, PART, reference.to_json()) for key, reference in parts]
        yield _batch([*references, *((self._shards[0], *receipt) for receipt in receipts)], _SHARDED)


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema=schema)
