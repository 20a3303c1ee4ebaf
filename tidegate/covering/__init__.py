"""Which subscriptions are contained in others, and the forest that makes; for routing and for edge brokers."""

from tidegate.covering.forest import Forest
from tidegate.covering.temporal import covers, covers_past

__all__ = ["Forest", "covers", "covers_past"]
