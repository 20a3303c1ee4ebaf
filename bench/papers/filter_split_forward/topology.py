"""The four networks of Jurca et al., §VI: trees of nodes, some with a sensor, those of one station side by side.

Knows where sensors are, and nothing of what they read or who asks for it. The places are made up: SensorScope's files
have no coordinates.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.papers.filter_split_forward.replay import ATTRIBUTES
from bench.sensorscope import AROUND, LAT, LON, MESH, ROW, metres_east, metres_north
from tidegate.errors import SettingError

__all__ = ["SETUPS", "Sensor", "Setup", "Topology", "topology"]

#: How far a station may be off its point of the grid, in metres.
_OFF = 200.0


@dataclass(frozen=True)
class Setup:
    """An experiment of §VI-C to E: the size of the network, and what subscriptions look like."""

    name: str
    nodes: int
    groups: int
    """Stations; each is five nodes with one sensor."""
    least: int
    most: int
    """How many attributes a subscription has."""
    counts: tuple[int, ...]
    """The numbers of subscriptions that loads are measured for."""
    figures: tuple[int, int]
    """In the paper: of the subscription load and of the publication load."""


SETUPS = {
    setup.name: setup
    for setup in (
        Setup("small", 60, 10, 3, 5, tuple(range(100, 1001, 100)), (4, 5)),
        Setup("medium", 100, 10, 5, 5, tuple(range(100, 901, 100)), (6, 7)),
        Setup("large-network", 200, 10, 5, 5, tuple(range(100, 901, 100)), (8, 9)),
        Setup("large-sources", 200, 20, 5, 5, tuple(range(100, 901, 100)), (10, 11)),
    )
}


@dataclass(frozen=True)
class Sensor:
    """One attribute of one station, and the node that it is attached to."""

    source: str
    attribute: str
    station: int
    node: str
    location: tuple[float, float]


@dataclass(frozen=True)
class Topology:
    """A tree of nodes; sensors are in order of station, then of attribute."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    sensors: tuple[Sensor, ...]

    @cached_property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        """Of every node, in order of their names."""
        found: dict[str, list[str]] = {node: [] for node in self.nodes}
        for a, b in self.edges:
            found[a].append(b)
            found[b].append(a)
        return {node: tuple(sorted(others)) for node, others in found.items()}

    def towards(self, node: str) -> dict[str, str]:
        """For every other node the neighbour that is next on its way to ``node``; the nearest come first."""
        hops: dict[str, str] = {}
        waiting = deque([node])
        while waiting:
            here = waiting.popleft()
            for other in self.neighbours[here]:
                if other != node and other not in hops:
                    hops[other] = here
                    waiting.append(other)
        return hops

    @cached_property
    def centre(self) -> str:
        """The node with the least sum of distances to all others (§VI), of several the one with the smallest name."""
        root = self.nodes[0]
        hops = self.towards(root)
        size = dict.fromkeys(self.nodes, 1)
        for node, nearer in reversed(hops.items()):
            size[nearer] += size[node]
        # A step from a node to one below it comes nearer to all that are below, and further from all others. What the
        # root's own sum is makes no difference.
        distance = {root: 0}
        for node, nearer in hops.items():
            distance[node] = distance[nearer] + len(self.nodes) - 2 * size[node]
        return min(self.nodes, key=lambda node: (distance[node], node))


def topology(setup: Setup, rng: np.random.Generator) -> Topology:
    """A random tree of relays, and for each station a random tree of its five nodes that hangs on one of the relays."""
    relays = setup.nodes - len(ATTRIBUTES) * setup.groups
    if setup.groups < 1 or relays < 1:
        expected = f"at least 1 station, and more nodes than the {len(ATTRIBUTES)} of each station"
        raise SettingError(expected, f"{setup.groups} stations and {setup.nodes} nodes", setup.name)
    digits = len(str(setup.nodes - 1))
    nodes = tuple(f"n{i:0{digits}}" for i in range(setup.nodes))
    edges = [(nodes[rng.integers(i)], nodes[i]) for i in range(1, relays)]
    sensors = []
    for station in range(setup.groups):
        first = relays + station * len(ATTRIBUTES)
        edges.append((nodes[rng.integers(relays)], nodes[first]))
        edges += [(nodes[first + rng.integers(i)], nodes[first + i]) for i in range(1, len(ATTRIBUTES))]
        # Which attribute stands at the way out is left to chance.
        where = first + rng.permutation(len(ATTRIBUTES))
        row, column = divmod(station, ROW)
        at = np.array([column, row]) * MESH + rng.uniform(-_OFF, _OFF, 2)
        for number, attribute in enumerate(ATTRIBUTES):
            location = _degrees(*(at + rng.uniform(-AROUND, AROUND, 2)))
            sensors.append(Sensor(f"s{station:02}-{attribute}", attribute, station, nodes[where[number]], location))
    return Topology(nodes, tuple(edges), tuple(sensors))


def _degrees(east: float, north: float) -> tuple[float, float]:
    """Metres from the corner of the grid as longitude and latitude, to about a metre."""
    return round(LON + metres_east(east), 5), round(LAT + metres_north(north), 5)
