"""``filter-split-forward``: an operator that those already forwarded cover together is not forwarded; readings are
shared.

Jurca et al., §V. The paper decides coverage by random points and loses a few readings; ``exact`` loses none.
"""

from __future__ import annotations

from tidegate.covering.subsumption import Exact, Subsumption
from tidegate.overlay.correlation_routing import CorrelationRouting

__all__ = ["FilterSplitForward"]


class FilterSplitForward(CorrelationRouting):
    """Table II: set filtering, simple splitting, readings once per neighbour."""

    name = "filter-split-forward"

    def __init__(self, subsumption: Subsumption | None = None) -> None:
        super().__init__(Exact() if subsumption is None else subsumption)
