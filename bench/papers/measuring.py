"""What the papers with JSON results share: how their rows are measured and kept, and how these are read again."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import orjson

from bench.harness import RESULTS, Report, say

__all__ = ["keep", "stored"]


def keep(report: Report, rows: Iterable[dict[str, Any]], page: str, quick: bool) -> None:
    """Measure all rows; after a full run, keep them and have the module ``page`` write its page from them."""
    for row in rows:
        report.add(**row)
    if quick:
        say(f"{len(report.rows)} rows, all exact; a quick run keeps no results")
        return
    report.finish()
    import_module(page).write()


def stored(name: str) -> dict[str, Any]:
    """The raw results of the last full run of a bench."""
    facts: dict[str, Any] = orjson.loads((RESULTS / f"{name}.json").read_bytes())
    return facts
