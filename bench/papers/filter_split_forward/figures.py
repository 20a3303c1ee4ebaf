"""Draws the paper's Figures 4 to 12 from the rows of a sweep, each as PNG, with what the paper claims.

Beside the loads stands by how much filter-split-forward is below its rivals, over a band for what the paper says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from bench.papers.figure_style import STYLE, save
from bench.papers.filter_split_forward.claim_kinds import Below
from bench.papers.filter_split_forward.claims import PAPER
from bench.papers.filter_split_forward.confidence import Estimate, estimate
from bench.papers.filter_split_forward.figure_style import BAND, LOOKS, SETUP_LOOKS, across, line, span
from bench.papers.filter_split_forward.rows import (
    CENTRALIZED,
    EXACT,
    FIGURES,
    JOINS,
    PLACEMENT,
    PROBABILISTIC,
    RING,
    SETUPS,
    Cells,
    Series,
)
from bench.papers.filter_split_forward.selectivity import selectivity
from bench.papers.filter_split_forward.verdicts import Finding, findings

__all__ = ["SELECTIVITY", "draw", "title"]

#: The name of the one figure that the paper does not have.
SELECTIVITY = "selectivity"

_METRICS = {
    "subscription_load": ("Subscription load", "operators forwarded over a link"),
    "publication_load": ("Publication load", "readings forwarded over a link"),
}
#: Columns of the text above the axes, in letters, and its lines, in inches.
_WIDE, _LEADING = 68, 0.19
#: Where the lowest line is less than this part of the highest, a linear axis would press it to the ground.
_FAR = 1 / 8


def title(figure: int) -> str:
    """What a figure shows."""
    if figure == 12:
        return "Recall at the user of filter-split-forward"
    setup, metric = FIGURES[figure]
    return f"{_METRICS[metric][0]}, {SETUPS[setup]} set-up"


def draw(rows: pa.Table | Iterable[Mapping[str, Any]] | Cells, folder: Path) -> list[str]:
    """Those figures for which there are rows; the names of the files, without their endings."""
    cells = rows if isinstance(rows, Cells) else Cells(rows)
    found = findings(cells)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with mpl.rc_context(STYLE):
        for number in (*FIGURES, 12):
            said = [each for each in found if each.claim.figure == number]
            made = _recall(cells) if number == 12 else _loads(cells, number, said)
            if made is not None:
                _heading(made, f"Figure {number}: {title(number)}", said)
                drawn.append(save(made, folder, f"figure{number:02}"))
        made = _selectivity(cells)
        if made is not None:
            _heading(made, "The reduction against multi-join, and how selective subscriptions are", [])
            drawn.append(save(made, folder, SELECTIVITY))
    return drawn


def _heading(figure: Figure, words: str, said: list[Finding]) -> None:
    """The title, and under it what is claimed, what was measured and the verdict, line by line."""
    lines: list[tuple[str, str, str]] = []
    for found in said:
        who = "goal" if found.claim.is_goal else "paper"
        left = wrap(f"{who}: {found.claim.said}", _WIDE, subsequent_indent="    ", break_on_hyphens=False)
        right = wrap(f"here: {found.short}", _WIDE, subsequent_indent="    ", break_on_hyphens=False)
        lines += zip_longest(left, right, [found.verdict], fillvalue="")
    width, height = figure.get_size_inches()
    whole = height + 0.42 + _LEADING * len(lines)
    figure.set_size_inches(width, whole)
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=(0, 0, 1, height / whole)))
    figure.text(0.01, 1 - 0.1 / whole, words, va="top", weight="bold", fontsize=11)
    for i, columns in enumerate(lines):
        for x, column in zip((0.01, 0.45, 0.94), columns, strict=True):
            figure.text(x, 1 - (0.36 + _LEADING * i) / whole, column, va="top", fontsize=9)


def _loads(cells: Cells, number: int, said: list[Finding]) -> Figure | None:
    setup, metric = FIGURES[number]
    if not cells.series(setup):
        return None
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    lines = {series: cells.means(setup, series, metric) for series in cells.series(setup)}
    for series, found in lines.items():
        line(left, found, *LOOKS[series], series.name)
    _scale(left, lines)
    left.set_ylabel(_METRICS[metric][1])
    left.set_title("means over seeds; bands are 95 % intervals", loc="left", fontsize=10)
    bands = {
        (found.claim.low, found.claim.high)
        for found in said
        if isinstance(found.claim, Below) and found.claim.less == EXACT and not found.claim.is_goal
    }
    _saved(right, cells, setup, metric)
    for low, high in sorted(bands):
        right.axhspan(low, high, color=BAND, zorder=0, label=f"the paper's {span(low, high)} %")
    for axes in (left, right):
        across(axes, cells.counts(setup))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3, fontsize=9)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", fontsize=9)
    return figure


def _saved(axes: Axes, cells: Cells, setup: str, metric: str) -> None:
    """By how many per cent filter-split-forward is below those that come nearest to it."""
    axes.set_title("filter-split-forward (exact) is below …", loc="left", fontsize=10)
    for rival in (PLACEMENT, *JOINS):
        found = {n: estimate(by_seed.values()) for n, by_seed in cells.reductions(setup, EXACT, rival, metric).items()}
        if found:
            line(axes, found, *LOOKS[rival], f"… {rival.name}")
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.set_ylabel("per cent")


def _scale(axes: Axes, lines: dict[Series, dict[int, Estimate]]) -> None:
    """A logarithmic axis only where a distributed strategy's line would not be told from zero on a linear one."""
    at_most = max(n for found in lines.values() for n in found)
    ends = {series: found[at_most].mean for series, found in lines.items() if at_most in found}
    least = min((mean for series, mean in ends.items() if series != CENTRALIZED), default=0.0)
    if 0 < least < _FAR * max(ends.values()):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _recall(cells: Cells) -> Figure | None:
    lines = {
        (setup, series): {
            n: estimate(100 * value for value in by_seed.values())
            for n, by_seed in cells.values(setup, series, "recall").items()
        }
        for setup in cells.setups
        for series in (EXACT, PROBABILISTIC)
    }
    lines = {key: found for key, found in lines.items() if found}
    if not lines:
        return None
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (setup, series), found in lines.items():
        look = (*SETUP_LOOKS[setup], LOOKS[series][2])
        line(left, found, *look, "")
        lost = {n: Estimate(100 * (100 - each.mean), 100 * (each.half or 0), each.count) for n, each in found.items()}
        line(right, lost, *look, "")
    band = left.axhspan(93, 100, color=BAND, zorder=0)
    lowest = min(each.low for found in lines.values() for each in found.values())
    left.set_ylim(min(92, lowest - 1), 100.4)
    left.set_ylabel("recall at the user, per cent")
    right.set_ylim(bottom=0)
    right.set_ylabel("of 10,000 readings to be told, missing")
    for axes in (left, right):
        across(axes, sorted({n for found in lines.values() for n in found}))
    handles: list[Artist] = [
        *(
            Line2D([], [], color=colour, marker=marker, markersize=4.5, label=SETUPS[setup])
            for setup, (colour, marker) in SETUP_LOOKS.items()
            if any(setup == at for at, _ in lines)
        ),
        *(
            Line2D([], [], color="#555555", linestyle=LOOKS[series][2], label=series.subsumptions[0])
            for series in (EXACT, PROBABILISTIC)
        ),
    ]
    band.set_label("the paper's 93 to 100 %")
    figure.legend(handles=[*handles, band], loc="outside lower left", ncols=7, fontsize=9)
    return figure


def _selectivity(cells: Cells) -> Figure | None:
    found = selectivity(cells)
    if not found:
        return None
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    for setup, (count, points) in found.items():
        colour, marker = SETUP_LOOKS[setup]
        points = sorted(points, key=lambda point: point.wanted)
        x, y = [point.wanted for point in points], [point.reduction.mean for point in points]
        label = f"{SETUPS[setup]}, {count:,} subscriptions"
        bars = [point.reduction.half or 0.0 for point in points]
        axes.errorbar(x, y, bars, color=colour, marker=marker, markersize=4.5, linewidth=1.4, capsize=3, label=label)
        for point in points:
            at = (point.wanted, point.reduction.mean)
            axes.annotate(f"× {point.scale:g}", at, (6, 6), textcoords="offset points", fontsize=9)
        for claim in (each for each in PAPER if isinstance(each, Below) and each.setup == setup):
            if claim.metric == "publication_load" and claim.more == (RING,):
                label = f"the paper's {span(claim.low, claim.high)} %"
                axes.axhspan(claim.low, claim.high, color=BAND, zorder=0, label=label)
    axes.set_xlabel("of the readings of the sensors it names, a subscription wants, per cent")
    axes.set_ylabel("filter-split-forward (exact)\nbelow multi-join (ring), per cent")
    axes.margins(0.08)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2, fontsize=9)
    return figure
