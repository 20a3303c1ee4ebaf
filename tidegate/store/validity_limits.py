"""How long publications may be valid, and whether more of them may be: what an append is refused for.

A data directory has such limits, because it keeps what is valid. Knows nothing of where that is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import PublicationError

__all__ = ["ValidityLimits"]

_MICROSECOND = timedelta(microseconds=1)


def _never() -> bool:
    return False


class ValidityLimits(NamedTuple):
    """The longest time from the stamp of a publication to the end of its validity, and whether there is no more room
    for publications that are valid.
    """

    max_validity: timedelta = timedelta(days=30)
    is_full: Callable[[], bool] = _never

    def check(self, valid_until: NDArray[np.int64], now: int) -> None:
        """Refuse what is valid for too long, or at all where there is no room. Times are in µs since 1970."""
        if not len(valid_until):
            return
        latest = int(np.argmax(valid_until))
        if valid_until[latest] > now + self.max_validity // _MICROSECOND:
            got = f"{(int(valid_until[latest]) - now) / 86_400_000_000:.1f} days"
            raise PublicationError(f"a valid_until at most {self.max_validity} away", got, f"item {latest}")
        if valid_until[latest] > now and self.is_full():
            got = "one, while there is no more room for what is valid"
            raise PublicationError("no valid_until", got, f"item {latest}")
