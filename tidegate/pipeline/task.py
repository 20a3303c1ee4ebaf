"""What one task does: select, and then hand what was found to the sinks, without a detour through the JVM.

A task gives back *receipts*, a few rows that the driver collects: what each sink's worker half says it has written,
tables for the sinks that live in the driver, and counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import orjson
import pyarrow as pa

from tidegate.pipeline.select import Select, part, told
from tidegate.pipeline.shard_parts import PartWriter, ShardFiles
from tidegate.runs.quarantine import Quarantine
from tidegate.runs.sinks import COUNTS, WorkerHalf

__all__ = ["RECEIPTS", "SHARDED", "SHARDS", "WATERMARK", "Work"]

RECEIPTS = "kind string, payload binary"
#: The same with the shard that takes it, where patterns are combined after select.
SHARDED = f"shard int, {RECEIPTS}"
_RECEIPTS = pa.schema([("kind", pa.string()), ("payload", pa.binary())])
SHARDS = pa.schema([("shard", pa.int32()), *_RECEIPTS])

#: The local property by which the flow tells tasks before which event time a publication is late.
WATERMARK = "tidegate.watermark"
_LONG_AGO = -(2**63)


@dataclass(frozen=True)
class Work:
    """The function that Spark maps over the partitions of a batch."""

    select: Select
    halves: Sequence[WorkerHalf]
    quarantine: Quarantine | None
    files: ShardFiles | None = None
    """Where what patterns want is written; None where there are none."""
    shards: Sequence[int] = ()
    """The keys of the shards that combine it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = perf_counter()
        batch, number = int(told("streaming.sql.batchId") or 0), part()
        watermark = int(told(WATERMARK) or _LONG_AGO)
        writers = [half.writer(batch, number) for half in self.halves]
        counts = {"publications": 0, "notifications": 0, "late": 0, "shapeless": 0, "newest": _LONG_AGO}
        matching = writing = 0.0
        faults = []
        parting = PartWriter(self.files, self.shards, batch, number) if self.files is not None else None
        for found in self.select(batches):
            counts["publications"] += found.publications
            counts["notifications"] += found.notifications
            if found.publications:
                counts["late"] += int(np.count_nonzero(found.times < watermark))
                counts["newest"] = max(counts["newest"], int(found.times.max()))
            faults += found.faults
            matching += found.seconds
            before = perf_counter()
            for writer in writers:
                writer.take(found)
            writing += perf_counter() - before
            if parting is None:
                counts["unserved"] = len(found.view.patterns)
            else:
                before = perf_counter()
                parting.take(found)
                matching += perf_counter() - before
            counts["shapeless"] += found.batch.shapeless  # now that filters of patterns have asked for theirs too
        before = perf_counter()
        if faults and self.quarantine is not None:
            self.quarantine.keep(batch, number, faults)
        receipts = [receipt for writer in writers for receipt in writer.close()]
        now = perf_counter()
        seconds = {"seconds": now - began, "matching": matching, "writing": writing + now - before}
        receipts.append((COUNTS, orjson.dumps({**counts, "quarantined": len(faults), **seconds})))
        if parting is None:
            kinds, payloads = zip(*receipts, strict=True)
            yield pa.record_batch([pa.array(kinds), pa.array(payloads, pa.binary())], schema=_RECEIPTS)
            return
        rows = [*parting.close(), *((self.shards[0], kind, payload) for kind, payload in receipts)]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SHARDS, strict=True)]
        yield pa.record_batch(arrays, schema=SHARDS)
