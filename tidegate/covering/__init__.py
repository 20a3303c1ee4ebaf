"""Which subscriptions are contained in others, and the forest that makes; for routing and for edge brokers."""

from tidegate.covering.covers import covers
from tidegate.covering.forest import Forest

__all__ = ["Forest", "covers"]
