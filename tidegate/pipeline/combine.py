"""Combine on Spark: patterns with state, keyed by shard, in Spark's own state store and checkpoint.

What Spark keeps for a shard is a ``ShardState``, which is small: the names of a snapshot and of the parts that came
since, and a token. It alone decides what has been done. The arrays that patterns work on are in ``live_shard.py``, and
can always be built again from it. ``CombineStep`` is what Spark calls; ``Flow`` and ``tg.match`` put it into a query.

    parts of select ─► shard: state (Spark) ─► arrays (mapped, or built again) ─► Combine ─► sinks' worker halves
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupStateTimeout

from tidegate import array_bundle
from tidegate.index import notification_tables
from tidegate.index.versioned import View
from tidegate.patterns import Combine, Raised
from tidegate.patterns.pattern import NEVER
from tidegate.pipeline.live_shard import live_shard, stepped
from tidegate.pipeline.select import Subscriptions
from tidegate.pipeline.shard_parts import PART, ShardFiles
from tidegate.pipeline.shard_state import CombineSettings, PartReference, ShardChanges, ShardState, StepRecord
from tidegate.pipeline.task_context import batch_number, partition_number, query_id
from tidegate.runs.sinks import COUNTS, WorkerHalf

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

__all__ = ["CombineStep", "RaisedBatch", "combined"]

_STATE = "value string"
#: A snapshot is written when the batches since the last one are more than so many, or their parts larger than this and
#: than twice the snapshot. Lower numbers make more batches slow, because they write a snapshot; higher ones make a
#: restart slow, because it repeats the batches since.
_MOST_STEPS, _MOST_BYTES = 100, 64 << 20


@dataclass(frozen=True)
class CombineStep:
    """The function that Spark calls for each shard of each batch, for the flow and for ``tg.match`` alike.

    With a ``form`` (``flat`` or ``grouped``) it returns the notifications themselves, for ``tg.match``. Without one it
    returns receipts of the sinks' worker halves, and passes on the receipts that the select stage sent for the driver.
    """

    files: ShardFiles
    keys: Sequence[int]
    subscriptions: Subscriptions
    settings: CombineSettings
    halves: Sequence[WorkerHalf] = ()
    form: str | None = None
    query: str | None = None
    """The name of the query; None to use Spark's id of it."""

    def __call__(self, key: tuple[int], frames: Iterable[Any], state: GroupState) -> Iterator[Any]:
        began = perf_counter()
        rows = [row for frame in frames for row in zip(frame["kind"], frame["payload"], strict=True)]
        parts = [PartReference.from_json(payload) for kind, payload in rows if kind == PART]
        known = ShardState.from_json(state.get[0]) if state.exists else ShardState()
        found, counts, fresh = self.step(self.keys.index(key[0]), parts, known)
        if self.form is not None:
            out = getattr(found, self.form).to_pandas()
        else:
            out = self._receipts(found, counts, [row for row in rows if row[0] != PART], began)
        state.update((fresh.to_json(),))
        yield out

    def _receipts(self, found: RaisedBatch, counts: dict[str, Any], passing: list[Any], began: float) -> Any:
        import pandas as pd  # type: ignore[import-untyped]

        before = perf_counter()
        writers = [half.writer(batch_number(), partition_number()) for half in self.halves]
        for writer in writers:
            writer.take(found)
        receipts = [receipt for writer in writers for receipt in writer.close()]
        now = perf_counter()
        seconds = {"seconds": now - began, "combining": before - began, "writing": now - before}
        receipts.append((COUNTS, orjson.dumps({**counts, **seconds})))
        kinds, payloads = zip(*passing, *receipts, strict=True)
        return pd.DataFrame({"kind": kinds, "payload": payloads})

    @property
    def _ids(self) -> bool:
        """Whether any output is flat: only then are the ids of notifications computed."""
        return self.form == "flat" or any(half.form == "flat" for half in self.halves)

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
        told = RaisedBatch(raised, view)
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

    def __init__(self, raised: Raised, view: View) -> None:
        self._raised, self._view = raised, view
        self._numbers = view.numbers(raised.owner).astype(np.int32)
        self.notifications = len(raised)

    @cached_property
    def flat(self) -> pa.Table:
        return notification_tables.raised_flat(self._raised, self._view.catalogue, self._numbers)

    @cached_property
    def grouped(self) -> pa.Table:
        return notification_tables.raised_grouped(self._raised, self._view.catalogue, self._numbers)


def combined(parts: DataFrame, step: CombineStep, schema: str) -> DataFrame:
    """The DataFrame that calls ``step`` for each shard of the rows that select tasks returned."""
    return parts.groupBy("shard").applyInPandasWithState(step, schema, _STATE, "append", GroupStateTimeout.NoTimeout)
