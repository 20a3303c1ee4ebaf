"""The filter step alone, as the paper measured it: candidate lists by all four structures for one setting.

Figures 5, 6 and 7 are many of these. Times are from a publication's normal form to its candidate list, so all include
its Fourier transform, which is also timed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import median, say
from bench.papers.timeseries.brute import Found, dismissed, in_feature_space, matching, same
from bench.papers.timeseries.interleaved import interleaved
from bench.papers.timeseries.plan import Plan
from bench.papers.timeseries.walks import Doubles, Series, features
from tidegate.shapes.rstar_tree import RStar
from tidegate.shapes.sphere_group import SphereGroup
from tidegate.shapes.structures import STRUCTURES, Candidates, Structure

__all__ = ["NAMES", "coefficients", "growth", "measured", "pruning"]

#: All structures, ours first.
NAMES = ("cascade", "scan", "interval", "rstar")


def measured(
    series: Series, centres: Doubles, points: Doubles, c: float, rounds: int, *, inserted: bool = False
) -> dict[str, Any]:
    """Sizes of the candidate lists, entries tested and seconds, and whether anything was dismissed wrongly.

    The R*-tree is packed at once; where it is asked for, there is also one that grew one by one, as the paper's did.
    The paper's structures must list what brute force lists in feature space. The cascade looks at more than k
    coefficients and lists less; of it, all matches of the first publication are asked for, and more where it races.
    """
    radii, k = series.radii(c), centres.shape[1] // 2
    needed = in_feature_space(centres, radii, points)
    group = SphereGroup(series.subscriptions, radii, structure="cascade", features=centres.shape[1])
    rivals: dict[str, Any] = {"cascade": partial(group.candidates, series.publications)}
    for name in NAMES[1:]:
        rivals[name] = partial(_listed, STRUCTURES[name](centres, radii), series.publications, k)
    if inserted:
        rivals["rstar_inserted"] = partial(_listed, RStar.inserted(centres, radii), series.publications, k)
    rivals["features"] = partial(features, series.publications, k)
    seconds, found = interleaved(rivals, rounds)
    del found["features"]
    pairs = len(points) * len(radii)
    first = _found(matching(series.subscriptions, radii, series.publications[0]))
    ours = found["cascade"]
    right = not dismissed(first, (ours.start[:2], ours.rows)) and not any(
        dismissed(needed, (each.start, each.rows)) for name, each in found.items() if name != "cascade"
    )
    return {
        "subscriptions": len(radii),
        "publications": len(points),
        "k": k,
        "c": c,
        "share": len(needed[1]) / pairs,
        "tested": {name: float(np.mean(each.tested)) for name, each in found.items()},
        "listed": {name: len(each.rows) / pairs for name, each in found.items()},
        "microseconds": {name: median(each) / len(points) * 1e6 for name, each in seconds.items()},
        "seconds": seconds,
        "exact": right,
    }


def _listed(structure: Structure, publications: Doubles, k: int) -> Candidates:
    return structure.candidates(features(publications, k))


def _found(rows: NDArray[np.int64]) -> Found:
    """Of a single publication."""
    return np.array([0, len(rows)]), rows.astype(np.int32)


def pruning(plan: Plan, series: Series, centres: Doubles, points: Doubles, scales: dict[float, float]) -> Iterator[Any]:
    """Figures 5 and 6: from few candidates to many."""
    few = series.first(len(centres), plan.publications)
    for share, c in scales.items():
        say(f"figures 5 and 6: {share:.1%} candidates")
        found = measured(few, centres, points[: plan.publications], c, plan.rounds, inserted=True)
        seconds, exact = _whole(few, c, plan)
        each = {name: median(times) / len(few.publications) * 1e6 for name, times in seconds.items()}
        yield {**found, "whole": each, "whole_seconds": seconds, "exact": found["exact"] and exact}


def _whole(series: Series, c: float, plan: Plan) -> tuple[dict[str, list[float]], bool]:
    """The same publications to their exact matches, by the cascade and by the scan."""
    names, radii = ("cascade", "scan"), series.radii(c)
    groups = [SphereGroup(series.subscriptions, radii, structure=name, features=2 * plan.k) for name in names]
    rivals = {name: partial(group.match, series.publications) for name, group in zip(names, groups, strict=True)}
    seconds, found = interleaved(rivals, plan.rounds)
    return seconds, same(*found.values())


def growth(plan: Plan, series: Series, centres: Doubles, points: Doubles, c: float) -> Iterator[Any]:
    """Figure 7: more and more subscriptions, of which the same share are candidates."""
    for n in plan.counts:
        say(f"figure 7: {n:,} subscriptions")
        few = series.first(n, plan.publications)
        yield measured(few, centres[:n], points[: plan.publications], c, plan.rounds)


def coefficients(plan: Plan, series: Series, centres: Doubles, points: Doubles, c: float) -> Iterator[Any]:
    """The k of Table 1: the same tolerances with fewer and with more Fourier coefficients."""
    few = series.first(len(centres), plan.publications)
    for k in plan.ks:
        say(f"k = {k}")
        yield measured(few, centres[:, : 2 * k].copy(), points[: plan.publications, : 2 * k].copy(), c, plan.rounds)
