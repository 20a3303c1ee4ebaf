"""Combine: patterns with state, one shard and one batch at a time.

What a runner keeps of a shard is a ``ShardState``, which is small: the names of a snapshot and of the parts that came
since, and a token. It alone decides what has been done. The arrays that patterns work on are in ``live_shard.py``, and
can always be built again from it.

    parts of select ─► shard: state ─► arrays (mapped, or built again) ─► Combine ─► sinks' worker halves
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any
from uuid import uuid4

import numpy as np
import orjson
import pyarrow as pa

from tidegate import array_bundle
from tidegate.index import notification_tables
from tidegate.index.versioned import View
from tidegate.patterns import Combine, Raised
from tidegate.patterns.past import Fates
from tidegate.patterns.pattern import NEVER
from tidegate.runs.references import RaisedReferences
from tidegate.runs.sinks import COUNTS, Receipt, WorkerHalf
from tidegate.stages.live_shard import live_shard
from tidegate.stages.select import Subscriptions
from tidegate.stages.shard_parts import ShardFiles
from tidegate.stages.shard_state import CombineSettings, PartReference, ShardChanges, ShardState, StepRecord
from tidegate.stages.shard_step import fates_of, stepped
from tidegate.stages.task_context import batch_number, partition_number, query_id

__all__ = ["CombineStep", "RaisedBatch"]

#: A snapshot is written when the batches since the last one are more than so many, or their parts larger than this and
#: than twice the snapshot. Lower numbers make more batches slow, because they write a snapshot; higher ones make a
#: restart slow, because it repeats the batches since.
_MOST_STEPS, _MOST_BYTES = 100, 64 << 20


@dataclass(frozen=True)
class CombineStep:
    """What is done for each shard of each batch, by both runners and for ``tg.match`` alike.

    ``form`` (``flat`` or ``grouped``) is that of the notifications where they are wanted themselves, for ``tg.match``.
    """

    files: ShardFiles
    keys: Sequence[int]
    subscriptions: Subscriptions
    settings: CombineSettings
    halves: Sequence[WorkerHalf] = ()
    form: str | None = None
    query: str | None = None
    """The name of the query; None to use the task's id of it."""

    def receipts(self, found: RaisedBatch, counts: dict[str, Any], began: float) -> list[Receipt]:
        """What the sinks' worker halves make of the notifications, and the counts; ``began`` is when the step did."""
        before = perf_counter()
        writers = [half.writer(batch_number(), partition_number()) for half in self.halves]
        for writer in writers:
            writer.take(found)
        receipts = [receipt for writer in writers for receipt in writer.close()]
        now = perf_counter()
        seconds = {"seconds": now - began, "combining": before - began, "writing": now - before}
        return [*receipts, (COUNTS, orjson.dumps({**counts, **seconds}))]

    @property
    def _ids(self) -> bool:
        """Whether any output names all publications and has an id: only then are these worked out."""
        return any(form in ("flat", "references") for form in (self.form, *(half.form for half in self.halves)))

    def step(
        self, shard: int, parts: Sequence[PartReference], known: ShardState
    ) -> tuple[RaisedBatch, dict[str, Any], ShardState]:
        """Take a shard one batch further: its notifications, the counts for the driver, and its next state."""
        batch, files = batch_number(), self.files.of_task()
        versions = [version for part in parts for version, _ in part.versions]
        oldest, newest = (min(versions), max(versions)) if versions else (max(known.version, 0),) * 2
        view = self.subscriptions.view(oldest, max(newest, known.version))
        with live_shard(self.query or str(query_id()), shard, known, files) as (live, token):
            in_order = tuple(sorted(parts, key=lambda part: (part.order is None, part.order or 0)))
            changes = None
            if newest > known.version:
                found = self._changes(live, view, shard, known.version, oldest, newest)
                if found.admitted or found.ended:
                    changes = f"change-{batch:012d}-{shard}-{uuid4().hex}"
                    files.write(changes, found.packed())
            step = StepRecord(in_order, changes, self.settings)
            raised = stepped(live, step, files, self._ids)
            fresh = replace(known, token=token, version=max(newest, known.version), steps=(*known.steps, step.brief()))
            if len(fresh.steps) > _MOST_STEPS or fresh.size > max(2 * fresh.snapshot_size, _MOST_BYTES):
                data = array_bundle.packed(live.snapshot())
                name = f"state-{batch:012d}-{shard}-{token}"
                fresh = replace(fresh, snapshot=name, snapshot_size=len(data), steps=())
                files.write(name, data)
                # if this batch is run again it begins from the state ``known``; Spark goes back no further
                files.tidy(shard, batch, known.files | fresh.files)
            counts = {**live.counts, "state_bytes": live.arrays.nbytes, "waiting": live.waiting, "sizes": live.sizes()}
            counts.pop("late")  # counts those of this shard only; the select stage counts all
            fates = fates_of(live)
        told = RaisedBatch(raised, view, fates)
        return told, {"notifications": told.notifications, "shard": shard, **counts}, fresh

    def _changes(self, live: Combine, view: View, shard: int, version: int, oldest: int, newest: int) -> ShardChanges:
        """The subscriptions with patterns that come to a shard and end between two versions."""
        there = view.patterns.subscriptions
        since, until = view.since[there], view.until(there)
        rows = np.flatnonzero((since % len(self.keys) == shard) & (since > version) & (since <= newest))
        admitted = [
            standing._replace(owner=int(since[row]), since=int(since[row]), until=min(int(until[row]), NEVER))
            for row, (_, standing) in zip(rows.tolist(), view.patterns.admitted(rows), strict=True)
        ]
        owners = live.owners()
        numbers = view.numbers(owners)
        ended_at = np.where(numbers < 0, oldest, view.until(np.maximum(numbers, 0)))
        ended = [(int(owners[i]), int(ended_at[i])) for i in np.flatnonzero(ended_at <= newest)]
        ended += [(int(since[row]), int(until[row])) for row in rows if until[row] <= newest]
        return ShardChanges(admitted, ended)


class RaisedBatch:
    """The notifications of patterns in the form that sinks take (``sinks.Notifications``)."""

    def __init__(self, raised: Raised, view: View, fates: Fates | None = None) -> None:
        self._raised, self._view, self.fates = raised, view, fates
        self._numbers = view.numbers(raised.owner).astype(np.int32)
        self.notifications = len(raised)

    @cached_property
    def flat(self) -> pa.Table:
        return notification_tables.raised_flat(self._raised, self._view.catalogue, self._numbers)

    @cached_property
    def grouped(self) -> pa.Table:
        return notification_tables.raised_grouped(self._raised, self._view.catalogue, self._numbers)

    @cached_property
    def references(self) -> RaisedReferences:
        told = self._raised
        digits = notification_tables.raised_ids(told, self._view.catalogue, self._numbers)
        return RaisedReferences(
            told.owner, told.raised_row, told.moment, told.score, told.distance, told.start, told.rows, told.ids, digits
        )
