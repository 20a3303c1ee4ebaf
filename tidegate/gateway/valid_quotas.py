"""The quota ``valid_set`` of principals: how many of the publications that each has published may be valid at once.

The log does not say who published what, so a gateway counts what it has accepted since it was started. Requests at the
same time share what is left, and look at it in threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from threading import Lock

from tidegate.errors import PublicationError
from tidegate.store.validity_limits import ValidityLimits

__all__ = ["BeyondQuota", "QuotaValidity", "ValidQuotas"]


class BeyondQuota(PublicationError):
    """A publication that is to be valid, of a principal who has as many as may be. One that the log has adds none."""


class ValidQuotas:
    """The ends of validity of what principals have published, in microseconds since 1970, and how many publications of
    requests that are under way are to be valid.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: dict[str, list[int]] = {}
        self._under_way = Counter[str]()

    def limits(self, name: str, most: float, limits: ValidityLimits, now: int) -> QuotaValidity:
        """What one request of a principal may publish, within its quota and the limits of all."""
        with self._lock:
            ends = self._ends.get(name, [])
            while ends and ends[0] <= now:
                heappop(ends)
        return QuotaValidity(most, partial(self._take, name, int(most)), limits)

    def _take(self, name: str, most: int) -> bool:
        """Take the place of one publication that is to be valid, if there is one."""
        with self._lock:
            if len(self._ends.get(name, ())) + self._under_way[name] >= most:
                return False
            self._under_way[name] += 1
            return True

    def note(self, name: str, used: QuotaValidity, accepted: int) -> None:
        """Note what was accepted of a request; of what was not, perhaps because the log had it, nothing is counted."""
        kept = sorted(used.ends, reverse=True)[:accepted]
        with self._lock:
            self._under_way[name] -= len(used.ends)
            if not self._under_way[name]:
                del self._under_way[name]
            ends = self._ends.setdefault(name, []) if kept else []
            for end in kept:
                heappush(ends, end)


class QuotaValidity:
    """For how long the items of one request may be valid; ``ends`` has what was taken."""

    def __init__(self, most: float, take: Callable[[], bool], limits: ValidityLimits) -> None:
        self._most, self._take, self._limits = most, take, limits
        self.ends: list[int] = []

    def refusal(self, valid_until: int, now: int) -> PublicationError | None:
        """Why a publication that is valid so long is refused; None if it is not."""
        wrong = self._limits.refusal(valid_until, now)
        if wrong is not None or valid_until <= now:
            return wrong
        if not self._take():
            return BeyondQuota(f"at most {self._most:,g} valid publications of a principal", "one more")
        self.ends.append(valid_until)
        return None
