"""The Kafka sink, through Spark's connector."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.runs.sinks import DriverSink, Receipts, lines

__all__ = ["Kafka"]


class Kafka(DriverSink):
    """Writes notifications to a topic, keyed by their ids.

    Kafka has no place for our batch number: after a crash the last batch is written again under the same keys, and a
    consumer (or a compacted topic) keeps one of each.
    """

    def __init__(self, spark: SparkSession, topic: str, options: Mapping[str, str]) -> None:
        self._spark, self._topic, self._options = spark, topic, dict(options)

    def commit(self, batch: int, receipts: Receipts) -> None:
        if not len(receipts.flat):
            return
        values = pa.array([line.decode() for line in lines(receipts.flat)], pa.string())
        table = pa.table({"key": receipts.flat.column("notification_id"), "value": values})
        rows = self._spark.createDataFrame(table).withColumn("topic", F.lit(self._topic))
        rows.write.format("kafka").options(**self._options).save()
