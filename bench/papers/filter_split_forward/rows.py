"""The rows of a sweep, looked up by set-up, series and number of subscriptions. Knows the columns and draws nothing.

A *series* is one line of a figure: a strategy, and for filter-split-forward its kind of subsumption too. Rows with
ranges stretched by a ``scale`` other than 1 belong to no figure of the paper's and are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bench.papers.filter_split_forward.confidence import Estimate, estimate
from tidegate.errors import SettingError

__all__ = [
    "ALL_PAIRS",
    "CENTRALIZED",
    "EXACT",
    "FIGURES",
    "JOINS",
    "NAIVE",
    "PLACEMENT",
    "PROBABILISTIC",
    "RING",
    "SERIES",
    "SETUPS",
    "Cells",
    "Row",
    "Series",
]

Row = dict[str, Any]
#: By number of subscriptions and seed.
Values = dict[int, dict[int, float]]


class Series(NamedTuple):
    """A strategy, and the kinds of subsumption under which its rows belong to this line."""

    strategy: str
    subsumptions: tuple[str, ...]
    name: str


_RIVAL = ("none", "pairwise")
CENTRALIZED = Series("centralized", _RIVAL, "centralized")
NAIVE = Series("naive", _RIVAL, "naive")
PLACEMENT = Series("operator-placement", _RIVAL, "operator placement")
RING = Series("multi-join", _RIVAL, "multi-join, ring")
ALL_PAIRS = Series("multi-join-all", _RIVAL, "multi-join, all pairs")
PROBABILISTIC = Series("filter-split-forward", ("probabilistic",), "filter-split-forward, probabilistic")
EXACT = Series("filter-split-forward", ("exact",), "filter-split-forward, exact")
#: The paper does not say which pairs of sensors are joined, so its multi-join is measured twice.
JOINS = (RING, ALL_PAIRS)
SERIES = (CENTRALIZED, NAIVE, PLACEMENT, *JOINS, PROBABILISTIC, EXACT)

SETUPS = {
    "small": "small",
    "medium": "medium",
    "large-network": "large (network)",
    "large-sources": "large (sources)",
}
#: The paper's figures of loads: set-up and what is counted.
FIGURES = {
    4: ("small", "subscription_load"),
    5: ("small", "publication_load"),
    6: ("medium", "subscription_load"),
    7: ("medium", "publication_load"),
    8: ("large-network", "subscription_load"),
    9: ("large-network", "publication_load"),
    10: ("large-sources", "subscription_load"),
    11: ("large-sources", "publication_load"),
}
_SERIES_OF = {(series.strategy, kind): series for series in SERIES for kind in series.subsumptions}
_LISTS = ("links", "work")


class Cells:
    """All cells of a sweep. Rows of strategies and kinds of subsumption that no figure has are left aside."""

    def __init__(self, rows: pa.Table | Iterable[Mapping[str, Any]]) -> None:
        self.rows: list[Row] = []
        self._at: dict[tuple[str, Series], dict[tuple[int, int], Row]] = {}
        self._scaled: dict[tuple[str, Series, float], dict[tuple[int, int], Row]] = {}
        for row in _listed(rows) if isinstance(rows, pa.Table) else map(dict, rows):
            series = _SERIES_OF.get((row["strategy"], row["subsumption"]))
            if series is None or row["setup"] not in SETUPS:
                continue
            scale = float(row.get("scale", 1.0))
            if scale == 1:
                cells = self._at.setdefault((row["setup"], series), {})
            else:
                cells = self._scaled.setdefault((row["setup"], series, scale), {})
            key = int(row["subscriptions"]), int(row["seed"])
            if key in cells:
                at = f"{row['setup']}, {series.name}, {key[0]} subscriptions, seed {key[1]}"
                raise SettingError("one row of results for each cell", "two", at)
            cells[key] = row
            self.rows.append(row)

    @property
    def setups(self) -> list[str]:
        """Those that there are rows of, as the paper orders them."""
        return [setup for setup in SETUPS if any(setup == at for at, _ in self._at)]

    def series(self, setup: str) -> list[Series]:
        """Those that there are rows of in a set-up."""
        return [series for series in SERIES if (setup, series) in self._at]

    def of(self, setup: str, series: Series) -> list[Row]:
        """The rows of one line, by number of subscriptions and seed."""
        cells = self._at.get((setup, series), {})
        return [cells[key] for key in sorted(cells)]

    def scaled(self, setup: str, series: Series) -> dict[float, list[Row]]:
        """The rows of one line with stretched ranges, by how much."""
        return {
            scale: list(cells.values())
            for (at, of, scale), cells in sorted(self._scaled.items(), key=lambda each: each[0][2])
            if (at, of) == (setup, series)
        }

    def every(self, setup: str, series: Series) -> list[Row]:
        """The rows of one line, with stretched ranges or without."""
        return [*self.of(setup, series), *(row for rows in self.scaled(setup, series).values() for row in rows)]

    def counts(self, setup: str) -> list[int]:
        """Numbers of subscriptions that there are rows of."""
        return sorted({count for (at, _), cells in self._at.items() if at == setup for count, _ in cells})

    def values(self, setup: str, series: Series, metric: str) -> Values:
        """What was measured, by number of subscriptions and seed."""
        found: Values = {}
        for row in self.of(setup, series):
            found.setdefault(int(row["subscriptions"]), {})[int(row["seed"])] = float(row[metric])
        return found

    def means(self, setup: str, series: Series, metric: str) -> dict[int, Estimate]:
        """Over seeds, by number of subscriptions."""
        values = self.values(setup, series, metric)
        return {count: estimate(by_seed.values()) for count, by_seed in values.items()}

    def reductions(self, setup: str, less: Series, more: Series, metric: str) -> Values:
        """By how many per cent one line is below another in the same network, with the same data and subscriptions."""
        ours, theirs = self.values(setup, less, metric), self.values(setup, more, metric)
        found: Values = {}
        for count in sorted(ours.keys() & theirs.keys()):
            for seed in sorted(ours[count].keys() & theirs[count].keys()):
                if theirs[count][seed] > 0:
                    reduction = 100 * (1 - ours[count][seed] / theirs[count][seed])
                    found.setdefault(count, {})[seed] = reduction
        return found


def _listed(table: pa.Table) -> list[Row]:
    """Rows as dictionaries. Links and work are long and only asked for at the most subscriptions: only those stay."""
    most = table.group_by("setup").aggregate([("subscriptions", "max")])
    by_setup = dict(zip(most["setup"].to_pylist(), most["subscriptions_max"].to_pylist(), strict=True))
    lists = [name for name in _LISTS if name in table.column_names]
    rows: list[Row] = table.drop_columns(lists).to_pylist()
    for setup, count in by_setup.items():
        mask = pc.and_(pc.equal(table["setup"], setup), pc.equal(table["subscriptions"], count))
        where = [i for i, kept in enumerate(mask.to_pylist()) if kept]
        for name in lists:
            for i, value in zip(where, table[name].filter(mask).to_pylist(), strict=True):
                rows[i][name] = value
    return rows
