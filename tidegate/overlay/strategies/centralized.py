"""``centralized``: all operators and readings go to one node, which matches them and sends results back from there.

Jurca et al., §VI: subscriptions and readings take the shortest path to the centre, which sends every subscription its
full result set. This is the only strategy of Table II whose nodes must be told something about the network: the
neighbour on the way to the centre.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.covering.subsumption import Nothing
from tidegate.overlay.correlation_routing import CorrelationRouting, Routes, for_results
from tidegate.overlay.messages import LOCAL, Deliver, Reading
from tidegate.overlay.operators import Operator
from tidegate.overlay.strategy import Sends

__all__ = ["Centralized"]


class Centralized(CorrelationRouting):
    """Table II: no filtering, no splitting, full result sets.

    ``towards`` is the neighbour on the way to the centre, and None at the centre itself.
    """

    name = "centralized"
    shares = False
    returns = True

    def __init__(self, towards: str | None) -> None:
        super().__init__(Nothing())
        self.towards = towards

    def listeners(self, sender: str) -> Iterable[str]:
        return (
            [self.towards]
            if self.towards is not None and self.towards in self.wanted and sender != self.towards
            else []
        )

    def routes(self, operator: Operator, owner: str) -> Routes:
        return (
            {self.towards: (operator,)}
            if self.towards is not None and self.towards in self.wanted and owner != self.towards
            else {}
        )

    def meet(self, neighbour: str) -> None:
        super().meet(neighbour)
        if neighbour == self.towards:  # what is already wanted here is forwarded in the Sync
            for owner, wanted in self.wanted.items():
                for entry in wanted.values():
                    self._placed(entry, owner)

    def _is_from(self, reading: Reading, sender: str) -> bool:
        return (sender == self.towards and bool(reading.results)) or super()._is_from(reading, sender)

    def _reading(self, reading: Reading, sender: str, now: int) -> Sends:
        if self.towards is None:
            return super()._reading(reading, sender, now)
        if sender != self.towards:
            return [(self.towards, reading)]
        found = for_results(reading, ())
        sends: Sends = []
        for owner, wanted in self.wanted.items():
            mine = tuple(id for id in reading.results if id in wanted)
            if mine and owner != LOCAL:
                sends.append((owner, for_results(reading, mine)))
            elif mine:
                news = [id for id in mine if self._is_news(id, found, now)]
                sends += [(LOCAL, Deliver(self._own[id][0], (found,))) for id in news]
        return sends
