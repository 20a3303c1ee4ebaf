"""What a gateway and the process that computes a rehearsal tell each other: a task, and how far it is."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["RehearsalState", "RehearsalTask"]


class RehearsalTask(msgspec.Struct, kw_only=True):
    """What is to be rehearsed: a subscription, what its subscriber may read included, and the part of the log that was
    appended from one moment on and before another. All times are microseconds, moments since 1970.
    """

    log: str
    where: Any
    active_from: str | None
    active_until: str | None
    expired: bool
    fields: list[str] | None
    """The attributes of samples; None for all."""
    begin: int
    end: int
    lateness: int
    ahead: int | None
    keep: int | None
    rows: int
    seconds: float
    samples: int
    explained: str | None = None
    """A publication, in a message of the overlay, that is to be explained after all that, as if it came next."""
    explained_row: int | None = None
    """Its row, if it is in the log: what came then, and later, is left out."""


class RehearsalState(msgspec.Struct):
    """How far a rehearsal is, and what was sent up to there; ``hours`` counts by when it would have been sent."""

    reached: int
    notifications: int = 0
    first: int | None = None
    last: int | None = None
    hours: dict[int, int] = {}
    samples: list[dict[str, Any]] = []
    is_complete: bool = False
    is_over: bool = False
    explanation: dict[str, Any] | None = None
    refused: tuple[str, str, str, str] | None = None
    """The code of an error, and its expected, got and at."""
