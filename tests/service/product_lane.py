"""The stages of the runner *spark* without Spark: its source, its select tasks and the sinks, with a stand-in between.

The stand-in keeps Spark's two lists in the checkpoint, as files of the same names: where batches end, written before
they are run, and which are done. A batch is cut into several tasks.
"""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tests.pipeline.lane import Task, running
from tests.service.product_runner import OF_SINKS, Killed, Place, killed_at
from tests.service.steps import Death
from tidegate.pipeline.begun_batches import note_batch
from tidegate.pipeline.log_datasource import LogDataSource
from tidegate.runs.checkpoint import begun
from tidegate.runs.maintenance import look_after
from tidegate.runs.quarantine import Quarantine
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sinks import Receipts
from tidegate.runs.sources import LogSource
from tidegate.stages import feed, log_planner
from tidegate.stages.select import Select, Subscriptions
from tidegate.stages.select_task import ReceiptRows, SelectTask
from tidegate.store.data_directory import DataDirectory
from tidegate.store.registry import Registry
from tidegate.store.valid_set import ValidSet

RECEIPTS = pa.schema([("kind", pa.string()), ("payload", pa.binary())])
PIECES = 3


class LaneRun:
    """A query that is up: what ``Flow`` makes, and its batches."""

    def __init__(self, data: DataDirectory, registry: Registry) -> None:
        self.lists, self.checkpoint = data.checkpoint / "spark", str(data.checkpoint)
        for name in ("offsets", "commits"):
            (self.lists / name).mkdir(parents=True, exist_ok=True)
        source = LogSource(data.log)
        identity = source.identity_seen_from(self.checkpoint)
        query = begun(self.checkpoint, identity, False, 1, former=source.identity).query
        registry.needs(query, 0)
        self.sink = QueueSink(data.queues, registry, keep=None, log=data.log, valid=data.valid)
        self.sink.begin(query)
        select = Select(feed.slices, Subscriptions(registry.index_storage, registry), None)
        self.task = SelectTask(select, ReceiptRows((self.sink.half,)), Quarantine.at(data.quarantine))
        options = {"path": source.path, "query": query, "pieces": str(PIECES)}
        options |= {"registry": registry.url, "storage": registry.index_storage}
        self.reader: Any = LogDataSource(options).streamReader(StructType())

    def close(self) -> None:
        self.sink.close()
        self.reader._planner.close()

    def numbers(self, of: str) -> list[int]:
        return sorted(int(path.name) for path in (self.lists / of).iterdir())

    def end_of(self, batch: int) -> dict[str, int]:
        if batch < 0:
            return self.reader.initialOffset()  # type: ignore[no-any-return]
        return json.loads((self.lists / "offsets" / str(batch)).read_text())  # type: ignore[no-any-return]

    def finish(self) -> int:
        """Run the batch again that is not done; the number of the last one."""
        last = max(self.numbers("offsets"), default=-1)
        if last > max(self.numbers("commits"), default=-1):
            self.batch(last)
        return last

    def cut(self, last: int) -> None:
        done = self.end_of(last)
        end = self.reader.latestOffset(done, self.reader.getDefaultReadLimit())
        if end != done:
            (self.lists / "offsets" / str(last + 1)).write_text(json.dumps(end))
            self.batch(last + 1)

    def batch(self, number: int) -> None:
        note_batch(self.checkpoint, number)
        rows = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_planner, "_ALONE", 1)
            partitions = self.reader.partitions(self.end_of(number - 1), self.end_of(number))
        for part, partition in enumerate(partitions):
            with running(Task(number, part)):
                for found in self.task(self.reader.read(partition)):
                    rows += found.to_pylist()
        self.sink.commit(number, Receipts.of_table(pa.Table.from_pylist(rows, RECEIPTS)))
        (self.lists / "commits" / str(number)).write_text("{}")


class LaneRunner:
    """The stages of the runner *spark* over a data directory."""

    def __init__(self, data: DataDirectory, registry: Registry, lateness: float) -> None:
        self._data, self._registry, self._lateness = data, registry, lateness
        self._run: LaneRun | None = None

    def start(self) -> None:
        self._started()

    def finish(self) -> None:
        self._started().finish()

    def cut(self, dies: Death | None, choose: Callable[[tuple[Place, ...]], Place]) -> None:
        run = self._started()
        last = run.finish()
        if dies is None:
            run.cut(last)
            return
        with killed_at(choose(OF_SINKS[dies])):
            try:
                run.cut(last)
            except Killed:
                self.kill()

    def tidy(self) -> None:
        look_after(self._registry, int(self._lateness * 1e6))
        if self._run is not None:
            self._run.sink.tidy()

    def kill(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ValidSet, "write", lambda self: None)
                run.close()

    def _started(self) -> LaneRun:
        if self._run is None:
            self._run = LaneRun(self._data, self._registry)
        return self._run
