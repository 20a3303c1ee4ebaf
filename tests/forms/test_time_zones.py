"""Times without a zone, against a search through the clocks of the zone."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.parts.refusal import assert_refused
from tidegate.index.batch import sift
from tidegate.runs.config import load
from tidegate.time_zones import TimeZone

ZONES = ["Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC", "-03:30"]


def searched(local, zone):
    """The first instant at which clocks of the zone show the time."""
    clock = ZoneInfo(zone) if "/" in zone or zone == "UTC" else timezone(-timedelta(hours=3, minutes=30))
    for minutes in range(-16 * 60, 16 * 60, 15):
        instant = local.replace(tzinfo=UTC) + timedelta(minutes=minutes)
        if instant.astimezone(clock).replace(tzinfo=None) == local:
            return instant
    return None


_changes = st.sampled_from([datetime(2026, 3, 29), datetime(2026, 10, 25), datetime(2026, 3, 8), datetime(2026, 4, 5)])
_locals = st.builds(lambda day, minutes: day + timedelta(minutes=minutes), _changes, st.integers(0, 600))


@examples(60)
@given(times=st.lists(_locals | st.none(), max_size=4), zone=st.sampled_from(ZONES))
def test_a_time_is_when_clocks_first_show_it(times, zone):
    expected = [None if local is None else searched(local, zone) for local in times]
    chosen = TimeZone(zone)
    assert [None if local is None else chosen.instant(local) for local in times] == expected
    found, never = chosen.instants(pa.array(times, pa.timestamp("us")))
    assert found.cast(pa.timestamp("us", "UTC")).to_pylist() == expected
    assert never.tolist() == [i for i, local in enumerate(times) if local is not None and expected[i] is None]


def test_fold_is_the_second_of_two():
    zone, local = TimeZone("Europe/Zurich"), datetime(2026, 10, 25, 2, 30)
    assert zone.instant(local.replace(fold=1)) - zone.instant(local) == timedelta(hours=1)


@pytest.mark.parametrize(
    "given", ["Europe/Zurich", ZoneInfo("Europe/Zurich"), timezone(timedelta(hours=1)), "+01:00", TimeZone("+01:00")]
)
def test_a_zone_is_named_in_several_ways(given):
    found = TimeZone.named(given)
    assert found.instant(datetime(2026, 11, 15, 9)) == datetime(2026, 11, 15, 8, tzinfo=UTC)
    assert pickle.loads(pickle.dumps(found)).name == found.name


@pytest.mark.parametrize("given", ["Mars/Phobos", "", "+1", "+99:99", "../UTC", 5, timezone(timedelta(seconds=90))])
def test_what_is_no_zone_is_refused(given):
    assert_refused(lambda: TimeZone.named(given), tg.SettingError, "as timezone")
    record = {"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z"}
    assert_refused(lambda: tg.Engine().publish(record, timezone=given), tg.SettingError, "as timezone")


def test_rows_whose_time_no_clock_shows_are_left_out_with_the_reason():
    times = [datetime(2026, 3, 29, 1, 30), datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 3, 30)]
    table = pa.table({"id": ["a", "b", "c"], "source": ["z"] * 3, "time": pa.array(times, pa.timestamp("us"))})
    texts = table.set_column(2, "time", [[f"{when}" for when in times]])
    for rows in (table, texts):
        batch, (fault,) = sift(rows, TimeZone("Europe/Zurich"))
        assert batch.ids().to_pylist() == ["a", "c"]
        assert fault.row == 1
        assert "2026-03-29 02:30:00" in fault.reason
        assert_refused(
            lambda rows=rows: tg.Engine().publish(rows, timezone="Europe/Zurich"), tg.PublicationError, "row 1"
        )
    record = {"id": "b", "source": "z", "time": times[1]}
    said = "a time that clocks show in Europe/Zurich"
    assert_refused(lambda: tg.Engine().publish(record, timezone="Europe/Zurich"), tg.PublicationError, said)


def test_a_log_takes_what_an_engine_takes(tmp_path):
    with tg.Log(tmp_path / "log") as log:
        log.append({"id": "p", "source": "z", "time": "2026-11-15T09:00:00"}, timezone="Europe/Zurich")
        naive = pa.table({"id": ["q"], "source": ["z"], "time": pa.array([datetime(2026, 11, 15, 9)])})
        assert log.append(naive, timezone="Europe/Zurich").position == 2
        assert_refused(lambda: log.append(naive), tg.PublicationError, "timezone=")


@pytest.mark.parametrize("kind", ['type = "files"\npath = "."', 'type = "kafka"\nservers = "a:1"\ntopic = "t"'])
def test_a_source_has_a_zone(tmp_path, kind):
    rest = '[subscriptions]\nregistry = "r.db"\n[[sinks]]\ntype = "console"\n[run]\ncheckpoint = "c"\n'
    path = tmp_path / "pipeline.toml"
    path.write_text(f'[source]\n{kind}\ntimezone = "Europe/Zurich"\n{rest}')
    assert load(path).source.open().zone.name == "Europe/Zurich"
    path.write_text(f'[source]\n{kind}\ntimezone = "Mars"\n{rest}')
    assert_refused(lambda: load(path), tg.SettingError, "an IANA name", "source.timezone")
