"""How often somebody may do something: a bucket per name that fills at a rate and holds what one second brings.

Used in the event loop of one gateway, by one thread. Several gateways of a broker each allow their share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

__all__ = ["Rates"]

#: Names that are remembered; the one that was used longest ago goes first, and its bucket is full again.
_MOST = 100_000


class Rates:
    """Buckets by name. ``clock`` tells seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic, most: int = _MOST) -> None:
        self._clock, self._most = clock, most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, rate: float, count: float = 1.0) -> float:
        """Take so many from a bucket that gets ``rate`` a second; 0, or how many seconds to wait if it has too few.

        A bucket that holds anything gives more than it has and owes the rest: so a batch larger than what one second
        brings is taken, and what comes after it waits for it.
        """
        now = self._clock()
        held, at = self._buckets.get(name, (rate, now))
        held = min(rate, held + (now - at) * rate)
        if held <= 0:
            return -held / rate + 1.0 / rate
        self._buckets[name] = held - count, now
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0

    def wait(self, name: str, rate: float) -> float:
        """How many seconds to wait until something can be taken, without taking it."""
        held, at = self._buckets.get(name, (rate, self._clock()))
        held += (self._clock() - at) * rate
        return 0.0 if held > 0 else -held / rate + 1.0 / rate
