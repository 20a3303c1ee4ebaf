"""A conjunctive workload: subscriptions as arrays, as CQL2-JSON and as rules; publications as arrays and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tidegate as tg
from bench.scan import scan
from tidegate.index import Matches

__all__ = ["Workload", "same", "table"]


@dataclass(frozen=True)
class Workload:
    """n subscriptions of k predicates each, ``low ≤ attribute < high`` (for equality, high is the next double)."""

    column: NDArray[np.uint16]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    values: NDArray[np.float64]
    equality: bool

    @staticmethod
    def of_intervals(n: int, width: float, publications: int, attributes: int, predicates: int, seed: int) -> Workload:
        """Subscriptions of intervals of one width on some of the attributes, all of which lie between 0 and 1."""
        rng = np.random.default_rng(seed)
        column = np.argsort(rng.random((n, attributes), np.float32), axis=1)[:, :predicates].astype(np.uint16)
        low = rng.random((n, predicates)) * (1 - width)
        return Workload(column, low, low + width, rng.random((publications, attributes)), False)

    def subscriptions(self, begin: int = 0, end: int | None = None) -> Iterator[tg.Subscription]:
        """As a program would send them: CQL2-JSON."""
        some = slice(begin, end)
        arrays = self.column[some], self.low[some], np.nextafter(self.high[some], -np.inf)
        for i, row in enumerate(zip(*(array.tolist() for array in arrays), strict=True), begin):
            args = [self._json(*each) for each in zip(*row, strict=True)]
            yield tg.Subscription(f"s{i}", "bench", {"op": "and", "args": args})

    def _json(self, c: int, low: float, high: float) -> dict[str, Any]:
        attribute = {"property": f"a{c}"}
        if self.equality:
            return {"op": "=", "args": [attribute, low]}
        return {"op": "between", "args": [attribute, low, high]}

    def rules(self, n: int) -> list[str]:
        """The first n as rule-engine texts."""
        highs = np.nextafter(self.high[:n], -np.inf)
        one = "a{c} == {low!r}" if self.equality else "a{c} >= {low!r} and a{c} <= {high!r}"
        return [
            " and ".join(one.format(c=c, low=float(low), high=float(high)) for c, low, high in zip(*row, strict=True))
            for row in zip(self.column[:n].tolist(), self.low[:n].tolist(), highs.tolist(), strict=True)
        ]

    def scanned(self, publications: int, most: int) -> tuple[Any, tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """A callable that scans the first publications, and the arrays (start, ids) it writes to."""
        column = np.ascontiguousarray(self.column.T)
        bounds = np.ascontiguousarray(np.stack([self.low.T, self.high.T], axis=2))
        starts, ids = np.empty(publications + 1, np.int64), np.empty(most, np.int32)
        values = self.values[:publications]
        return (lambda: scan(values, column, bounds, starts, ids)), (starts, ids)


def table(values: NDArray[np.float64], names: list[str] | None = None) -> pa.Table:
    """Publications as an Arrow table; NaN becomes null."""
    p, c = values.shape
    columns: dict[str, Any] = {
        "id": pa.array([f"p{i}" for i in range(p)]),
        "source": pa.array(["bench"] * p),
        "time": pa.array(np.arange(p), pa.timestamp("us", "UTC")),
    }
    for i, name in enumerate(names or [f"a{i}" for i in range(c)]):
        columns[name] = pa.array(values[:, i], from_pandas=True)
    return pa.table(columns)


def same(matches: Matches, start: NDArray[np.int64], ids: NDArray[np.int32], publications: int) -> bool:
    """Whether the index found for the first publications exactly what the scan found."""
    return all(
        np.array_equal(np.sort(matches.owners[matches.start[p] : matches.start[p + 1]]), ids[start[p] : start[p + 1]])
        for p in range(publications)
    )
