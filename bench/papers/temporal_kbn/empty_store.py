"""Test 1: an empty store, Table 6.1, and the time per publication as events accumulate."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from bench.harness import say, timed
from bench.papers.temporal_kbn.databases import New
from bench.papers.temporal_kbn.events import Events, Wanted, drawn, table_61
from bench.papers.temporal_kbn.ours import Ours
from bench.papers.temporal_kbn.plain_loops import Obvious
from bench.papers.temporal_kbn.plan import Plan
from bench.papers.temporal_kbn.scanning import Scanning
from bench.papers.temporal_kbn.spread import correlation, spread

__all__ = ["empty_store"]

#: Microseconds between events: the thesis's, and one at which they overlap, so that DURING and AFTER match too.
_SPACINGS = {"test 1": 10_000_000, "test 1, overlapping": 1_000_000}
#: Publications that one rival takes before it is the other's turn.
_STRETCH = 50
#: Events of a run before the others, which warms up.
_WARM = 20
_RIVALS = ("ours", "paged", "rows")


def empty_store(plan: Plan, seed: int, database: str, new: New) -> Iterator[dict[str, Any]]:
    """One row with points for each spacing."""
    for what, spacing in _SPACINGS.items():
        runs = plan.runs if what == "test 1" else 1
        say(f"{what}, {database}: {runs} × {plan.events} events")
        _run(replace(plan, events=_WARM), np.random.default_rng(seed), spacing, new, _Found())
        found = _Found()
        for run in range(runs):
            _run(plan, np.random.default_rng([seed, run]), spacing, new, found)
        yield {
            "what": f"{what}, {database}",
            "test": what,
            "database": database,
            "subscribers": plan.subscribers,
            "runs": runs,
            "spacing_s": spacing / 1e6,
            **found.row(),
        }


@dataclass
class _Found:
    """What all runs found."""

    seconds: dict[str, dict[int, list[float]]] = field(default_factory=lambda: {n: defaultdict(list) for n in _RIVALS})
    """By rival and number of stored events."""
    writing: list[float] = field(default_factory=list)
    applied: dict[str, dict[bool, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    """Of the scan in pages, by operator and whether it matched."""
    matched: Counter[str] = field(default_factory=Counter)
    told: int = 0
    exact: bool = True

    def row(self) -> dict[str, Any]:
        """In numbers."""
        seconds = self.seconds
        points = [
            {"stored": n, **{name: _point(seconds[name].get(n, [])) for name in seconds}}
            for n in sorted(seconds["ours"])
        ]
        return {
            "publications": len(self.writing),
            "notifications": self.told / len(self.writing),
            **{f"{name}_us": _mean([s for each in by.values() for s in each]) for name, by in seconds.items()},
            "write_us": _mean(self.writing),
            "r": {name: _r(points, name) for name in seconds},
            "operators": {
                name: {"matching": spread(by[True]), "non-matching": spread(by[False])}
                for name, by in sorted(self.applied.items())
            },
            "told": dict(sorted(self.matched.items())),
            "points": points,
            "exact": self.exact,
        }


def _run(plan: Plan, rng: np.random.Generator, spacing: int, new: New, found: _Found) -> None:
    table = table_61()
    subscribers: dict[str, Wanted] = drawn(rng, table, plan.subscribers)
    parts = Events.drawn(rng, plan.events, spacing).parts()
    publications = [part.publication() for part in parts]
    stored = [0, *accumulate(part.phase == "START" for part in parts)]
    ours, paged, rows = Ours(new(), subscribers), Scanning(new(), table), Scanning(new(), table, row_by_row=True)
    for scanning in (paged, rows):
        scanning.create()
    by_rows, by_passed = Obvious(table, by_rows=True), Obvious(table, by_rows=False)
    for at in range(0, len(parts), _STRETCH):
        stretch = range(at, min(at + _STRETCH, len(parts)))
        taken = [ours.take([publications[i]]) for i in stretch]
        in_pages = [timed(partial(paged.take, parts[i])) for i in stretch]
        for i, one, (took, names) in zip(stretch, taken, in_pages, strict=True):
            part, expected = parts[i], by_rows.take(parts[i])
            found.seconds["ours"][stored[i]].append(one.seconds)
            found.seconds["paged"][stored[i]].append(took)
            found.exact &= expected == names == by_passed.take(part)
            found.exact &= one.told == {id for id, each in subscribers.items() if each.name in names}
            found.writing.append(one.writing)
            found.told += len(one.told)
            found.matched.update(names)
            if int(part.id[1:]) % plan.row_by_row:
                rows.store(part)
                continue
            took, names = timed(partial(rows.take, part))
            found.seconds["rows"][stored[i]].append(took)
            found.exact &= names == expected
    for name, took, matched in paged.applied:
        found.applied[name][matched].append(took)
    found.exact &= ours.is_sound and len(ours) <= plan.events
    for each in (ours, paged, rows):
        each.close()


def _point(seconds: list[float]) -> dict[str, Any] | None:
    found = spread(seconds)
    return found and {"mean": found["mean"], "sem": found["sem"]}


def _mean(seconds: list[float]) -> float:
    return statistics.fmean(seconds) * 1e6


def _r(points: list[dict[str, Any]], name: str) -> float:
    """How straight the line is: the mean time at each number of stored events."""
    there = [point for point in points if point[name]]
    return correlation([point["stored"] for point in there], [point[name]["mean"] for point in there])
