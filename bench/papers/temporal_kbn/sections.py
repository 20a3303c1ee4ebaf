"""Sections of the page: what was run, the goals, and the paper's tables with ours beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import Any

from bench.harness import shown
from bench.papers.temporal_kbn.tables import DATABASES, NAMED, PAPER_63, PAPER_64, ms, table

__all__ = ["asked", "batches", "figure", "opening", "overlapping", "table_63", "table_64", "text"]

Row = dict[str, Any]


def text(paragraph: str) -> str:
    """A paragraph, as long lines as the rest of the project has."""
    return fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)


def bullets(sentences: Iterable[str]) -> str:
    """A list."""
    return "\n".join(
        fill(s, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) for s in sentences
    )


def figure(name: str, title: str, sentences: list[str]) -> list[str]:
    """A drawn figure and what it says."""
    return [f"## {title}", f"![{title}]({name}.png)\n\n([SVG]({name}.svg))", bullets(sentences)]


def opening(facts: Row) -> list[str]:
    """What this is, on which machine, with what."""
    machine, rows = facts["machine"], facts["rows"]
    versions = {name: n for name, n in machine["versions"].items() if name not in ("pyspark", "llvmlite")}
    used = ", ".join(f"{name} {number}" for name, number in versions.items())
    missing = [row["what"] for row in rows if " is not here: " in row["what"]]
    wines = next((row["wines"] for row in rows if row["what"] == "ontology"), "ten wines")
    first = next(row for row in rows if row.get("test") == "test 1")
    second = [row for row in rows if row.get("test") == "test 2"]
    scanned = sum(row["spread"]["paged"]["count"] + row["spread"]["rows"]["count"] for row in second)
    return [
        "# A temporal knowledge-based network, repeated",
        text(
            "The evaluation of a temporal knowledge-based network (chapter 6): an empty store (Test 1) and a full one "
            "(Test 2), with the paper's scan of a database and our own engine with a history beside each other, on "
            "each database in the same run. Written by `python -m bench.papers.temporal_kbn.page` from "
            "`bench/results/temporal-kbn.json`, which `tidegate bench temporal-kbn` makes; every number on this page "
            "that is not the paper's is computed from it."
        ),
        text(
            f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, {used}. "
            f"Seed {facts['seed']}, {machine['time'][:10]}, load average at the end {machine['load_average']:.1f}. "
            "The machine is shared and noisy, so trust ratios." + "".join(f" {each}." for each in missing)
        ),
        text(
            "**Workload.** Events have A from 1 to 10 and B, one of ten wines, five of them red "
            f"(the ontology is {wines}); each is published when it starts and when it ends, 3 to 8 seconds later. Time "
            f"is that of events: nobody waits. {first['subscribers']} subscribers draw from Table 6.1 (Test 1) or 6.2 "
            f"(Test 2). Test 1 has {first['runs']} runs (the paper's 50) of {first['publications'] // first['runs']} "
            "publications; Test 2 has one run per limit. Limits of AFTER are taken to be milliseconds: then neither "
            "they nor DURING can ever match in Test 1, whose events are 2 to 7 seconds apart, so there is a further "
            "row with an event every second."
        ),
        "**The rivals.**",
        bullets(
            (
                "*ours*: an engine with a history, one publication per call, notifications as objects. What has to be "
                "remembered is durable in the database when the call returns. *without write* is that less the time "
                "spent in the history.",
                "*scan row by row*: the paper's method. SQL selects by the temporal conditions, or the newest events "
                "up to the limit; then attributes are fetched with a query per event and inner filter and operator are "
                "applied in code, until the first match. The paper does not say that it fetches them so, but its 588 "
                "ms for 5,000 events that do not match are 0.12 ms per event, about a query each.",
                "*scan in pages*: the same with attributes joined, in pages of 50, 500, 5,000 events, a query each.",
                "Both scans are given what the paper does not speak of: indexes on the event's id, start and end, "
                "prepared statements where the driver has them, the colour of a wine by a look into a set, and equal "
                "filters of several subscribers applied once per publication, as Siena's poset would do. They are "
                "written in Python like the plumbing of ours; the paper's are in Java.",
                "All write durably: SQLite with synchronous = FULL, PostgreSQL with fsync and MariaDB with "
                "innodb_flush_log_at_trx_commit = 1, all on one disk.",
            )
        ),
        text(
            "**Exact.** For every publication ours told the same subscribers as a loop over a list of events, and for "
            f"every publication that a scan was measured for (all of Test 1 in pages, {scanned:,} of Test 2) the scan "
            "told the same. The meanings differ in one point: the paper's FILTER looks at the newest events that are "
            "stored, ours at the newest that passed the inner filter. Both loops were run, and in this workload they "
            "never differ."
        ),
        text(
            "Times of Test 2 are medians of the means of stretches of publications, in which the rivals take turns; "
            "tables that repeat the paper's have plain means, as it does."
        ),
    ]


def _pick(rows: list[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def asked(rows: list[Row]) -> list[str]:
    """The aims that were set, and what came out."""
    second = _pick(rows, test="test 2")
    sizes, limits = sorted({row["stored"] for row in second}), sorted({row["limit"] for row in second})
    lines: list[tuple[Any, ...]] = []

    def line(what: str, wanted: str, values: Iterator[float], held: Any) -> None:
        found = list(values)
        lines.append((what, wanted, *found, "yes" if all(map(held, found)) else "no"))

    names = [name for name in DATABASES if any(row["database"] == name for row in second)]
    one = {(row["database"], row["stored"], row["limit"]): row for row in second}
    many = {(row["database"], row["stored"]): row for row in _pick(rows, test="test 2, batches")}
    alone = {(row["stored"], row["limit"]): row for row in _pick(rows, test="operators")}
    low, high = limits[0], limits[-1]
    for size in sizes:
        at = f"{size:,} events, limit {high:,}"
        for rival in ("rows", "paged"):
            line(
                f"{at}: {NAMED[rival]} ÷ ours",
                "≥ 1,000",
                (one[n, size, high][f"{rival}_ratio"] for n in names),
                lambda x: x >= 1000,
            )
            line(
                f"{at}: the same without our durable write",
                "≥ 1,000",
                (one[n, size, high][f"{rival}_matching_ratio"] for n in names),
                lambda x: x >= 1000,
            )
            line(
                f"{at}: {NAMED[rival]} ÷ ours in batches",
                "≥ 1,000",
                (one[n, size, high][f"{rival}_us"] / many[n, size]["ours_us"] for n in names),
                lambda x: x >= 1000,
            )
            line(
                f"{at}: operator of the {NAMED[rival]} ÷ our operator",
                "≥ 1,000",
                (
                    one[n, size, high]["operators"][rival]["combined"]["mean"] / alone[size, high]["combined"]["mean"]
                    for n in names
                ),
                lambda x: x >= 1000,
            )
    for size in sizes:
        line(
            f"{size:,} events: ours at {high:,} ÷ at {low:,}",
            "≤ 1.5",
            (one[n, size, high]["ours_us"] / one[n, size, low]["ours_us"] for n in names),
            lambda x: x <= 1.5,
        )
        line(
            "the same without the durable write",
            "≤ 1.5",
            (one[n, size, high]["matching_us"] / one[n, size, low]["matching_us"] for n in names),
            lambda x: x <= 1.5,
        )
    for limit in (low, high):
        line(
            f"limit {limit:,}: ours with {sizes[-1]:,} events ÷ with {sizes[0]:,}",
            "≤ 1.5",
            (one[n, sizes[-1], limit]["ours_us"] / one[n, sizes[0], limit]["ours_us"] for n in names),
            lambda x: x <= 1.5,
        )
        line(
            "the same without the durable write",
            "≤ 1.5",
            (one[n, sizes[-1], limit]["matching_us"] / one[n, sizes[0], limit]["matching_us"] for n in names),
            lambda x: x <= 1.5,
        )
    return [
        "## The goals",
        text(
            "Per publication. A call of ours with a single publication is mostly plumbing and waiting for the disk, "
            "which a batch shares among its publications; an operator is one FILTER applied to one publication."
        ),
        table(["", "goal", *(DATABASES[name] for name in names), "held"], lines),
    ]


def table_63(by: dict[str, list[Row]]) -> list[str]:
    """Times per publication by limit, one table per database."""
    parts = []
    for name, rows in by.items():
        lines = []
        for row in rows:
            of, theirs = row["spread"], PAPER_63.get(row["limit"])
            seed = "–" if theirs is None else _spread(dict(zip(("mean", "sd", "count", "sem"), theirs, strict=True)), 1)
            cells = [_spread(of[rival]) for rival in ("rows", "paged", "ours", "matching")]
            lines.append((f"{row['limit']:,}", seed, *cells))
        parts += [
            f"{DATABASES[name]}, {rows[0]['stored']:,} events, ms: mean ± standard error (standard deviation, count):",
            table(["limit", "the paper's, on Oracle", "row by row", "pages", "ours", "ours without write"], lines),
        ]
    return parts


def _spread(of: Row, scale: float = 1e-3) -> str:
    """As the paper's tables say it, in milliseconds."""
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
                theirs = PAPER_64.get(row["limit"])
                cells.append(None if theirs is None else theirs[i])
                cells += [ms(found[rival][kind]["mean"]) if found[rival][kind] else None for rival in ("rows", "paged")]
            lines.append((f"{row['limit']:,}", *cells))
        headings = [f"{kind}: {who}" for kind in kinds for who in ("the paper", "row by row", "pages")]
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
        text(
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
        text(
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
