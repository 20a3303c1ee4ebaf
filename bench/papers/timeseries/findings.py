"""What the results say, as sentences: each compares a claim of the paper with what was measured here.

Every number in them is computed from the raw results, and so is whether they agree.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

from bench.papers.timeseries.tables import percent

__all__ = [
    "crossing",
    "growth_of",
    "on_coefficients",
    "on_growth",
    "on_pruning",
    "on_subscribing",
    "on_time",
    "on_wholes",
]

Row = dict[str, Any]
Points = list[Row]

#: The R*-tree as in the paper, grown one by one.
_GROWN = "rstar_inserted"


def crossing(points: Points, key: str, one: str, other: str | float) -> float | None:
    """The share from which on one structure has more than the other; 0 if always, None if not to the last.

    Between two points both are taken to be powers of the share, straight lines on the logarithmic axes of the figures.
    """

    def lead(point: Row) -> float:
        rival = point[key][other] if isinstance(other, str) else other
        return log(point[key][one] / rival)

    if lead(points[-1]) <= 0:
        return None
    for before, after in zip(points[-2::-1], points[:0:-1], strict=True):
        low, high = lead(before), lead(after)
        if low <= 0:
            part = low / (low - high)
            return exp(log(before["share"]) * (1 - part) + log(after["share"]) * part)
    return 0.0


def growth_of(points: Points, name: str) -> float:
    """The power of N that the time grows with, from the first N to the last."""
    first, last = points[0], points[-1]
    times = last["microseconds"][name] / first["microseconds"][name]
    return log(times) / log(last["subscriptions"] / first["subscriptions"])


def _from(share: float | None, points: Points) -> str:
    if share is None:
        return f"at no size up to {percent(points[-1]['share'])}"
    return f"from {percent(share, 1)} on" if share else f"at every size from {percent(points[0]['share'], 1)} on"


def _verdict(agrees: bool) -> str:
    return "**Agrees.**" if agrees else "**Differs.**"


def on_pruning(points: Points) -> list[str]:
    """Figure 5."""
    over_interval, packed = (crossing(points, "tested", name, "interval") for name in (_GROWN, "rstar"))
    all_of_them = points[0]["subscriptions"]
    over_all, packed_over_all = (crossing(points, "tested", name, all_of_them) for name in (_GROWN, "rstar"))
    agrees = over_interval is not None and 0.04 <= over_interval <= 0.16
    first, last = points[0], points[-1]
    n = first["subscriptions"]
    return [
        "The paper: beyond 8 % candidates the R*-tree tests more entries, rectangles included, than the interval "
        f"trees. Here it does so {_from(over_interval, points)} if it grew one by one, as the paper's did, and "
        f"{_from(packed, points)} if it was packed at once. {_verdict(agrees)} "
        "(To agree is to be within a factor of two.)",
        "The paper: at some point the R*-tree tests more entries than there are subscriptions. Here it does so "
        f"{_from(over_all, points)} if it grew one by one, as the paper's did, and {_from(packed_over_all, points)} if "
        f"it was packed at once. {_verdict(over_all is not None)}",
        f"At {percent(first['share'], 1)} candidates the R*-tree tests {percent(first['tested'][_GROWN] / n, 1)} of N "
        f"and the interval trees {percent(first['tested']['interval'] / n, 1)}; at {percent(last['share'])}, "
        f"{percent(last['tested'][_GROWN] / n)} and {percent(last['tested']['interval'] / n)}. The cascade tests "
        f"{percent(first['tested']['cascade'] / n, 1)} and {percent(last['tested']['cascade'] / n)}.",
    ]


def on_time(points: Points) -> list[str]:
    """Figure 6."""
    over_scan, over_interval = (crossing(points, "microseconds", _GROWN, name) for name in ("scan", "interval"))
    both = None if over_scan is None or over_interval is None else max(over_scan, over_interval)
    first, last = points[0], points[-1]
    scans = [point["microseconds"]["scan"] for point in points]
    ahead = min(
        time / point["microseconds"]["cascade"]
        for point in points
        for name, time in point["microseconds"].items()
        if name not in ("cascade", "features")
    )
    slow = last["microseconds"][_GROWN] / last["microseconds"]["scan"]
    return [
        "The paper: the R*-tree becomes much slower than both others somewhere between 10 and 25 % candidates. Here it "
        f"is slower than the scan {_from(over_scan, points)} and slower than the interval trees "
        f"{_from(over_interval, points)}; at {percent(last['share'])} it takes {slow:.1f} times as long as the scan. "
        f"{_verdict(both is not None and 0.10 <= both <= 0.25)}",
        "The paper expects a tree made for main memory to be ahead up to at least 40 %. The tree here is one: its "
        "nodes lie in arrays and are walked by compiled code. But so is the scan, which compares several spheres at "
        f"once. {_verdict(all(each is None or each >= 0.4 for each in (over_scan, over_interval)))}",
        "The paper: the scan's line is not quite level, since it stops adding when a sum exceeds the squared radius. "
        f"Here its slowest size takes {max(scans) / min(scans):.2f} times as long as its fastest. "
        f"{_verdict(max(scans) / min(scans) > 1.02)}",
        f"The cascade against the best of the three, size by size: never less than {ahead:.1f} times as fast"
        f"{'' if ahead >= 1 else ', so not always ahead'}; at {percent(first['share'], 1)} candidates "
        f"{first['microseconds']['rstar'] / first['microseconds']['cascade']:.1f} times as fast as the R*-tree and "
        f"{first['microseconds']['scan'] / first['microseconds']['cascade']:.1f} times as fast as the scan.",
    ]


def on_wholes(points: Points) -> list[str]:
    """What the paper has not: the same until matches are exact."""
    ratios = [point["whole"]["scan"] / point["whole"]["cascade"] for point in points]
    best = max(range(len(points)), key=ratios.__getitem__)
    worst = min(range(len(points)), key=ratios.__getitem__)
    return [
        "A candidate list is not an answer yet. To the exact matches, the cascade is between "
        f"{ratios[worst]:.1f} (at {percent(points[worst]['share'], 1)}) and {ratios[best]:.1f} times (at "
        f"{percent(points[best]['share'], 1)}) as fast as the scan: the more there is to verify, the more it gains by "
        "taking what is surely near without reading it to the end.",
    ]


def on_growth(points: Points) -> list[str]:
    """Figure 7."""
    powers = {name: growth_of(points, name) for name in points[0]["microseconds"] if name != "features"}
    shown = ", ".join(f"{name} {power:.2f}" for name, power in powers.items())
    return [
        f"From {points[0]['subscriptions']:,} to {points[-1]['subscriptions']:,} subscriptions the time grows with "
        f"these powers of N: {shown} (1 is in proportion; the candidate lists themselves grow in proportion).",
    ]


def on_subscribing(points: Points) -> list[str]:
    """Figure 8."""
    found = []
    for name, label in (("rstar", "R*-tree"), ("interval", "interval trees")):
        times = [point["microseconds"][name] for point in points]
        found.append((label, times[0], times[-1], times[-1] / times[0]))
    text = "; ".join(f"{label}: {a:.1f} µs and {b:.1f} µs, {ratio:.2f} times" for label, a, b, ratio in found)
    last = points[-1]
    each = last["microseconds"]
    return [
        "The paper: the average subscribe time of both trees hardly depends on N. Here, at the fewest and the most "
        f"subscriptions: {text}. {_verdict(all(0.5 <= ratio <= 2 for *_, ratio in found))}",
        "The R*-tree grows in its library, one call per subscription from Python. The interval trees here cannot grow: "
        "they take in subscriptions by the logarithmic method, trees of one size becoming one of twice that.",
        f"With {last['subscriptions']:,} subscriptions one costs {each['normal']:.1f} µs for its normal form and "
        f"{each['cascade']:.1f} µs in the cascade, its whole transform included: {last['rate']:,.0f} subscriptions per "
        "second.",
    ]


def on_coefficients(points: Points) -> list[str]:
    """The k of Table 1."""
    few, many = points[0], points[-1]
    return [
        f"With k = {few['k']} the same tolerances leave {percent(few['share'], 2)} of the subscriptions as "
        f"candidates, with k = {many['k']} {percent(many['share'], 2)}. The R*-tree's time goes from "
        f"{few['microseconds']['rstar']:,.0f} to {many['microseconds']['rstar']:,.0f} µs per publication, the scan's "
        f"from {few['microseconds']['scan']:,.0f} to {many['microseconds']['scan']:,.0f}.",
    ]
