"""Tidegate: standing subscriptions over streams of sensor readings, events and logs."""

from tidegate.engine import Engine
from tidegate.errors import (
    LimitError,
    ParseError,
    PublicationError,
    SettingError,
    SnapshotError,
    SubscriptionError,
    TidegateError,
    TypeMismatch,
    UnknownFunction,
    UnknownSubscription,
)
from tidegate.explain import Explanation
from tidegate.language import Limits
from tidegate.model import Notification, Publication, Subscription

__version__ = "0.1.0"

__all__ = [
    "Engine",
    "Explanation",
    "LimitError",
    "Limits",
    "Notification",
    "ParseError",
    "Publication",
    "PublicationError",
    "SettingError",
    "SnapshotError",
    "Subscription",
    "SubscriptionError",
    "TidegateError",
    "TypeMismatch",
    "UnknownFunction",
    "UnknownSubscription",
    "__version__",
]
