"""What whoever runs a stage tells it: the batch, the query, and the part of the batch.

In a worker of Spark that is Spark's ``TaskContext``; the runner in process sets a ``LocalTask`` around its calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

__all__ = ["LocalTask", "batch_number", "is_alone", "local_property", "local_task", "partition_number", "query_id"]


class LocalTask(NamedTuple):
    """A task that this process runs by itself."""

    query: str
    batch: int
    properties: dict[str, str]


_LOCAL: ContextVar[LocalTask | None] = ContextVar("tidegate-task", default=None)


@contextmanager
def local_task(task: LocalTask) -> Iterator[None]:
    """Run the body of a ``with`` statement as that task."""
    before = _LOCAL.set(task)
    try:
        yield
    finally:
        _LOCAL.reset(before)


def is_alone() -> bool:
    """Whether this process runs all tasks of the query."""
    return _LOCAL.get() is not None


def _of_spark() -> Any:
    """Spark's context, where Spark runs this process: then its module is there."""
    spark = sys.modules.get("pyspark")
    return None if spark is None else spark.TaskContext.get()


def local_property(name: str) -> str | None:
    """What the runner has set for the tasks of a batch under this name; None outside a task."""
    if (task := _LOCAL.get()) is not None:
        return task.properties.get(name)
    context = _of_spark()
    return None if context is None else context.getLocalProperty(name)


def batch_number() -> int:
    """The number of the batch; 0 where there is only one."""
    if (task := _LOCAL.get()) is not None:
        return task.batch
    return int(local_property("streaming.sql.batchId") or 0)


def query_id() -> str | None:
    """The id of the streaming query; None in a batch job."""
    if (task := _LOCAL.get()) is not None:
        return task.query
    return local_property("sql.streaming.queryId")


def partition_number() -> int:
    """Which part of its batch this task has."""
    context = None if _LOCAL.get() is not None else _of_spark()
    return 0 if context is None else int(context.partitionId())
