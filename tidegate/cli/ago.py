"""How long ago something was, as people say it."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["ago"]


def ago(time: datetime) -> str:
    """How long ago a time is, in words."""
    seconds = max(0.0, (datetime.now(UTC) - time).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
