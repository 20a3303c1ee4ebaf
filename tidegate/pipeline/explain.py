"""``explain_run``: why a subscription of a run would, or would not, be told of a publication that came next.

What patterns remember is in the checkpoint of the run: Spark's own reader of state stores gives the ``ShardState`` of
the last whole batch, and the shard is built again from it, on the driver. Works on the checkpoints of ``Flow`` and on
those of streams of ``tg.match``, while they run or stand still. Nothing in a checkpoint is changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import orjson
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.engine.explain import explain, explain_pattern
from tidegate.engine.explanation import Explanation
from tidegate.engine.settings import checked_keep, checked_lateness
from tidegate.errors import PublicationError, SettingError, StoreError, shown
from tidegate.index import ObjectBatch
from tidegate.index.patterns import passed
from tidegate.index.versioned import View
from tidegate.language.limits import DEFAULT_LIMITS, NO_LIMITS
from tidegate.model import Notification, Publication
from tidegate.patterns import Combine, Raised
from tidegate.patterns.memory import LONG_AGO, Arrivals, rowless
from tidegate.patterns.trial import Trial
from tidegate.pipeline.shard_keys import keys
from tidegate.pipeline.spark_failure import failure
from tidegate.stages.combine import RaisedBatch
from tidegate.stages.live_shard import built
from tidegate.stages.select import Subscriptions
from tidegate.stages.shard_parts import Piece, ShardFiles
from tidegate.stages.shard_state import CombineSettings, ShardState
from tidegate.store.registry import Registry
from tidegate.store.storage import storage_at
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.subscriptions import bounded_expression

__all__ = ["RunState", "explain_run", "explained", "view_of"]


@dataclass(frozen=True)
class RunState:
    """What a checkpoint has of the patterns of a query."""

    shards: Mapping[int, ShardState]
    """By the key that Spark places the shard with."""
    files: ShardFiles

    @staticmethod
    def read(spark: SparkSession, checkpoint: str, registry: Registry) -> RunState:
        """The state after the last whole batch of a ``Flow``, or of a stream of ``tg.match``."""
        here = storage_at(checkpoint)
        if here.read("tidegate.json") is not None:
            return RunState(_states(spark, f"{checkpoint}/spark"), ShardFiles(f"{checkpoint}/patterns"))
        metadata = here.read("metadata")
        if metadata is None:
            raise StoreError("the checkpoint of a run or of a stream of tg.match", "none", checkpoint)
        query = orjson.loads(metadata)["id"]
        parts = f"{registry.index_storage.rstrip('/')}/parts"
        return RunState(_states(spark, checkpoint), ShardFiles(f"{parts}/{query}"))

    def shard(self, owner: int, settings: CombineSettings | None) -> Combine:
        """The shard of a subscription, built from its state. It has the settings of the batches since its snapshot, or
        those that are given if there are none.
        """
        order = keys(len(self.shards))
        state = self.shards[order[owner % len(order)]]
        found = built(Combine(), state, self.files)
        if not state.steps:
            if settings is None:
                raise SettingError("the lateness of the run, which its state does not say at this moment", "None")
            found.lateness, found.combinations, found.keep = settings.lateness, settings.combinations, settings.keep
        return found


def _states(spark: SparkSession, checkpoint: str) -> dict[int, ShardState]:
    try:
        rows = spark.read.format("statestore").load(checkpoint).collect()
    except PySparkException as error:
        raise failure(error) from None
    if not rows:
        raise StoreError("a checkpoint with the state of patterns", "none; no batch has been done", checkpoint)
    return {row.key.shard: ShardState.from_json(row.value.groupState.value) for row in rows}


def explain_run(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    registry: Registry,
    id: str,
    publication: Publication,
    *,
    lateness: timedelta | None = None,
    keep: timedelta | None = None,
) -> Explanation:
    """Why a subscription of a registry does, or does not, match the publication, as if it came next in a run.

    ``checkpoint`` is that of ``tidegate run``, or of a stream of ``tg.match``. The state is that after its last whole
    batch. After one batch in a hundred it does not say what settings the run has; then ``lateness``, and ``keep`` if
    the run has one, are needed.
    """
    if not isinstance(publication, Publication):
        raise PublicationError("a Publication", shown(publication))
    stored, view = registry.stored(id), view_of(registry)
    if not len(_row(view, stored.since)):
        return explain(bounded_expression(stored.meant, NO_LIMITS, stored.condition), publication)
    settings = None
    if lateness is not None:
        settings = CombineSettings(checked_lateness(lateness), keep=checked_keep(keep, DEFAULT_LIMITS))
    state = RunState.read(spark, os.fspath(checkpoint).rstrip("/"), registry)
    return explained(state.shard(stored.since, settings), view, stored, publication)


def view_of(registry: Registry) -> View:
    """The subscriptions of a registry as they are now."""
    version = registry.version
    return Subscriptions(registry.index_storage, registry).view(version, version)


def _row(view: View, since: int) -> np.typing.NDArray[np.int64]:
    """The row of a subscription among those with patterns; none if it has none."""
    number = view.numbers(np.array([since]))[0]
    return np.flatnonzero(view.patterns.subscriptions == number)


def explained(shard: Combine, view: View, stored: StoredSubscription, publication: Publication) -> Explanation:
    """The explanation from a shard, which is changed only if it has not admitted the subscription yet."""
    if stored.since not in shard.owners():  # the next batch would
        ((_, standing),) = view.patterns.admitted(_row(view, stored.since))
        shard.admit([standing._replace(owner=stored.since, since=stored.since)], [shard.clock])
    arrival = _arrival(shard, view, publication)
    begins = int(arrival.time[0]) - shard.lateness
    first = begins if shard.clock is None else None
    clock = begins if shard.clock is None else max(shard.clock, begins)
    trial = Trial.of(shard, stored.since, arrival, clock, first)
    expression = bounded_expression(stored.meant, NO_LIMITS, stored.condition)
    return explain_pattern(expression, publication, trial, _told(trial.raised, view))


def _arrival(shard: Combine, view: View, publication: Publication) -> Arrivals:
    """The publication as the shard takes it, with the filters that it passes."""
    batch, patterns = ObjectBatch([publication]), view.patterns
    p = passed(batch, patterns.index.match(batch), patterns.columns, np.zeros(1, np.int64))
    given = Arrivals(
        p.time, np.full(1, LONG_AGO), np.zeros(1, np.int64), np.full(1, view.version), rowless(1),
        p.offsets, p.letters, p.phase, p.hash, p.source, p.values, p.start, p.hits,
    )  # fmt: skip
    clock = int(p.time[0]) - shard.lateness if shard.clock is None else shard.clock
    taken = Piece(given, patterns.keys, patterns.columns).taken_by(shard, clock, shard.lateness)
    return replace(taken, hits=taken.hits.astype(np.int32))


def _told(raised: Raised, view: View) -> list[Notification]:
    found = RaisedBatch(raised, view).flat.to_pylist()
    return [Notification(*row.values())._replace(publications=tuple(row["publication_ids"])) for row in found]
