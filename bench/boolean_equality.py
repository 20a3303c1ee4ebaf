"""100k and 1M subscriptions of five equalities on twenty attributes with a hundred values each: index and scan."""

from __future__ import annotations

import numpy as np

from bench.boolean_intervals import ATTRIBUTES, COLUMNS, PUBLICATIONS, SEED, measure
from bench.harness import Report, one_core
from bench.workload import Workload

PREDICATES, DOMAIN = 5, 100
SIZES = (100_000, 1_000_000)


def workload(n: int, rng: np.random.Generator) -> Workload:
    """Five of twenty attributes, each equal to one of a hundred values; every second publication matches someone."""
    column = np.argsort(rng.random((n, ATTRIBUTES), np.float32), axis=1)[:, :PREDICATES].astype(np.uint16)
    low = rng.integers(0, DOMAIN, (n, PREDICATES)).astype(np.float64)
    values = rng.integers(0, DOMAIN, (PUBLICATIONS, ATTRIBUTES)).astype(np.float64)
    someone = rng.integers(0, n, PUBLICATIONS // 2)  # by chance alone one in ten thousand would match anything
    values[np.arange(0, PUBLICATIONS, 2)[:, None], column[someone]] = low[someone]
    return Workload(column, low, np.nextafter(low, np.inf), values, True)


def main(quick: bool = False) -> None:
    """Run both sizes on one core."""
    one_core()
    report = Report("boolean-equality", SEED, COLUMNS)
    for n in (10_000,) if quick else SIZES:
        measure(report, "equalities", workload(n + n // 10, np.random.default_rng(SEED)), n)
    report.finish()
