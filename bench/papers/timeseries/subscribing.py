"""Figure 8: what a subscription costs, by how many there are: its normal form, its features, its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.harness import median, say, timed
from bench.papers.timeseries.brute import dismissed, in_feature_space
from bench.papers.timeseries.interleaved import interleaved
from bench.papers.timeseries.plan import Plan
from bench.papers.timeseries.walks import Doubles, Series, features
from tidegate.shapes.interval_trees import IntervalTrees
from tidegate.shapes.normal_form import normals
from tidegate.shapes.rstar_tree import RStar
from tidegate.shapes.scan import Scan
from tidegate.shapes.sphere_group import SphereGroup
from tidegate.shapes.structures import Structure

__all__ = ["subscribing"]

_CHUNK = 2048


def subscribing(plan: Plan, series: Series, centres: Doubles, points: Doubles, c: float) -> Iterator[dict[str, Any]]:
    """Microseconds per subscription, averaged over all of them as in the paper.

    The paper's structures are given features that are ready, one by one and all at once; the cascade, which keeps all
    coordinates and not the first few, makes its own.
    """
    for n in plan.counts:
        say(f"figure 8: {n:,} subscriptions")
        few, some, radii = series.first(n), centres[:n], series.radii(c)[:n]
        rivals: dict[str, Any] = {
            "normal": partial(_normal_forms, few.subscriptions),
            "features": partial(features, few.subscriptions, plan.k),
            "cascade": partial(SphereGroup, few.subscriptions, radii, structure="cascade", features=2 * plan.k),
        }
        for kind in (Scan, IntervalTrees, RStar):
            rivals[kind.name] = partial(kind.inserted, some, radii)
            rivals[f"{kind.name}_at_once"] = partial(kind, some, radii)
        if n <= plan.repeated:
            seconds, built = interleaved(rivals, plan.rounds)
        else:
            once = {name: timed(work) for name, work in rivals.items()}
            seconds, built = (
                {name: [each[0]] for name, each in once.items()},
                {name: each[1] for name, each in once.items()},
            )
        each = {name: median(times) / n * 1e6 for name, times in seconds.items()}
        yield {
            "subscriptions": n,
            "microseconds": each,
            "rate": 1e6 / (each["normal"] + each["cascade"]),
            "exact": _finds(built, some, radii, points[: plan.checked]),
            "seconds": seconds,
        }


def _finds(built: dict[str, Any], centres: Doubles, radii: Doubles, points: Doubles) -> bool:
    """Whether what was built dismisses nothing."""
    needed = in_feature_space(centres, radii, points)
    found = [each.candidates(points) for each in built.values() if isinstance(each, Structure)]
    return len(found) == 6 and not any(dismissed(needed, (each.start, each.rows)) for each in found)


def _normal_forms(series: Doubles) -> None:
    """In chunks, each dropped when it is made: it is the time that counts."""
    for begin in range(0, len(series), _CHUNK):
        normals(series[begin : begin + _CHUNK])
