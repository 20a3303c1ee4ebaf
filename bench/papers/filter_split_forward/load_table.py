"""What a sweep over networks found, in short: means over seeds where there are most subscriptions; as a table.

For the command ``run``. The whole of it is on the page that ``page`` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor
from statistics import fmean
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.papers.filter_split_forward.simulate import CONTENDERS
from bench.papers.filter_split_forward.topology import SETUPS

__all__ = ["LOADS", "percent", "summary_of", "tell"]

LOADS = ("subscription_load", "publication_load")
SHARES = ("recall", "precision")


def summary_of(rows: pa.Table) -> list[dict[str, Any]]:
    """A row per set-up and contender, as the paper orders them: means over seeds at the most subscriptions."""
    named = ("setup", "strategy", "subsumption", "subscriptions")
    listed = rows.select([*named, *LOADS, *SHARES]).to_pylist()
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in listed:
        found.setdefault(tuple(row[name] for name in named), []).append(row)
    told = []
    for setup in SETUPS:
        most = max((row["subscriptions"] for row in listed if row["setup"] == setup), default=0)
        for what in ((setup, *contender, most) for contender in CONTENDERS):
            if what in found:
                means = {name: fmean(row[name] for row in found[what]) for name in (*LOADS, *SHARES)}
                told.append({**dict(zip(named, what, strict=True)), "seeds": len(found[what]), **means})
    return told


def tell(summary: Iterable[dict[str, Any]], console: Console) -> None:
    """As a table that fits into 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("subscription load", "publication load", *SHARES):
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    before = None
    for row in summary:
        if row["setup"] != before:
            seeds = "1 seed" if row["seeds"] == 1 else f"{row['seeds']:,} seeds"
            table.add_row(Text(f"{row['setup']}, {row['subscriptions']:,} subscriptions, {seeds}", "bold"))
            before = row["setup"]
        kind = "" if row["subsumption"] == "none" else f", {row['subsumption']}"
        loads = (f"{row[name]:,.0f}" for name in LOADS)
        table.add_row(f"{row['strategy']}{kind}", *loads, *(percent(row[name]) for name in SHARES))
    console.print(table)


def percent(share: float) -> str:
    """Never rounded up: only what is whole is 100 %."""
    return "100 %" if share == 1 else f"{floor(share * 10_000) / 100:.2f} %"
