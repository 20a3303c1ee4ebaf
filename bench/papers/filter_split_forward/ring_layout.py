"""Places the nodes of a tree on rings around its middle, so that no two links cross. Knows nodes and links only.

A node's ring is its distance from the middle. Every subtree has a sector of its own, as wide as what is in it needs,
and a link is a spiral: its angle changes evenly with its distance from the middle. Spirals within sectors are straight
lines between rows of a layered drawing, bent; those do not cross, so neither do these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, cos, pi, sin

from tidegate.errors import SettingError, shown

__all__ = ["Rings", "rings"]

#: Angles start at the top; a little of the circle stays empty, so that the first and the last sector do not touch.
_START, _ROUND = -pi / 2, 0.97 * 2 * pi


@dataclass(frozen=True)
class Rings:
    """Where the nodes are: distance from the middle, and angle."""

    polar: dict[str, tuple[float, float]]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the nodes' middles."""
        x, y = zip(*(self.place(node) for node in self.polar), strict=True)
        return min(x), min(y), max(x), max(y)

    def place(self, node: str) -> tuple[float, float]:
        """A node's x and y, with the middle at 0, 0."""
        return _flat(*self.polar[node])

    def way(self, a: str, b: str) -> list[tuple[float, float]]:
        """Points along a link."""
        (near, start), (far, end) = sorted((self.polar[a], self.polar[b]))
        if near == 0:
            start = end  # the middle has no angle of its own
        steps = max(1, ceil(abs(end - start) / 0.08))
        shares = [i / steps for i in range(steps + 1)]
        return [_flat(near + (far - near) * share, start + (end - start) * share) for share in shares]


def _flat(distance: float, angle: float) -> tuple[float, float]:
    return distance * cos(angle), distance * sin(angle)


def rings(
    nodes: Sequence[str], edges: Iterable[tuple[str, str]], middle: str, size: Mapping[str, float], step: float
) -> Rings:
    """``size`` is the room that a node needs across, ``step`` the distance from ring to ring.

    The first ring is as far out as it must be for all sectors to fit on the circle.
    """
    order, parent = _walked(nodes, list(edges), middle)
    depth = {middle: 0}
    children: dict[str, list[str]] = {node: [] for node in order}
    for node in order[1:]:
        depth[node] = depth[parent[node]] + 1
        children[parent[node]].append(node)

    def needs(inner: float) -> dict[str, float]:
        """The angle of every sector, if the rings begin that far out."""
        need: dict[str, float] = {}
        for node in reversed(order):
            need[node] = sum(need[child] for child in children[node])
            if node != middle:
                need[node] = max(need[node], size[node] / (inner + step * depth[node]))
        return need

    inner = 0.0
    while needs(inner)[middle] > _ROUND:
        inner += step / 4
    need = needs(inner)
    angle, sector = {middle: 0.0}, {middle: (_START, _START + _ROUND)}
    for node in order:
        low, high = sector[node]
        scale = (high - low) / (sum(need[child] for child in children[node]) or 1)
        for child in children[node]:
            sector[child] = (low, low + scale * need[child])
            low = sector[child][1]
            angle[child] = sum(sector[child]) / 2
    return Rings({node: (inner + step * depth[node] if depth[node] else 0.0, angle[node]) for node in order})


def _walked(nodes: Sequence[str], edges: list[tuple[str, str]], middle: str) -> tuple[list[str], dict[str, str]]:
    """All nodes from the middle outwards, and the neighbour of each that is nearer to it."""
    around: dict[str, list[str]] = {node: [] for node in nodes}
    for a, b in edges:
        if a not in around or b not in around:
            raise SettingError("links between nodes of the network", f"{shown(a)} – {shown(b)}", "a picture")
        around[a].append(b)
        around[b].append(a)
    if middle not in around:
        raise SettingError("a node of the network in the middle", shown(middle), "a picture")
    parent: dict[str, str] = {}
    order, waiting = [middle], deque([middle])
    while waiting:
        node = waiting.popleft()
        for other in sorted(around[node]):
            if other != middle and other not in parent:
                parent[other] = node
                order.append(other)
                waiting.append(other)
    if len(order) != len(nodes) or len(edges) != len(nodes) - 1:
        raise SettingError(
            f"a tree of {len(nodes)} nodes", f"{len(edges)} links that reach {len(order)} of them", "a picture"
        )
    return order, parent
