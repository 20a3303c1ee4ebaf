"""How Spark reads each source: a streaming DataFrame, and the feed by which workers make publications of its rows."""

from __future__ import annotations

from functools import partial, singledispatch

import orjson
from pyspark.sql import DataFrame, SparkSession

from tidegate.index.shapes import looked_up_with
from tidegate.pipeline.log_datasource import LogDataSource
from tidegate.runs.sources import FilesSource, GeneratorSource, KafkaSource, LogSource, Source
from tidegate.stages import feed
from tidegate.store.registry import Registry

__all__ = ["stream"]

Stream = tuple[DataFrame, feed.Feed]


@singledispatch
def stream(source: Source, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0) -> Stream:
    """The publications of a source; ``clock``: seconds between two ticks of the time of day, 0 for none."""
    raise TypeError(f"no way to read a {type(source).__name__} on Spark")


@stream.register
def _(source: LogSource, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0) -> Stream:
    spark.dataSource.register(LogDataSource)
    pieces = source.pieces or spark.sparkContext.defaultParallelism
    options = {"path": source.path, "rows": str(source.rows), "pieces": str(pieces), "query": query}
    options["starting"] = source.starting
    if clock:
        options["clock"] = str(clock)
    if registry is not None:
        options |= {"registry": registry.url, "storage": registry.index_storage}
        options["shapes"] = orjson.dumps(looked_up_with().plain()).decode()
    return spark.readStream.format("tidegate-log").options(**options).load(), feed.slices


@stream.register
def _(source: FilesSource, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0) -> Stream:
    """Spark remembers which files it has seen; workers open them."""
    found = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length bigint, content binary")
        .option("pathGlobFilter", f"*{{{','.join(source.endings)}}}")
        .option("maxFilesPerTrigger", source.files)
        .load(source.path)
    )
    return found.select("path"), partial(feed.files, zone=source.zone)


@stream.register
def _(source: KafkaSource, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0) -> Stream:
    found = spark.readStream.format("kafka").options(**source.options).load()
    return found.select("value", "timestamp", "timestampType"), partial(feed.texts, zone=source.zone)


@stream.register
def _(
    source: GeneratorSource, spark: SparkSession, query: str, registry: Registry | None, clock: float = 0.0
) -> Stream:
    """The log that the generator writes, which begins to grow now."""
    found: Stream = stream(source.log, spark, query, registry)
    source.start(registry)
    return found
