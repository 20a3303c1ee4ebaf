"""Sections of the page on real data: stocks, labelled series, an electrocardiogram."""

from __future__ import annotations

from typing import Any

from bench.papers.markdown import paragraph, table
from bench.papers.timeseries.real import DAYS, SPLIT
from bench.papers.timeseries.sections import figure, race
from bench.papers.timeseries.tables import percent

__all__ = ["real"]

Row = dict[str, Any]


def real(rows: dict[str, Row]) -> list[str]:
    """Everything on real data that was there."""
    found = [part for what, row in rows.items() if what.startswith("stocks") for part in race(row)]
    if found:
        found.insert(1, _on_stocks())
    classes = [row for what, row in rows.items() if what.endswith("classes")]
    if classes:
        found += _classified(classes)
    if "ECG, abnormal beats" in rows:
        found += _beats(rows["ECG, abnormal beats"], rows["ECG, where beats are"])
    return found or ["## Real data", "Not there when this was run."]


def _on_stocks() -> str:
    return paragraph(
        f"31 US stocks, daily closes. A subscription is a stock's closes on {DAYS} days in a row, all of them before "
        f"{SPLIT}; a publication is {DAYS} days after it, drawn at random. A match says that what a stock did lately "
        "looks, scaled and shifted, like what some stock did then; it says nothing about what comes next. Windows that "
        "overlap are much alike, so matches come in families; tolerances are drawn as for the walks."
    )


def _classified(rows: list[Row]) -> list[str]:
    found = figure(
        "classes",
        "Series with classes",
        [
            f"{row['what'].removesuffix(', classes')}: {row['subscriptions']} subscriptions, {row['publications']} "
            f"publications of {row['length']} samples. The class of the nearest subscription is right for "
            f"{percent(row['accuracy'], 1)}. The best precision at which every publication is still reached by a "
            f"subscription of its class: {_reaching(row)}."
            for row in rows
        ],
    )
    found.append(
        paragraph(
            "The training series of the UCR archive are the subscriptions, its test series the publications, and a "
            "match is right if both are of one class. *Precision*: right matches of all matches. *Recall*: right "
            "matches of all pairs of one class. *Reached*: publications with a right match. Tolerances are given by "
            "the correlation ρ that they stand for, ε² = 2n (1 − ρ)."
        )
    )
    for row in rows:
        keys = ("correlation", "epsilon", "matches", "precision", "recall", "reached")
        name = row["what"].removesuffix(", classes")
        found.append(table([f"{name}: ρ", "ε", *keys[2:]], ([point[key] for key in keys] for point in row["points"])))
    return found


def _reaching(row: Row) -> str:
    all_reached = [point["precision"] for point in row["points"] if point["reached"] == 1]
    return f"{percent(max(all_reached), 1)}" if all_reached else "not at these tolerances"


def _beats(abnormal: Row, places: Row) -> list[str]:
    reaches = abnormal["reaches"]
    first, told = reaches[0], sum(each["marked"] > each["others"] for each in reaches)
    return [
        "## Beats of an electrocardiogram",
        paragraph(
            f"An excerpt of MIT-BIH. The first {abnormal['subscriptions']} beats are the subscriptions "
            f"({abnormal['marked_before']} of them marked abnormal); of the {abnormal['publications']} beats after "
            f"them {abnormal['marked']} is marked. A beat's window reaches from {first['before']:g} median beats "
            f"before its peak to {first['after']:g} after. The nearest subscription of the marked beat is "
            f"{first['marked']:.2f} away, that of no other beat more than {first['others']:.2f}. This depends on the "
            f"window, which was chosen with the answer in sight: of the {len(reaches)} that were tried, {told} have a "
            "tolerance that tells the marked beat from all others. With so few marked beats this is an illustration, "
            "no more."
        ),
        table(
            ["window, in beats before and after", "nearest of the marked", "farthest of the others", "told apart"],
            (
                (
                    f"{r['before']:g} + {r['after']:g}",
                    r["marked"],
                    r["others"],
                    "yes" if r["marked"] > r["others"] else "no",
                )
                for r in reaches
            ),
        ),
        "With the first of these, a beat that matches no subscription being held to be abnormal:",
        table(
            ["ρ", "ε", "held to be abnormal", "precision", "recall"],
            (
                [p[key] for key in ("correlation", "epsilon", "strange", "precision", "recall")]
                for p in abnormal["points"]
            ),
        ),
        paragraph(
            f"The same subscriptions against all {places['publications']:,} windows of the second half, one per "
            f"sample: a match within 5 samples of one of its {places['beats']} beats is right. *Recall*: beats that "
            "were found."
        ),
        table(
            ["ρ", "ε", "windows that match", "precision", "recall"],
            (
                [p[key] for key in ("correlation", "epsilon", "matches", "precision", "recall")]
                for p in places["points"]
            ),
        ),
    ]
