"""The runner in process tells what the stages tell on Spark, whatever it is cut into and wherever it is killed."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.pipeline.lane import Lane, Stream, rows, subscription
from tests.pipeline.references import Referred, check
from tidegate.broker import batch_record
from tidegate.broker.batch_record import BatchRecord
from tidegate.broker.process_run import ProcessRun
from tidegate.errors import SettingError, StoreError
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sinks import Callback, DriverSink, Sql
from tidegate.runs.sources import FilesSource, KafkaSource, LogSource
from tidegate.stages.combine import CombineStep
from tidegate.stages.shard_state import ShardState
from tidegate.store.notifications import NotificationStore
from tidegate.store.principals import Principals
from tidegate.store.queue_reader import QueueReader


class Killed(BaseException):
    """What ends a run at once, as a signal would."""


class Broker:
    """A log, a registry, and runs of them that go on where the last one ended."""

    def __init__(self, directory, lateness=0.0, **settings):
        self.directory, self._settings = directory, {"lateness": lateness, **settings}
        self.registry = tg.Registry(directory / "registry.db")
        self.log = tg.Log(directory / "log", version=lambda: self.registry.version)
        self.store = directory / "notifications.db"
        self.referred, self.names = Referred(), {i + 1: f"ann/s{i}" for i in range(3)}

    def run(self, rows_of_batch=65_536, sinks=None):
        """Run what is there now."""
        source = LogSource(self.directory / "log", rows=rows_of_batch)
        sinks = self.sinks if sinks is None else sinks
        run = ProcessRun(source, self.registry, sinks, checkpoint=self.directory / "checkpoint", **self._settings)
        run.start(available_now=True)
        try:
            run.wait()
        except Killed:  # what was not written is lost with the process
            run._record._unwritten = b""
            return False
        finally:
            run.close()
        return True

    @property
    def sinks(self):
        return [Sql(self.store), self.referred]

    def told(self):
        with NotificationStore(self.store) as store:
            return rows([store.read()])


class Cuts(DriverSink):
    """A sink that keeps the cut of each batch, also of one that is run again."""

    def __init__(self, found):
        self._found = found

    def commit(self, batch, receipts):
        assert self._found.setdefault(batch, receipts.cut) == receipts.cut


def changed(broker, lane, number, random):
    """Subscriptions come and go, in both alike."""
    change = random.randrange(4)
    for registry in (broker.registry, lane.registry):
        if change == 0:
            registry.subscribe(subscription(number))
            broker.names[registry.version] = f"ann/s{number}"
        elif change == 1 and number > 3:
            registry.unsubscribe(f"ann/s{number % 3}") if f"s{number % 3}" in {s.id for s in registry} else None


@given(seed=st.integers(0, 1 << 32))
@examples(3)
def test_both_runners_tell_the_same_for_any_cuts_and_kills(tmp_path_factory, seed):
    random = Random(seed)
    lateness = random.choice([0.0, 1.0])
    broker = Broker(tmp_path_factory.mktemp("process"), lateness)
    lane = Lane(tmp_path_factory.mktemp("lane"), lateness)
    stream = Stream(seed % 1000, disorder=random.choice([0, 1]))
    for registry in (broker.registry, lane.registry):
        registry.subscribe(*map(subscription, range(3)))
    with pytest.MonkeyPatch.context() as patch:
        for number in range(3, random.randrange(6, 14)):
            frames = [stream.frame(random.randrange(1, 30)) for _ in range(random.randrange(1, 4))]
            for frame in frames:
                broker.log.append(frame)
            lane.publish(*frames)
            if random.random() < 0.7:
                while not killed(patch, random, broker, random.choice([5, 40, 65_536])):
                    pass
            changed(broker, lane, number, random)
        last = stream.last()
        broker.log.append(last)
        lane.publish(last)
        patch.undo()
        assert broker.run()
    assert broker.told() == rows(lane.told)
    assert broker.told()
    matches, raised = check(broker.referred.told, broker.log, broker.names)
    assert matches + raised == len(broker.told())


def killed(patch, random, broker, size, more=()):
    """Run what is there, maybe killed on the way, before or after a step; whether it ended by itself."""
    left = random.choice([1, 2, 5, 1000])

    def deadly(method):
        def called(*arguments, **more):
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            result = method(*arguments, **more)
            left -= 1
            if left == 0:
                raise Killed
            return result

        return called

    with patch.context() as deadly_patch:
        steps = (BatchRecord, "begin"), (BatchRecord, "end"), (CombineStep, "step"), (Sql, "commit")
        for owner, name in (*steps, *more):
            deadly_patch.setattr(owner, name, deadly(getattr(owner, name)))
        return broker.run(size)


def test_it_wakes_when_the_log_grows_and_stops_when_asked(tmp_path):
    broker, found = Broker(tmp_path), []
    broker.registry.subscribe(tg.Subscription("all", "ann", "n >= 0"))
    source, sink = LogSource(tmp_path / "log"), Callback(lambda _, told: found.append(told.num_rows))
    run = ProcessRun(source, broker.registry, [sink], checkpoint=tmp_path / "checkpoint")
    run.start()
    for i in range(5):
        broker.log.append({"id": f"p{i}", "source": "z", "time": "2026-11-15T08:00:00Z", "n": i})
    while sum(found) < 5:
        assert not run.wait(0.01)
    run.stop()
    assert run.wait(0)
    assert run.status.publications == 5


def test_files_are_read_once(tmp_path):
    folder, found = tmp_path / "in", []
    folder.mkdir()
    with tg.Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(tg.Subscription("all", "ann", "n >= 0"))
        for i in range(6):
            line = f'{{"id": "p{i}", "source": "z", "time": "2026-11-15T08:00:00Z", "n": {i}}}\n'
            (folder / f"{i}.jsonl").write_text(line)
            if i % 2:
                sink = Callback(lambda _, told: found.extend(told.column("publication_ids").to_pylist()))
                source = FilesSource(str(folder), files=1)
                run = ProcessRun(source, registry, [sink], checkpoint=tmp_path / "checkpoint")
                run.start(available_now=True)
                run.wait()
                run.close()
    assert sorted(found) == [[f"p{i}"] for i in range(6)]


def test_a_failure_of_a_sink_is_raised_and_its_batch_is_run_again(tmp_path):
    broker = Broker(tmp_path)
    broker.registry.subscribe(tg.Subscription("all", "ann", "n >= 0"))
    broker.log.append({"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z", "n": 1})

    def fails(_, told):
        raise StoreError("room to write", "No space left on device", "the sink")

    with pytest.raises(StoreError, match="No space left"):
        broker.run(sinks=[Callback(fails)])
    batches = []
    assert broker.run(sinks=[Callback(lambda batch, told: batches.append((batch, told.num_rows)))])
    assert batches == [(0, 1)]


def test_a_checkpoint_remembers_its_runner(tmp_path):
    from tidegate.runs.checkpoint import begun

    broker = Broker(tmp_path)
    assert broker.run()
    with pytest.raises(SettingError, match="begun with: process; got spark"):
        begun(str(tmp_path / "checkpoint"), f"log {tmp_path / 'log'}", True, 2)


def test_what_only_spark_can_is_refused(tmp_path):
    with tg.Registry(tmp_path / "registry.db") as registry:
        kafka = ProcessRun(KafkaSource("localhost:1", "t"), registry, [], checkpoint=tmp_path / "a")
        with pytest.raises(SettingError, match="a log or files"):
            kafka.start()
        with pytest.raises(SettingError, match="directory of this machine"):
            ProcessRun(LogSource(tmp_path / "log"), registry, [], checkpoint="s3://bucket/x")


# --- the record -----------------------------------------------------------------------------------------------------


def states(random):
    state = ShardState()
    while True:
        yield state
        state = ShardState(token=f"{random.random()}", version=random.randrange(9))


@given(seed=st.integers(0, 1 << 32))
@examples(20)
def test_a_record_knows_what_was_begun_and_ended(tmp_path_factory, seed):
    random, directory = Random(seed), tmp_path_factory.mktemp("record")
    known, state = states(random), ShardState()
    batch, offset = -1, None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_record, "_LARGE", 600)
        record = BatchRecord(str(directory))
        for _ in range(random.randrange(30)):
            if random.random() < 0.2:
                record.close()
                record = BatchRecord(str(directory))
            assert (record.batch, record.offset, record.begun, record.state) == (batch, offset, None, state)
            batch += 1
            record.begin(batch, {"row": 10 * batch})
            if random.random() < 0.2:
                record.close()
                record = BatchRecord(str(directory))
            assert (record.batch, record.offset, record.begun) == (batch, offset, {"row": 10 * batch})
            offset, state = record.begun, next(known)
            record.end(state)
        record.close()


def test_a_record_of_another_format_is_refused(tmp_path, monkeypatch):
    for number in (1, 3):
        (directory := tmp_path / f"{number}").mkdir()
        monkeypatch.setattr(batch_record, "_FORMAT", number)
        with BatchRecord(str(directory)) as record:
            record.begin(0, {"row": 5})
        monkeypatch.undo()
        with pytest.raises(StoreError, match=f"a record of format 2; got format {number}"):
            BatchRecord(str(directory))


def test_a_torn_line_was_not_begun_and_a_damaged_one_is_refused(tmp_path):
    with BatchRecord(str(tmp_path)) as record:
        for batch in range(3):
            record.begin(batch, {"row": batch})
            record.end(ShardState())
    path = tmp_path / "batches.journal"
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    with BatchRecord(str(tmp_path)) as record:
        assert (record.batch, record.offset, record.begun) == (2, {"row": 1}, {"row": 2})
    for place, said in ((20, "a damaged line, with others behind it"), (-20, "a damaged line;"), (-1, "damaged line;")):
        damaged = bytearray(data)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=said):
            BatchRecord(str(tmp_path))
    path.write_bytes(data[:-9] + bytes(8) + b"\n")  # a sector that was not written yet
    with BatchRecord(str(tmp_path)) as record:
        assert (record.batch, record.begun) == (2, {"row": 2})


def test_a_record_stays_large_where_there_is_no_room_for_another(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_record, "_LARGE", 600)
    sync, is_full = os.fsync, [True]

    def full(file):
        if is_full[0]:
            raise OSError(28, "No space left on device")
        sync(file)

    with BatchRecord(str(tmp_path)) as record:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            for batch in range(20):
                record.begin(batch, {"row": batch})
                record.end(ShardState())
            assert [path.name for path in tmp_path.iterdir()] == ["batches.journal"]
            large = (tmp_path / "batches.journal").stat().st_size
            is_full[0] = False
            record.begin(20, {"row": 20})
        assert (tmp_path / "batches.journal").stat().st_size < large / 4
    with BatchRecord(str(tmp_path)) as record:
        assert (record.batch, record.offset, record.begun) == (20, {"row": 19}, {"row": 20})


@pytest.mark.parametrize("kept", [0, 1])
def test_a_sink_that_knows_later_batches_than_the_record_is_refused(tmp_path, kept):
    """It would take the next batches, which have other publications, for those that it has."""
    broker = Broker(tmp_path)
    broker.registry.subscribe(tg.Subscription("all", "ann", "n >= 0"))

    def published(number):
        broker.log.append({"id": f"p{number}", "source": "z", "time": "2026-11-15T08:00:00Z", "n": number})
        broker.run(sinks=[QueueSink(tmp_path / "queues", broker.registry)])

    for number in range(3):
        published(number)
    record = tmp_path / "checkpoint" / "batches.journal"
    whole = record.read_bytes()
    record.write_bytes(b"".join(whole.splitlines(keepends=True)[:kept]))
    with pytest.raises(StoreError, match=f"batches up to 2, which a sink has.*got {'one up to 0' if kept else 'none'}"):
        published(3)
    record.write_bytes(whole)
    published(4)
    with QueueReader(tmp_path / "queues") as queues:
        assert [delivery.row for delivery in queues.read(queues.queue("ann"), 0).deliveries] == [0, 1, 2, 3, 4]


def test_another_read_binds_what_appears_from_then_on(tmp_path):
    """Filters and patterns; these begin anew. What appeared before is matched as it was, whenever it is run."""
    broker = Broker(tmp_path)
    broker.registry.subscribe(
        tg.Subscription("any", "ann", "n >= 0"),
        tg.Subscription("best", "ann", "topk(1, 'PT1H', -n)"),
        tg.Subscription("again", "ann", "n = past(n, TRUE)"),
        tg.Subscription("any", "bob", "n >= 0"),
    )

    def publish(*numbers, zone):
        places = range(broker.log.end, broker.log.end + len(numbers))
        times = [f"2026-11-15T08:00:{place:02}Z" for place in places]
        rows = zip(places, times, numbers, strict=True)
        broker.log.append([{"id": f"p{i}", "source": "z", "time": time, "n": n, "zone": zone} for i, time, n in rows])

    publish(9, 9, zone=2)
    with Principals(broker.registry) as principals:
        principals.put("ann", read="zone = 1")
        publish(9, 5, zone=2)
        publish(1, 5, zone=1)
        principals.put("ann", read="zone = 2")
        publish(5, zone=1)
        publish(7, 5, zone=2)
    assert broker.run()
    found = {}
    for row in broker.told():
        found.setdefault(row["subscription_id"], []).append(row["publication_ids"][0])
    assert sorted(found.pop("bob/any")) == [f"p{i}" for i in range(9)]
    assert {id: sorted(told) for id, told in found.items()} == {
        "ann/any": ["p0", "p1", "p4", "p5", "p7", "p8"],
        "ann/best": ["p0", "p1", "p4", "p5", "p7"],
        "ann/again": ["p1"],
    }
