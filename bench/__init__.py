"""Benches: one module per experiment, found by name. Never part of the tests; raw results are kept as JSON."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

__all__ = ["MODULES", "names", "run"]

#: Where each bench lives.
MODULES = {
    "boolean-intervals": "bench.boolean_intervals",
    "boolean-equality": "bench.boolean_equality",
    "cupus": "bench.cupus",
    "pipeline": "bench.pipeline",
    "topk": "bench.topk",
    "together": "bench.together",
    "shapes-in-streams": "bench.shapes_in_streams",
    "patterns-on-spark": "bench.patterns_on_spark",
    "history": "bench.history",
    "ontology": "bench.ontology",
    "timeseries": "bench.papers.timeseries",
    "temporal-kbn": "bench.papers.temporal_kbn",
}


def names() -> dict[str, str]:
    """Every bench and its one-sentence summary."""
    return {name: (import_module(module).__doc__ or "").strip().splitlines()[0] for name, module in MODULES.items()}


def run(name: str, quick: bool = False) -> None:
    """Run one bench; ``quick`` takes small sizes only, to see that it works."""
    main: Callable[[bool], None] = import_module(MODULES[name]).main
    main(quick)
