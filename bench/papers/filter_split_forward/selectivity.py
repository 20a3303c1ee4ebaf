"""How the reduction against multi-join, with a ring of pairs, depends on how much of the readings subscriptions want.

The paper calls its subscriptions medium selective and says no more; a sweep may measure one set-up again with all
ranges narrower or wider. Computes from rows; draws nothing.
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from bench.papers.filter_split_forward.confidence import Estimate, estimate
from bench.papers.filter_split_forward.rows import EXACT, RING, SETUPS, Cells, Row, Series
from bench.papers.filter_split_forward.topology import SETUPS as NETWORKS
from bench.papers.markdown import paragraph, table

__all__ = ["Point", "section", "selectivity", "wanted"]


class Point(NamedTuple):
    """One scale of the ranges: the share of their sensors' readings that users want, the loads, and the reduction."""

    scale: float
    wanted: float
    ours: float
    theirs: float
    reduction: Estimate


def selectivity(cells: Cells) -> dict[str, tuple[int, list[Point]]]:
    """By set-up: the number of subscriptions, and a point for each scale that both lines have rows of."""
    found = {}
    for setup in cells.setups:
        ours, theirs = ({(scale, *_key(row)): row for scale, row in _rows(cells, setup, s)} for s in (EXACT, RING))
        scaled = {key[1] for key in ours.keys() & theirs.keys() if key[0] != 1}
        if scaled:
            count = max(scaled)
            pairs: dict[float, list[tuple[Row, Row]]] = {}
            for key in sorted(ours.keys() & theirs.keys()):
                if key[1] == count and theirs[key]["publication_load"]:
                    pairs.setdefault(key[0], []).append((ours[key], theirs[key]))
            found[setup] = count, [_point(scale, rows) for scale, rows in pairs.items()]
    return found


def _rows(cells: Cells, setup: str, series: Series) -> list[tuple[float, Row]]:
    stretched = [(scale, row) for scale, rows in cells.scaled(setup, series).items() for row in rows]
    return [*((1.0, row) for row in cells.of(setup, series)), *stretched]


def _key(row: Row) -> tuple[int, int]:
    return row["subscriptions"], row["seed"]


def _point(scale: float, pairs: list[tuple[Row, Row]]) -> Point:
    ours, theirs = (fmean(pair[i]["publication_load"] for pair in pairs) for i in (0, 1))
    reduction = estimate(100 * (1 - mine["publication_load"] / other["publication_load"]) for mine, other in pairs)
    return Point(scale, fmean(wanted(mine) for mine, _ in pairs), ours, theirs, reduction)


def wanted(row: Row) -> float:
    """Of the readings of the sensors that a subscription names, the share that its user is told; in per cent."""
    network = NETWORKS[row["setup"]]
    named = row["subscriptions"] * (network.least + network.most) / 2 * row["events"] / row["sensors"]
    return 100 * row["expected"] / named if named else 0.0


def section(cells: Cells, drawn: bool) -> list[str]:
    """For the page; nothing if only one scale was measured."""
    parts = []
    for setup, (count, points) in selectivity(cells).items():
        lines = [
            [f"{p.scale:g}", p.wanted, p.theirs, p.ours, f"{p.reduction.mean:.1f}", p.reduction.half] for p in points
        ]
        parts += [
            paragraph(
                f"The {SETUPS[setup]} set-up with {count:,} subscriptions again, with all offsets of ranges multiplied "
                "by a scale. *Wanted* is the share of the readings of the sensors that a subscription names that its "
                "user is told."
            ),
            table(["scale", "wanted, %", RING.name, "filter-split-forward, exact", "below, %", "±"], lines),
        ]
    if not parts:
        return []
    picture = ["![The reduction and how selective subscriptions are](selectivity.png)"]
    return ["## How selective subscriptions are", *(picture if drawn else []), *parts]
