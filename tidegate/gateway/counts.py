"""What a gateway counts: everything that came in, went out, or was refused, dropped, retried or skipped, by cause.

A name counts things of one kind, a cause tells them apart: ``counts.add("refused", "conflict", 3)``. Counts only grow.
Those of all gateways of a broker are put together where they are shown.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["Counts"]


class Counts:
    """Counts by name and cause. Added to in the event loop of one gateway, by one thread."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[str, str]]()

    def add(self, name: str, cause: str, count: int = 1) -> None:
        """Count so many more."""
        self._counts[name, cause] += count

    def items(self) -> list[tuple[str, str, int]]:
        """Each name and cause with its count, in order."""
        return [(name, cause, count) for (name, cause), count in sorted(self._counts.items())]
