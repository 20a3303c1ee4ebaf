"""``naive``: everything is forwarded and every operator has its own result set: the baseline for the others."""

from __future__ import annotations

from tidegate.covering.subsumption import Nothing
from tidegate.overlay.correlation_routing import CorrelationRouting

__all__ = ["Naive"]


class Naive(CorrelationRouting):
    """Table II: no filtering, simple splitting, full result sets."""

    name = "naive"
    shares = False

    def __init__(self) -> None:
        super().__init__(Nothing())
