"""How an endpoint stands, and what an answer, a failure or the passing of time make of that: data, no input or output.

| endpoint | verified or answered | failure | 410 Gone | asked to verify, or another address |
|---|---|---|---|---|
| unverified | active | unverified, or disabled when it has failed for too long | disabled | unverified |
| active | active | failing after some in a row | disabled | unverified |
| failing | active | failing | disabled | unverified |
| disabled | – | – | – | unverified |

The last column is for ``StoredWebhooks``. Times are microseconds since 1970, as the caller's clock tells them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.store.webhook_tables import Progress

__all__ = ["Failure", "RetrySchedule", "State", "after_answer", "after_failure", "due_in", "is_too_old"]

_SECOND = 1_000_000
#: Beyond so many doublings a wait is the longest anyway.
_DOUBLINGS = 40


class State(StrEnum):
    """How an endpoint may stand."""

    UNVERIFIED = "unverified"
    ACTIVE = "active"
    FAILING = "failing"
    DISABLED = "disabled"


class RetrySchedule(NamedTuple):
    """How long is waited after failures, in seconds: up to ``first`` after one, twice as long after each further one,
    ``longest`` at most. After ``failing_after`` in a row an endpoint is failing, and what has waited for ``give_up``
    is given up.
    """

    first: float
    longest: float
    failing_after: int
    give_up: float

    @staticmethod
    def of(section: WebhooksSection) -> RetrySchedule:
        """That of a TOML file."""
        return RetrySchedule(section.retry_first, section.retry_longest, section.failing_after, section.give_up_seconds)

    def wait(self, failures: int, draw: float, asked: float | None) -> float:
        """Seconds after so many failures: a share, drawn from 0 to 1, of the longest wait; or what the receiver asked
        for, if that is longer, within bounds.
        """
        most = min(self.longest, self.first * 2.0 ** min(failures - 1, _DOUBLINGS))
        return max(draw * most, min(asked or 0.0, self.longest))


class Failure(NamedTuple):
    """A try that failed: why, in words for people, what wait the receiver asked for, and whether it wants no more."""

    reason: str
    retry_after: float | None = None
    is_gone: bool = False


def after_answer(progress: Progress, now: int) -> Progress:
    """How an endpoint stands that took what it was sent, or was verified."""
    return Progress(State.ACTIVE, tried_at=now, answered_at=now)


def after_failure(progress: Progress, now: int, failure: Failure, schedule: RetrySchedule, draw: float) -> Progress:
    """How it stands after a failure; ``draw`` is a number from 0 to 1."""
    failures, since = progress.failures + 1, now if progress.failing_since is None else progress.failing_since
    found = progress._replace(failures=failures, failing_since=since, reason=failure.reason, tried_at=now)
    is_over = progress.state == State.UNVERIFIED and now - since >= schedule.give_up * _SECOND
    if failure.is_gone or is_over:
        return found._replace(state=State.DISABLED, retry_at=None)
    retry_at = now + int(schedule.wait(failures, draw, failure.retry_after) * _SECOND)
    if progress.state == State.ACTIVE and failures >= schedule.failing_after:
        found = found._replace(state=State.FAILING)
    return found._replace(retry_at=retry_at)


def due_in(progress: Progress, now: int, schedule: RetrySchedule) -> float | None:
    """Seconds until something may be sent; None if nothing ever is. A clock that was set back makes nobody wait for
    longer than the longest wait.
    """
    if progress.state == State.DISABLED:
        return None
    if progress.retry_at is None:
        return 0.0
    wait = (progress.retry_at - now) / _SECOND
    return 0.0 if wait > schedule.longest else max(0.0, wait)


def is_too_old(progress: Progress, matched_at: int, now: int, schedule: RetrySchedule) -> bool:
    """Whether a delivery, matched at a moment, is given up after another failure: it has waited for so long, and the
    endpoint has taken nothing for as long.
    """
    since = now if progress.failing_since is None else progress.failing_since
    return now - max(since, matched_at) >= schedule.give_up * _SECOND
