"""What Spark tells the Python worker that runs a task: the batch, the query, and the part of the batch."""

from __future__ import annotations

from pyspark import TaskContext

__all__ = ["batch_number", "local_property", "partition_number", "query_id"]


def local_property(name: str) -> str | None:
    """The property that the driver has set for the tasks of a job under this name; None outside a task."""
    context = TaskContext.get()
    return context.getLocalProperty(name) if context is not None else None


def batch_number() -> int:
    """The number of the micro-batch; 0 where there is only one."""
    return int(local_property("streaming.sql.batchId") or 0)


def query_id() -> str | None:
    """Spark's id of the streaming query; None in a batch job."""
    return local_property("sql.streaming.queryId")


def partition_number() -> int:
    """Which part of its batch this task has."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
