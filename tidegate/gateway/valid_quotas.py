"""The quota ``valid_set`` of principals: how many of the publications that each has published may be valid at once.

The log does not say who published what, so a gateway counts what it has accepted since it was started. Used in the
event loop, by one thread.
"""

from __future__ import annotations

from heapq import heappop, heappush

from tidegate.errors import PublicationError
from tidegate.store.validity_limits import ValidityLimits

__all__ = ["QuotaValidity", "ValidQuotas"]


class ValidQuotas:
    """The ends of validity of what principals have published, in microseconds since 1970."""

    def __init__(self) -> None:
        self._ends: dict[str, list[int]] = {}

    def limits(self, name: str, most: float, limits: ValidityLimits, now: int) -> QuotaValidity:
        """What one request of a principal may publish, within its quota and the limits of all."""
        ends = self._ends.get(name, [])
        while ends and ends[0] <= now:
            heappop(ends)
        return QuotaValidity(most, int(most) - len(ends), limits)

    def note(self, name: str, used: QuotaValidity, accepted: int) -> None:
        """Note what was accepted of a request; of what was not, perhaps because the log had it, nothing is counted."""
        kept = sorted(used.ends, reverse=True)[:accepted]
        ends = self._ends.setdefault(name, []) if kept else []
        for end in kept:
            heappush(ends, end)


class QuotaValidity:
    """For how long the items of one request may be valid; ``ends`` has what was taken."""

    def __init__(self, most: float, left: int, limits: ValidityLimits) -> None:
        self._most, self._left, self._limits = most, left, limits
        self.ends: list[int] = []

    def refusal(self, valid_until: int, now: int) -> PublicationError | None:
        """Why a publication that is valid so long is refused; None if it is not."""
        wrong = self._limits.refusal(valid_until, now)
        if wrong is not None or valid_until <= now:
            return wrong
        if len(self.ends) >= self._left:
            return PublicationError(f"at most {self._most:,g} valid publications of a principal", "one more")
        self.ends.append(valid_until)
        return None
