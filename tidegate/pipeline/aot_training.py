"""The query that the AOT cache learns from: ``python -m tidegate.pipeline.aot_training FILE``, run by ``aot_warmup``.

It goes the way the pipeline goes (a Python source, ``mapInArrow``, ``foreachBatch``, Parquet and JSON files) and
has nothing to do with subscriptions.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from tidegate.pipeline.session import recording

_SCHEMA = "n long, id string"
_BATCHES = 30


class _TrainingReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        return {"n": min((start or {"n": 0})["n"] + 1, _BATCHES)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["n"], end["n"])), InputPartition((end["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        begin, end = partition.value
        rows = range(begin, end)
        yield pa.record_batch([pa.array(rows, pa.int64()), pa.array(map(str, rows), pa.string())], names=["n", "id"])


class _TrainingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "training"

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _TrainingReader()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def train(cache: Path) -> None:
    spark = recording(cache)
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            spark.dataSource.register(_TrainingSource)

            def write(rows: DataFrame, batch: int) -> None:
                rows.mapInArrow(_unchanged, _SCHEMA).toArrow()
                if batch % 10 == 0:
                    rows.write.mode("append").parquet(str(directory / "parquet"))
                    rows.write.mode("append").json(str(directory / "json"))

            stream = spark.readStream.format("training").load().writeStream.foreachBatch(write)
            query = stream.option("checkpointLocation", str(directory / "checkpoint")).start()
            while query.isActive and (query.lastProgress or {"batchId": 0})["batchId"] < _BATCHES - 1:
                query.awaitTermination(1)
            query.stop()
            spark.read.parquet(str(directory / "parquet")).mapInArrow(_unchanged, _SCHEMA).count()
            files = spark.readStream.schema(_SCHEMA).json(str(directory / "json")).writeStream.foreachBatch(write)
            files.trigger(availableNow=True).option("checkpointLocation", str(directory / "files")).start()
            for query in spark.streams.active:
                query.awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    train(Path(sys.argv[1]))
