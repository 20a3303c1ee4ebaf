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

_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)


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
        if (wrong := self.refusal(int(valid_until[latest]), now)) is not None:
            wrong.at = f"item {latest}"
            raise wrong

    def refusal(self, valid_until: int, now: int) -> PublicationError | None:
        """Why a publication that is valid so long is refused; None if it is not."""
        if valid_until > now + self.max_validity // _MICROSECOND:
            most, got = self.max_validity / _DAY, (valid_until - now) * _MICROSECOND / _DAY
            return PublicationError(f"a valid_until at most {most:g} days away", f"{got:g} days")
        if valid_until > now and self.is_full():
            return PublicationError("no valid_until", "one, while there is no more room for what is valid")
        return None
