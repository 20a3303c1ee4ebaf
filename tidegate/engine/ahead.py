"""``AheadCheck``: leaves out publications that are dated too far ahead of an engine's clock, and counts them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError, shown
from tidegate.index import Batch
from tidegate.index.dated_ahead import is_dated_ahead
from tidegate.model import micros

__all__ = ["AheadCheck"]

Clock = Callable[[], datetime]
B = TypeVar("B", bound=Batch)


class AheadCheck:
    """How far ahead of a clock publications may be dated. The clock is read once for each batch."""

    def __init__(self, ahead: timedelta, clock: Clock) -> None:
        self._ahead, self._clock = ahead // timedelta(microseconds=1), clock
        self._counting = threading.Lock()
        self.refused = 0

    @staticmethod
    def of(ahead: timedelta | None, clock: Clock | None) -> AheadCheck | None:
        """The check that an engine was asked for; None if it was not."""
        if ahead is None and clock is None:
            return None
        if not isinstance(ahead, timedelta) or ahead < timedelta(0):
            raise SettingError("a timedelta of 0 or more as ahead, with a clock", shown(ahead))
        if not callable(clock):
            raise SettingError("a function that tells the time as clock, with ahead", shown(clock))
        return AheadCheck(ahead, clock)

    def refuses(self, batch: Batch) -> NDArray[np.bool_] | None:
        """Which publications are dated too far ahead; None if none is."""
        now = self._clock()
        if not isinstance(now, datetime) or now.tzinfo is None:
            raise SettingError("a clock that tells datetimes with a time zone", shown(now))
        return is_dated_ahead(batch, micros(now), self._ahead)

    def timely(self, batch: B) -> B:
        """The batch without what is dated too far ahead, which is counted."""
        wrong = self.refuses(batch)
        if wrong is None:
            return batch
        with self._counting:
            self.refused += int(np.count_nonzero(wrong))
        return batch.picked(np.flatnonzero(~wrong))
