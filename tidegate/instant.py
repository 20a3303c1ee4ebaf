"""Points and lengths of time as CQL2 and ISO 8601 write them, in whole microseconds.

Pure text to number and back: no clock, no time zone database, no expression tree.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from tidegate.errors import ParseError, shown

__all__ = ["SHAPE", "duration", "instant", "is_local", "iso", "render_instant"]

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_EPOCH = date(1970, 1, 1).toordinal()
_EARLIEST = (1 - _EPOCH) * _DAY
_LATEST = (date.max.toordinal() - _EPOCH + 1) * _DAY - 1

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})?")
_ISO = re.compile(
    r"([0-9-]{10})[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?(?:([Zz])|([+-][0-9]{2}):?([0-9]{2})?)?"
)
_DURATION = re.compile(
    r"P(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:[.,]([0-9]+))?S)?)?"
)
#: What is expected where a text is neither a date nor a timestamp.
SHAPE = "a date such as '2026-11-15' or a timestamp such as '2026-11-15T08:00:00Z'"


def instant(text: str) -> tuple[int, bool]:
    """Microseconds since 1970 in UTC, and whether the text is a date alone (then its first microsecond).

    RFC 3339: seconds and the offset from UTC are required, digits beyond the microsecond are cut off.
    Raises ParseError, a ValueError.
    """
    day = _DATE.match(text)
    if day is None:
        raise ParseError(SHAPE, shown(text))
    year, month, dom = map(int, day.groups())
    try:
        micros = (date(year, month, dom).toordinal() - _EPOCH) * _DAY
    except ValueError:
        raise ParseError("a day that exists, of the years 0001 to 9999", shown(text)) from None
    if day.end() == len(text):
        return micros, True
    time = _TIME.fullmatch(text, day.end())
    if time is None:
        raise ParseError(SHAPE, shown(text))
    hour, minute, second = map(int, time.groups()[:3])
    if second == 60:
        raise ParseError("seconds from 00 to 59 (leap seconds cannot be placed on the time line)", shown(text))
    if hour > 23 or minute > 59 or second > 59:
        raise ParseError("a time of day from 00:00:00 to 23:59:59", shown(text))
    fraction, zone = time.groups()[3:]
    if zone is None:
        raise ParseError("a timestamp with its offset from UTC, 'Z' or such as '+01:00'", shown(text))
    micros += ((hour * 60 + minute) * 60 + second) * _SECOND + _micros(fraction)
    if zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 23 or minutes > 59:
            raise ParseError("an offset from UTC between -23:59 and +23:59", shown(text))
        micros -= (-1 if zone[0] == "-" else 1) * (hours * 60 + minutes) * 60 * _SECOND
    if not _EARLIEST <= micros <= _LATEST:
        raise ParseError("a time within the years 0001 to 9999 in UTC", shown(text))
    return micros, False


def iso(text: str) -> str:
    """A timestamp of ISO 8601 as ``instant`` reads it.

    A space may stand for the T, seconds may be left out, and an offset may be ``+01`` or ``+0100``.
    """
    found = _ISO.fullmatch(text) if len(text) <= 100 else None
    if found is None:
        return text
    day, minutes, seconds, utc, hours, rest = found.groups()
    offset = utc or (f"{hours}:{rest or '00'}" if hours else "")
    return f"{day}T{minutes}{seconds or ':00'}{offset}"


def is_local(text: str) -> bool:
    """Whether the text is a timestamp without an offset from UTC."""
    day = _DATE.match(text)
    time = None if day is None else _TIME.fullmatch(text, day.end())
    return time is not None and time[5] is None


def duration(text: str) -> int:
    """Microseconds of an ISO 8601 duration of weeks, days, hours, minutes and seconds. Raises ParseError."""
    match = _DURATION.fullmatch(text) if len(text) <= 100 else None
    if match is None or text.endswith(("P", "T")):
        raise ParseError("a duration such as 'PT5M', 'PT1.5S', 'P7D' or 'P1W'", shown(text))
    years, months, weeks, days, _, hours, minutes, seconds, fraction = match.groups()
    if years or months:
        raise ParseError("a duration in weeks, days or less (years and months vary in length)", shown(text))
    whole = ((int(weeks or 0) * 7 + int(days or 0)) * 24 + int(hours or 0)) * 60 + int(minutes or 0)
    micros = (whole * 60 + int(seconds or 0)) * _SECOND + _micros(fraction)
    if micros > _LATEST - _EARLIEST:
        raise ParseError("a duration of less than ten thousand years", shown(text))
    return micros


def render_instant(micros: int) -> str:
    """The timestamp in UTC, with six decimals only where the microseconds need them. Raises ParseError."""
    if not _EARLIEST <= micros <= _LATEST:
        raise ParseError("microseconds within the years 0001 to 9999", shown(micros))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat().replace("+00:00", "Z")


def _micros(fraction: str | None) -> int:
    return int(fraction[:6].ljust(6, "0")) if fraction else 0
