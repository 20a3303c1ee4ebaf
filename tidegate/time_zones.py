"""What a time without a zone means: ``TimeZone`` is what ``timezone=`` names, and puts such times on the time line.

A time that clocks show twice, when they go back, is the first of the two, unless ``datetime.fold`` says otherwise. One
that they never show, when they go forward, is no time. Knows nothing of publications.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.errors import SettingError, shown

__all__ = ["HINT", "TimeZone", "Zone"]

#: Ends the "expected …" of an error about a time without a zone.
HINT = "(for dicts, tables and files, timezone= says which zone is meant)"
_EXPECTED = "an IANA name such as 'Europe/Zurich', a ZoneInfo or a datetime.timezone as timezone"
_MINUTE = timedelta(minutes=1)
#: From here on Arrow knows no summer time: it reads the changes that files of zones list, and they list none later.
_UNLISTED = datetime(2037, 1, 1)


class TimeZone:
    """A time zone by its name: an IANA name, or an offset such as ``+01:00``."""

    __slots__ = ("_zone", "name")

    def __init__(self, given: str | tzinfo) -> None:
        self.name = _name(given)
        try:
            self._zone: tzinfo = _offset(self.name) or ZoneInfo(self.name)
            pc.assume_timezone(pa.array([0], pa.timestamp("us")), self.name)
        except (ValueError, OSError, pa.ArrowException):  # ZoneInfoNotFoundError is a KeyError
            raise SettingError(_EXPECTED, shown(given)) from None
        except KeyError:
            raise SettingError(_EXPECTED, f"{shown(given)}, which no time zone has as its name") from None

    @staticmethod
    def named(given: Zone) -> TimeZone | None:
        """The zone that ``timezone=`` was given as, None for None."""
        if given is None or isinstance(given, TimeZone):
            return given
        if isinstance(given, str | tzinfo):
            return TimeZone(given)
        raise SettingError(_EXPECTED, shown(given))

    def __reduce__(self) -> tuple[Any, ...]:
        return TimeZone, (self.name,)

    def __repr__(self) -> str:
        return f"TimeZone({self.name!r})"

    def instant(self, local: datetime) -> datetime | None:
        """The instant at which clocks show a time, which has no zone; None if they never do."""
        try:
            found = local.replace(tzinfo=self._zone).astimezone(UTC)
            shown_then = found.astimezone(self._zone).replace(tzinfo=None)
        except OverflowError:  # within hours of the first or the last year
            return None
        return found if shown_then == local else None

    def instants(self, local: pa.Array) -> tuple[pa.Array, NDArray[np.intp]]:
        """The instants of an array of timestamps without a zone, and the rows that no clock ever shows, null there."""
        late = np.flatnonzero(np.asarray(pc.greater_equal(local, pa.scalar(_UNLISTED, local.type)).fill_null(False)))
        if len(late):
            return self._with_late(local, late)
        try:
            return pc.assume_timezone(local, self.name, ambiguous="earliest"), np.empty(0, np.intp)
        except pa.ArrowInvalid:
            pass
        before, after = (
            pc.assume_timezone(local, self.name, ambiguous="earliest", nonexistent=choice)
            for choice in ("earliest", "latest")
        )
        exists = pc.equal(before, after)
        return pc.if_else(exists, before, None), np.flatnonzero(~np.asarray(exists.fill_null(True)))

    def _with_late(self, local: pa.Array, late: NDArray[np.intp]) -> tuple[pa.Array, NDArray[np.intp]]:
        """The same, where some rows are of years of which Arrow knows too little: these are found one by one."""
        is_late = np.zeros(len(local), np.bool_)
        is_late[late] = True
        found, never = self.instants(pc.if_else(pa.array(is_late), None, local))
        each = [self.instant(one) for one in local.take(pa.array(late)).to_pylist()]
        instants = pc.replace_with_mask(found, pa.array(is_late), pa.array(each, found.type))
        return instants, np.union1d(never, late[[one is None for one in each]])


#: What ``timezone=`` may be; None: times without a time zone are refused.
Zone: TypeAlias = str | tzinfo | TimeZone | None


def _name(given: str | tzinfo) -> str:
    if isinstance(given, str):
        return given
    for name in (getattr(given, "key", None), getattr(given, "zone", None)):  # ZoneInfo's, pytz's
        if isinstance(name, str):
            return name
    if isinstance(given, timezone):
        minutes, rest = divmod(given.utcoffset(None), _MINUTE)
        if not rest:
            return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    raise SettingError(_EXPECTED, shown(given))


def _offset(name: str) -> timezone | None:
    """The zone of a fixed offset, or None if the name is none."""
    if len(name) != 6 or name[0] not in "+-" or name[3] != ":" or not (name[1:3] + name[4:]).isdecimal():
        return None
    minutes = 60 * int(name[1:3]) + int(name[4:])
    return timezone((-_MINUTE if name[0] == "-" else _MINUTE) * minutes)
