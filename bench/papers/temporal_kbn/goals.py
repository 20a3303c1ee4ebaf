"""The section of the page with the goals: how much faster than the scans, and how little limit and history matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.papers.markdown import paragraph, table
from bench.papers.temporal_kbn.tables import DATABASES, NAMED

__all__ = ["goals"]

Row = dict[str, Any]
#: A goal in words, and what was measured, by database.
Measured = tuple[str, list[float]]


def goals(rows: list[Row]) -> list[str]:
    """The goals, and what came out on each database."""
    there = {row["database"] for row in _pick(rows, "test 2")}
    names = [name for name in DATABASES if name in there]
    fast = ((what, "≥ 1,000", *found, _held(min(found) >= 1000)) for what, found in _times_as_fast(rows, names))
    steady = ((what, "≤ 1.5", *found, _held(max(found) <= 1.5)) for what, found in _steady(rows, names))
    return [
        "## The goals",
        paragraph(
            "Per publication. A call of ours with a single publication is mostly plumbing and waiting for the disk, "
            "which a batch shares among its publications; an operator is one FILTER applied to one publication."
        ),
        table(["", "goal", *(DATABASES[name] for name in names), "held"], [*fast, *steady]),
    ]


def _held(is_met: bool) -> str:
    return "yes" if is_met else "no"


def _pick(rows: list[Row], test: str) -> list[Row]:
    return [row for row in rows if row.get("test") == test]


def _by_size(rows: list[Row]) -> tuple[dict[tuple[str, int, int], Row], list[int], list[int]]:
    """Rows of Test 2 by database, stored events and limit; all numbers of stored events; all limits."""
    second = _pick(rows, "test 2")
    one = {(row["database"], row["stored"], row["limit"]): row for row in second}
    return one, sorted({row["stored"] for row in second}), sorted({row["limit"] for row in second})


def _times_as_fast(rows: list[Row], names: list[str]) -> Iterator[Measured]:
    """At the widest limit, each scan's time divided by ours."""
    one, sizes, limits = _by_size(rows)
    many = {(row["database"], row["stored"]): row["ours_us"] for row in _pick(rows, "test 2, batches")}
    alone = {(row["stored"], row["limit"]): row["combined"]["mean"] for row in _pick(rows, "operators")}
    high = limits[-1]
    for size in sizes:
        at = f"{size:,} events, limit {high:,}"
        here = {name: one[name, size, high] for name in names}
        for rival in ("rows", "paged"):
            named = NAMED[rival]
            operators = [row["operators"][rival]["combined"]["mean"] for row in here.values()]
            yield f"{at}: {named} ÷ ours", [row[f"{rival}_ratio"] for row in here.values()]
            yield (
                f"{at}: the same without our durable write",
                [row[f"{rival}_matching_ratio"] for row in here.values()],
            )
            yield (
                f"{at}: {named} ÷ ours in batches",
                [row[f"{rival}_us"] / many[name, size] for name, row in here.items()],
            )
            yield f"{at}: operator of the {named} ÷ our operator", [mean / alone[size, high] for mean in operators]


def _steady(rows: list[Row], names: list[str]) -> Iterator[Measured]:
    """Our time with a wide limit divided by that with a narrow one, and with many events by that with few."""
    one, sizes, limits = _by_size(rows)
    low, high = limits[0], limits[-1]

    def pair(what: str, more: tuple[int, int], less: tuple[int, int]) -> Iterator[Measured]:
        for words, key in ((what, "ours_us"), ("the same without the durable write", "matching_us")):
            yield words, [one[name, *more][key] / one[name, *less][key] for name in names]

    for size in sizes:
        yield from pair(f"{size:,} events: ours at {high:,} ÷ at {low:,}", (size, high), (size, low))
    for limit in (low, high):
        what = f"limit {limit:,}: ours with {sizes[-1]:,} events ÷ with {sizes[0]:,}"
        yield from pair(what, (sizes[-1], limit), (sizes[0], limit))
