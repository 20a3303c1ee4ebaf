"""Patterns over a batch DataFrame: Arrow batches may end anywhere, and rows that are no publications are kept."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
import tidegate.patterns
from tests.parts.profiles import examples
from tests.patterns import strategies as patterned
from tidegate import testing as laws
from tidegate.runs.quarantine import Quarantine

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)
BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def small(spark):
    """A Spark whose Arrow batches have 7 rows: they end within a moment, within an event, before and after silences."""
    before = spark.conf.get(BATCH)
    spark.conf.set(BATCH, "7")
    yield spark
    spark.conf.set(BATCH, before)


@pytest.mark.parametrize("family", [name for name in sorted(tidegate.patterns.FAMILIES) if hasattr(patterned, name)])
@examples(1)
@given(data=st.data())
def test_batches_may_end_anywhere(small, family, data):
    wheres = data.draw(st.lists(getattr(patterned, family)(), min_size=8, max_size=12))
    found = [tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(wheres)]
    laws.patterns_agree_on_spark(small, found, data.draw(patterned.streams(30, 40)))


def test_many_publications_of_one_moment(small):
    """They are seen in the order of their ids, wherever a batch ends."""
    found = [
        tg.Subscription("best", "ann", "topk(2, 5, n)"),
        tg.Subscription("pair", "bob", "together('PT1S', n < 9, n > 50)"),
    ]
    moments = [TIME + timedelta(seconds=i // 40) for i in range(120)]
    publications = [tg.Publication(f"p{i * 37 % 120:03d}", "z", t, {"n": i * 31 % 60}) for i, t in enumerate(moments)]
    laws.patterns_agree_on_spark(small, found, publications)


def test_events_that_last(small):
    """A START and its END may lie in different batches; what remembers them sees every publication, in order."""
    hot = "n > 60"
    wheres = [
        f"{hot} AND T_AFTER(end, past({hot} AND T_AFTER(end, past({hot}, 'PT2S')), 'PT2S'))",
        "n > past(n, kind = 'x', 20)",
        "T_DURING(time, past(kind = 'x'))",
        "n > 95",
    ]
    found = [tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(wheres)]
    publications = []
    for i in range(300):
        phase = (None, None, "START", "END")[i % 4]
        id, time = f"p{i - 1 if phase == 'END' else i}", TIME + timedelta(milliseconds=317 * i)
        publications.append(tg.Publication(id, "z", time, {"n": i * 37 % 100, "kind": "xyz"[i % 3]}, phase=phase))
    laws.patterns_agree_on_spark(small, found, publications[::-1])


def test_a_silence_that_nobody_breaks(spark):
    """No publication passes the filter, and those that do not pass move the clock."""
    times = pa.array([TIME, TIME + timedelta(minutes=30)], pa.timestamp("us", "UTC"))
    frame = spark.createDataFrame(pa.table({"id": ["p1", "p2"], "source": ["z", "z"], "time": times, "n": [1, 2]}))
    told = tg.match(frame, [tg.Subscription("mute", "ann", "absent('PT10M', n > 5)")]).toArrow().to_pylist()
    assert [(row["subscription_id"], row["time"]) for row in told] == [("mute", TIME + timedelta(minutes=10))]


@pytest.mark.parametrize("more", [[], [tg.Subscription("plain", "bob", "n > 1")]])
def test_rows_that_are_no_publications_are_kept_once(spark, tmp_path, more):
    times = pa.array([TIME, TIME, TIME], pa.timestamp("us", "UTC"))
    table = pa.table({"id": ["p1", None, "p3"], "source": ["z", "z", "z"], "time": times, "n": [1.0, 2.0, 3.0]})
    frame = spark.createDataFrame(table).coalesce(1)
    found = tg.match(frame, [tg.Subscription("best", "ann", "topk(1, 5, n)"), *more], quarantine=tmp_path / "kept")
    told = [row for row in found.toArrow().to_pylist() if row["subscription_id"] == "best"]
    assert [row["publication_ids"] for row in told] == [["p1"]]
    reasons = [fault.reason for fault in Quarantine.at(tmp_path / "kept").faults()]
    assert [reason.split(";")[0] for reason in reasons] == ["expected a value of id in every row"]
