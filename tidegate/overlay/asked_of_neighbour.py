"""What a node has asked of one neighbour, and what it need not ask because that covers it (Jurca et al., Algorithm 2).

The paper filters operators where they arrive; a node knows what it sent, so here nothing is sent only to be filtered.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tidegate.covering.subsumption import Boxes, Subsumption
from tidegate.overlay.operators import Operator

__all__ = ["AskedOfNeighbour"]


class AskedOfNeighbour:
    """Operators towards one neighbour, in the order in which they came up: sent, or hidden by those that were."""

    def __init__(self, subsumption: Subsumption) -> None:
        self._subsumption = subsumption
        self._sent: dict[str, tuple[Operator, int]] = {}
        self._hidden: dict[object, dict[str, Operator]] = {}
        self._times: Counter[str] = Counter()
        self._boxes: dict[object, Boxes] = {}

    @property
    def sent(self) -> list[Operator]:
        """What the neighbour was asked for."""
        return [operator for operator, _ in self._sent.values()]

    @property
    def hidden(self) -> list[Operator]:
        """What is covered by what he was asked for."""
        return [operator for hidden in self._hidden.values() for operator in hidden.values()]

    def add(self, operator: Operator) -> bool:
        """One more; whether it must be sent. While paths change one can come up twice: by itself, and as a part."""
        self._times[operator.id] += 1
        if self._times[operator.id] > 1:
            return False
        if self._is_sent(operator):
            return True
        self._hidden.setdefault(operator.signature, {})[operator.id] = operator
        return False

    def remove(self, operator: Operator) -> tuple[bool, list[Operator]]:
        """One less; whether it had been sent, and those that must be sent now that it covers them no more."""
        self._times[operator.id] -= 1
        if self._times[operator.id]:
            return False, []
        del self._times[operator.id]
        hidden = self._hidden.get(operator.signature, {})
        if operator.id not in self._sent:
            del hidden[operator.id]
            return False, []
        _, handle = self._sent.pop(operator.id)
        self._boxes[operator.signature].remove(handle)
        shown = [other for other in list(hidden.values()) if self._is_sent(other)]
        for other in shown:
            del hidden[other.id]
        if not self._boxes[operator.signature]:  # and so nothing is hidden
            del self._boxes[operator.signature]
            self._hidden.pop(operator.signature, None)
        return True, shown

    def _is_sent(self, operator: Operator) -> bool:
        low, high = np.array(operator.box, np.float64).T
        boxes = self._boxes.get(operator.signature)
        if boxes is None:
            boxes = self._boxes[operator.signature] = Boxes(len(low))
        if self._subsumption.covered(low, high, boxes):
            return False
        self._sent[operator.id] = operator, boxes.add(low, high)
        return True
