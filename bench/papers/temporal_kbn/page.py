"""``python -m bench.papers.temporal_kbn.page``: the page and its figures, from the raw results and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.papers.measuring import stored
from bench.papers.temporal_kbn import findings
from bench.papers.temporal_kbn.figures import draw
from bench.papers.temporal_kbn.goals import goals
from bench.papers.temporal_kbn.opening import opening
from bench.papers.temporal_kbn.sections import batches, figure, overlapping, table_63, table_64

__all__ = ["PAGE", "page", "write"]

PAGE = Path(__file__).parent / "README.md"


def write(facts: dict[str, Any] | None = None, path: Path = PAGE) -> None:
    """The page, and its figures beside it."""
    facts = stored("temporal-kbn") if facts is None else facts
    draw(facts["rows"], path.parent)
    path.write_text(page(facts), "utf-8")


def page(facts: dict[str, Any]) -> str:
    """The whole page."""
    rows = facts["rows"]
    first, dense, second, many, alone = (
        [row for row in rows if row.get("test") == test]
        for test in ("test 1", "test 1, overlapping", "test 2", "test 2, batches", "operators")
    )
    few, most = (extreme(row["stored"] for row in second) for extreme in (min, max))
    small, large = (findings.by_database([row for row in second if row["stored"] == stored]) for stored in (few, most))
    narrow = [of[0] for of in small.values()]
    parts = [
        *opening(facts),
        *goals(rows),
        *figure("figure61", "Test 1, Figures 6.1 and 6.2: time against stored events", findings.on_filling(first)),
        *overlapping(dense),
        *figure(
            "figure63", "Test 2, Figure 6.3: a filled store, publication by publication", findings.on_steadiness(narrow)
        ),
        *figure("figure64", "Table 6.3 and Figure 6.4: time against the limit", findings.on_limits(small)),
        *table_63(small),
        *table_63(large),
        *figure("figure65", "Table 6.4 and Figure 6.5: one operator", findings.on_operators(small, alone)),
        *table_64(small, alone),
        *batches(many),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    write()
