"""``AskedOfNeighbour``: the operators that one neighbour was asked for, and those that they cover and so hide.

Jurca et al., Algorithm 2. The paper filters operators where they arrive; a node knows what it sent, so here nothing is
sent only to be filtered. ``CorrelationRouting`` keeps one per neighbour and sends what it says.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tidegate.covering.subsumption import Boxes, Subsumption
from tidegate.overlay.operators import Operator

__all__ = ["AskedOfNeighbour"]


class AskedOfNeighbour:
    """Operators towards one neighbour, in the order in which they were added: sent, or hidden by those that were.

    An operator is compared only with those of its ``signature``, whose boxes are in one ``Boxes``.
    """

    def __init__(self, subsumption: Subsumption) -> None:
        self._subsumption = subsumption
        self._sent: dict[str, tuple[Operator, int]] = {}
        self._hidden: dict[object, dict[str, Operator]] = {}
        self._times: Counter[str] = Counter()
        self._boxes: dict[object, Boxes] = {}

    @property
    def sent(self) -> list[Operator]:
        """The operators that the neighbour was asked for."""
        return [operator for operator, _ in self._sent.values()]

    def is_asked(self, id: str) -> bool:
        """Whether the neighbour was asked for an operator of this id, which none that it was asked for covers."""
        return id in self._sent

    @property
    def hidden(self) -> list[Operator]:
        """The operators that those in ``sent`` cover."""
        return [operator for hidden in self._hidden.values() for operator in hidden.values()]

    def add(self, operator: Operator) -> bool:
        """Add an operator; whether it must be sent.

        While paths change, one operator can be added twice, by itself and as a part of another, so uses are counted.
        """
        self._times[operator.id] += 1
        if self._times[operator.id] > 1:
            return False
        if self._is_sent(operator):
            return True
        self._hidden.setdefault(operator.signature, {})[operator.id] = operator
        return False

    def remove(self, operator: Operator) -> tuple[bool, list[Operator]]:
        """Remove one use of an operator; whether it had been sent, and the operators that only it had hidden, which
        must be sent now.
        """
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
        if not self._boxes[operator.signature]:  # nothing sent, so nothing hidden
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
