"""The runner *spark* under the control of a script: a query for each cut, which ends when it has taken what there is.

Spark plans batches in a process of its own, in which nothing can be patched from here. So the source that it is given
has the time with it, and whether it may take a new batch.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.service.product_runner import OF_SINKS, Place, killed_at
from tests.service.steps import Death
from tidegate.errors import TidegateError
from tidegate.pipeline import streams
from tidegate.pipeline.flow import Flow
from tidegate.pipeline.log_datasource import LogDataSource
from tidegate.runs.checkpoint import begun
from tidegate.runs.maintenance import look_after
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sources import LogSource
from tidegate.stages import log_planner
from tidegate.store.data_directory import DataDirectory
from tidegate.store.queues import Queues
from tidegate.store.registry import Registry
from tidegate.store.valid_set import ValidSet


class KilledInBatch(Exception):
    """What a query meets where it is killed; Spark passes on no other kind."""


class FlowRunner:
    """The runner *spark* of a data directory. It is up only while it has something to do."""

    def __init__(self, spark: SparkSession, data: DataDirectory, registry: Registry, lateness: float) -> None:
        self._spark, self._data, self._registry, self._lateness = spark, data, registry, lateness

    def start(self) -> None:
        """What the start of a query does first: it notes which versions it needs, and there are queues to be read."""
        source = LogSource(self._data.log)
        identity = source.identity_seen_from(str(self._data.checkpoint))
        cores = self._spark.sparkContext.defaultParallelism
        known = begun(str(self._data.checkpoint), identity, False, cores, former=source.identity)
        self._registry.needs(known.query, 0)
        Queues(self._data.queues).close()

    def finish(self) -> None:
        if self._names("offsets") - self._names("commits"):
            self._run(takes_more=False)

    def _names(self, of: str) -> set[str]:
        """The numbers of the batches in one of Spark's lists."""
        place = self._data.checkpoint / "spark" / of
        return {name for name in os.listdir(place) if name.isdecimal()} if place.is_dir() else set()

    def cut(self, dies: Death | None, choose: Callable[[tuple[Place, ...]], Place]) -> None:
        self.finish()
        if dies is None:
            self._run(takes_more=True)
            return
        with killed_at(choose(OF_SINKS[dies]), KilledInBatch) as died:
            try:
                self._run(takes_more=True)
            except TidegateError:
                if not died:
                    raise

    def tidy(self) -> None:
        look_after(self._registry, int(self._lateness * 1e6))

    def kill(self) -> None:
        """It is not up."""

    def _run(self, takes_more: bool) -> None:
        data = self._data
        sink = QueueSink(data.queues, self._registry, keep=None, log=data.log, valid=data.valid)
        places: dict[str, Any] = {"checkpoint": data.checkpoint, "quarantine": data.quarantine}
        source = LogSource(data.log)
        flow = Flow(self._spark, source, self._registry, [sink], lateness=self._lateness, patterns=False, **places)
        with planned_at(log_planner.time_ns(), takes_more):
            flow.start(available_now=True)
            try:
                flow.wait()
            except BaseException:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(ValidSet, "write", lambda self: None)
                    flow.close()
                raise
            flow.close()


@contextmanager
def planned_at(now: int, takes_more: bool) -> Iterator[None]:
    """Have Spark read logs at a time, in nanoseconds since 1970; the batches that it begins, or only what was begun."""

    class SteppedLog(LogDataSource):
        """Pickled with its code, as Spark's processes know nothing of tests."""

        def streamReader(self, schema: Any) -> Any:
            from tidegate.stages import log_planner as planning

            planning.time_ns = lambda: now  # type: ignore[assignment]
            if not takes_more:
                planning.LogPlanner.next_offset = lambda planner, start, newest, most: dict(start)  # type: ignore[method-assign]
            return super().streamReader(schema)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "LogDataSource", SteppedLog)
        yield
