"""Tidegate: standing subscriptions over streams of sensor readings, events and logs.

What needs Spark or a database is imported when it is first asked for, so an engine in process starts without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.engine import Engine
from tidegate.errors import (
    LimitError,
    ParseError,
    PipelineError,
    PublicationError,
    SettingError,
    SnapshotError,
    StoreError,
    SubscriptionError,
    TidegateError,
    TypeMismatch,
    UnknownFunction,
    UnknownSubscription,
)
from tidegate.explain import Explanation
from tidegate.language import Limits
from tidegate.model import Notification, Publication, Subscription

if TYPE_CHECKING:
    from tidegate.pipeline.match import match
    from tidegate.pipeline.session import session
    from tidegate.store.log import Log
    from tidegate.store.notifications import NotificationStore
    from tidegate.store.registry import Registry

__version__ = "0.1.0"

__all__ = [
    "Engine",
    "Explanation",
    "LimitError",
    "Limits",
    "Log",
    "Notification",
    "NotificationStore",
    "ParseError",
    "PipelineError",
    "Publication",
    "PublicationError",
    "Registry",
    "SettingError",
    "SnapshotError",
    "StoreError",
    "Subscription",
    "SubscriptionError",
    "TidegateError",
    "TypeMismatch",
    "UnknownFunction",
    "UnknownSubscription",
    "__version__",
    "match",
    "session",
]

_LATER = {
    "Log": "tidegate.store.log",
    "NotificationStore": "tidegate.store.notifications",
    "Registry": "tidegate.store.registry",
    "match": "tidegate.pipeline.match",
    "session": "tidegate.pipeline.session",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
