"""The log as a Spark source: its rows are references to slices of segments, which workers map.

``spark.readStream.format("tidegate-log")``. ``stages/log_planner.py`` says what offsets are; Spark writes them down
before it runs a batch. Spark runs this module in several small processes, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidegate.stages.log_planner import LogPlanner, reference

__all__ = ["SLICE", "LogDataSource"]

#: The columns of a reference to the log.
SLICE = (
    "file string, first_byte bigint, last_byte bigint, first_row bigint, rows bigint, "
    "oldest_version bigint, newest_version bigint, clock bigint, cut_row bigint, cut_version bigint, cut_time bigint"
)
#: Seconds between two notes in the registry of the version from which on this query may need subscriptions.
_NOTED = 5.0


class LogDataSource(DataSource):
    """Its options are those of ``LogPlanner``."""

    @classmethod
    def name(cls) -> str:
        return "tidegate-log"

    def schema(self) -> str:
        return SLICE

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Whole(LogPlanner(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Stream(LogPlanner(self.options))


class _Whole(DataSourceReader):
    """What the log holds now, as a batch."""

    def __init__(self, planner: LogPlanner) -> None:
        self._planner = planner

    def partitions(self) -> Sequence[InputPartition]:
        return list(map(InputPartition, self._planner.whole()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield reference(partition.value)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows."""

    def __init__(self, planner: LogPlanner) -> None:
        self._planner = planner
        self._noted = 0.0
        self._last: dict[str, int] | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._planner.newest_offset()

    def initialOffset(self) -> dict[str, int]:
        return self._planner.initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._planner.rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        newest = self._planner.newest_offset() if self._last is None else self._last
        return self._planner.next_offset(start, newest, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def reportLatestOffset(self) -> dict[str, int]:
        return {"row": self._planner.log.end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return list(map(InputPartition, self._planner.references(start, end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield reference(partition.value)

    def commit(self, end: dict[str, int]) -> None:
        """Note in the registry, every few seconds, which versions this query may need, so that older ones can go."""
        planner = self._planner
        if planner.notes and monotonic() > self._noted + _NOTED:
            self._noted = monotonic()
            planner.registry.needs(planner.query, end["version"])
