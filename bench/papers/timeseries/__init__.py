"""Manassiev and Jacobsen 2004, repeated: shapes of time series in four structures and in FAISS, synthetic and real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.harness import Report, say
from bench.papers.measuring import keep
from bench.papers.timeseries.plan import FULL, QUICK, Plan

__all__ = ["COLUMNS", "SEED", "experiments", "main"]

SEED = 2004

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "length": "length",
    "k": "k",
    "c": "c",
    "candidates": "candidates %",
    "matches": "matches/pub",
    "cascade_us": "cascade µs/pub",
    "cascade_alone_us": "cascade, one at a time",
    "scan_us": "scan µs/pub",
    "interval_us": "interval µs/pub",
    "rstar_us": "rstar µs/pub",
    "faiss_us": "FAISS µs/pub",
    "scan_ratio": "scan ÷ cascade",
    "rstar_ratio": "rstar ÷ cascade",
    "rstar_library_ratio": "rtree's own candidates ÷ cascade",
    "faiss_ratio": "FAISS ÷ cascade",
    "memory_ratio": "memory ÷ float32 series",
    "rate": "subscriptions/s",
    "engine_us": "engine µs/pub",
    "engine_alone_us": "engine, one at a time",
    "accuracy": "accuracy",
}


def experiments(plan: Plan, seed: int) -> Iterator[dict[str, Any]]:
    """All rows. Those of a figure have ``points``."""
    # Here, so that writing the page loads no rival and no database.
    from bench.papers.timeseries import engine, feature_space, race, real, subscribing, walks

    most = plan.counts[-1]
    say(f"{most:,} random walks of {plan.length:,} samples")
    publications = max(plan.publications, *(count for count, _ in plan.races.values()))
    series = walks.walks(seed, most, publications, plan.length)
    widest = max(plan.ks)
    centres, points = (walks.features(each, widest) for each in (series.subscriptions, series.publications))
    some = points[: plan.publications, : 2 * plan.k].copy()
    these = centres[:, : 2 * plan.k].copy()
    scales = {share: walks.scale(series, these, some, share) for share in sorted({*plan.shares, *plan.races})}

    def figure(what: str, found: Iterator[dict[str, Any]], **more: Any) -> dict[str, Any]:
        rows = list(found)
        exact = all(row["exact"] for row in rows)
        return {"what": what, "length": plan.length, "points": rows, "exact": exact, **more}

    for share, (count, rounds) in plan.races.items():
        what = f"walks, about {100 * share:g} % candidates"
        yield race.race(plan, what, series.first(most, count), plan.k, scales[share], rounds)
    shares = {share: scales[share] for share in plan.shares}
    found = feature_space.pruning(plan, series, these, some, shares)
    yield figure("figures 5 and 6", found, subscriptions=most, k=plan.k)
    eight = scales[0.08]
    yield figure("figure 7", feature_space.growth(plan, series, these, some, eight), k=plan.k, c=eight)
    yield figure("figure 8", subscribing.subscribing(plan, series, these, some, eight), k=plan.k, c=eight)
    one = scales[0.01]
    yield engine.subscribed(plan, seed, one)
    found = feature_space.coefficients(plan, series, centres, points, one)
    yield figure("coefficients", found, subscriptions=most, c=one)
    few = series.first(most, plan.races[0.08][0])
    yield figure("doubling", race.doubling(plan, few, plan.k, eight), k=plan.k, c=eight)
    del series, few
    yield from real.stocks(plan, seed)
    for name in ("GunPoint", "ItalyPowerDemand"):
        yield from real.classified(name)
    yield from real.beats()
    yield from real.found_beats()


def main(quick: bool = False) -> None:
    """Measure; after a full run, keep the raw results and write the page and the figures from them."""
    rows = experiments(QUICK if quick else FULL, SEED)
    keep(Report("timeseries", SEED, COLUMNS), rows, "bench.papers.timeseries.page", quick)
