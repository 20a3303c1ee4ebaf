"""The process that Spark's Python workers are forked from, with everything they need already imported.

Spark starts ``python -m tidegate.pipeline.worker_daemon`` in place of its own module
(``spark.python.daemon.module``). A worker then has the index and the compiled kernels from its first moment, in memory
that all workers share.
"""

from __future__ import annotations

import gc


def _load() -> None:
    """Import what select and combine need, and match once so that the kernels are loaded before anything is forked."""
    from datetime import UTC, datetime

    import pyarrow as pa

    import tidegate.pipeline.combine
    import tidegate.stages.select_task  # noqa: F401
    from tidegate.engine import Engine
    from tidegate.model import Subscription

    conditions = (
        "a > 1 AND b = 'x'",
        "topk(1, 'PT1S', a)",
        "together('PT1S', a > 1, b = 'x')",
        "absent('PT1S', a > 1, source)",
        "shape(c, (1, 2, 4)) < 1 AND shape(c, 'ramp-up') < 1",
        "shape(a, (1, 2, 4), 'stream') < 1",
    )
    engine = Engine([Subscription(id=where, subscriber="s", where=where) for where in conditions])
    time = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    row = pa.table({"id": ["p"], "source": ["s"], "time": time, "a": [2.0], "b": ["x"], "c": [[1.0, 2.0, 4.0]]})
    engine.publish(row, grouped=True)
    engine.publish(row.set_column(2, "time", pa.array([datetime(2026, 1, 2, tzinfo=UTC)], time.type)))
    gc.collect()
    gc.freeze()  # the collector never touches what is there now, so its pages stay shared


if __name__ == "__main__":
    _load()
    from pyspark import daemon

    daemon.manager()
