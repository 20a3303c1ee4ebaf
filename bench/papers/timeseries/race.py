"""Whole matches, from publications in normal form to the exact lists: four structures and FAISS, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from bench.harness import median, say, timed
from bench.papers.timeseries.brute import Found, dismissed, matching, same
from bench.papers.timeseries.faiss_flat import SETTINGS, Faiss, FaissOfOneRadius, Product, Setting
from bench.papers.timeseries.feature_space import NAMES
from bench.papers.timeseries.interleaved import interleaved
from bench.papers.timeseries.library_tree import LibraryTree
from bench.papers.timeseries.plan import Plan
from bench.papers.timeseries.walks import Doubles, Series, features
from tidegate.shapes.sphere_group import SphereGroup

__all__ = ["doubling", "race"]


def race(plan: Plan, what: str, series: Series, k: int, c: float, rounds: int) -> dict[str, Any]:
    """One row: microseconds per publication of every rival, their ratios to the cascade's, memory, exactness."""
    say(f"{what}: {len(series.subscriptions):,} subscriptions, c = {c:.4f}")
    radii, publications = series.radii(c), series.publications
    built = {name: timed(partial(_group, series, c, name, k)) for name in NAMES}
    groups = {name: group for name, (_, group) in built.items()}
    faiss = Faiss(series.subscriptions, radii)
    setting = min(SETTINGS, key=partial(_tried, faiss, publications))
    rivals: dict[str, Callable[[], Any]] = {name: partial(groups[name].match, publications) for name in NAMES}
    rivals["faiss"] = partial(faiss.match, publications, setting)
    rivals["product"] = partial(Product(faiss).match, publications)
    for name in NAMES:
        rivals[f"{name}_candidates"] = partial(groups[name].candidates, publications)
    library = LibraryTree(features(series.subscriptions, k), radii)
    rivals["rstar_library"] = partial(library.candidates, features(publications, k))
    rivals["cascade_alone"] = partial(_one_by_one, groups["cascade"], publications)
    seconds, found = interleaved(rivals, rounds)
    del faiss, rivals
    reference, found["faiss_l2"] = _of_one_radius(series, radii, setting, min(3, rounds))
    matches: Found = found["cascade"]
    candidates = found["scan_candidates"]
    each = {name: median(times) / len(publications) * 1e6 for name, times in seconds.items()}
    each["faiss_l2"] = median(reference) / len(publications) * 1e6
    complete = [found[name] for name in (*NAMES, "faiss", "faiss_l2", "product", "cascade_alone")]
    right = (
        all(same(matches, other) for other in complete)
        and _checked(plan, series, c, matches)
        and not dismissed(found["rstar_library"], (candidates.start, candidates.rows))
        and not dismissed(matches, found["cascade_candidates"][:2])
    )
    pairs = len(radii) * len(publications)
    return {
        "what": what,
        "subscriptions": len(radii),
        "length": series.length,
        "k": k,
        "c": c,
        "publications": len(publications),
        "candidates": 100 * len(candidates.rows) / pairs,
        "matches": len(matches[1]) / len(publications),
        **{f"{name}_us": value for name, value in each.items()},
        **{f"{name}_ratio": value / each["cascade"] for name, value in each.items()},
        "faiss_setting": setting._asdict(),
        "bytes": groups["cascade"].nbytes,
        "memory_ratio": groups["cascade"].nbytes / (series.subscriptions.size * 4),
        "build_rate": len(radii) / built["cascade"][0],
        "checked": plan.checked,
        "versions": {name: version(name) for name in ("faiss-cpu", "rtree", "matplotlib")},
        "exact": right,
        "seconds": {**seconds, "faiss_l2": reference},
    }


def _group(series: Series, c: float, structure: str, k: int) -> SphereGroup:
    return SphereGroup(series.subscriptions, series.radii(c), structure=structure, features=2 * k)


def _tried(faiss: Faiss, publications: Doubles, setting: Setting) -> float:
    """Seconds per publication. Without matrix products it is slow, and as slow for a few as for many."""
    some = publications if setting.products_from <= len(publications) else publications[:16]
    return timed(partial(faiss.match, some, setting))[0] / len(some)


def _of_one_radius(series: Series, radii: Doubles, setting: Setting, rounds: int) -> tuple[list[float], Found]:
    """After the others and not among them: for two indexes there is no room."""
    index = FaissOfOneRadius(series.subscriptions, radii)
    seconds, found = interleaved({"l2": partial(index.match, series.publications, setting)}, rounds)
    return seconds["l2"], found["l2"]


def _one_by_one(group: SphereGroup, publications: Doubles) -> Found:
    found = [group.match(publications[p : p + 1])[1] for p in range(len(publications))]
    start = np.zeros(len(found) + 1, np.int64)
    np.cumsum([len(rows) for rows in found], out=start[1:])
    return start, np.concatenate(found)


def _checked(plan: Plan, series: Series, c: float, found: Found) -> bool:
    radii = series.radii(c)
    return all(
        np.array_equal(
            matching(series.subscriptions, radii, series.publications[p]),
            np.sort(found[1][found[0][p] : found[0][p + 1]]),
        )
        for p in range(min(plan.checked, len(series.publications)))
    )


def doubling(plan: Plan, series: Series, k: int, c: float) -> Iterator[dict[str, Any]]:
    """Whole matches by the cascade with N and with 2N subscriptions, in turns, up to all there are."""
    most, n = plan.counts[-1], plan.counts[0]
    pairs = []
    while 2 * n <= most:
        pairs.append(n)
        n *= 2
    for n in [*pairs, *([most // 2] if most // 2 not in pairs else [])]:
        say(f"doubling {n:,} subscriptions")
        groups = {str(count): _group(series.first(count), c, "cascade", k) for count in (n, 2 * n)}
        rivals = {name: partial(group.match, series.publications) for name, group in groups.items()}
        seconds, found = interleaved(rivals, 3 * plan.rounds)
        fewer, more = (median(seconds[name]) for name in groups)
        yield {
            "subscriptions": n,
            "microseconds": fewer / len(series.publications) * 1e6,
            "microseconds_doubled": more / len(series.publications) * 1e6,
            "ratio": more / fewer,
            "exact": all(_checked(plan, series.first(int(name)), c, each) for name, each in found.items()),
            "seconds": seconds,
        }
