"""Combine on Spark: patterns with state, keyed by shard, in Spark's own state store and checkpoint.

``combined`` puts a ``CombineStep`` into a query, for ``Flow`` and ``tg.match``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupStateTimeout

from tidegate.stages.combine import CombineStep
from tidegate.stages.shard_parts import PART
from tidegate.stages.shard_state import PartReference, ShardState

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

__all__ = ["CombineTask", "combined"]

_STATE = "value string"


@dataclass(frozen=True)
class CombineTask:
    """The function that Spark calls for each shard of each batch.

    It returns the notifications themselves if the step has a ``form``. Else it returns receipts of the sinks' worker
    halves, and passes on the receipts that the select stage sent for the driver.
    """

    step: CombineStep

    def __call__(self, key: tuple[int], frames: Iterable[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd  # type: ignore[import-untyped]

        began, step = perf_counter(), self.step
        rows = [row for frame in frames for row in zip(frame["kind"], frame["payload"], strict=True)]
        parts = [PartReference.from_json(payload) for kind, payload in rows if kind == PART]
        known = ShardState.from_json(state.get[0]) if state.exists else ShardState()
        found, counts, fresh = step.step(step.keys.index(key[0]), parts, known)
        if step.form is not None:
            out = getattr(found, step.form).to_pandas()
        else:
            passing = [row for row in rows if row[0] != PART]
            kinds, payloads = zip(*passing, *step.receipts(found, counts, began), strict=True)
            out = pd.DataFrame({"kind": kinds, "payload": payloads})
        state.update((fresh.to_json(),))
        yield out


def combined(parts: DataFrame, step: CombineStep, schema: str) -> DataFrame:
    """The DataFrame that calls ``step`` for each shard of the rows that select tasks returned."""
    task = CombineTask(step)
    return parts.groupBy("shard").applyInPandasWithState(task, schema, _STATE, "append", GroupStateTimeout.NoTimeout)
