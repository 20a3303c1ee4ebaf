"""Sections of the page: the thesis's tables with ours beside them, batches and events that overlap."""

from __future__ import annotations

from typing import Any

from bench.harness import shown
from bench.papers.markdown import bullets, paragraph, picture, table
from bench.papers.temporal_kbn.tables import DATABASES, THESIS_63, THESIS_64, ms

__all__ = ["batches", "figure", "overlapping", "table_63", "table_64"]

Row = dict[str, Any]


def figure(name: str, title: str, sentences: list[str]) -> list[str]:
    """A drawn figure and what it says."""
    return [f"## {title}", picture(name, title), bullets(sentences)]


def table_63(by: dict[str, list[Row]]) -> list[str]:
    """Times per publication by limit, one table per database."""
    parts = []
    for name, rows in by.items():
        lines = []
        for row in rows:
            of, theirs = row["spread"], THESIS_63.get(row["limit"])
            said = "–" if theirs is None else _spread(dict(zip(("mean", "sd", "count", "sem"), theirs, strict=True)), 1)
            cells = [_spread(of[rival]) for rival in ("rows", "paged", "ours", "matching")]
            lines.append((f"{row['limit']:,}", said, *cells))
        parts += [
            f"{DATABASES[name]}, {rows[0]['stored']:,} events, ms: mean ± standard error (standard deviation, count):",
            table(["limit", "the thesis's, on Oracle", "row by row", "pages", "ours", "ours without write"], lines),
        ]
    return parts


def _spread(of: Row, scale: float = 1e-3) -> str:
    """As the thesis's tables say it, in milliseconds."""
    mean, sem, sd = (shown(of[key] * scale) for key in ("mean", "sem", "sd"))
    return f"{mean} ± {sem} ({sd}, {of['count']:,})"


def table_64(by: dict[str, list[Row]], ours: list[Row]) -> list[str]:
    """Times per operator by limit."""
    parts = []
    kinds = ("matching", "non-matching", "combined")
    for name, rows in by.items():
        lines = []
        for row in rows:
            found = row["operators"]
            cells: list[Any] = []
            for i, kind in enumerate(kinds):
                theirs = THESIS_64.get(row["limit"])
                cells.append(None if theirs is None else theirs[i])
                cells += [ms(found[rival][kind]["mean"]) if found[rival][kind] else None for rival in ("rows", "paged")]
            lines.append((f"{row['limit']:,}", *cells))
        headings = [f"{kind}: {who}" for kind in kinds for who in ("the thesis", "row by row", "pages")]
        parts += [f"{DATABASES[name]}, {rows[0]['stored']:,} events, ms:", table(["limit", *headings], lines)]
    if ours:
        parts += [
            "Ours, which asks no database, in **µs**; in a batch per publication:",
            table(
                ["stored, limit", *kinds, "count", "in a batch"],
                (
                    (
                        f"{row['stored']:,}, {row['limit']:,}",
                        *(row[kind]["mean"] if row[kind] else None for kind in kinds),
                        row["combined"]["count"],
                        row["batch_us"],
                    )
                    for row in ours
                ),
            ),
        ]
    return parts


def batches(rows: list[Row]) -> list[str]:
    """Ours with many publications in a call, and how long a history takes to come back."""
    return [
        "## In batches, and after a restart",
        paragraph(
            "A call may bring many publications; they are remembered in one transaction, which is durable before any "
            "of their notifications is given out. *opening* is the time until a new engine has what the history holds."
        ),
        table(
            ["", "stored events", "µs/pub", "of it durable write", "publications/s", "opening s"],
            (
                (row["what"], row["stored"], row["ours_us"], row["write_us"], 1e6 / row["ours_us"], row["opening_s"])
                for row in rows
            ),
        ),
    ]


def overlapping(rows: list[Row]) -> list[str]:
    """Test 1 with events that overlap."""
    names = sorted({name for row in rows for name in row["told"]})
    return [
        "## Test 1 with events that overlap",
        paragraph(
            "An event every second, so that DURING and AFTER match too. Publications that matched, by row of Table 6.1:"
        ),
        table(
            ["", *names, "ours ms", "of it write", "pages ms", "row by row ms"],
            (
                (
                    DATABASES[row["database"]],
                    *(row["told"].get(name, 0) for name in names),
                    *(ms(row[key]) for key in ("ours_us", "write_us", "paged_us", "rows_us")),
                )
                for row in rows
            ),
        ),
    ]
