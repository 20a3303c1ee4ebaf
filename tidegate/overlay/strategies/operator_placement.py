"""``operator-placement``: an operator that one other covers is not forwarded; each has a result set of its own.

Jurca et al., §III-A: operator placement with local knowledge only. The node that finds an operator covered takes its
result set from the readings of the operator that covers it.
"""

from __future__ import annotations

from tidegate.covering.subsumption import Pairwise
from tidegate.overlay.correlation_routing import CorrelationRouting

__all__ = ["OperatorPlacement"]


class OperatorPlacement(CorrelationRouting):
    """Table II: pairwise filtering, simple splitting, result sets per subscription."""

    name = "operator-placement"
    shares = False

    def __init__(self) -> None:
        super().__init__(Pairwise())
