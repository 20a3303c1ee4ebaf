"""The same subscriptions as a user makes them: CQL2-JSON into an engine, and publications in an Arrow table."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate as tg
from bench.harness import median, say, timed
from bench.papers.timeseries.plan import Plan
from bench.papers.timeseries.walks import Doubles, Series, walks
from tidegate.shapes.normal_form import normals
from tidegate.shapes.sphere_group import SphereGroup

__all__ = ["subscribed"]

_NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def subscribed(plan: Plan, seed: int, c: float) -> dict[str, Any]:
    """One row: subscriptions per second, bytes, and microseconds per publication, parsing and notifying included.

    In a process of its own, so that all memory is the engine's.
    """
    say(f"{plan.engine:,} subscriptions to an engine")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(_measured, plan, seed, c).result()


def _measured(plan: Plan, seed: int, c: float) -> dict[str, Any]:
    few = walks(seed, plan.engine, plan.publications, plan.length)
    radii = few.radii(c)
    n = len(radii)
    tg.Engine(_subscriptions(few.first(64), radii[:64]))  # compiles what there is to compile
    gc.collect()
    before = _own_memory()
    seconds, engine = timed(partial(tg.Engine, _subscriptions(few, radii)))
    gc.collect()
    grown = _own_memory() - before
    table = _table(few.publications)
    engine.publish(table, grouped=True)
    rounds = [timed(partial(engine.publish, table, grouped=True)) for _ in range(plan.rounds)]
    objects = [tg.Publication(str(i), "z7", _NOON, {"close": row}) for i, row in enumerate(few.publications.tolist())]
    _one_by_one(engine, objects[:1])
    alone = [timed(partial(_one_by_one, engine, objects)) for _ in range(plan.rounds)]
    wanted = _wanted(few, radii)
    return {
        "what": "an engine",
        "subscriptions": n,
        "length": few.length,
        "k": plan.k,
        "c": c,
        "rate": n / seconds,
        "engine_us": median([took for took, _ in rounds]) / len(few.publications) * 1e6,
        "engine_alone_us": median([took for took, _ in alone]) / len(few.publications) * 1e6,
        "memory_ratio": engine.index_bytes / (few.subscriptions.size * 4),
        "own_memory_ratio": grown / (few.subscriptions.size * 4),
        "exact": _pairs(rounds[0][1]) == wanted and alone[0][1] == wanted,
    }


def _one_by_one(engine: tg.Engine, publications: list[tg.Publication]) -> set[tuple[str, str]]:
    told = [notification for one in publications for notification in engine.publish([one])]
    return {(notification.publications[0], notification.subscription) for notification in told}


def _subscriptions(series: Series, radii: Doubles) -> Iterator[tg.Subscription]:
    for i, (row, radius) in enumerate(zip(series.subscriptions, radii.tolist(), strict=True)):
        shape = {"op": "shape", "args": [{"property": "close"}, np.asarray(row)]}
        yield tg.Subscription(str(i), "bench", {"op": "<=", "args": [shape, radius]})


def _table(publications: Doubles) -> pa.Table:
    n, length = publications.shape
    values = pa.array(np.array(publications).ravel())
    lists = pa.LargeListArray.from_arrays(pa.array(np.arange(n + 1) * length), values)
    return pa.table({"id": [str(i) for i in range(n)], "source": ["z7"] * n, "time": [_NOON] * n, "close": lists})


def _wanted(series: Series, radii: Doubles) -> set[tuple[str, str]]:
    """The matches of normal forms of normal forms, which differ in the last bits: what an engine makes of them."""
    again, published = normals(series.subscriptions)[0], normals(series.publications)[0]
    start, rows = SphereGroup(again, radii).match(published)
    return {(str(p), str(r)) for p in range(len(published)) for r in rows[start[p] : start[p + 1]]}


def _pairs(grouped: pa.Table) -> set[tuple[str, str]]:
    return {(row["publication_id"], id) for row in grouped.to_pylist() for id in row["subscription_ids"]}


def _own_memory() -> int:
    """Bytes of memory that no file stands for; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
