"""``multi-join``: an operator on many sensors is split into joins of two at the node where the paths to them part.

Jurca et al., §III-B, after Chandramouli and Yang (VLDB 2008): in a *binary join* readings of a main sensor pass if a
filtering sensor has one that matches. Readings are shared; those that match in pairs but not all together travel as far
as the user's node, whose correlator matches the whole operator and stops them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.covering.subsumption import Pairwise
from tidegate.overlay.correlation_routing import CorrelationRouting, Routes, along_paths
from tidegate.overlay.operators import Operator

__all__ = ["MultiJoin"]


class MultiJoin(CorrelationRouting):
    """Table II: pairwise filtering, splitting into binary joins, readings once per neighbour.

    The paper treats all sensors alike: each part is the main part of one join and filters one other, in a ring.
    """

    name = "multi-join"

    def __init__(self) -> None:
        super().__init__(Pairwise())

    def asks(self, operator: Operator) -> Sequence[Operator]:
        if operator.main is not None or len(operator.parts) < 3:
            return (operator,)
        return [operator.only((i, j), main=i) for i, j in _ring(operator)]

    def routes(self, operator: Operator, owner: str) -> Routes:
        simple = along_paths(operator, owner, self.announced)
        whole = all(len(there.parts) == len(operator.parts) for split in simple.values() for there in split)
        if whole or operator.main is not None or len(operator.parts) < 3:
            return {to: tuple(_as_join(there, operator) for there in split) for to, split in simple.items()}
        return {to: tuple(self._joins(operator, split)) for to, split in simple.items()}

    def _joins(self, operator: Operator, split: Sequence[Operator]) -> list[Operator]:
        """What one neighbour is asked for: the joins of the ring with both ends behind it, and the single parts behind
        it of joins whose ends lie apart. A join whose main part is asked for as a single part is left out.
        """
        position = {part.label: i for i, part in enumerate(operator.parts)}
        together = [{position[part.label] for part in there.parts} for there in split]
        here = set().union(*together)
        inside = [(i, j) for i, j in _ring(operator) if any({i, j} <= there for there in together)]
        parted = {end for pair in _ring(operator) if pair not in inside for end in pair} & here
        return [
            *(operator.only([i]) for i in sorted(parted)),
            *(operator.only((i, j), main=i) for i, j in inside if i not in parted),
        ]


def _ring(operator: Operator) -> list[tuple[int, int]]:
    n = len(operator.parts)
    return [(i, (i + 1) % n) for i in range(n)]


def _as_join(there: Operator, operator: Operator) -> Operator:
    """The operator itself where all its parts stay together: what ``along_paths`` made of it has no main part."""
    return operator if len(there.parts) == len(operator.parts) else there
