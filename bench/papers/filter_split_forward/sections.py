"""Sections of the page: what was run, and the tables. Computes from rows and judges nothing."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from bench.papers.filter_split_forward.confidence import ENOUGH, Estimate
from bench.papers.filter_split_forward.rows import EXACT, PROBABILISTIC, SERIES, SETUPS, Cells, Row
from bench.papers.markdown import paragraph, table

__all__ = ["loads", "network", "opening", "told"]


def opening(cells: Cells, command: str) -> list[str]:
    """What was done, and with what data."""
    seeds = sorted({row["seed"] for row in cells.rows})
    missing = [name for setup, name in SETUPS.items() if setup not in cells.setups]
    parts = [
        "# Filter-split-forward and its rivals, repeated",
        paragraph(
            "The evaluation of Jurca, Michel, Herrmann and Aberer, *Continuous Query Evaluation over Distributed "
            "Sensor Networks* (§VI, Figures 4 to 12): five ways to place multi-join subscriptions in a network of "
            f"brokers, on the same networks, subscriptions and readings. Written by `{command}`; every number on "
            "this page that is not the paper's is computed from the raw results, and so is every verdict."
        ),
        paragraph(
            f"{len(cells.rows):,} cells (set-up, strategy, number of subscriptions, seed), "
            f"{len(seeds)} seed{'s' * (len(seeds) != 1)} ({_listed(seeds)}), "
            f"{sum(row['seconds'] for row in cells.rows):,.0f} seconds of computing. "
            "Loads are counts of link crossings and do not depend on the machine."
        ),
        paragraph(
            _data(cells)
            + " The positions of the stations and the networks themselves are synthetic: neither the paper nor the "
            "data has them. Each seed has a network, moments of the data and subscriptions of its own; all strategies "
            "and counts share them."
        ),
        table(
            ["set-up", "nodes", "sensors", "readings", "rounds", "subscriptions", "seeds"],
            (_setup(cells, setup) for setup in cells.setups),
        ),
        paragraph(
            "*Subscription load* counts every operator forwarded over a link, *publication load* every reading "
            "forwarded over a link; where each operator has a result set of its own, a reading counts once for each. "
            "*Recall* is the share of readings that a user should be told and is told, *precision* the share of those "
            "told that should be. ± is half of a 95 % confidence interval over seeds (Student)."
        ),
    ]
    if missing:
        parts.append(
            paragraph(f"**No rows for these set-ups; their figures and claims are left out:** {', '.join(missing)}.")
        )
    if len(seeds) < ENOUGH:
        parts.append(paragraph("**Fewer than five seeds: verdicts go by the means alone and are provisional.**"))
    return parts


def _data(cells: Cells) -> str:
    """Where the readings are from."""
    known = {
        "sensorscope": "The readings are SensorScope's, of the Grand St. Bernard deployment of 2007, spikes and gaps "
        "included.",
        "generated": "The readings come from this project's generator (daily cycles and noise), because the "
        "SensorScope files were not there: compare these rows with the paper's with care.",
    }
    kinds = sorted({row["data"] for row in cells.rows})
    return " ".join(known.get(kind, f"The readings are called {kind}.") for kind in kinds)


def _setup(cells: Cells, setup: str) -> list[Any]:
    rows = [row for series in cells.series(setup) for row in cells.of(setup, series)]
    return [
        SETUPS[setup],
        rows[0]["nodes"],
        rows[0]["sensors"],
        _between(row["events"] for row in rows),
        _between(row["rounds"] for row in rows),
        _between(cells.counts(setup)),
        len({row["seed"] for row in rows}),
    ]


def _between(values: Any) -> str:
    found = sorted(set(values))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def _listed(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def loads(cells: Cells, setup: str, metric: str) -> str:
    """Means over seeds by number of subscriptions and strategy."""
    lines = {series: cells.means(setup, series, metric) for series in cells.series(setup)}
    rows = ([f"{n:,}", *(_mean(found.get(n)) for found in lines.values())] for n in cells.counts(setup))
    return table(["subscriptions", *(series.name for series in lines)], rows)


def _mean(found: Estimate | None) -> str | None:
    if found is None:
        return None
    return f"{found.mean:,.0f}" if found.half is None else f"{found.mean:,.0f} ± {found.half:,.0f}"


def network(cells: Cells) -> list[str]:
    """Facts per link and per node at the most subscriptions, means over seeds."""
    lines = []
    for setup in cells.setups:
        most = cells.counts(setup)[-1]
        for series in cells.series(setup):
            rows = [row for row in cells.of(setup, series) if row["subscriptions"] == most]
            if rows:
                facts = [_facts(row) for row in rows]
                means = [None if None in column else fmean(column) for column in zip(*facts, strict=True)]
                lines.append([f"{SETUPS[setup]}, {most:,}", series.name, *means])
    return [
        "## Links and nodes",
        paragraph(
            "At the most subscriptions of each set-up, means over seeds. *Busiest link*: the readings that crossed "
            "it in both directions, and the busiest link's share of all bytes; *busiest tenth*: the share of bytes on "
            "the tenth of the links that carry most. *Most comparisons* and *most messages*: the largest share that "
            "one node has of all comparisons of readings with operators, and of all messages handled."
        ),
        table(
            [
                "set-up, subscriptions",
                "strategy",
                "messages",
                "MB",
                "busiest link",
                "most bytes, %",
                "busiest tenth, %",
                "most comparisons, %",
                "most messages, %",
            ],
            lines,
            left=2,
        ),
    ]


def _facts(row: Row) -> list[float | None]:
    by_link: dict[tuple[str, str], list[int]] = {}
    for link in row.get("links") or ():
        pair = by_link.setdefault((min(link["a"], link["b"]), max(link["a"], link["b"])), [0, 0])
        pair[0] += link["readings"]
        pair[1] += link["bytes"]
    sizes = sorted((size for _, size in by_link.values()), reverse=True)
    whole = sum(sizes) or 1
    tenth = max(1, round(len(sizes) / 10))
    work = row.get("work") or ()
    return [
        float(row["messages"]),
        row["bytes"] / 1e6,
        float(max(readings for readings, _ in by_link.values())) if by_link else None,
        100 * sizes[0] / whole if sizes else None,
        100 * sum(sizes[:tenth]) / whole if sizes else None,
        *(
            100 * max(node[key] for node in work) / (sum(node[key] for node in work) or 1) if work else None
            for key in ("compared", "handled")
        ),
    ]


def told(cells: Cells) -> list[str]:
    """Recall and precision, by set-up and strategy."""
    lines = []
    for setup in cells.setups:
        for series in (each for each in SERIES if each in cells.series(setup)):
            rows = cells.of(setup, series)
            expected, delivered, correct = (
                sum(row[key] for row in rows) for key in ("expected", "delivered", "correct")
            )
            lines.append(
                [
                    SETUPS[setup],
                    series.name,
                    len(rows),
                    expected,
                    expected - correct,
                    delivered - correct,
                    _lowest(rows, "recall"),
                    _lowest(rows, "precision"),
                    sum(row["undecided"] for row in rows) if series in (EXACT, PROBABILISTIC) else None,
                ]
            )
    return [
        "## Recall and precision at the user",
        paragraph(
            "Over all cells of a line; pairs of a subscription and a reading. The truth is computed from the readings "
            "and subscriptions alone, without the network. *Undecided* counts questions that set filtering could not "
            "settle as promised: exact then forwards, so nothing is lost; probabilistic then takes the operator as "
            "covered with a larger error than its bound."
        ),
        table(
            [
                "set-up",
                "strategy",
                "cells",
                "to be told",
                "missing",
                "without cause",
                "least recall %",
                "least precision %",
                "undecided",
            ],
            lines,
            left=2,
        ),
    ]


def _lowest(rows: list[Row], key: str) -> str:
    """Cut, not rounded: 100 is only written where it is 100."""
    least = min(row[key] for row in rows)
    return "100" if least == 1 else f"{int(least * 1e5) / 1e3:.3f}"
