"""``compile_kernels``: has numba compile the kernels, which it does once per machine and keeps in a cache.

``tidegate warmup`` and ``tidegate demo`` call it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from tidegate.cli.kernel_examples import compile_event_kernels, compile_overlay_kernels
from tidegate.demo import subscriptions, tables
from tidegate.engine import Engine
from tidegate.extras import missing
from tidegate.index.shapes import look_up_with
from tidegate.kernels.select_one import select_one, select_one_aside
from tidegate.model import Publication, Subscription
from tidegate.shapes.sphere_group import ShapeLookup, structures
from tidegate.shapes.structures import STRUCTURES
from tidegate.shapes.transforms import PCA, TRANSFORMS
from tidegate.store.identities import Identities
from tidegate.store.log import Log

__all__ = ["compile_kernels"]

_LENGTH, _BEGIN = 16, datetime(2026, 1, 1, tzinfo=UTC)


def compile_kernels() -> None:
    """Match a little of the demo's valley, events, terms, and shapes with each structure that looks them up.

    A kernel that is called with other types elsewhere fails the tests (``tests/parts/called_kernels.py``).
    """
    some = next(tables(np.random.default_rng(0))).slice(0, 64)
    Engine(subscriptions()).publish(some)
    Engine(subscriptions()).publish(some, grouped=True)
    _one_at_a_time(some)
    compile_event_kernels()
    compile_overlay_kernels()
    _terms()
    _identities(some)
    series = _series(np.random.default_rng(0))
    sample = np.random.default_rng(0).normal(size=(8, _LENGTH))
    PCA.fit(sample, 2).coordinates(sample)
    for structure, transform in zip(_structures(), cycle(TRANSFORMS), strict=False):
        before = look_up_with(ShapeLookup(transform, structure))
        try:
            engine = Engine(_shapes())
            engine.explain(_shapes()[0].id, Publication("p", "s", _BEGIN, {"close": [*range(_LENGTH)]}))
            engine.publish(series)
            engine.publish(series.slice(0, 1))
            for subscription in _shapes():  # unsubscribing and subscribing later have kernels of their own
                engine.unsubscribe(subscription.id)
                engine.subscribe(replace(subscription, id=f"again {subscription.id}"))
            engine.publish(series)
        finally:
            look_up_with(before)


def _one_at_a_time(some: pa.Table) -> None:
    """Single publications have kernels of their own, also for newcomers and where somebody has left."""
    engine = Engine(subscriptions())
    engine.publish(some.slice(0, 1))
    engine.subscribe(Subscription("newcomer", "nobody", "source IS NOT NULL"))
    engine.unsubscribe(next(iter(engine)).id)
    for i in range(1, some.num_rows):
        engine.publish(some.slice(i, 1))
    for subscription in engine:  # what explain reads of the state of patterns
        engine.explain(
            subscription.id, Publication("p", "s", _BEGIN + timedelta(days=9999), {"kind": "ridge", "gust": 30.0})
        )
    near = Engine([Subscription("near", "nobody", "together('PT1M', 5000, n = 1, n = 2)")])
    one, other = (Publication(f"p{n}", "s", _BEGIN, {"n": n}, location=(7, 46)) for n in (1, 2))
    near.publish([one])
    near.explain("near", other)
    for signature in select_one.signatures:  # a large segment's
        select_one_aside.compile(signature)


def _terms() -> None:
    """Texts and places that lead to clauses and such as do not, of publications alone, together, out of a file."""
    looked_for = (
        "name LIKE '%reading%' AND n > 1", "NOT name LIKE '%r_d%'", "name LIKE '_%_'", "name LIKE 'some%'",
        "S_DWITHIN(location, POINT(7 46), 500)", "NOT S_DWITHIN(location, POINT(7 46), 500)",
    )  # fmt: skip
    engine = Engine([Subscription(where, "nobody", where) for where in looked_for])
    some = [Publication(f"p{i}", "s", _BEGIN, {"name": "some readings", "n": i}, location=(7, 46)) for i in range(16)]
    engine.publish(some)
    engine.publish(some[:1])
    rows = {"id": [p.id for p in some], "source": ["s"] * 16, "time": [_BEGIN] * 16, "name": ["some readings"] * 16}
    table, file = pa.table(rows), pa.BufferOutputStream()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    engine.publish(
        pa.ipc.open_stream(file.getvalue()).read_all()
    )  # arrays that nobody may write have kernels of their own


def _identities(some: pa.Table) -> None:
    """What appending to a data directory calls, of one publication and of many, and what unpublishing does."""
    with TemporaryDirectory() as directory:
        known = Identities(f"{directory}/ids", capacity=5000)
        with Log(f"{directory}/log", identities=known) as log:
            log.append(Publication("p", "s", _BEGIN))
            log.append([Publication(f"p{i}", "s", _BEGIN, valid_until=_BEGIN) for i in range(4200)])
            log.append([Publication(f"q{i}", "s", _BEGIN) for i in range(2)])
            log.append(some)
            log.unpublish([("s", "p")])
        with Log(f"{directory}/log", identities=Identities(f"{directory}/ids")) as log:
            log.append(some)


def _structures() -> list[str]:
    """The structures whose extras are installed."""
    needed = {name: STRUCTURES[name].extra for name in structures() if name in STRUCTURES}
    return [name for name in structures() if (extra := needed.get(name)) is None or not missing(extra)]


def _shapes() -> list[Subscription]:
    numbers = ", ".join(map(str, range(_LENGTH)))
    looked_for = (
        f"shape(close, ({numbers})) <= 5",
        f"shape(close, ({numbers})) <= 4",
        f"shape(close, ({numbers}, 0)) <= 5 AND NOT shape(open, ({numbers})) <= 1",
        "shape(close, 'spike') <= 5",
        "shape(value, 'spike', 'stream', 8) <= 3",
    )
    return [Subscription(where, "nobody", where) for where in looked_for]


def _series(rng: np.random.Generator) -> pa.Table:
    rows = 64
    return pa.table(
        {
            "id": [f"p{i}" for i in range(rows)],
            "source": ["s"] * rows,
            "time": pa.array([_BEGIN + timedelta(seconds=i) for i in range(rows)], pa.timestamp("us", "UTC")),
            "close": list(rng.normal(size=(rows, _LENGTH)) + np.arange(_LENGTH)),
            "open": list(rng.normal(size=(rows, _LENGTH))),
            "value": rng.normal(size=rows),
        }
    )
