"""One run of a paper's bench at its quick size, and the facts that its page is written from."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from bench.harness import Report

MACHINE = {
    "time": "2026-11-15T00:00:00+00:00",
    "cpu": "a cpu",
    "cores": 2,
    "system": "a system",
    "python": "3.11",
    "versions": {"tidegate": "0"},
    "load_average": 0.5,
}


def quick_rows(paper: ModuleType) -> list[dict[str, Any]]:
    """The rows of a quick run, which must keep no results."""
    made = []

    class Kept(Report):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

        def finish(self):
            raise AssertionError("a quick run keeps no results")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(paper, "Report", Kept)
        paper.main(quick=True)
    return made[0].rows


def facts_of(paper: ModuleType, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """As a results file has them."""
    return {"bench": name, "seed": paper.SEED, "machine": MACHINE, "rows": rows}
