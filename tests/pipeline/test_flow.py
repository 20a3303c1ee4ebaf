"""The lane from a source to the sinks, on a real Spark: nothing lost, nothing twice, whatever changes on the way."""

import threading
import time
from datetime import UTC, datetime, timedelta

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.registered import registered
from tidegate.pipeline.flow import Flow
from tidegate.runs.parquet_sink import Parquet
from tidegate.runs.sinks import Callback, Console, Sql
from tidegate.runs.sources import FilesSource, GeneratorSource, LogSource

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)


def readings(first, count, value=None):
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"p{i}" for i in numbers],
            "source": ["z"] * count,
            "time": pa.array([TIME + timedelta(seconds=i) for i in numbers], pa.timestamp("us", "UTC")),
            "a": pa.array([float(i % 10) if value is None else value for i in numbers]),
        }
    )


class Collected:
    """A callback that remembers."""

    def __init__(self):
        self.tables = []

    def __call__(self, batch, table):
        self.tables.append(table)

    @property
    def pairs(self):
        return [
            (row["publication_ids"][0], row["subscription_id"]) for table in self.tables for row in table.to_pylist()
        ]


def pairs_of(directory):
    rows = pq.read_table(directory).to_pylist()
    return sorted((row["publication_id"], id) for row in rows for id in row["subscription_ids"])


def drained(spark, source, registry, sinks, directory):
    """Run what is there now, to its end."""
    flow = Flow(spark, source, registry, sinks, checkpoint=directory / "checkpoint")
    flow.start(available_now=True)
    assert flow.wait(120)
    flow.close()
    return flow


def until(flow, publications):
    """Wait until a running flow has done so many."""
    deadline = time.monotonic() + 120
    while flow.status.snapshot().publications < publications:
        assert not flow.wait(0.1)
        assert time.monotonic() < deadline


@pytest.fixture
def registry(tmp_path):
    with tg.Registry(tmp_path / "registry.db") as found:
        yield found


def test_from_the_log_to_every_sink(spark, tmp_path, registry):
    registry.subscribe(*(tg.Subscription(f"s{i}", "ann", f"a > {i}") for i in range(10)))
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        for first in range(0, 5000, 500):
            log.append(readings(first, 500))
    told, lines = Collected(), open(tmp_path / "lines", "w")  # noqa: SIM115
    sinks = [Callback(told), Console(lines), Sql(str(tmp_path / "notes.db")), Parquet(tmp_path / "out")]
    source = LogSource(tmp_path / "log", rows=1700)
    flow = drained(spark, source, registry, sinks, tmp_path)
    lines.close()
    engine = tg.Engine(map(registered, registry))
    expected = engine.publish(readings(0, 5000))
    pairs = sorted((row["publication_ids"][0], row["subscription_id"]) for row in expected.to_pylist())
    assert sorted(told.pairs) == pairs
    assert pairs_of(tmp_path / "out") == pairs
    assert sorted(tg.NotificationStore(tmp_path / "notes.db").read().to_pylist(), key=str) == sorted(
        expected.to_pylist(), key=str
    )
    written = [orjson.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert sorted(row["notification_id"] for row in written) == sorted(expected.column("notification_id").to_pylist())
    status = flow.status.snapshot()
    assert (status.publications, status.notifications, status.batches) == (5000, len(pairs), 4)
    assert (status.quarantined, status.late, status.subscriptions) == (0, 0, 10)


def test_each_publication_meets_who_was_there_when_it_appeared(spark, tmp_path, registry):
    """However batches fall: everything is in the log, with all its changes of subscriptions, before the query runs."""
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        log.append(readings(0, 10, 5.0))
        registry.subscribe(tg.Subscription("early", "ann", "a > 1"))
        log.append(readings(10, 10, 5.0))
        registry.subscribe(tg.Subscription("late", "bob", "a > 2"))
        registry.unsubscribe("ann/early")
        log.append(readings(20, 10, 5.0))
        registry.subscribe(tg.Subscription("early", "cid", "a > 3"))
        log.append(readings(30, 10, 5.0))
    expected = sorted(
        [(f"p{i}", "ann/early") for i in range(10, 20)]
        + [(f"p{i}", "cid/early") for i in range(30, 40)]
        + [(f"p{i}", "bob/late") for i in range(20, 40)]
    )
    for rows, pieces in ((1000, 1), (10, 1), (20, 2)):
        told = Collected()
        where = tmp_path / f"{rows}-{pieces}"
        drained(spark, LogSource(tmp_path / "log", rows=rows, pieces=pieces), registry, [Callback(told)], where)
        assert sorted(told.pairs) == expected


def test_a_subscription_counts_for_whatever_is_appended_after_it_was_made(spark, tmp_path, registry):
    """Under load, in a running query, without an exception to the rule; and one that ended counts no more."""
    told = Collected()
    flow = Flow(spark, LogSource(tmp_path / "log"), registry, [Callback(told)], checkpoint=tmp_path / "checkpoint")
    flow.start()
    must, must_not, stop = [], [], threading.Event()
    log = tg.Log(tmp_path / "log", version=lambda: registry.version)

    def load():
        first = 1_000_000
        while not stop.is_set():
            log.append(readings(first, 50, -1.0))
            first += 50

    loading = threading.Thread(target=load)
    loading.start()
    try:
        for i in range(40):
            registry.subscribe(tg.Subscription(f"s{i}", "ann", f"a = {i + 0.5}"))
            log.append(readings(10 * i, 1, i + 0.5))
            must.append((f"p{10 * i}", f"ann/s{i}"))
            registry.unsubscribe(f"ann/s{i}")
            log.append(readings(10 * i + 1, 1, i + 0.5))
            must_not.append((f"p{10 * i + 1}", f"ann/s{i}"))
    finally:
        stop.set()
        loading.join()
    end = log.end
    until(flow, end)
    flow.stop()
    log.close()
    assert sorted(told.pairs) == sorted(must)
    assert not set(told.pairs) & set(must_not)


def test_a_run_goes_on_where_the_last_one_stopped(spark, tmp_path, registry):
    registry.subscribe(tg.Subscription("all", "ann", "a >= 0"))
    told = Collected()
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        for round in range(3):
            log.append(readings(100 * round, 100))
            sinks = [Callback(told), Parquet(tmp_path / "out"), Sql(str(tmp_path / "notes.db"))]
            drained(spark, LogSource(tmp_path / "log"), registry, sinks, tmp_path)
    expected = sorted((f"p{i}", "ann/all") for i in range(300))
    assert sorted(told.pairs) == expected
    assert pairs_of(tmp_path / "out") == expected
    assert len(tg.NotificationStore(tmp_path / "notes.db")) == 300


def test_a_batch_that_is_run_again_changes_nothing(spark, tmp_path, registry):
    """As after a crash between the sinks and Spark's own note that the batch is done."""
    registry.subscribe(tg.Subscription("all", "ann", "a >= 0"))
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        log.append(readings(0, 100))
        for _ in range(2):
            sinks = [Parquet(tmp_path / "out"), Sql(str(tmp_path / "notes.db"))]
            drained(spark, LogSource(tmp_path / "log"), registry, sinks, tmp_path)
            commits = tmp_path / "checkpoint" / "spark" / "commits"
            assert (commits / "0").exists()
            for path in [*commits.glob("0*"), *commits.glob(".0*")]:
                path.unlink()
            registry.unsubscribe("ann/all")  # does not change what the batch meets
            registry.subscribe(tg.Subscription("all", "ann", "a < 0"))
    assert pairs_of(tmp_path / "out") == sorted((f"p{i}", "ann/all") for i in range(100))
    assert len(tg.NotificationStore(tmp_path / "notes.db")) == 100


def test_files_of_three_formats_with_what_is_wrong_in_them(spark, tmp_path, registry):
    registry.subscribe(tg.Subscription("hot", "ann", "a > 5"), tg.Subscription("red", "bob", "kind = 'red'"))
    folder = tmp_path / "in"
    folder.mkdir()
    good = [
        {"id": "j1", "source": "z", "time": "2026-11-15T08:00:00Z", "a": 7, "kind": "red"},
        {"id": "j2", "source": "z", "time": "2026-11-15T08:00:00Z", "a": 1},
    ]
    bad = [b"{broken", b'{"id": "j3"}', b'"text"', b"\xff\xfe"]
    (folder / "one file.jsonl").write_bytes(b"\n".join([orjson.dumps(good[0]), *bad, orjson.dumps(good[1])]))
    (folder / "two.csv").write_text(
        "id,source,time,a,kind\n"
        "c1,z,2026-11-15T08:00:00Z,8,blue\n"
        "c2,z,yesterday,9,red\n"
        "c3,z\n"
        "c4,z,2026-11-15T08:00:00Z,,red\n"
        ",z,2026-11-15T08:00:00Z,9,red\n"
    )
    pq.write_table(readings(0, 10), folder / "three.parquet")
    (folder / "four.parquet").write_bytes(b"no parquet")
    (folder / "ignored.txt").write_text("nothing")
    told = Collected()
    flow = drained(spark, FilesSource(str(folder)), registry, [Callback(told)], tmp_path)
    hot, red = ("j1", "c1", *(f"p{i}" for i in range(6, 10))), ("j1", "c4")
    assert sorted(told.pairs) == sorted([*((id, "ann/hot") for id in hot), *((id, "bob/red") for id in red)])
    faults = flow.quarantine.faults()
    assert len(faults) == flow.status.snapshot().quarantined == 8
    assert any("line 2 of" in fault.reason and fault.row == "{broken" for fault in faults)
    assert any("timestamp" in fault.reason and "yesterday" in fault.reason for fault in faults)
    pq.write_table(readings(10, 10), folder / "five.parquet")
    told = Collected()
    drained(spark, FilesSource(str(folder)), registry, [Callback(told)], tmp_path)
    assert sorted(told.pairs) == [(f"p{i}", "ann/hot") for i in range(16, 20)]


def test_the_generator_is_the_same_for_the_same_seed_across_restarts(spark, tmp_path, registry):
    registry.subscribe(tg.Subscription("mild", "ann", "temperature > -5"))
    found = []
    for name, runs in (("whole", (3000,)), ("parts", (1000, 1700, 3000))):
        told, done = Collected(), 0
        for total in runs:
            source = GeneratorSource(tmp_path / name / "log", rate=20_000, publications=total)
            flow = Flow(spark, source, registry, [Callback(told)], checkpoint=tmp_path / name / "checkpoint")
            flow.start()
            until(flow, total - done)
            flow.stop()
            assert source.failure is None
            done = total
        found.append(sorted(told.pairs))
    assert found[0] == found[1] != []


def test_a_checkpoint_belongs_to_one_source(spark, tmp_path, registry):
    drained(spark, LogSource(tmp_path / "log"), registry, [], tmp_path)
    with pytest.raises(tg.SettingError, match="the source that this checkpoint belongs to: log"):
        Flow(spark, LogSource(tmp_path / "other"), registry, [], checkpoint=tmp_path / "checkpoint")


def test_a_sink_that_fails_ends_the_flow_with_one_sentence(spark, tmp_path, registry):
    registry.subscribe(tg.Subscription("all", "ann", "a >= 0"))
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        log.append(readings(0, 10))

    def refuses(batch, table):
        raise ValueError("no room at the inn")

    flow = Flow(spark, LogSource(tmp_path / "log"), registry, [Callback(refuses)], checkpoint=tmp_path / "checkpoint")
    flow.start(available_now=True)
    with pytest.raises(tg.PipelineError, match=r"^expected a pipeline that runs; got ValueError: no room at the inn$"):
        flow.wait(60)
    flow.close()


def test_late_publications_are_counted(spark, tmp_path, registry):
    registry.subscribe(tg.Subscription("all", "ann", "a >= 0"))
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        log.append(readings(1000, 10))
        log.append(readings(0, 5))
    told = Collected()
    flow = drained(spark, LogSource(tmp_path / "log", rows=10), registry, [Callback(told)], tmp_path)
    assert len(told.pairs) == 15
    assert flow.status.snapshot().late == 5
