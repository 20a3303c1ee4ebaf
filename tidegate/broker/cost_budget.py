"""How much of a processor may be used for measuring: a share of it, over any long time.

What was not used is kept, up to a little, so that something new can be measured at once. Both clocks are passed.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["CostBudget"]

#: Seconds of processor time that may be used at once after a time in which nothing was.
_SAVED = 3.0


class CostBudget:
    """``share`` of a core, where ``used`` gives the seconds of processor time that were used so far and ``clock`` those
    that have passed.
    """

    def __init__(self, share: float, clock: Callable[[], float], used: Callable[[], float]) -> None:
        self._share, self._clock, self._used = share, clock, used
        self._left, self._at, self._before = _SAVED, clock(), 0.0

    def wait(self) -> float:
        """For how many seconds nothing may be done."""
        now, used = self._clock(), self._used()
        self._left = min(_SAVED, self._left + self._share * (now - self._at)) - (used - self._before)
        self._at, self._before = now, used
        return max(0.0, -self._left / self._share)
