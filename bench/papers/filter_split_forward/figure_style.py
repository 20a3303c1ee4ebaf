"""What the figures of this paper share: colours, lines with their intervals, and axes."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from matplotlib.axes import Axes

from bench.papers.filter_split_forward.confidence import Estimate
from bench.papers.filter_split_forward.rows import (
    ALL_PAIRS,
    CENTRALIZED,
    EXACT,
    NAIVE,
    PLACEMENT,
    PROBABILISTIC,
    RING,
    Series,
)

__all__ = ["BAND", "LOOKS", "SETUP_LOOKS", "across", "line", "span"]

#: Colour, marker and line of each series, the same in all figures (colours after Okabe and Ito).
LOOKS: dict[Series, tuple[str, str, Literal["-", "--"]]] = {
    CENTRALIZED: ("#CC79A7", "D", "-"),
    NAIVE: ("#000000", "^", "-"),
    PLACEMENT: ("#E69F00", "v", "-"),
    RING: ("#0072B2", "s", "-"),
    ALL_PAIRS: ("#56B4E9", "P", "-"),
    PROBABILISTIC: ("#009E73", "o", "--"),
    EXACT: ("#D55E00", "o", "-"),
}
SETUP_LOOKS = {
    "small": ("#000000", "o"),
    "medium": ("#0072B2", "s"),
    "large-network": ("#009E73", "^"),
    "large-sources": ("#E69F00", "D"),
}
BAND = "#e8e8e8"


def line(axes: Axes, found: dict[int, Estimate], colour: str, marker: str, style: str, label: str) -> None:
    """Means, and a band for their 95 % intervals."""
    counts = sorted(found)
    means = [found[n].mean for n in counts]
    low, high = ([getattr(found[n], end) for n in counts] for end in ("low", "high"))
    axes.plot(counts, means, color=colour, marker=marker, markersize=4.5, linewidth=1.4, linestyle=style, label=label)
    axes.fill_between(counts, low, high, color=colour, alpha=0.18, linewidth=0)


def across(axes: Axes, counts: list[int]) -> None:
    """An axis of numbers of subscriptions."""
    axes.set_xlabel("subscriptions")
    step = min((b - a for a, b in pairwise(counts)), default=1)
    ticks = counts[1::2] if len(counts) > 8 else counts
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.set_xlim(counts[0] - step / 2, counts[-1] + step / 2)


def span(low: float, high: float) -> str:
    """A claimed range in words; a narrow one is a number that was rounded."""
    return f"{(low + high) / 2:g}" if high - low <= 1 else f"{low:g} to {high:g}"
