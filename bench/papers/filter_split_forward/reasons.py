"""Why a claim differs, as far as the rows of the sweep can tell. Each sentence is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

from bench.papers.filter_split_forward.claim_kinds import Below, Complete, Level, Ordered, Wider
from bench.papers.filter_split_forward.rows import (
    CENTRALIZED,
    EXACT,
    JOINS,
    NAIVE,
    PLACEMENT,
    PROBABILISTIC,
    RING,
    SETUPS,
    Cells,
    Row,
    Series,
)
from bench.papers.filter_split_forward.selectivity import selectivity, wanted
from bench.papers.filter_split_forward.verdicts import Finding, reached

__all__ = ["reasons"]


def reasons(found: Finding, cells: Cells) -> list[str]:
    """Sentences with what was measured that bears on a claim that does not hold, or not everywhere."""
    match found.claim:
        case Below(setup=setup, metric="publication_load") as claim:
            return [*_margin(found, claim), *_readings(cells, setup)]
        case Below(setup=setup) as claim:
            return [*_margin(found, claim), *_covering(cells, setup)]
        case Wider(metric="publication_load") as claim:
            return [line for setup in (claim.wide, claim.narrow) for line in _readings(cells, setup)]
        case Wider() as claim:
            return [line for setup in (claim.wide, claim.narrow) for line in _covering(cells, setup)]
        case Ordered(metric="publication_load") as claim:
            central = any(CENTRALIZED in level for level in claim.levels)
            return [*_readings(cells, claim.setup), *(_central(cells, claim.setup) if central else ())]
        case Ordered() as claim:
            return _covering(cells, claim.setup)
        case Level() as claim:
            return _lost(cells, claim)
        case Complete() as claim:
            return _wrong(cells, claim)
    return []


def _most(cells: Cells, setup: str, series: Series) -> list[Row]:
    """The rows of a line at the most subscriptions, one per seed."""
    rows = cells.of(setup, series)
    most = max((row["subscriptions"] for row in rows), default=0)
    return [row for row in rows if row["subscriptions"] == most]


def _mean(rows: list[Row], value: Callable[[Row], float]) -> float:
    return fmean(value(row) for row in rows)


def _margin(found: Finding, claim: Below) -> list[str]:
    """On which side of the claimed range the measured ones lie."""
    lines = []
    what = "the goal" if claim.is_goal else "the claimed range"
    for name, of in found.lines.items():
        out = [each for each in of.values() if not reached(each, claim)]
        under = sum(each.mean < claim.low for each in out)
        over = len(out) - under
        sides = [f"under {what} at {under}"] * bool(under) + [f"over {what} at {over}"] * bool(over)
        if sides:
            lines.append(f"Against {name} the reduction is {' and '.join(sides)} of {len(of)} counts.")
    return lines


def _readings(cells: Cells, setup: str) -> list[str]:
    """How much of multi-join's traffic there was to save, and how much of all readings subscriptions want."""
    ours = _most(cells, setup, EXACT)
    if not ours:
        return []
    count, share = ours[0]["subscriptions"], _mean(ours, wanted)
    lines = [
        f"In {SETUPS[setup]}, with {count:,} subscriptions, a user is told {share:.1f} % of the readings of the "
        "sensors that the subscription names."
    ]
    for join in JOINS:
        theirs = _most(cells, setup, join)
        if theirs and theirs[0]["subscriptions"] == count:
            load, rival = (_mean(rows, lambda row: row["publication_load"]) for rows in (ours, theirs))
            if rival:
                lines.append(
                    f"There {join.name} forwards {rival:,.0f} readings over links and filter-split-forward "
                    f"{load:,.0f}; what it need not have forwarded is {100 * (1 - load / rival):.1f} % of its load."
                )
            lines += _links(join, ours, theirs)
    return [*lines, *_selective(cells)]


def _selective(cells: Cells) -> list[str]:
    """Whether there is less to save where users want more."""
    lines = []
    for setup, (count, points) in selectivity(cells).items():
        points = sorted(points, key=lambda point: point.wanted)
        told = "; ".join(f"{p.reduction.mean:.1f} % where users want {p.wanted:.1f} %" for p in points)
        steps = [b.reduction.mean - a.reduction.mean for a, b in pairwise(points)]
        trend = "falls" if all(step < 0 for step in steps) else "rises" if all(step > 0 for step in steps) else "varies"
        lines.append(
            f"In {SETUPS[setup]}, with {count:,} subscriptions, the reduction against {RING.name} {trend} as "
            f"subscriptions want more of the readings: {told} of them."
        )
    return lines


def _links(join: Series, ours: list[Row], theirs: list[Row]) -> list[str]:
    """On how many links the two carry the same: there nothing could be saved."""
    same, busy, crossed, total = 0, 0, 0, 0
    by_seed = {row["seed"]: row for row in ours}
    for row in theirs:
        if row["seed"] not in by_seed:
            continue
        mine = {(link["a"], link["b"]): link["readings"] for link in by_seed[row["seed"]].get("links") or ()}
        for link in row.get("links") or ():
            if link["readings"]:
                busy, total = busy + 1, total + link["readings"]
                equal = mine.get((link["a"], link["b"]), 0) >= link["readings"]
                same, crossed = same + equal, crossed + equal * link["readings"]
    if not busy:
        return []
    return [
        f"On {100 * same / busy:.0f} % of the directed links over which {join.name} forwards readings, with "
        f"{100 * crossed / total:.0f} % of its load, filter-split-forward forwards no fewer."
    ]


def _covering(cells: Cells, setup: str) -> list[str]:
    """What pairwise covering and set filtering each take off the load of no filtering at all."""
    parts = []
    for series in (PLACEMENT, *JOINS, PROBABILISTIC, EXACT):
        of = cells.reductions(setup, series, NAIVE, "subscription_load")
        if of:
            count = max(of)
            share = fmean(of[count].values())
            parts.append(f"{series.name} {abs(share):.1f} % {'below' if share >= 0 else 'above'}")
    if not parts:
        return []
    lines = [
        f"In {SETUPS[setup]}, with {count:,} subscriptions, the subscription load against naive is: {', '.join(parts)}."
    ]
    undecided = sum(row["undecided"] for row in cells.of(setup, EXACT))
    if undecided:
        lines.append(f"Exact set filtering ran out of its budget {undecided:,} times there, and then forwards.")
    return lines


def _central(cells: Cells, setup: str) -> list[str]:
    rows = _most(cells, setup, CENTRALIZED)
    if not rows:
        return []
    told = _mean(rows, lambda row: row["expected"])
    fixed = _mean(rows, lambda row: row["events"])
    return [
        f"The centralized strategy sends {fixed:,.0f} readings to the centre once each, and from there {told:,.0f} "
        "to users, one for every subscription that wants it; its load is these times the length of their ways."
    ]


def _lost(cells: Cells, claim: Level) -> list[str]:
    rows = [row for setup in claim.setups for row in cells.of(setup, claim.series)]
    expected, correct = (sum(row[key] for row in rows) for key in ("expected", "correct"))
    cells_with = sum(row["correct"] < row["expected"] for row in rows)
    return [
        f"With {claim.series.subsumptions[0]} set filtering {expected - correct:,} of {expected:,} readings to be told "
        f"are missing, in {cells_with} of {len(rows)} cells."
    ]


def _wrong(cells: Cells, claim: Complete) -> list[str]:
    rows = [(series, row) for setup in claim.setups for series in claim.series for row in cells.every(setup, series)]
    bad = [(series, row) for series, row in rows if not row["correct"] == row["expected"] == row["delivered"]]
    return [
        f"{series.name}, {SETUPS[row['setup']]}, {row['subscriptions']:,} subscriptions, seed {row['seed']}: "
        f"{row['expected'] - row['correct']:,} missing, {row['delivered'] - row['correct']:,} told without cause."
        for series, row in bad[:5]
    ] + ([f"And {len(bad) - 5:,} cells more."] if len(bad) > 5 else [])
