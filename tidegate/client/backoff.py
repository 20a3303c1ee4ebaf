"""How long to wait before something is tried again: longer each time, by chance, and not beyond a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from time import monotonic

__all__ = ["Backoff", "retry_after"]

#: Seconds that are waited the first time, about, and at most.
_FIRST, _MOST = 0.1, 5.0


class Backoff:
    """Delays before attempts. ``deadline`` is how many seconds may pass in all; None is without end."""

    def __init__(
        self, deadline: float | None, *, clock: Callable[[], float] = monotonic, chance: Random | None = None
    ) -> None:
        self._clock, self._chance = clock, chance or Random()
        self._until = None if deadline is None else clock() + deadline
        self._attempts = 0

    def delay(self, at_least: float = 0.0) -> float | None:
        """Seconds to wait before the next attempt; None if there is to be none."""
        longest = min(_MOST, _FIRST * 2.0 ** min(self._attempts, 32))
        wait = at_least + longest * self._chance.uniform(0.5, 1.0)
        self._attempts += 1
        return None if self._until is not None and self._clock() + wait > self._until else wait

    def go_on_for_good(self) -> None:
        """There is no deadline any more."""
        self._until = None

    def succeeded(self) -> None:
        """Begin with short delays again."""
        self._attempts = 0


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks to wait, in ``Retry-After``; 0 if it says nothing that can be understood."""
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdecimal():
        return float(min(int(said[:9]), 1_000_000))
    try:
        when = parsedate_to_datetime(said)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
