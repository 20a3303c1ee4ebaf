"""A temporal knowledge-based network, repeated: operators over the past, the paper's scan of a database beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.harness import Report, say
from bench.papers.temporal_kbn.plan import FULL, QUICK, Plan

__all__ = ["COLUMNS", "SEED", "experiments", "main"]

SEED = 2010

COLUMNS = {
    "what": "what",
    "stored": "stored events",
    "notifications": "notifications/pub",
    "ours_us": "ours µs/pub",
    "write_us": "of it durable write",
    "paged_us": "scan in pages µs/pub",
    "rows_us": "scan row by row µs/pub",
    "paged_ratio": "pages ÷ ours",
    "rows_ratio": "row by row ÷ ours",
    "paged_matching_ratio": "pages ÷ ours without write",
    "rows_matching_ratio": "row by row ÷ ours without write",
    "opening_s": "opening s",
}


def experiments(plan: Plan, seed: int) -> Iterator[dict[str, Any]]:
    """All rows, one database after the other."""
    # Here, so that `tidegate bench` can list this bench without loading what it needs.
    from bench.papers.temporal_kbn.databases import Missing, opened
    from bench.papers.temporal_kbn.empty_store import empty_store
    from bench.papers.temporal_kbn.operators import operators
    from bench.papers.temporal_kbn.preloaded import preloaded
    from bench.papers.temporal_kbn.wines import load_wines

    yield {"what": "ontology", "wines": load_wines(), "exact": True}
    for database in plan.databases:
        try:
            with opened(database) as new:
                yield from empty_store(plan, seed, database, new)
                yield from preloaded(plan, seed, database, new)
        except Missing as why:
            say(f"{database}: {why}")
            yield {"what": f"{database} is not here: {why}", "database": database, "exact": True}
    yield from operators(plan, seed)


def main(quick: bool = False) -> None:
    """Measure; after a full run, keep the raw results and write the page and the figures from them."""
    report = Report("temporal-kbn", SEED, COLUMNS)
    for row in experiments(QUICK if quick else FULL, SEED):
        report.add(**row)
    if quick:
        say(f"{len(report.rows)} rows, all exact; a quick run keeps no results")
        return
    report.finish()
    from bench.papers.temporal_kbn.page import write

    write()
