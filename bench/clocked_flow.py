"""A pipeline that notes when each batch ended, and where the time of a batch went. For benches on Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import orjson
from pyspark.sql import SparkSession

import tidegate as tg
from tidegate.pipeline.flow import Flow
from tidegate.runs.sinks import Sink
from tidegate.runs.sources import LogSource

__all__ = ["ClockedFlow", "batch_seconds", "drain", "temporary_folder", "where_time_goes"]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder, which is removed with all that is in it."""
    path = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class ClockedFlow(Flow):
    """A flow that notes when each batch ended."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.ends: list[float] = []
        self.tasks: list[list[dict[str, Any]]] = []
        add = self.status.add

        def noted(batch: int, counts: Any, work: float, sinks: float, row: int = -1) -> None:
            self.ends.append(perf_counter())
            self.tasks.append([*counts, {"work": work, "sinks": sinks}])
            add(batch, counts, work, sinks, row)

        self.status.add = noted  # type: ignore[method-assign]

    def progress(self) -> list[dict[str, Any]]:
        """Spark's own account of each batch."""
        assert self._running is not None
        return [orjson.loads(p.json) for p in self._running.recentProgress]


def drain(spark: SparkSession, folder: Path, registry: tg.Registry, rows: int, sinks: list[Sink]) -> ClockedFlow:
    """A flow that has taken all that is in the log of the folder."""
    source = LogSource(folder / "log", rows=rows)
    flow = ClockedFlow(spark, source, registry, sinks, checkpoint=folder / "checkpoint", patterns=False)
    flow.start(available_now=True)
    flow.wait()
    flow.close()
    return flow


def batch_seconds(flow: ClockedFlow) -> list[float]:
    """Of each batch but the first, which loads what later ones have: from one end to the next."""
    return [float(s) for s in np.diff(flow.ends)]


def where_time_goes(flow: ClockedFlow) -> str:
    """The median batch, in milliseconds, by who spent them."""
    spark = [p["durationMs"] for p in flow.progress() if p["numInputRows"]][1:]
    tasks = flow.tasks[1:]
    if not spark or not tasks:
        return ""

    def ms(of: Callable[[Any], float], entries: list[Any]) -> float:
        return float(np.median([of(entry) for entry in entries]))

    def slowest_of(kind: str) -> list[dict[str, Any]]:
        found = [[task for task in batch[:-1] if kind in task] for batch in tasks]
        return [max(batch, key=lambda task: float(task["seconds"])) for batch in found if batch]

    slowest, shards = slowest_of("matching"), slowest_of("combining")
    combining = 1000 * ms(lambda t: t["combining"], shards) if shards else 0.0
    telling = 1000 * ms(lambda t: t["writing"], shards) if shards else 0.0
    total = ms(lambda p: p["triggerExecution"], spark)
    matching = 1000 * ms(lambda t: t["matching"], slowest)
    writing = 1000 * ms(lambda t: t["writing"], slowest)
    task = 1000 * ms(lambda t: t["seconds"], slowest)
    work = 1000 * ms(lambda b: b[-1]["work"], tasks)
    sinks = 1000 * ms(lambda b: b[-1]["sinks"], tasks)
    planning = ms(lambda p: p.get("queryPlanning", 0) + p.get("latestOffset", 0) + p.get("getBatch", 0), spark)
    checkpoint = ms(lambda p: p.get("walCommit", 0) + p.get("commitOffsets", 0), spark)
    parts = {
        "planning": planning,
        "checkpoint": checkpoint,
        "JVM ↔ Python and tasks": work - task - combining - telling,
        "reading": task - matching - writing,
        "kernel": matching,
        "writing": writing,
        **({"combine": combining, "writing what it tells": telling} if shards else {}),
        "sinks in the driver": sinks,
        "other": total - planning - checkpoint - work - sinks,
    }
    return f"batch {total:.0f} ms: " + ", ".join(f"{name} {max(0.0, value):.0f}" for name, value in parts.items())
