"""What it takes to measure the costs of many subscriptions, and whether a dear one among them is found."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

import tidegate as tg
from bench.clocked_flow import temporary_folder
from bench.harness import Report, say
from tidegate.broker.cost_measure import CostMeasure
from tidegate.broker.cost_meter import CostMeter
from tidegate.errors import SubscriptionWarning
from tidegate.runs.config import Config, load
from tidegate.store.data_directory import DataDirectory

SEED = 2026
SIZES = (10_000, 100_000, 1_000_000)
_PUBLICATIONS, _ATTRIBUTES = 4_000, 20
_DEAR = "together('PT30S', 20000, a1 > 40, a2 > 50, a3 > 50)"

COLUMNS = {
    "subscriptions": "subscriptions",
    "seconds_of_processor": "CPU s of a pass",
    "each": "CPU µs each",
    "measurements": "groups measured",
    "together": "µs/pub all together, by the sum",
    "at_once": "µs/pub measured as one",
    "dear": "µs/pub of the dear one",
    "memory": "peak MB",
}


class _World(NamedTuple):
    config: Config
    data: DataDirectory


def main(quick: bool = False) -> None:
    """All sizes, each in a data directory of its own."""
    report = Report("costs", SEED, COLUMNS)
    for n in SIZES[: 1 if quick else None]:
        say(f"{n:,} subscriptions")
        with _loaded(n) as world:
            _measure(report, world, n)
    report.finish()


@contextmanager
def _loaded(n: int) -> Iterator[_World]:
    """A log, and a registry with so many comparisons of which one, in the middle, is a pattern."""
    rng = np.random.default_rng(SEED)
    with temporary_folder() as folder:
        file = Path(folder, "service.toml")
        file.write_text('[run]\ndata = "data"\nrunner = "process"\n')
        config = load(file)
        data = config.made()
        assert data is not None
        with config.subscriptions.open() as registry, data.open_log(version=lambda: registry.version) as log:
            log.append(_publications(rng))
            for at in range(0, n, 50_000):
                columns, bounds = rng.integers(_ATTRIBUTES, size=(50_000, 2)), rng.random((50_000, 2))
                drawn = [
                    _subscription(number, n, columns[number - at], bounds[number - at])
                    for number in range(at, min(n, at + 50_000))
                ]
                with catch_warnings():  # some contradict themselves
                    simplefilter("ignore", SubscriptionWarning)
                    registry.subscribe(drawn)
        yield _World(config, data)


def _publications(rng: np.random.Generator) -> list[tg.Publication]:
    begin, values = datetime(2026, 11, 15, tzinfo=UTC), 100 * rng.random((_PUBLICATIONS, _ATTRIBUTES))
    return [
        tg.Publication(
            f"p{i}",
            f"z{i % 7}",
            begin + timedelta(seconds=i / 10),
            {f"a{k}": float(row[k]) for k in range(_ATTRIBUTES)},
            location=(16 + i % 7 / 100, 46),
        )
        for i, row in enumerate(values)
    ]


def _subscription(number: int, n: int, columns: np.ndarray, bounds: np.ndarray) -> tg.Subscription:
    a, b = (int(one) for one in columns)
    where = f"a{a} > {90 + 10 * bounds[0]:.4f} AND a{b} < {10 * bounds[1]:.4f}"
    return tg.Subscription(f"s{number}", f"u{number % 100}", _DEAR if number == n // 2 else where)


def _measure(report: Report, world: _World, n: int) -> None:
    asked = list[float]()
    with CostMeter(world.config, world.data, pause=lambda: asked.append(0.0)) as meter:
        began = process_time()
        while not meter.step():
            pass
        taken = process_time() - began
        first, second = meter.costs.dearest(2)
        total = sum(one.microseconds for one in meter.costs.dearest_principals(100))
        at_once = _at_once(meter, world) if n <= 100_000 else None
    report.add(
        exact=first.id == f"s{n // 2}" and first.microseconds > 10 * second.microseconds,
        subscriptions=n,
        seconds_of_processor=taken,
        each=1e6 * taken / n,
        measurements=len(asked),
        together=total,
        at_once=at_once,
        dear=first.microseconds,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        seconds={"pass": [taken]},
    )


def _at_once(meter: CostMeter, world: _World) -> float:
    """What all take in one index, measured in the same way."""
    measure = meter._measure
    assert isinstance(measure, CostMeasure)
    with world.config.subscriptions.open() as registry:
        return measure.microseconds([row.compiled() for row in registry.rows(0, registry.version)])
