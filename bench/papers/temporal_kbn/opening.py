"""The opening of the page: what was run, on which machine, with what workload, and against which rivals."""

from __future__ import annotations

from typing import Any

from bench.papers.markdown import bullets, paragraph

__all__ = ["opening"]

Row = dict[str, Any]

_RIVALS = (
    "*ours*: an engine with a history, one publication per call, notifications as objects. What has to be remembered "
    "is durable in the database when the call returns. *without write* is that less the time spent in the history.",
    "*scan row by row*: the thesis's method. SQL selects by the temporal conditions, or the newest events up to the "
    "limit; then attributes are fetched with a query per event and inner filter and operator are applied in code, "
    "until the first match. The thesis does not say that it fetches them so, but its 588 ms for 5,000 events that do "
    "not match are 0.12 ms per event, about a query each.",
    "*scan in pages*: the same with attributes joined, in pages of 50, 500, 5,000 events, a query each.",
    "Both scans are given what the thesis does not speak of: indexes on the event's id, start and end, prepared "
    "statements where the driver has them, the colour of a wine by a look into a set, and equal filters of several "
    "subscribers applied once per publication, as Siena's poset would do. They are written in Python like the "
    "plumbing of ours; the thesis's are in Java.",
    "All write durably: SQLite with synchronous = FULL, PostgreSQL with fsync and MariaDB with "
    "innodb_flush_log_at_trx_commit = 1, all on one disk.",
)


def opening(facts: Row) -> list[str]:
    """What this is, on which machine, with what."""
    rows = facts["rows"]
    second = [row for row in rows if row.get("test") == "test 2"]
    scanned = sum(row["spread"]["paged"]["count"] + row["spread"]["rows"]["count"] for row in second)
    return [
        "# A temporal knowledge-based network, repeated",
        paragraph(
            "The evaluation of a temporal knowledge-based network (chapter 6): an empty store (Test 1) and a full one "
            "(Test 2), with the thesis's scan of a database and our own engine with a history beside each other, on "
            "each database in the same run. Written by `python -m bench.papers.temporal_kbn.page` from "
            "`bench/results/temporal-kbn.json`, which `python -m bench temporal-kbn` makes; every number on this page "
            "that is not the thesis's is computed from it."
        ),
        _machine(facts),
        _workload(rows),
        "**The rivals.**",
        bullets(_RIVALS),
        paragraph(
            "**Exact.** For every publication ours told the same subscribers as a loop over a list of events, and for "
            f"every publication that a scan was measured for (all of Test 1 in pages, {scanned:,} of Test 2) the scan "
            "told the same. The meanings differ in one point: the thesis's FILTER looks at the newest events that are "
            "stored, ours at the newest that passed the inner filter. Both loops were run, and in this workload they "
            "never differ."
        ),
        paragraph(
            "Times of Test 2 are medians of the means of stretches of publications, in which the rivals take turns; "
            "tables that repeat the thesis's have plain means, as it does."
        ),
    ]


def _machine(facts: Row) -> str:
    machine = facts["machine"]
    versions = {name: n for name, n in machine["versions"].items() if name not in ("pyspark", "llvmlite")}
    used = ", ".join(f"{name} {number}" for name, number in versions.items())
    missing = [row["what"] for row in facts["rows"] if " is not here: " in row["what"]]
    return paragraph(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, {used}. "
        f"Seed {facts['seed']}, {machine['time'][:10]}, load average at the end {machine['load_average']:.1f}. "
        "The machine is shared and noisy, so trust ratios." + "".join(f" {each}." for each in missing)
    )


def _workload(rows: list[Row]) -> str:
    wines = next((row["wines"] for row in rows if row["what"] == "ontology"), "ten wines")
    first = next(row for row in rows if row.get("test") == "test 1")
    return paragraph(
        "**Workload.** Events have A from 1 to 10 and B, one of ten wines, five of them red "
        f"(the ontology is {wines}); each is published when it starts and when it ends, 3 to 8 seconds later. Time "
        f"is that of events: nobody waits. {first['subscribers']} subscribers draw from Table 6.1 (Test 1) or 6.2 "
        f"(Test 2). Test 1 has {first['runs']} runs (the thesis's 50) of {first['publications'] // first['runs']} "
        "publications; Test 2 has one run per limit. Limits of AFTER are taken to be milliseconds: then neither "
        "they nor DURING can ever match in Test 1, whose events are 2 to 7 seconds apart, so there is a further "
        "row with an event every second."
    )
