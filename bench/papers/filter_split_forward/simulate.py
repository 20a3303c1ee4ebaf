"""One cell of the experiments of Jurca et al., §VI: a network, a strategy, so many subscriptions; what it cost.

The same seed gives the same network, subscriptions, order of registration and readings to every strategy (§VI-A).
Deterministic but for ``seconds``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from bench.papers.filter_split_forward.topology import SETUPS, Topology
from bench.papers.filter_split_forward.workload import ROUNDS, Workload, truth, workload
from tidegate.covering.subsumption import Exact, Probabilistic
from tidegate.errors import SettingError, shown
from tidegate.overlay.messages import Announce, Deliver, Message, Reading, Subscribe
from tidegate.overlay.network import Network
from tidegate.overlay.strategies import Centralized, FilterSplitForward, MultiJoin, Naive, OperatorPlacement
from tidegate.overlay.strategy import Strategy
from tidegate.subscriptions.bulk import without_garbage_collection

__all__ = ["CONTENDERS", "QUICK_ROUNDS", "SCHEMA", "Cell", "measure", "plan"]

#: A strategy and what hides its operators. The paper's own decides by random points; which pairs its multi-join joins
#: the paper does not say: a ring of them, or all.
CONTENDERS: tuple[tuple[str, str], ...] = (
    ("centralized", "none"),
    ("naive", "none"),
    ("operator-placement", "pairwise"),
    ("multi-join", "pairwise"),
    ("multi-join-all", "pairwise"),
    ("filter-split-forward", "exact"),
    ("filter-split-forward", "probabilistic"),
)

SCHEMA = pa.schema(
    [
        ("setup", pa.string()),
        ("strategy", pa.string()),
        ("subsumption", pa.string()),
        ("subscriptions", pa.int64()),
        ("seed", pa.int64()),
        ("rounds", pa.int64()),
        ("scale", pa.float64()),
        ("data", pa.string()),
        ("nodes", pa.int64()),
        ("sensors", pa.int64()),
        ("events", pa.int64()),
        ("announcement_load", pa.int64()),
        ("subscription_load", pa.int64()),
        ("publication_load", pa.int64()),
        ("expected", pa.int64()),
        ("delivered", pa.int64()),
        ("correct", pa.int64()),
        ("recall", pa.float64()),
        ("precision", pa.float64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("undecided", pa.int64()),
        ("seconds", pa.float64()),
        (
            "links",
            pa.list_(
                pa.struct(
                    [
                        ("a", pa.string()),
                        ("b", pa.string()),
                        ("subscriptions", pa.int64()),
                        ("readings", pa.int64()),
                        ("bytes", pa.int64()),
                    ]
                )
            ),
        ),
        (
            "work",
            pa.list_(pa.struct([("node", pa.string()), ("handled", pa.int64()), ("compared", pa.int64())])),
        ),
    ]
)

# Of set-ups that --quick takes, and what of them.
_QUICK = ("small", "medium")
_QUICK_COUNTS, QUICK_ROUNDS = (100, 300), 15

# How selective subscriptions are decides how much the rivals differ: the medium set-up again, with other ranges.
_SCALES = (0.5, 2.0, 4.0)
_SCALED = (("multi-join", "pairwise"), ("filter-split-forward", "exact"))


@dataclass(frozen=True)
class Cell:
    """One measurement; ``rounds`` is how many reporting intervals are replayed, ``scale`` stretches all ranges."""

    setup: str
    strategy: str
    subsumption: str
    subscriptions: int
    seed: int
    rounds: int = ROUNDS
    scale: float = 1.0

    @property
    def key(self) -> str:
        """A name for files."""
        numbers = f"{self.subscriptions:04}-{self.seed:02}-{self.rounds}-{self.scale:g}"
        return f"{self.setup}-{self.strategy}-{self.subsumption}-{numbers}"


def plan(
    setups: Sequence[str] = tuple(SETUPS), seeds: int = 5, quick: bool = False, rounds: int | None = None
) -> list[Cell]:
    """The cells of Figures 4 to 12, those that take longest first. As in the paper, one network also has a centre."""
    for name in setups:
        if name not in SETUPS:
            raise SettingError(f"one of {', '.join(SETUPS)}", shown(name))
    if seeds < 1:
        raise SettingError("at least 1 seed", shown(seeds))
    rounds = rounds or (QUICK_ROUNDS if quick else ROUNDS)
    cells = [
        Cell(name, strategy, subsumption, count, seed, rounds)
        for name in setups
        if not quick or name in _QUICK
        for count in SETUPS[name].counts
        if not quick or count in _QUICK_COUNTS
        for seed in range(1, seeds + 1)
        for strategy, subsumption in CONTENDERS
        if strategy != "centralized" or name == "medium"
    ]
    if not quick and "medium" in setups:
        cells += [
            Cell("medium", strategy, subsumption, 500, seed, rounds, scale)
            for scale in _SCALES
            for seed in range(1, seeds + 1)
            for strategy, subsumption in _SCALED
        ]
    # Cells of the same input stay together: a process that measures several of them prepares it once.
    return sorted(cells, key=lambda cell: -cell.subscriptions * SETUPS[cell.setup].nodes)


# --- one cell -------------------------------------------------------------------------------------------------------


def measure(cell: Cell, folder: Path | None) -> dict[str, Any]:
    """Register the subscriptions, replay the readings, count. ``folder`` has SensorScope's files; None generates."""
    with without_garbage_collection():
        return _measured(cell, folder)


def _measured(cell: Cell, folder: Path | None) -> dict[str, Any]:
    begun = perf_counter()
    counts = SETUPS[cell.setup].counts
    most = max(counts) if cell.subscriptions in counts else cell.subscriptions
    whole, truths = _prepared(cell.setup, cell.seed, folder, cell.rounds, most, cell.scale)
    work = replace(whole, subscriptions=whole.subscriptions[: cell.subscriptions])
    expected = {operator.id: truths[operator.id] for _, operator in work.subscriptions}
    # Held for two windows: one for readings that came before, one for those that a match lets go late.
    network = Network(work.topology.neighbours, _strategies(cell, work.topology), 2 * work.window)
    for sensor in work.topology.sensors:
        network.tell(sensor.node, Announce(sensor.source, sensor.attribute, sensor.location))
    for node, operator in work.subscriptions:
        network.tell(node, Subscribe(operator))
    told: list[tuple[str, str]] = []
    for reading in work.readings:
        network.clock = reading.time
        for _, message in network.tell(work.node_of[reading.source], reading):
            told += _pairs(message)
    delivered = len(told)
    correct = len({pair for pair in told if pair[1] in expected[pair[0]]})
    wanted = sum(len(readings) for readings in expected.values())
    links = [(pair, traffic) for pair, traffic in network.links.items() if traffic.messages]
    nodes = network.nodes.values()
    return {
        "setup": cell.setup,
        "strategy": cell.strategy,
        "subsumption": cell.subsumption,
        "subscriptions": cell.subscriptions,
        "seed": cell.seed,
        "rounds": cell.rounds,
        "scale": cell.scale,
        "data": work.data,
        "nodes": len(work.topology.nodes),
        "sensors": len(work.topology.sensors),
        "events": len(work.readings),
        "announcement_load": sum(traffic.announcements for _, traffic in links),
        "subscription_load": sum(traffic.subscriptions for _, traffic in links),
        "publication_load": sum(traffic.readings for _, traffic in links),
        "expected": wanted,
        "delivered": delivered,
        "correct": correct,
        "recall": correct / wanted if wanted else 1.0,
        "precision": correct / delivered if delivered else 1.0,
        "messages": sum(traffic.messages for _, traffic in links),
        "bytes": sum(traffic.bytes for _, traffic in links),
        "undecided": sum(node.strategy.undecided for node in nodes),
        "seconds": perf_counter() - begun,
        "links": [
            {"a": a, "b": b, "subscriptions": t.subscriptions, "readings": t.readings, "bytes": t.bytes}
            for (a, b), t in links
        ],
        "work": [{"node": n.name, "handled": n.handled, "compared": n.strategy.compared} for n in nodes],
    }


def _pairs(message: Message) -> list[tuple[str, str]]:
    if not isinstance(message, Deliver):
        raise AssertionError(f"a network without faults refuses nothing: {message}")
    return [(message.subscription, reading.id) for reading in message.events if isinstance(reading, Reading)]


@lru_cache(maxsize=32)
def _prepared(
    setup: str, seed: int, folder: Path | None, rounds: int, count: int, scale: float
) -> tuple[Workload, dict[str, frozenset[str]]]:
    """The input of all strategies and counts that one process measures: fewer subscriptions are the first of it."""
    work = workload(SETUPS[setup], seed, folder, rounds, count, scale)
    return work, truth(work)


def _strategies(cell: Cell, topology: Topology) -> Callable[[str], Strategy]:
    match cell.strategy, cell.subsumption:
        case "centralized", "none":
            towards = topology.towards(topology.centre)
            return lambda node: Centralized(towards.get(node))
        case "naive", "none":
            return lambda node: Naive()
        case "operator-placement", "pairwise":
            return lambda node: OperatorPlacement()
        case "multi-join", "pairwise":
            return lambda node: MultiJoin()
        case "multi-join-all", "pairwise":
            return lambda node: MultiJoin("all")
        case "filter-split-forward", "exact":
            return lambda node: FilterSplitForward(Exact())
        case "filter-split-forward", "probabilistic":
            numbers = {node: number for number, node in enumerate(topology.nodes)}
            return lambda node: FilterSplitForward(Probabilistic(rng=np.random.default_rng([cell.seed, numbers[node]])))
    known = ", ".join(f"{strategy} with {subsumption}" for strategy, subsumption in CONTENDERS)
    raise SettingError(f"one of {known}", f"{cell.strategy} with {cell.subsumption}")
