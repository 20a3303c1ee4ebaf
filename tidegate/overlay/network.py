"""``Network``: nodes in one process, for simulations and tests, with a count of what crosses each link (``Traffic``).

Links can be cut and put back. Messages arrive one after the other in the order they were sent, so a run is
deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.errors import SettingError, shown
from tidegate.overlay.messages import LOCAL, Announce, Interest, Message, Publish, Reading, Revoke, Subscribe
from tidegate.overlay.node import Node
from tidegate.overlay.strategy import Sends, Strategy
from tidegate.overlay.wire import size

__all__ = ["Network", "Traffic"]


@dataclass(slots=True)
class Traffic:
    """What crossed a link in one direction; readings as often as they were part of a result set (§VI-B), or, with
    ``once``, each once, whatever result sets it is in.
    """

    messages: int = 0
    announcements: int = 0
    subscriptions: int = 0
    readings: int = 0
    bytes: int = 0
    once: bool = False
    crossed: set[tuple[str, str]] = field(default_factory=set, repr=False, compare=False)

    def count(self, message: Message) -> None:
        """One more message."""
        self.messages += 1
        self.bytes += size(message)
        match message:
            case Reading() if self.once:
                self.crossed.add((message.source, message.id))
                self.readings = len(self.crossed)
            case Reading():
                self.readings += len(message.results) or 1
            case Publish():
                self.readings += 1
            case Subscribe() | Interest():
                self.subscriptions += 1
            case Announce() | Revoke():
                self.announcements += 1


class Network:
    """Nodes by name, as many as ``neighbours`` has; ``strategy`` makes the strategy of each."""

    def __init__(
        self,
        neighbours: Mapping[str, Iterable[str]],
        strategy: Callable[[str], Strategy],
        validity: int,
        clock: int = 0,
    ) -> None:
        self.clock = clock
        self.nodes = {
            name: Node(name, others, strategy(name), lambda: self.clock, validity)
            for name, others in neighbours.items()
        }
        self.links = {(a, b): self._traffic(a) for a, node in self.nodes.items() for b in node.neighbours}
        for a, b in self.links:
            if (b, a) not in self.links:
                raise SettingError("links in both directions", f"{shown(a)} → {shown(b)} only")
        self._cut: set[tuple[str, str]] = set()
        self._under_way: deque[tuple[str, str, Message]] = deque()

    def tell(self, node: str, message: Message) -> list[tuple[str, Message]]:
        """Give a node a message of a user or sensor, and run until no message is under way.

        Returns the messages to users, each with the name of their node.
        """
        told: list[tuple[str, Message]] = []
        self._send(node, self.nodes[node].handle(message, LOCAL), told)
        return self._run(told)

    def cut(self, a: str, b: str) -> None:
        """Cut a link, which ``join`` can put back."""
        for one, other in ((a, b), (b, a)):
            self.nodes[one].cut(other)
            self._cut.add((one, other))

    def join(self, a: str, b: str) -> list[tuple[str, Message]]:
        """Put a link back, or add a new one; the messages to users that follow from it, with their nodes."""
        self._cut -= {(a, b), (b, a)}
        told: list[tuple[str, Message]] = []
        for one, other in ((a, b), (b, a)):
            self.links.setdefault((one, other), self._traffic(one))
            self._send(one, self.nodes[one].joined(other), told)
        return self._run(told)

    def part(self, a: str, b: str) -> list[tuple[str, Message]]:
        """Take a link away for good; the messages to users that follow from it, with their nodes."""
        told: list[tuple[str, Message]] = []
        for one, other in ((a, b), (b, a)):
            self._send(one, self.nodes[one].left(other), told)
        return self._run(told)

    def _traffic(self, sender: str) -> Traffic:
        return Traffic(once=self.nodes[sender].strategy.crosses_once)

    def _send(self, sender: str, sends: Sends, told: list[tuple[str, Message]]) -> None:
        for to, message in sends:
            if to == LOCAL:
                told.append((sender, message))
            else:
                self.links[sender, to].count(message)
                self._under_way.append((sender, to, message))

    def _run(self, told: list[tuple[str, Message]]) -> list[tuple[str, Message]]:
        while self._under_way:
            sender, to, message = self._under_way.popleft()
            if (sender, to) not in self._cut:
                self._send(to, self.nodes[to].handle(message, sender), told)
        return told
