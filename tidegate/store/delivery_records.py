"""What the bytes in a delivery say: which subscription matched, and what there is to tell besides a row of the log.

The queues keep these bytes and do not look into them. The sink of queues packs them, and who shows deliveries unpacks
them. All are JSON: a list for a pattern, an object for a publication, a text for a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import orjson

from tidegate.kept_json import kept_json

__all__ = ["DeliveryKind", "MatchedSubscription", "PatternNotification", "rows_named"]


class DeliveryKind(IntEnum):
    """What a delivery is."""

    PUBLICATION = 0
    """A publication that filters matched. There is more to tell only where it is no row of a log: then its content."""
    PATTERN = 1
    """What a pattern told, a ``PatternNotification``."""
    SKIPPED = 2
    """A number that was left out on purpose, and why."""
    INITIAL = 3
    """A valid publication that was there before the subscription."""
    RETRACTED = 4
    """An earlier delivery is withdrawn: ``{"retracts": its number}``, and the row of the publication."""


class MatchedSubscription(NamedTuple):
    """A subscription as it was when it matched: its id, as its subscriber knows it, and which attributes it wants, and
    whether it wants what is valid no longer.
    """

    id: str
    fields: str | Sequence[str]
    """Their names, ``all`` or ``none``."""
    expired: bool = False

    def packed(self) -> bytes:
        return kept_json(self[:])

    @staticmethod
    @lru_cache(maxsize=4096)  # most deliveries of a queue name the same few
    def unpacked(data: bytes) -> MatchedSubscription:
        return MatchedSubscription(*orjson.loads(data))


class PatternNotification(NamedTuple):
    """What a pattern told: when (µs since 1970), of which publications, with which score or distance."""

    time: int
    publications: tuple[int | str, ...]
    """Rows of the log; ids where the source is no log."""
    score: float | None
    distance: float | None

    def packed(self) -> bytes:
        return kept_json(self[:])

    @staticmethod
    def unpacked(data: bytes) -> PatternNotification:
        time, publications, score, distance = orjson.loads(data)
        return PatternNotification(time, tuple(publications), score, distance)


def rows_named(told: bytes) -> Iterable[int]:
    """The rows of the log that a delivery names beside the one that caused it, by what there is to tell."""
    if not told.startswith(b"["):
        return ()
    return [one for one in PatternNotification.unpacked(told).publications if isinstance(one, int)]
