"""Times and durations: values, bounds and refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.language import duration, instant, render_instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "micros", "is_date"),
    [
        ("1970-01-01", 0, True),
        ("1970-01-01T00:00:00Z", 0, False),
        ("1969-12-31T23:59:59.999999Z", -1, False),
        ("1970-01-01T00:00:00.1234569Z", 123456, False),
        ("1970-01-01t01:00:00.5z", 3_600_500_000, False),
        ("1970-01-01T01:30:00+01:30", 0, False),
        ("1970-01-01T00:00:00-00:01", 60_000_000, False),
        ("2024-02-29", 19_782 * 86_400_000_000, True),
        ("0001-01-01", -719_162 * 86_400_000_000, True),
    ],
)
def test_instants(text, micros, is_date):
    assert instant(text) == (micros, is_date)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "a date such as"),
        ("now", "a date such as"),
        ("2026-1-5", "a date such as"),
        ("2026-11-15 08:00:00Z", "a date such as"),
        ("2026-11-15T08:00Z", "a date such as"),
        ("2026-11-15T08:00:00Zx", "a date such as"),
        ("２０２６-11-15", "a date such as"),
        ("2026-11-15T08:00:00", "offset from UTC"),
        ("2026-11-15T08:00:60Z", "leap seconds"),
        ("2026-11-15T24:00:00Z", "a time of day"),
        ("2026-11-15T08:60:00Z", "a time of day"),
        ("2026-11-15T08:00:00+24:00", "an offset"),
        ("2026-02-29", "a day that exists"),
        ("0000-01-01", "a day that exists"),
        ("0001-01-01T00:00:00+01:00", "the years 0001 to 9999"),
        ("9999-12-31T23:59:59-01:00", "the years 0001 to 9999"),
    ],
)
def test_refused_instants(text, part):
    with pytest.raises(ValueError, match=r"^expected .*; got ") as caught:
        instant(text)
    assert part in str(caught.value)


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_instants_agree_with_datetime(moment, zone):
    moment = moment.replace(tzinfo=zone)
    micros, is_date = instant(moment.isoformat())
    assert not is_date
    assert EPOCH + timedelta(microseconds=micros) == moment
    assert instant(render_instant(micros)) == (micros, False)


def test_rendering():
    assert render_instant(0) == "1970-01-01T00:00:00Z"
    assert render_instant(-1) == "1969-12-31T23:59:59.999999Z"
    with pytest.raises(ValueError, match="years 0001 to 9999"):
        render_instant(10**20)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT5M", 300),
        ("PT24H", 86_400),
        ("P1W", 604_800),
        ("P1DT2H3M4.5S", 93_784.5),
        ("PT0.000001S", 1e-6),
        ("PT0,5S", 0.5),
        ("PT0S", 0),
    ],
)
def test_durations(text, seconds):
    assert duration(text) == round(seconds * 1_000_000)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("P1Y", "years and months vary in length"),
        ("P2M", "years and months vary in length"),
        ("P", "a duration such as"),
        ("PT", "a duration such as"),
        ("P1DT", "a duration such as"),
        ("5M", "a duration such as"),
        ("-PT5M", "a duration such as"),
        ("PT5.5M", "a duration such as"),
        ("pt5m", "a duration such as"),
        ("PT" + "9" * 5_000 + "S", "a duration such as"),
        ("P9999999999999D", "ten thousand years"),
    ],
)
def test_refused_durations(text, part):
    with pytest.raises(ValueError, match=r"^expected .*; got ") as caught:
        duration(text)
    assert part in str(caught.value)
