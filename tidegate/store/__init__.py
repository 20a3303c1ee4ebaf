"""What outlives a process: ``Registry`` with its index layers, ``Log``, ``NotificationStore`` and ``History``.

Knows nothing of Spark. The classes that need a database are imported when their names are first used: the workers of
a pipeline only map files, and should not wait for SQLAlchemy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.store.history import History
    from tidegate.store.notifications import NotificationStore
    from tidegate.store.registry import Registry

__all__ = ["History", "NotificationStore", "Registry"]


def __getattr__(name: str) -> Any:
    if name == "Registry":
        from tidegate.store.registry import Registry

        return Registry
    if name == "NotificationStore":
        from tidegate.store.notifications import NotificationStore

        return NotificationStore
    if name == "History":
        from tidegate.store.history import History

        return History
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
