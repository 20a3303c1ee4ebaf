"""Settings of an engine, checked: how late publications may come, and for how long events are remembered."""

from __future__ import annotations

from datetime import timedelta

from tidegate.engine.event_history import EventHistory
from tidegate.errors import SettingError, shown
from tidegate.language import Limits
from tidegate.patterns.pattern import NEVER

__all__ = ["checked_keep", "checked_lateness", "kept_by"]


def checked_lateness(lateness: timedelta) -> int:
    """Microseconds."""
    if not isinstance(lateness, timedelta) or lateness < timedelta(0):
        raise SettingError("a timedelta of 0 or more as lateness", shown(lateness))
    return lateness // timedelta(microseconds=1)


def checked_keep(keep: timedelta | None, limits: Limits) -> int:
    """Microseconds; as long as the longest window if nothing is said."""
    if keep is None:
        return limits.window * 1_000_000
    if not isinstance(keep, timedelta) or keep <= timedelta(0):
        raise SettingError("a timedelta above 0 as keep", shown(keep))
    return min(keep // timedelta(microseconds=1), NEVER)


def kept_by(history: EventHistory | None, keep: timedelta | None) -> timedelta | None:
    """How long events are kept: ``keep`` if it is given, else the ``keep`` of the history."""
    if history is None:
        return keep
    if isinstance(history, type) or not hasattr(history, "replay"):
        raise SettingError("a tg.History", shown(history))
    return history.keep if keep is None else keep
