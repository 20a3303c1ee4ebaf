"""Which subscriptions cover others, and the ``Forest`` of subscriptions ordered by that; the overlay routes with it."""

from tidegate.covering.forest import Forest
from tidegate.covering.never import is_never
from tidegate.covering.temporal import covers, covers_past

__all__ = ["Forest", "covers", "covers_past", "is_never"]
