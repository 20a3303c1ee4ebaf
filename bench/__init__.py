"""Benches: one module per experiment, found by name. Never part of the tests; raw results are kept as JSON."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

__all__ = ["COMMANDS", "MODULES", "names", "run"]

#: Where each bench lives.
MODULES = {
    "boolean-intervals": "bench.boolean_intervals",
    "boolean-equality": "bench.boolean_equality",
    "one-at-a-time": "bench.one_at_a_time",
    "cupus": "bench.cupus",
    "places": "bench.places",
    "pipeline": "bench.pipeline",
    "runner-in-process": "bench.runner_in_process",
    "topk": "bench.topk",
    "together": "bench.together",
    "shapes-in-streams": "bench.shapes_in_streams",
    "patterns-on-spark": "bench.patterns_on_spark",
    "history": "bench.history",
    "queues": "bench.queues",
    "initial-matches": "bench.initial_matches",
    "gateway": "bench.gateway",
    "mqtt": "bench.mqtt",
    "webhooks": "bench.webhooks",
    "costs": "bench.costs",
    "ontology": "bench.ontology",
    "texts": "bench.texts",
    "timeseries": "bench.papers.timeseries",
    "temporal-kbn": "bench.papers.temporal_kbn",
    "filter-split-forward": "bench.papers.filter_split_forward",
}
#: Benches with commands of their own, and the module whose function ``commands`` takes their words.
COMMANDS = {"filter-split-forward": "bench.papers.filter_split_forward.commands"}


def names() -> dict[str, str]:
    """Every bench and its one-sentence summary, read from the source: importing all of them takes seconds."""
    return {name: _summary(module) for name, module in MODULES.items()}


def _summary(module: str) -> str:
    place = Path(__file__).parent.joinpath(*module.split(".")[1:])
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return (ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "").splitlines()[0]


def run(name: str, quick: bool = False) -> None:
    """Run one bench; ``quick`` takes small sizes only, to see that it works."""
    main: Callable[[bool], None] = import_module(MODULES[name]).main
    main(quick)
