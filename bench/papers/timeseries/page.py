"""``python -m bench.papers.timeseries.page``: the page and its figures, from the raw results and from nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.papers.markdown import paragraph
from bench.papers.measuring import stored
from bench.papers.timeseries import findings
from bench.papers.timeseries.figures import draw
from bench.papers.timeseries.sections import figure, goals, opening, race
from bench.papers.timeseries.sections_real import real
from bench.papers.timeseries.tables import by_structure

__all__ = ["PAGE", "page", "write"]

PAGE = Path(__file__).parent / "README.md"


def write(facts: dict[str, Any] | None = None, path: Path = PAGE) -> None:
    """The page, and its figures beside it."""
    facts = stored("timeseries") if facts is None else facts
    draw({row["what"]: row for row in facts["rows"]}, path.parent)
    path.write_text(page(facts), "utf-8")


def page(facts: dict[str, Any]) -> str:
    """The whole page."""
    rows: dict[str, dict[str, Any]] = {row["what"]: row for row in facts["rows"]}
    sizes, growing, subscribing, ks = (
        rows[what]["points"] for what in ("figures 5 and 6", "figure 7", "figure 8", "coefficients")
    )
    percent, count = ("candidates %", lambda p: 100 * p["share"]), ("subscriptions", lambda p: p["subscriptions"])
    parts = [
        *opening(facts, rows),
        *goals(rows),
        *(part for what, row in rows.items() if what.startswith("walks") for part in race(row)),
        *figure("figure5", "Entries tested against the size of the candidate list", findings.on_pruning(sizes)),
        by_structure(sizes, "tested", *percent),
        *figure("figure6", "Match time against the size of the candidate list", findings.on_time(sizes)),
        "Microseconds per publication, from its normal form to the candidate list (*features*: to its features):",
        by_structure(sizes, "microseconds", *percent),
        *figure("whole", "Whole matches against the size of the candidate list", findings.on_wholes(sizes)),
        by_structure(sizes, "whole", *percent),
        *figure("figure7", "Match time against the number of subscriptions", findings.on_growth(growing)),
        "Microseconds per publication, from its normal form to the candidate list (*features*: to its features):",
        by_structure(growing, "microseconds", *count),
        *figure("figure8", "Subscribe time against the number of subscriptions", findings.on_subscribing(subscribing)),
        "Microseconds per subscription:",
        by_structure(subscribing, "microseconds", *count),
        "## Figures that the paper has not: the number of coefficients",
        *map(paragraph, findings.on_coefficients(ks)),
        "Microseconds per publication, from its normal form to the candidate list (*features*: to its features):",
        by_structure(ks, "microseconds", "k", lambda p: p["k"]),
        *real(rows),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    write()
