"""What outlives a process: the registry of subscriptions, its shelf of snapshots, the log, the notification store.

Knows nothing of Spark. The two that need a database are imported when they are first asked for: the workers of a
pipeline only map files, and should not wait for SQLAlchemy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.store.notifications import NotificationStore
    from tidegate.store.registry import Registry

__all__ = ["NotificationStore", "Registry"]


def __getattr__(name: str) -> Any:
    if name == "Registry":
        from tidegate.store.registry import Registry

        return Registry
    if name == "NotificationStore":
        from tidegate.store.notifications import NotificationStore

        return NotificationStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
