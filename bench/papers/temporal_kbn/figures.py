"""Draws the figures of the page from the raw results, each as PNG and as SVG. Knows nothing of how they were got."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.papers.temporal_kbn.tables import DATABASES, NAMED, PAPER_63, PAPER_64
from tidegate.overlay.report.looks import STYLE

__all__ = ["draw"]

Row = dict[str, Any]

#: Colour and marker of each rival, the same in all figures (colours after Okabe and Ito).
_LOOKS = {"ours": ("#D55E00", "o"), "paged": ("#0072B2", "s"), "rows": ("#000000", "^")}
_GREY = "#888888"


def draw(rows: list[Row], folder: Path) -> list[str]:
    """Those figures for which there are results; the names of the files, without their endings."""
    figures: dict[str, tuple[str, Callable[[list[Row]], Figure]]] = {
        "figure61": ("test 1", _figure61),
        "figure63": ("test 2", _figure63),
        "figure64": ("test 2", _figure64),
        "figure65": ("test 2", _figure65),
    }
    drawn = []
    for name, (test, make) in figures.items():
        if any(row.get("test") == test for row in rows):
            with mpl.rc_context(STYLE):
                figure = make(rows)
                figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            drawn.append(name)
    return drawn


def _panels(rows: list[Row], test: str, sharey: bool) -> tuple[Figure, list[tuple[Axes, list[Row]]]]:
    """A panel for each database, with its rows of a test."""
    some = [row for row in rows if row.get("test") == test]
    names = [name for name in DATABASES if any(row["database"] == name for row in some)]
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=sharey, squeeze=False)[0]
    found = []
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(DATABASES[name], loc="left")
        found.append((axes, [row for row in some if row["database"] == name]))
    return figure, found


def _legend(figure: Figure, axes: Axes) -> None:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _figure61(rows: list[Row]) -> Figure:
    figure, panels = _panels(rows, "test 1", sharey=False)
    for axes, (row,) in panels:
        for name, (colour, _) in _LOOKS.items():
            there = [point for point in row["points"] if point[name]]
            x = [point["stored"] for point in there]
            y, bars = ([point[name][key] / 1e3 for point in there] for key in ("mean", "sem"))
            axes.errorbar(x, y, bars, color=colour, linewidth=1.2, elinewidth=0.5, label=NAMED[name])
        axes.set_xlabel("events stored")
        axes.set_ylim(bottom=0)
    panels[0][0].set_ylabel("ms per publication, mean and standard error")
    _legend(figure, panels[0][0])
    return figure


def _figure63(rows: list[Row]) -> Figure:
    narrow = min(row["limit"] for row in rows if row.get("test") == "test 2")
    figure, panels = _panels([row for row in rows if row.get("limit") == narrow], "test 2", sharey=True)
    for axes, some in panels:
        row = min(some, key=lambda each: each["stored"])
        for name in ("paged", "ours"):
            colour, marker = _LOOKS[name]
            times = row["seconds"][name]
            step = row["publications"] / len(times)
            x = [(i + 1) * step for i in range(len(times))]
            axes.plot(x, [1e3 * each for each in times], color=colour, marker=marker, markersize=4, label=NAMED[name])
        axes.set_yscale("log")
        axes.set_xlabel(f"publications after {row['stored']:,} events")
    panels[0][0].set_ylabel(f"ms per publication, limit {narrow:,}")
    _legend(figure, panels[0][0])
    return figure


def _figure64(rows: list[Row]) -> Figure:
    figure, panels = _panels(rows, "test 2", sharey=True)
    for axes, some in panels:
        sizes = sorted({row["stored"] for row in some})
        axes.plot(
            list(PAPER_63), [each[0] for each in PAPER_63.values()], color=_GREY, linestyle=":", label="the paper's"
        )
        for name, (colour, marker) in _LOOKS.items():
            for size, line in zip(sizes, ("-", "--"), strict=False):
                there = [row for row in some if row["stored"] == size]
                x, y = [row["limit"] for row in there], [row[f"{name}_us"] / 1e3 for row in there]
                label = f"{NAMED[name]}, {size:,} events"
                axes.plot(x, y, color=colour, marker=marker, markersize=4, linestyle=line, label=label)
        _by_limit(axes, some)
    panels[0][0].set_ylabel("ms per publication")
    _legend(figure, panels[0][0])
    return figure


def _figure65(rows: list[Row]) -> Figure:
    figure, panels = _panels(rows, "test 2", sharey=True)
    alone = [row for row in rows if row.get("test") == "operators"]
    alone = [row for row in alone if row["stored"] == min(each["stored"] for each in alone)]
    for axes, some in panels:
        few = [row for row in some if row["stored"] == min(each["stored"] for each in some)]
        axes.plot(
            list(PAPER_64), [each[2] for each in PAPER_64.values()], color=_GREY, linestyle=":", label="the paper's"
        )
        for name in ("rows", "paged"):
            colour, marker = _LOOKS[name]
            x, y = [row["limit"] for row in few], [row["operators"][name]["combined"]["mean"] / 1e3 for row in few]
            axes.plot(x, y, color=colour, marker=marker, markersize=4, label=NAMED[name])
        colour, marker = _LOOKS["ours"]
        x, y = [row["limit"] for row in alone], [row["combined"]["mean"] / 1e3 for row in alone]
        axes.plot(x, y, color=colour, marker=marker, markersize=4, label="ours, in memory")
        _by_limit(axes, some)
    panels[0][0].set_ylabel("ms per operator")
    _legend(figure, panels[0][0])
    return figure


def _by_limit(axes: Axes, rows: list[Row]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    limits = sorted({row["limit"] for row in rows})
    axes.set_xticks(limits, [f"{limit:,}" for limit in limits])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("limit of FILTER")
