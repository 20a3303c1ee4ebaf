"""Publications that are dated ahead of the stamp with which the log took them, without Spark and on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pyarrow as pa
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.pipeline.lane import TIME, WHERE, Lane, rows, subscription
from tidegate.model import micros
from tidegate.pipeline.flow import Flow
from tidegate.pipeline.from_config import flow_of
from tidegate.pipeline.log_datasource import LogDataSource
from tidegate.runs.config import load
from tidegate.runs.sinks import Callback
from tidegate.runs.sources import FilesSource, LogSource
from tidegate.stages import feed

NOW, SECOND = micros(TIME), 1_000_000
#: Seconds after ``TIME``, far enough for everybody.
NINE_THOUSAND = (datetime(9999, 12, 31, tzinfo=UTC) - TIME) // timedelta(seconds=1)


def readings(first, seconds):
    numbers = range(first, first + len(seconds))
    return pa.table(
        {
            "id": [f"p{i}" for i in numbers],
            "source": [f"z{i % 2}" for i in numbers],
            "time": pa.array([TIME + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC")),
            "n": [float(i % 6) for i in numbers],
            "m": [float(i % 5) for i in numbers],
        }
    )


@pytest.mark.parametrize("ahead", [None, 60])
def test_one_wrong_clock_makes_all_others_late_unless_it_is_refused(tmp_path, ahead):
    lane = Lane(tmp_path, ahead=ahead)
    lane.registry.subscribe(tg.Subscription("best", "ann", "topk(100, 'PT10M', n)"))
    lane.publish(readings(0, [0]), readings(1, [1, NINE_THOUSAND]))
    lane.publish(readings(3, [2]), readings(4, [3]))
    told = [row["publication_ids"] for row in rows(lane.told)]
    refused = lane.quarantine.faults()
    if ahead is None:
        assert ["p3"] not in told
        assert refused == []
        return
    assert {("p3",), ("p4",)} <= set(map(tuple, told))
    assert ["p2"] not in told
    assert (lane.ahead, len(refused)) == (1, 1)
    assert refused[0].reason == (
        "expected a time at most 60 seconds after 2026-11-15T08:00:00+00:00, when it was taken; "
        "got 9999-12-31T00:00:00+00:00; at publication 'p2' of source 'z0'"
    )
    assert "'id': 'p2'" in refused[0].row


#: Appends: how many seconds after the one before, and the times of its publications, in seconds after it.
appends = st.lists(
    st.tuples(st.integers(0, 30), st.lists(st.sampled_from([-9, -1, 0, 1, 5, 6, 60, NINE_THOUSAND // 2]), max_size=5)),
    min_size=1,
    max_size=6,
)


@examples(4, phases=[Phase.explicit, Phase.generate])  # to shrink takes minutes
@given(appends=appends, ahead=st.sampled_from([0, 5, 60]), lateness=st.sampled_from([0, 3]), data=st.data())
def test_a_backlog_is_judged_as_it_would_have_been_at_once(appends, ahead, lateness, data):
    """Whenever it is read and however it is cut; and it is as if what is refused had never been appended."""
    found = []
    for kind in ("live", "backlog", "without"):
        with TemporaryDirectory() as directory:
            lane = Lane(Path(directory), lateness, ahead=None if kind == "without" else ahead)
            lane.registry.subscribe(*(subscription(i) for i in range(len(WHERE))))
            refused, number = 0, 0
            for pause, seconds in appends:
                lane.now += pause * SECOND
                since = (lane.now - NOW) // SECOND
                table, number = readings(number, [since + s for s in seconds]), number + len(seconds)
                if kind == "without":
                    table = table.filter(pa.array([s <= ahead for s in seconds], pa.bool_()))
                refused += sum(s > ahead for s in seconds)
                lane.log.append(table)
                if kind != "backlog" or data.draw(st.booleans()):
                    lane.batch()
            lane.now += 10**15
            lane.publish(readings(number, [10**6]))
            found.append(rows(lane.told))
            assert lane.ahead == len(lane.quarantine.faults()) == (0 if kind == "without" else refused)
            lane.registry.close()
            lane.log.close()
    assert found[0] == found[1] == found[2]


class Versions:
    """Of a registry whose subscriptions ask about n."""

    names = frozenset({"n"})

    def of_task(self):
        return 1

    def view(self, oldest, version):
        return self


def test_kafka_is_believed_where_it_stamps_itself():
    """``LogAppendTime`` is 1, ``CreateTime``, which producers choose, is 0."""
    records = [("2026-11-15T08:00:00Z", 1), ("9999-12-31T00:00:00Z", "x"), ("9999-12-31T00:00:00Z", 2)]
    values = [orjson.dumps({"id": f"p{i}", "source": "z", "time": time, "n": n}) for i, (time, n) in enumerate(records)]
    batch = pa.record_batch(
        {
            "value": pa.array([*values, b"{broken"], pa.binary()),
            "timestamp": pa.array([TIME] * 4, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([1, 1, 0, 1], pa.int32()),
        }
    )
    timely = [arrived.timely(60 * SECOND) for arrived in feed.texts([batch], Versions())]
    assert sorted(id for arrived in timely for id in arrived.batch.ids().to_pylist()) == ["p0", "p2"]
    reasons = [fault.reason for arrived in timely for fault in arrived.faults]
    assert len(reasons) == 2
    assert sum("publication 'p1' of source 'z'" in reason for reason in reasons) == 1
    assert sum(arrived.ahead for arrived in timely) == 1


def test_only_sources_that_say_when(tmp_path):
    source = FilesSource(str(tmp_path))
    with pytest.raises(
        tg.SettingError, match=r"a source that says when it took a publication \(log, Kafka\) for ahead"
    ):
        Flow(None, source, None, [], checkpoint=tmp_path, ahead=60.0)


@pytest.mark.parametrize(
    ("run", "source", "wanted"),
    [
        ("", 'type = "log"', 65.0),
        ("lateness = 0", 'type = "log"', 60.0),
        ("ahead = 0", 'type = "log"', 0.0),
        ('ahead = "off"', 'type = "log"', None),
        ("", 'type = "files"', None),
        ("", 'type = "generator"', None),
        ("", 'type = "kafka"\nservers = "k:9092"\ntopic = "t"', 65.0),
    ],
)
def test_what_a_file_says(tmp_path, monkeypatch, run, source, wanted):
    given = []
    monkeypatch.setattr(Flow, "__init__", lambda self, *_, **settings: given.append(settings["ahead"]))
    place = "" if "kafka" in source else 'path = "here"'
    (tmp_path / "here").mkdir()
    file = tmp_path / "run.toml"
    file.write_text(
        f'[source]\n{source}\n{place}\n[subscriptions]\nregistry = "r.db"\n'
        f'[[sinks]]\ntype = "console"\n[run]\ncheckpoint = "c"\n{run}\n'
    )
    config = load(file)
    flow_of(config, None, config.source.open(), None)
    assert given == [wanted]


@pytest.mark.parametrize("given", ['"on"', "-1", "true", "inf"])
def test_a_file_that_says_nothing_of_use(tmp_path, given):
    file = tmp_path / "run.toml"
    source, sinks = '[source]\ntype = "log"\npath = "l"', '[[sinks]]\ntype = "console"'
    subscriptions, run = '[subscriptions]\nregistry = "r.db"', f'[run]\ncheckpoint = "c"\nahead = {given}'
    file.write_text("\n".join((source, subscriptions, sinks, run)))
    with pytest.raises(tg.SettingError, match=r"a number of 0 or more.*ahead"):
        load(file)


def test_a_new_checkpoint_may_begin_at_the_end_of_the_log(tmp_path):
    with tg.Log(tmp_path, clock=lambda: NOW) as log:
        log.append(readings(0, [0, 1]))
        for starting, row in (("earliest", 0), ("latest", 2)):
            options = {"path": str(tmp_path), "starting": LogSource(tmp_path, starting=starting).starting}
            found = LogDataSource(options).streamReader(None).initialOffset()
            assert (found["row"], found["version"]) == (row, 0)
    with pytest.raises(tg.SettingError, match="one of earliest, latest as starting; got 'newest'"):
        LogSource(tmp_path, starting="newest")


def test_on_spark(spark, tmp_path):
    """The same log with and without ``ahead``."""
    with tg.Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(tg.Subscription("best", "ann", "topk(100, 'PT10M', n)"))
        with tg.Log(tmp_path / "log", version=lambda: registry.version, clock=lambda: NOW) as log:
            for number, seconds in enumerate([[0], [1, NINE_THOUSAND], [2], [3]]):
                log.append(readings(number * 10, seconds))
        assert on_spark(spark, registry, tmp_path, None) == {"p0", "p10", "p11"}
        assert on_spark(spark, registry, tmp_path, 60.0) == {"p0", "p10", "p20", "p30"}


def on_spark(spark, registry, directory, ahead):
    """Who is told of, with a checkpoint of its own."""
    found = []
    flow = Flow(
        spark, LogSource(directory / "log"), registry, [Callback(lambda _, table: found.append(table))],
        checkpoint=directory / f"checkpoint-{ahead}", lateness=0, ahead=ahead,
    )  # fmt: skip
    flow.start(available_now=True)
    assert flow.wait(120)
    flow.close()
    assert flow.status.snapshot().ahead == len(flow.quarantine.faults()) == (0 if ahead is None else 1)
    return {row["publication_ids"][0] for table in found for row in table.to_pylist()}
