"""Every kind of durable file: ``write`` makes one in a directory, ``answers`` says what opening it again gives.

Both use the code that is checked out. So the answers that were written down beside a file of an older format are what
the code of today must still give.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

import tidegate as tg
from tests.pipeline.lane import Lane, Stream, rows, subscription
from tests.store.log_contents import contents
from tests.store.valid_sets import Following, valid_rows
from tests.store.valid_sets import reading as valid
from tests.store.written_queues import NOTHING, few_frames_are_merged, filled, meanings
from tidegate.broker.backup import back_up
from tidegate.broker.batch_record import BatchRecord
from tidegate.broker.restore import restore
from tidegate.index.batch import ObjectBatch
from tidegate.runs.checkpoint import begun
from tidegate.stages import combine, live_shard
from tidegate.stages.shard_state import ShardState
from tidegate.store.cursors import Cursors
from tidegate.store.data_directory import DataDirectory
from tidegate.store.index_layers import IndexLayers
from tidegate.store.log_rows import LogRows
from tidegate.store.notifications import NotificationStore
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_reader import QueueReader
from tidegate.store.queues import Queues
from tidegate.store.registrations import Registration
from tidegate.store.session_records import ConnectionRecord
from tidegate.store.withdrawn_rows import WithdrawnRows

__all__ = ["KINDS", "Kind"]

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)


def reading(number: int, phase: str | None = None, **attributes: Any) -> tg.Publication:
    time = TIME + timedelta(seconds=number)
    return tg.Publication(f"p{number}", "north", time, attributes, location=(16, 46), phase=phase)


def told(notifications: list[tg.Notification]) -> list[list[Any]]:
    """Without the ids of notifications, whose meaning has a number of its own."""
    return sorted([n.subscription, list(n.publications)] for n in notifications)


def _of_ann(id: str) -> str:
    """Her own id of a subscription; registries called it so, too, before they called it ``ann/id``."""
    return id.removeprefix("ann/")


class Kind(ABC):
    """One kind of durable file."""

    @abstractmethod
    def write(self, directory: Path) -> None:
        """Write a small one to a directory that is empty."""

    @abstractmethod
    def answers(self, directory: Path) -> Any:
        """What it gives when it is opened again, as a JSON value. May write to the directory."""


class TheLog(Kind):
    """Several segments, one with two frames of different columns."""

    def write(self, directory: Path) -> None:
        with tg.Log(directory / "log", segment_bytes=2000, clock=lambda: 10**15, version=lambda: 3) as log:
            for number in range(3):
                log.append([reading(number, n=number / 4), reading(10 + number, name="Žabnica")])

    def answers(self, directory: Path) -> Any:
        with tg.Log(directory / "log", version=lambda: 4) as log:
            log.append([reading(99, n=1.5)])
            return [[row["id"], row.get("n"), row.get("name")] for row in contents(log)]


class TheIdentities(Kind):
    """The id index of a data directory, one of whose publications was withdrawn, and the log that it is of."""

    def write(self, directory: Path) -> None:
        data = DataDirectory.made(directory / "data", "process")
        data.know_for(timedelta(days=99_999))
        with data.open_log(version=lambda: 1, clock=lambda: 10**15) as log:
            log.append([reading(number, (None, "START")[number % 2], n=number / 4) for number in range(6)])
            log.unpublish([("north", "p3"), ("north", "p4")])

    def answers(self, directory: Path) -> Any:
        again = [reading(number, (None, "START")[number % 2], n=number / 4) for number in range(7)]
        again[2] = reading(2, None, n=7)
        with DataDirectory.made(directory / "data", "process").open_log(version=lambda: 1) as log:
            found = log.append(again)
            return [*found], log.unpublish([("north", "p3"), ("north", "p5")]), log.end


class GoneRows(Kind):
    """What is left of the rows of a log that were dropped and are still named."""

    def write(self, directory: Path) -> None:
        with tg.Log(directory / "log", segment_bytes=1, clock=lambda: 10**15) as log:
            for number, phase in enumerate((None, "START", None)):
                log.append([reading(number, phase), reading(10 + number)])
            log.retain(before=4, named=lambda begin, end: np.arange(begin, end)[::2])

    def answers(self, directory: Path) -> Any:
        with LogRows(directory / "log") as rows:
            return rows.publications(range(4))


#: A condition of every way in which a snapshot keeps one, and every pattern but ``past``.
WHERE = (
    "n > 1 AND n < 3",
    "name = 'east' OR name LIKE 'w%'",
    "S_DWITHIN(location, POINT(16 46), 500) AND n > 2",
    "A_CONTAINEDBY(bag, (1, 2, 3))",
    "shape(curve, (1, 2, 4, 3)) <= 0.5",
    "topk(2, 'PT1M', n)",
    "together('PT10S', n > 3, name = 'east')",
    "absent('PT30S', n > 4)",
)


class Snapshot(Kind):
    """An engine that was saved with patterns that remember something."""

    where: tuple[str, ...] = WHERE

    def write(self, directory: Path) -> None:
        with tg.Engine([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(self.where)]) as engine:
            engine.publish([reading(number, n=float(number), name="east") for number in range(4)])
            engine.save(directory / "snapshot")

    def answers(self, directory: Path) -> Any:
        with tg.Engine.load(directory / "snapshot") as engine:
            later = [
                reading(5, n=4.5),
                reading(6, name="west", bag=[1, 2]),
                reading(7, curve=[1.0, 2.0, 4.0, 3.1]),
                reading(60, n=2.5),
            ]
            return [[s.id, s.where] for s in engine], told(engine.publish(later))


class FiltersSnapshot(Snapshot):
    """An engine without patterns that was saved."""

    where = WHERE[:5]


class TextsSnapshot(Snapshot):
    """An engine that was saved with patterns of LIKE, some of them in the filters of a pattern."""

    where = (
        "name LIKE '%es%'",
        "name LIKE '_e%t' AND NOT name LIKE '%x%'",
        "CASEI(name) LIKE CASEI('%W%S%')",
        "name LIKE '%st' OR name LIKE '%th'",
        "NOT name LIKE '%e_t%'",
        "name LIKE '_%_' AND shape(curve, (1, 2, 4, 3)) > 9",
        "together('PT2M', name LIKE '%as%' AND n > 2, name LIKE '%w%')",
    )


class PastSnapshot(Snapshot):
    """An engine that was saved with events in memory."""

    where = (
        "n > 2 AND T_AFTER(start, past(n < 2, 'PT1M'))",
        "n < past(n, n > 0, 2)",
        "name = 'west' AND T_DURING(start, past(n > 0))",
    )


class TheRegistry(Kind):
    """A registry with index snapshots, in which a subscription has ended."""

    def write(self, directory: Path) -> None:
        with tg.Registry(directory / "registry.db") as registry:
            registry.subscribe(*(tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(WHERE)))
            registry.prepare(0, registry.version)
            registry.unsubscribe("ann/s0")
            registry.prepare(0, registry.version)

    def answers(self, directory: Path) -> Any:
        with tg.Registry(directory / "registry.db") as registry:
            registry.subscribe(tg.Subscription("new", "ann", "n > 0"))
            version = registry.version
            registry.prepare(0, version)
            view = IndexLayers(registry.index_storage).view(0, version)
            batch = ObjectBatch([reading(0, n=2.5, name="east"), reading(1, bag=[1])])
            found = [view.match(batch, at).owners for at in (8, 9, 10)]
            ids = [sorted(map(_of_ann, view.catalogue.texts("id", owners).to_pylist())) for owners in found]
            return [[s.id, s.where] for s in registry], version, ids


class TheHistory(Kind):
    """Events in a database: one running, one ended, one refused."""

    where = "n > 2 AND T_AFTER(start, past(n < 2, 'PT1M'))"

    def _engine(self, history: tg.History) -> tg.Engine:
        return tg.Engine([tg.Subscription("s", "ann", self.where)], history=history)

    def write(self, directory: Path) -> None:
        with tg.History(directory / "history.db") as history, self._engine(history) as engine:
            engine.publish([reading(0, "START", n=1), reading(1, n=1), reading(2, "END", n=1)])  # an END without START

    def answers(self, directory: Path) -> Any:
        with tg.History(directory / "history.db") as history, self._engine(history) as engine:
            return told(engine.publish([reading(9, n=3)])), engine.refused


class Notifications(Kind):
    """The table of the sink ``sql``."""

    def write(self, directory: Path) -> None:
        with tg.Engine([tg.Subscription("s", "ann", "n > 2")]) as engine:
            table = engine.publish(pa.table({"id": ["a"], "source": ["z"], "time": [TIME], "n": [3.0]}))
        with NotificationStore(directory / "notifications.db") as store:
            store.write("query", 7, table)

    def answers(self, directory: Path) -> Any:
        with NotificationStore(directory / "notifications.db") as store:
            return [[row["subscription_id"], row["publication_ids"]] for row in store.read().to_pylist()]


class Shards(Kind):
    """What a run with patterns leaves in its checkpoint: states with snapshots, parts and changes."""

    def write(self, directory: Path) -> None:
        with self._lane(directory, 2) as lane:
            lane.registry.subscribe(*(subscription(number) for number in range(6)))
            stream = Stream(1)
            for number in range(5):
                if number == 3:
                    lane.registry.subscribe(subscription(6))
                lane.publish(stream.frame(12))
            (directory / "states.json").write_bytes(orjson.dumps(list(lane.states.values())))

    def answers(self, directory: Path) -> Any:
        with self._lane(directory, 100) as lane:
            lane.states = dict(zip(lane.keys, orjson.loads((directory / "states.json").read_bytes()), strict=True))
            lane.row, lane.number = lane.log.end, 4
            stream = Stream(2)
            stream._second, stream._number = 12.0, 1000
            lane.publish(stream.frame(12))
            lane.publish(stream.last())
            return sorted([_of_ann(row["subscription_id"]), row["publication_ids"]] for row in rows(lane.told))

    @contextmanager
    def _lane(self, directory: Path, steps: int) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIDEGATE_CACHE", str(directory / "cache"))
            patch.setattr(live_shard, "_MAPPED", {})
            patch.setattr(combine, "_MOST_STEPS", steps)
            lane = Lane(directory)
            yield lane
            lane.log.close()
            lane.registry.close()


class Checkpoint(Kind):
    """What a checkpoint belongs to."""

    def write(self, directory: Path) -> None:
        begun(str(directory), "log a", True, 3)

    def answers(self, directory: Path) -> Any:
        known = begun(str(directory), "log a", True, 2)
        return known.source, known.patterns, known.shards


class Batches(Kind):
    """What the runner in process has written down about batches: one has ended, one has only begun."""

    def write(self, directory: Path) -> None:
        with BatchRecord(str(directory)) as record:
            for batch in range(2):
                record.begin(batch, {"row": 10 * batch + 10, "version": 3, "time": 10**15})
                if batch == 0:
                    record.end(ShardState(token="t", version=3))

    def answers(self, directory: Path) -> Any:
        with BatchRecord(str(directory)) as record:
            return record.batch, record.offset, record.begun, record.state.version


class TheQueues(Kind):
    """Queues with a base, merged files and journals, and one that has ended; the writer goes on with them."""

    def write(self, directory: Path) -> None:
        with few_frames_are_merged():
            filled(directory / "queues", 12)
            with Queues(directory / "queues") as writer:
                writer.retain(size=1)
                writer.end(writer.queue("p0"))
                writer.commit(12, 12, NOTHING, meanings)
            filled(directory / "queues", 21, queues=4)

    def answers(self, directory: Path) -> Any:
        with QueueReader(directory / "queues") as reader:
            before = self._all(reader)
        filled(directory / "queues", 23)
        with QueueReader(directory / "queues") as reader:
            return before, self._all(reader)

    def _all(self, reader: QueueReader) -> Any:
        found = sorted((queue.principal, queue.destination, reader.read(queue, 0, 1000)) for queue in reader)
        return [
            [principal, destination, page.oldest, page.last, [str(delivery) for delivery in page.deliveries]]
            for principal, destination, page in found
        ]


class TheValidSet(Kind):
    """A valid set of several schemas, from which something was withdrawn; it goes on to follow the log."""

    def write(self, directory: Path) -> None:
        following = Following(directory)
        following.append(valid(0, 50, n=1), valid(1, 50, n=1.5, name="Žabnica"), valid(2))
        following.withdraw(0)
        following.advance()
        following.append(valid(4, 40, bag=[1, 2]))
        following.advance(30)
        following.close()

    def answers(self, directory: Path) -> Any:
        following = Following(directory)
        following.append(valid(5, 60, n=2))
        before, following._batch = valid_rows(following.valid), 1
        following.advance(45)
        after = valid_rows(following.valid)
        found = [group.content.to_pylist() for group in following.valid.groups()]
        withdrawn = WithdrawnRows(directory / "valid").among(np.arange(6)).tolist()
        following.close()
        return before, after, sorted(map(str, found)), withdrawn


class TheCursors(Kind):
    """How far two queues are acknowledged; and sessions: one has ended, one is connected.

    A file of schema 1 has none.
    """

    queues = Queue(0, "ann", "stream", "a1"), Queue(1, "bob", "mqtt", "b1"), Queue(2, "cid", "stream", "c1")

    def write(self, directory: Path) -> None:
        with Cursors(directory / "cursors.db") as cursors:
            cursors.acknowledge({self.queues[0]: (5, 9), self.queues[1]: (2, 2)})
            records, connected = cursors.sessions, [ConnectionRecord("c", "g", "cid", "stream", 7)]
            said = [Registration(number, name, True) for number, name in enumerate(("ann", "bob", "cid", "dan"), 1)]
            records.follow([*said, Registration(5, "ann", False)], 5, 10**15)
            some = {"all_open": connected, "begun": connected, "ended": (), "seen": ["cid"]}
            cursors.acknowledge({}, lambda connection: records.beat(connection, "g", 10**15 + 9, **some))

    def answers(self, directory: Path) -> Any:
        with Cursors(directory / "cursors.db") as cursors:
            before = list(cursors.of(self.queues).values())
            cursors.acknowledge({self.queues[0]: (7, 9)})
            found = before, list(cursors.of(self.queues).values())
            records = cursors.sessions
            records.follow([Registration(6, "eve", True)], 6, 2 * 10**15)
            records.follow([Registration(6, "eve", False)], 7, 2 * 10**15)  # of a version that is known
            if (sessions := records.sessions()) == records.sessions(names=["eve"]):
                return found
            return *found, [*map(tuple, sessions)], [*map(tuple, records.connections(10**15))], records.version


class TheDataDirectory(Kind):
    """What says of a directory that it is one of data, and of which runner."""

    def write(self, directory: Path) -> None:
        DataDirectory.made(directory / "data", "process")

    def answers(self, directory: Path) -> Any:
        return DataDirectory.made(directory / "data", "process").runner


class ABackup(Kind):
    """A backup of a data directory with a log, a registry, queues and cursors."""

    def write(self, directory: Path) -> None:
        data = DataDirectory.made(directory / "data", "process")
        data.checkpoint.mkdir()
        with tg.Registry(data.registry) as registry, tg.Log(data.log, clock=lambda: 10**15, version=lambda: 1) as log:
            registry.subscribe(tg.Subscription("s", "ann", "n > 0"))
            log.append([reading(number, n=1.5) for number in range(50)])
        filled(data.queues, 3)
        with QueueReader(data.queues) as reader, Cursors(data.cursors) as cursors:
            cursors.acknowledge({queue: (2, reader.last(queue)) for queue in reader})
        back_up(data, directory / "backup")
        shutil.rmtree(data.path)

    def answers(self, directory: Path) -> Any:
        found = restore(directory / "backup", directory / "restored")
        with tg.Registry(found.data.registry) as registry, LogRows(found.data.log) as rows:
            known = registry.version, [row["id"] for row in rows.publications([0, 49])]
        with QueueReader(found.data.queues) as reader, Cursors(found.data.cursors) as cursors:
            queues = [[queue.principal, reader.last(queue), cursors.of([queue])[queue]] for queue in reader]
        return known, queues, found.manifest.rows, found.manifest.runner


KINDS: dict[str, Kind] = {
    "log": TheLog(),
    "ids": TheIdentities(),
    "gone": GoneRows(),
    "filters": FiltersSnapshot(),
    "snapshot": Snapshot(),
    "texts": TextsSnapshot(),
    "past": PastSnapshot(),
    "registry": TheRegistry(),
    "history": TheHistory(),
    "notifications": Notifications(),
    "shards": Shards(),
    "checkpoint": Checkpoint(),
    "batches": Batches(),
    "queues": TheQueues(),
    "valid": TheValidSet(),
    "cursors": TheCursors(),
    "data": TheDataDirectory(),
    "backup": ABackup(),
}
