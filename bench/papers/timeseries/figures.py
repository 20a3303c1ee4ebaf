"""Draws the figures of the page from the raw results, each as PNG. Knows nothing of how they were got."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.papers.figure_style import STYLE, save

__all__ = ["draw"]

Row = dict[str, Any]

#: Line, marker and label of each rival, the same in all figures (colours after Okabe and Ito).
_LOOKS = {
    "cascade": ("#D55E00", "o", "cascade (ours)"),
    "scan": ("#000000", "s", "linear scan"),
    "interval": ("#009E73", "^", "interval trees"),
    "rstar": ("#0072B2", "D", "R*-tree"),
    "rstar_inserted": ("#56B4E9", "v", "R*-tree, one by one"),
}
_GREY = "#666666"


def draw(rows: dict[str, Row], folder: Path) -> list[str]:
    """Those figures for which there are results; the names of the files, without their endings."""
    figures: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Row]], Figure]]] = {
        "figure5": (("figures 5 and 6",), _figure5),
        "figure6": (("figures 5 and 6",), _figure6),
        "whole": (("figures 5 and 6",), _whole),
        "figure7": (("figure 7",), _figure7),
        "figure8": (("figure 8",), _figure8),
        "classes": (("GunPoint, classes", "ItalyPowerDemand, classes", "ECG, where beats are"), _classes),
    }
    drawn = []
    for name, (needed, make) in figures.items():
        if all(what in rows for what in needed):
            with mpl.rc_context(STYLE):
                drawn.append(save(make(rows), folder, name))
    return drawn


def _axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    return figure, figure.subplots()


def _lines(axes: Axes, x: list[float], points: list[Row], key: str) -> None:
    there = {name: looks for name, looks in _LOOKS.items() if name in points[0][key]}
    for name, (colour, marker, label) in there.items():
        y = [point[key][name] for point in points]
        axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.8, label=label)
    axes.set_yscale("log")
    axes.set_xscale("log")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def _by_share(rows: dict[str, Row], key: str, label: str, title: str) -> Figure:
    points = rows["figures 5 and 6"]["points"]
    figure, axes = _axes()
    _lines(axes, [100 * point["share"] for point in points], points, key)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("size of the candidate list, % of all subscriptions")
    axes.set_ylabel(label)
    axes.set_title(f"{title}, N = {points[0]['subscriptions']:,}, k = {points[0]['k']}", loc="left")
    return figure


def _figure5(rows: dict[str, Row]) -> Figure:
    return _by_share(rows, "tested", "entries tested per publication", "Figure 5: entries tested")


def _figure6(rows: dict[str, Row]) -> Figure:
    return _by_share(rows, "microseconds", "µs per publication, to the candidate list", "Figure 6: match time")


def _whole(rows: dict[str, Row]) -> Figure:
    return _by_share(rows, "whole", "µs per publication, to the exact matches", "Whole matches")


def _figure7(rows: dict[str, Row]) -> Figure:
    points = rows["figure 7"]["points"]
    figure, axes = _axes()
    counts = [float(point["subscriptions"]) for point in points]
    _lines(axes, counts, points, "microseconds")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("subscriptions")
    axes.set_ylabel("µs per publication, to the candidate list")
    share = 100 * points[-1]["share"]
    axes.set_title(f"Figure 7: match time, about {share:.0f} % candidates, k = {points[0]['k']}", loc="left")
    return figure


def _figure8(rows: dict[str, Row]) -> Figure:
    points = rows["figure 8"]["points"]
    figure, axes = _axes()
    counts = [float(point["subscriptions"]) for point in points]
    for name, label in (("normal", "normal form"), ("features", "features, for all but the cascade")):
        y = [point["microseconds"][name] for point in points]
        axes.plot(counts, y, color=_GREY, linestyle=":" if name == "normal" else "--", linewidth=1.5, label=label)
    _lines(axes, counts, points, "microseconds")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("subscriptions")
    axes.set_ylabel("µs per subscription, average")
    axes.set_title("Figure 8: subscribe time", loc="left")
    return figure


def _classes(rows: dict[str, Row]) -> Figure:
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    names = ("GunPoint, classes", "ItalyPowerDemand, classes", "ECG, where beats are")
    for axes, name in zip(figure.subplots(1, 3, sharey=True), names, strict=True):
        points = rows[name]["points"]
        for key, (colour, marker, _) in zip(("precision", "recall"), (_LOOKS["rstar"], _LOOKS["cascade"]), strict=True):
            known = [point for point in points if point[key] is not None]
            x, y = [point["epsilon"] for point in known], [point[key] for point in known]
            axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.8, label=key)
        axes.set_title(name, loc="left")
        axes.set_xlabel("tolerance ε")
        axes.set_ylim(-0.03, 1.03)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
