"""``ToleranceReport``: shows what tolerances would have brought, as a table and chart, as JSON, and as a plot.

``tidegate.shapes.tolerance`` has computed the numbers. Matplotlib is imported only if a plot is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from tidegate.cli.history_files import ReadHistory
from tidegate.cli.series_pictures import picture
from tidegate.cli.sought_shape import SoughtShape
from tidegate.errors import SettingError, shown
from tidegate.extras import require
from tidegate.shapes.normal_form import normal
from tidegate.shapes.tolerance import ToleranceOutcome, ToleranceOutcomes

__all__ = ["ToleranceReport", "draw", "plottable"]

Numbers = NDArray[np.float64]

#: Correlation with the pattern below which a window hardly looks like it.
LOOKS = 0.5
PLOTS = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class ToleranceReport:
    """The outcome of ``tidegate shapes tolerance``, for the terminal, for programs, and for a plot."""

    pattern: SoughtShape
    attribute: str
    length: int | None
    found: ReadHistory
    outcomes: ToleranceOutcomes
    listed: list[ToleranceOutcome]
    suggested: dict[str, ToleranceOutcome | None]
    """The suggested tolerance by rate, for the rates that a history of this many days can show."""

    @property
    def title(self) -> str:
        """What was compared with what."""
        label = (
            self.pattern.label.strip("'") if len(self.pattern.label) < 40 else f"{len(self.pattern.points):,} numbers"
        )
        over = "series" if self.length is None else f"{self.length:,} readings"
        return f"{label} over {over} of {self.attribute}"

    def where(self, outcome: ToleranceOutcome, short: bool = False) -> str:
        """The expression to subscribe with."""
        return self.pattern.where(self.attribute, self.length, outcome.tolerance, short)

    def correlation(self, outcome: ToleranceOutcome) -> float | None:
        """The correlation r with the pattern that a window at the tolerance D has: D² = 2n(1 − r)."""
        return None if self.length is None else 1 - outcome.tolerance**2 / (2 * self.length)

    def record(self) -> dict[str, Any]:
        """The outcome as JSON for programs."""
        distances = self.outcomes.distances
        return {
            "pattern": self.pattern.label.strip("'"),
            "attribute": self.attribute,
            "length": self.length,
            "history": str(self.found.path),
            "sources": distances.sources,
            "days": distances.days,
            "read": self.found.read,
            "left_out": self.found.left_out,
            "windows": len(distances.values),
            "closest": self.outcomes.closest,
            "tolerances": [asdict(one) | {"correlation": self.correlation(one)} for one in self.listed],
            "suggested": [
                {"about": rate, "outcome": one and asdict(one), "where": one and self.where(one)}
                for rate, one in self.suggested.items()
            ],
        }

    def report(self, console: Console, own: list[float]) -> None:
        """Print the outcome for people."""
        distances, found = self.outcomes.distances, self.found
        unit = "series" if self.length is None else "windows"
        console.print(Text(self.title, "bold"))
        left = f" ({found.left_out:,} without a value)" if found.left_out else ""
        console.print(
            f"{found.read:,} publications{left}, {_many(distances.sources, 'source')}, {distances.days:,.4g} days"
        )
        console.print(f"{len(distances.values):,} {unit}, the closest at {self.outcomes.closest:.4g}")
        console.print()
        marks = dict.fromkeys(own, "yours")
        marks |= {one.tolerance: name.replace(" a ", "/") for name, one in self.suggested.items() if one}
        heads = {"tolerance": 9, "correlation": 11, "notifications": 13, "per day": 8, "per source": 10, unit: 9}
        console.print(Text("  ".join(f"{head:>{width}}" for head, width in heads.items()), "bold"))
        for one in self.listed:
            alike = self.correlation(one)
            cells = (
                f"{one.tolerance:.6g}",
                "" if alike is None else f"{alike:.3f}",
                f"{one.notifications:,}",
                _rate(one.per_day),
                _rate(one.per_source),
                f"{100 * one.share:.3g} %",
            )
            line = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, heads.values(), strict=True))
            mark = marks.get(one.tolerance, "")
            console.print(Text(f"{line}  {mark}".rstrip(), "cyan" if mark else ""))
        console.print()
        for line in self._chart(console):
            console.print(line)
        self._suggest(console)

    def _suggest(self, console: Console) -> None:
        for name, one in self.suggested.items():
            if one is not None:
                console.print(Text.assemble(f"{'about ' + name:<15}  ", (self.where(one, short=True), "bold cyan")))
        reached = [one for one in self.suggested.values() if one is not None]
        if len(reached) < len(self.suggested) or not self.suggested:
            most = self.outcomes.most()
            console.print(
                f"No tolerance brings more than {_rate(most.per_day)} a day, which {most.tolerance:.4g} does."
            )
        if any((self.correlation(one) or 1.0) < LOOKS for one in reached):
            console.print(f"Where the correlation is below {LOOKS}, a window hardly has the shape any more.")

    def curve(self, size: int) -> tuple[Numbers, Numbers]:
        """Notifications a day over tolerances, evenly spaced from the closest window to the widest that is listed."""
        last = max(self.listed[-1].tolerance, self.outcomes.closest * 1.001)
        across = np.linspace(self.outcomes.closest, last, size)
        return across, self.outcomes.notifications(across) / self.outcomes.distances.days

    def _chart(self, console: Console) -> Iterator[str]:
        """The curve in braille, by orders of magnitude."""
        across, rates = self.curve(120)
        lines = picture(np.log10(np.maximum(rates, rates[0])), 60, 6, console)
        if not lines or rates.max() == rates.min():
            return
        high, low = float(rates.max()), float(rates[0])
        for i, line in enumerate(lines):
            label = _rate(high) if i == 0 else _rate(low) if i == len(lines) - 1 else "per day" if i == 2 else ""
            yield f"{label:>9} {line}"
        begin, end = f"{across[0]:.4g}", f"{across[-1]:.4g}"
        yield f"{'':>9} {begin}{'tolerance':^{60 - len(begin) - len(end)}}{end}"
        yield ""


def _rate(per_day: float) -> str:
    """A rate with about two digits."""
    if per_day >= 10:
        return f"{per_day:,.{0 if per_day >= 100 else 1}f}"
    digits = 2 if per_day >= 0.1 or per_day <= 0 else min(1 - floor(log10(per_day)), 6)
    return f"{per_day:.{digits}f}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


# --- the plot -------------------------------------------------------------------------------------------------------


def plottable(path: Path) -> None:
    """Raise an error unless a plot can be written to this path."""
    if path.suffix.lower() not in PLOTS:
        raise SettingError(f"a plot that ends in {', '.join(PLOTS)}", shown(path.name))
    if not path.absolute().parent.is_dir():
        raise SettingError("a plot in a directory that exists", shown(str(path)))
    require("plots", "a plot")


def draw(told: ToleranceReport, path: Path) -> None:
    """Draw the curve with the suggested tolerances on it and, beside it, a window at each of them as an example."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    chosen = [(f"about {name}", one) for name, one in told.suggested.items() if one]
    chosen = chosen or [("the closest", told.outcomes.at(told.outcomes.closest))]
    spots = figure.add_gridspec(len(chosen), 2, width_ratios=(2, 1))
    main = figure.add_subplot(spots[:, 0])
    across, rates = told.curve(400)
    main.plot(across, rates, color="tab:blue", linewidth=2)
    main.set_yscale("log")
    main.set_xlabel("tolerance")
    main.set_ylabel("notifications per day")
    main.grid(True, which="both", alpha=0.25)
    main.set_title(told.title)
    for i, (label, one) in enumerate(chosen):
        colour = f"C{i + 1}"
        main.plot(
            [one.tolerance], [one.per_day], "o", color=colour, markersize=9, label=f"{label}: {one.tolerance:.4g}"
        )
        side = figure.add_subplot(spots[i, 1])
        shape, window = _example(told, one)
        side.plot(shape, color="0.6", linewidth=3)
        side.plot(window, color=colour, linewidth=1.2)
        side.set_title(f"at {one.tolerance:.4g}, {label}", fontsize=9)
        side.set_yticks([])
        side.tick_params(labelsize=8)
    side.set_xlabel("grey: the pattern; coloured: a window so far from it", fontsize=8)
    main.legend(loc="lower right")
    figure.savefig(path)


def _example(told: ToleranceReport, outcome: ToleranceOutcome) -> tuple[Numbers, Numbers]:
    """The pattern and the farthest window that the tolerance still admits, both in normal form."""
    distances = told.outcomes.distances
    at = int(np.argmax(np.where(distances.values <= outcome.tolerance, distances.values, -1.0)))
    begin, n = int(distances.begins[at]), int(distances.lengths[at])
    shape, window = told.pattern.at(n), normal(told.found.history.values[begin : begin + n])
    assert shape is not None
    assert window is not None
    return shape, window
