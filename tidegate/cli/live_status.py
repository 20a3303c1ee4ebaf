"""The numbers of a pipeline for people: a table that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

__all__ = ["line", "rows", "shown_live"]

#: Seconds between two lines where there is no terminal.
_EVERY = 5.0


def rows(numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values, as they are shown."""
    found = [
        ("state", str(numbers["state"])),
        ("publications/s", f"{numbers['publications_per_second']:,.0f}"),
        ("notifications/s", f"{numbers['notifications_per_second']:,.0f}"),
        ("batch time", f"{numbers['batch_seconds']:.3f} s"),
        ("subscriptions", f"{numbers['subscriptions']:,}"),
        ("late", f"{numbers['late']:,}"),
        *([("dated ahead", f"{numbers['ahead']:,}")] if numbers.get("ahead") else []),
        *([("shapeless", f"{numbers['shapeless']:,}")] if numbers.get("shapeless") else []),
        *([("oversized", f"{numbers['oversized']:,}")] if numbers.get("oversized") else []),
        ("quarantined", f"{numbers['quarantined']:,}"),
        ("publications", f"{numbers['publications']:,}"),
        ("notifications", f"{numbers['notifications']:,}"),
        ("batches", f"{numbers['batches']:,}"),
    ]
    if numbers.get("patterns"):
        each = f"{numbers['state_bytes_per_pattern']:,.0f} bytes each"
        found += [
            ("patterns", f"{numbers['patterns']:,}"),
            ("their state", f"{numbers['state_bytes'] / 1e6:,.1f} MB, {each}"),
            ("waiting", f"{numbers['waiting']:,}"),
            ("unscored", f"{numbers['unscored']:,}"),
            ("cut", f"{numbers['cut']:,}"),
            ("refused", f"{numbers['refused']:,}"),
        ]
    return found


def line(numbers: Mapping[str, Any]) -> str:
    """The same in one line."""
    (_, state), *rest = rows(numbers)
    return f"{state}: " + ", ".join(f"{value} {name}" for name, value in rest)


@contextmanager
def shown_live(moving: bool) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that shows numbers on standard error: in place with ``moving``, else a line every few seconds."""
    if moving:
        # Standard output is left alone: what a sink writes there may be read by another program.
        with Live(console=Console(stderr=True), refresh_per_second=4, redirect_stdout=False) as live:
            yield lambda numbers: live.update(_table(numbers))
        return
    due = monotonic()

    def plain(numbers: Mapping[str, Any]) -> None:
        nonlocal due
        if monotonic() >= due:
            due = monotonic() + _EVERY
            typer.echo(line(numbers), err=True)

    yield plain


def _table(numbers: Mapping[str, Any]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(justify="right")
    for name, value in rows(numbers):
        grid.add_row(name, value)
    return grid
