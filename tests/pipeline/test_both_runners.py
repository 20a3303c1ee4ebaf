"""Spark and the runner in process give the same notifications of the same log and registry, ids and all."""

from __future__ import annotations

import time
from random import Random

import pytest

import tidegate as tg
from tests.broker.test_history_sink import WHERE, publication, written
from tests.broker.test_history_sink import Stream as EventStream
from tests.pipeline.lane import Stream, rows, subscription
from tests.pipeline.references import Referred, check
from tidegate.broker.delivered_items import DeliveredItems, QueuePosition
from tidegate.broker.process_run import ProcessRun
from tidegate.pipeline.flow import Flow
from tidegate.runs.history_sink import HistorySink
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sinks import DriverSink, Sql
from tidegate.runs.sources import FilesSource, LogSource
from tidegate.store.log_rows import LogRows
from tidegate.store.notifications import NotificationStore
from tidegate.store.queue_reader import QueueReader

pytestmark = pytest.mark.spark


class Noted(DriverSink):
    """A sink that notes the cut of each batch, and fails where it is told to."""

    def __init__(self, cuts, failing=-1):
        self.cuts, self._failing = cuts, failing

    def commit(self, batch, receipts):
        self.cuts.append((batch, receipts.cut))
        if batch == self._failing:
            raise tg.StoreError("room to write", "none", "the sink")


def run_of(name, spark, *arguments, **settings):
    return Flow(spark, *arguments, **settings) if name == "spark" else ProcessRun(*arguments, **settings)


def items_of(queues, log):
    """What ann's queue says, without what depends on how batches were cut."""
    with QueueReader(queues) as reader, LogRows(log) as content:
        page = DeliveredItems(reader, content).page(reader.queue("ann"), QueuePosition(0), 10_000)
        assert [item["number"] for item in page.items] == list(range(1, page.last + 1))
    return sorted(str({**item, "number": None, "matched_at": None}) for item in page.items)


def test_both_runners_give_the_same_notifications(spark, tmp_path):
    with (
        tg.Registry(tmp_path / "registry.db") as registry,
        tg.Log(tmp_path / "log", version=lambda: registry.version) as log,
    ):
        stream, names = Stream(7, disorder=1), {}
        for number in range(8):
            registry.subscribe(subscription(number))
            names[registry.version] = f"ann/s{number}"
            if number == 5:
                registry.unsubscribe("ann/s1")
            log.append(stream.frame(60))
        log.append(stream.last())
        told, delivered, cuts = {}, {}, {"spark": [], "process": []}
        for name, size in (("spark", 150), ("process", 70)):
            source, referred = LogSource(tmp_path / "log", rows=size), Referred()
            queues = QueueSink(tmp_path / f"{name}-queues", registry)
            sinks = [Sql(tmp_path / f"{name}.db"), Noted(cuts[name]), referred, queues]
            run = run_of(name, spark, source, registry, sinks, checkpoint=tmp_path / name, lateness=1.0)
            run.start(available_now=True)
            run.wait()
            run.close()
            with NotificationStore(tmp_path / f"{name}.db") as store:
                told[name] = rows([store.read()])
            assert sum(check(referred.told, log, names)) == len(told[name])
            delivered[name] = items_of(tmp_path / f"{name}-queues", tmp_path / "log")
    assert delivered["process"] == delivered["spark"]
    assert len(delivered["spark"]) == len(told["spark"])  # no publication matches two plain subscriptions of one queue
    assert told["process"] == told["spark"]
    assert len(told["spark"]) > 100
    # the stamp of the last row where a batch ends before the log does
    assert [(cut.row, cut.version) for _, cut in cuts["spark"]] == [(120, 2), (240, 4), (360, 7), (481, 9)]
    assert [cut.row for _, cut in cuts["process"]] == [60, 120, 180, 240, 300, 360, 420, 481]


@pytest.mark.parametrize("name", ["spark", "process"])
@pytest.mark.parametrize("kind", ["log", "files"])
def test_a_batch_that_is_run_again_has_the_same_cut(spark, tmp_path, name, kind):
    folder = tmp_path / "in"
    folder.mkdir()
    began = time.time_ns() // 1000
    with (
        tg.Registry(tmp_path / "registry.db") as registry,
        tg.Log(tmp_path / "log", version=lambda: registry.version) as log,
    ):
        cuts, failing = [], 1
        for number in range(3):
            registry.subscribe(tg.Subscription(f"s{number}", "ann", "n >= 0"))
            one = {"id": f"p{number}", "source": "z", "time": "2026-11-15T08:00:00Z", "n": number}
            if kind == "log":
                log.append(one)
            else:
                (folder / f"{number}.jsonl").write_text(str(one).replace("'", '"'))
            source = LogSource(tmp_path / "log") if kind == "log" else FilesSource(str(folder))
            run = run_of(name, spark, source, registry, [Noted(cuts, failing)], checkpoint=tmp_path / "checkpoint")
            run.start(available_now=True)
            if number == failing:
                with pytest.raises((tg.PipelineError, tg.StoreError), match="room to write"):
                    run.wait()
            else:
                run.wait()
            run.close()
            failing = 1 if number < 1 else -1
    batches, found = zip(*cuts, strict=True)
    assert batches == (0, 1, 1, 2)
    assert found[1] == found[2]
    assert [cut.version for cut in found] == [1, 2, 2, 3]
    assert [cut.row for cut in found] == ([1, 2, 2, 3] if kind == "log" else [-1] * 4)
    times = [began, *(cut.time for cut in found), time.time_ns() // 1000]
    assert times == sorted(times)


@pytest.mark.parametrize("name", ["spark", "process"])
def test_a_new_version_makes_one_empty_cut_and_time_alone_none(spark, tmp_path, name):
    with tg.Registry(tmp_path / "registry.db") as registry:
        cuts = []
        run = run_of(
            name, spark, LogSource(tmp_path / "log"), registry, [Noted(cuts)], checkpoint=tmp_path / "checkpoint"
        )
        run.start()
        for version in (1, 2):
            registry.subscribe(tg.Subscription(f"s{version}", "ann", "absent('PT3S', n > 4.9)"))
            until = time.monotonic() + 30
            while len(cuts) < version and time.monotonic() < until:
                assert not run.wait(0.01)
        run.wait(0.5)
        run.stop()
    assert [(batch, cut.row, cut.version) for batch, cut in cuts] == [(0, 0, 1), (1, 0, 2)]


def test_both_runners_write_the_same_history_but_for_what_one_shard_alone_knows(spark, tmp_path):
    """A shard that hears of an event later takes its second START, so the event began twice, and its END ends both."""
    random, runs = Random(11), {"spark": 40, "process": 23}
    with (
        tg.Registry(tmp_path / "registry.db") as registry,
        tg.Log(tmp_path / "log", version=lambda: registry.version) as log,
    ):
        stream = EventStream(random, 3)

        def run():
            for name, size in runs.items():
                source, sink = (
                    LogSource(tmp_path / "log", rows=size),
                    HistorySink(tmp_path / f"{name}.db", log.directory),
                )
                made = run_of(name, spark, source, registry, [sink], checkpoint=tmp_path / name, lateness=2.0)
                made.start(available_now=True)
                made.wait()
                made.close()
            found = {}
            for name in runs:
                with tg.History(tmp_path / f"{name}.db") as history:
                    found[name] = written(history)
            return found["spark"], found["process"]

        registry.subscribe(tg.Subscription("s", "ann", " OR ".join(WHERE[:3])))  # in one shard
        for _ in range(5):
            log.append(stream.frame(30))
        log.append([publication("r", 1000, "START"), publication("later", 2000)])
        spark_wrote, process_wrote = run()
        assert spark_wrote == process_wrote
        assert all(map(len, spark_wrote))
        registry.subscribe(*(tg.Subscription(f"t{i}", "ann", WHERE[i]) for i in range(4)))  # in all shards
        log.append([publication("r", 2001, "START"), publication("r", 2002, "END"), publication("later", 3000)])
        (begun, ended, refused), (begun_of_one, ended_of_one, refused_of_one) = run()
    assert set(begun) - set(begun_of_one) == {2001}
    assert (ended[1000], ended[2001]) == (ended_of_one[1000], ended_of_one[1000])
    assert sorted([*refused, ("second start", 2001)]) == refused_of_one
