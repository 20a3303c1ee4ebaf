"""What a TOML file describes, made on Spark: the session, the sinks and the flow."""

from __future__ import annotations

from importlib.metadata import version

from pyspark.sql import SparkSession

from tidegate.pipeline.flow import Flow
from tidegate.pipeline.kafka_sink import Kafka
from tidegate.pipeline.session import session
from tidegate.runs.config import Config
from tidegate.runs.sink_sections import KafkaOutput, Output
from tidegate.runs.sinks import Sink
from tidegate.runs.sources import Source
from tidegate.store.registry import Registry

__all__ = ["flow_of", "session_of"]

#: The connector that Spark needs for Kafka, without its version, which is Spark's own.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"


def session_of(config: Config) -> SparkSession:
    """A session, with the connector for Kafka where it is needed and the file names no other."""
    spark = config.spark
    packages, given = spark.packages, spark.settings or {}
    if config.needs_kafka and not packages and not {"spark.jars", "spark.jars.packages"} & given.keys():
        packages = (f"{CONNECTOR}:{version('pyspark')}",)
    return session(master=spark.master, settings=given, memory=spark.memory, packages=packages)


def flow_of(config: Config, spark: SparkSession, source: Source, registry: Registry) -> Flow:
    """The flow that the file describes."""
    sinks = [_sink(output, spark, registry, source) for output in config.sinks]
    return Flow(spark, source, registry, sinks, **config.run.settings(source))


def _sink(output: Output, spark: SparkSession, registry: Registry, source: Source) -> Sink:
    if isinstance(output, KafkaOutput):
        return Kafka(spark, output.topic, {"kafka.bootstrap.servers": output.servers, **(output.options or {})})
    return output.open(registry, source)
