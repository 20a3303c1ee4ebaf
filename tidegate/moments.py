"""Instants: as microseconds since 1970, and as read from what people give for a time (``zoned``).

The model calls it for every field and value that is a time. Knows nothing of publications but their error.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import numpy as np

from tidegate.errors import ParseError, PublicationError, TidegateError, shown
from tidegate.instant import SHAPE, instant, is_local, iso
from tidegate.time_zones import HINT, TimeZone

__all__ = ["micros", "moment", "zoned"]

#: The timestamps that Python reads as ``instant`` does, and much faster.
_USUAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMESTAMP = "a timestamp such as '2026-11-15T08:00:00Z'"
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def micros(when: datetime | date) -> int:
    """Microseconds since 1970, UTC; a date is its midnight."""
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day, tzinfo=UTC)
    return (when - _EPOCH) // _MICROSECOND


def moment(micros: int) -> datetime:
    """The instant so many microseconds after 1970, in UTC."""
    return _EPOCH + micros * _MICROSECOND


def zoned(when: object, what: str, at: str, error: type[TidegateError], zone: TimeZone | None = None) -> datetime:
    """The instant that a datetime or a text of ISO 8601 gives; one without a time zone is in ``zone``."""
    if isinstance(when, str):
        return _read(when, what, at, error, zone)
    if type(when) is not datetime:
        when = _as_datetime(when, what, at, error)
    try:
        offset = when.utcoffset()
    except Exception as exc:  # a tzinfo of the user's own may raise anything
        raise error(f"a datetime with a usable time zone as {what}", f"{type(exc).__name__}: {exc}", at) from None
    if offset is None:
        return _put_in(zone, when, what, at, error)
    if when.year in (1, 9999) and not _EARLIEST <= micros(when) <= _LATEST:
        raise error(f"a time within the years 0001 to 9999 in UTC as {what}", when.isoformat(), at)
    return when


def _as_datetime(when: object, what: str, at: str, error: type[TidegateError]) -> datetime:
    """The plain datetime of one of numpy or pandas."""
    if isinstance(when, np.datetime64):
        when = when.astype("datetime64[us]").item()  # None for not a time, an integer for one beyond all years
    if not isinstance(when, datetime) or when != when:  # pandas has a datetime that is none
        raise error(f"a datetime or a text such as '2026-11-15T08:00:00Z' as {what}", shown(when), at)
    return datetime.combine(when.date(), when.timetz())


def _put_in(zone: TimeZone | None, when: datetime, what: str, at: str, error: type[TidegateError]) -> datetime:
    if zone is None:
        hint = f" {HINT}" if error is PublicationError else ""
        raise error(f"a time with a time zone as {what}{hint}", f"{when.isoformat()} without one", at)
    found = zone.instant(when)
    if found is None:
        raise error(f"a time that clocks show in {zone.name} as {what}", when.isoformat(), at)
    return found


def _read(text: str, what: str, at: str, error: type[TidegateError], zone: TimeZone | None) -> datetime:
    if _USUAL.fullmatch(text):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    without = False
    try:
        try:
            found, is_date = instant(text)
        except ParseError:  # of another form that ISO 8601 has, or without an offset, or wrong
            given = iso(text)
            without = is_local(given)
            found, is_date = instant(f"{given}Z" if without else given)
    except ParseError as wrong:
        expected = _TIMESTAMP if wrong.expected == SHAPE else wrong.expected
        raise error(f"{expected} as {what}", wrong.got, at) from None
    if is_date:
        raise error(f"{_TIMESTAMP} as {what}", shown(text), at)
    return _put_in(zone, moment(found).replace(tzinfo=None), what, at, error) if without else moment(found)
