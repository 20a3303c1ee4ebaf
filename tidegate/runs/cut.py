"""A cut: where a batch ends. Runners write it down before they run the batch, so a batch run again has the same cut.

Knows nothing of what is matched. Spark's small processes import this, so it imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Cut"]


class Cut(NamedTuple):
    """The row after the last one of a batch, the version of the registry, and the time at which the batch was cut."""

    row: int
    """As in offsets of the log; −1 where the source has no rows."""
    version: int
    """Rows from ``row`` on have this version or a later one, rows before it this one or an earlier one. What was
    subscribed up to this version is there when the batch has ended."""
    time: int
    """In microseconds since 1970. In a log it never falls from one batch to the next."""

    @staticmethod
    def of_offset(offset: Mapping[str, Any]) -> Cut:
        """The cut that an offset of a log stands for."""
        return Cut(offset["row"], offset["version"], offset["time"])
