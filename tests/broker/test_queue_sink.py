"""The queues that a run writes have what its notifications say, whatever is killed on the way."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.broker.test_process_run import Broker, killed
from tests.parts.profiles import examples
from tests.pipeline.lane import WHERE, Stream
from tidegate.broker.delivered_items import DeliveredItems, QueuePosition
from tidegate.broker.process_run import ProcessRun
from tidegate.errors import StoreError
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sinks import Sql
from tidegate.runs.sources import FilesSource, LogSource
from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription
from tidegate.store.log_rows import LogRows
from tidegate.store.notifications import NotificationStore
from tidegate.store.queue_reader import QueueReader
from tidegate.store.queues import Queues, Told

PRINCIPALS = ("ann", "bob", "cid")
FIELDS = ("all", "none", ("n",), ("m", "n"))


def inside(principal, id):
    """The id by which the registry knows a subscription."""
    return f"{principal}/{id}"


def drawn(number, random):
    deliver = random.choice(["stream", "stream", "mqtt", {"webhook": "w"}])
    where = random.choice([*WHERE, "n > 2", "m > 1", "n > 4"])
    return tg.Subscription(
        f"s{number}", random.choice(PRINCIPALS), where, fields=random.choice(FIELDS), deliver=deliver
    )


class World(Broker):
    """A broker with queues, and what subscriptions there ever were."""

    def __init__(self, directory, random, **settings):
        super().__init__(directory, **settings)
        self._random, self._number, self.subscriptions, self._living = random, 0, {}, []

    def subscribe(self):
        made = drawn(self._number, self._random)
        self._number += 1
        self.subscriptions[inside(made.subscriber, made.id)] = made
        self._living.append(inside(made.subscriber, made.id))
        self.registry.subscribe(made)

    def unsubscribe(self):
        if self._living:
            self.registry.unsubscribe(self._living.pop(self._random.randrange(len(self._living))))

    def run(self, rows_of_batch=65_536, sinks=None):
        queues = QueueSink(self.directory / "queues", self.registry)
        return super().run(rows_of_batch, [queues, Sql(self.store)] if sinks is None else sinks)

    def expected(self):
        """By principal and destination what each delivery says, in obvious loops, from the flat notifications."""
        found = defaultdict(list)
        plain = defaultdict(set)
        with NotificationStore(self.store) as store:
            notifications = store.read().to_pylist()
        for one in notifications:
            subscription = self.subscriptions[one["subscription_id"]]
            queue = subscription.subscriber, subscription.destination
            if any(name in str(subscription.where) for name in ("topk", "together", "absent")):
                score, distance = one["score"], one["distance"]
                found[queue].append((tuple(one["publication_ids"]), {subscription.id}, one["time"], score, distance))
            else:
                plain[queue, one["publication_ids"][0], one["time"]].add(subscription.id)
        for (queue, publication, time), ids in plain.items():
            found[queue].append(((publication,), ids, time, None, None))
        return found

    def delivered(self):
        """The same as the queues have it; what they say is checked one by one."""
        found = {}
        with QueueReader(self.directory / "queues") as queues, LogRows(self.directory / "log") as rows:
            items = DeliveredItems(queues, rows)
            for queue in queues:
                position, mine = QueuePosition(0), []
                while (page := items.page(queue, position, self._random.choice([3, 1000]))).items:
                    mine += page.items
                    position = QueuePosition(page.next, page.epoch)
                assert [item["number"] for item in mine] == list(range(1, queues.last(queue) + 1))
                found[queue.principal, queue.destination] = [self.summary(queue, item) for item in mine]
        return found

    def summary(self, queue, item):
        assert item["type"] == "notification"
        assert item["initial"] is False
        publications = item["publications"] if "publications" in item else [item["publication"]]
        mine = [self.subscriptions[inside(queue.principal, id)] for id in item["subscriptions"]]
        assert len({one.id for one in mine}) == len(mine)
        wanted = {"n", "m"} if any(one.fields == "all" for one in mine) else set()
        wanted |= {name for one in mine if isinstance(one.fields, tuple) for name in one.fields}
        for publication in publications:
            assert {"id", "source", "time"} < set(publication)
            assert set(publication["attributes"]) == wanted
        if "publication" in item:
            assert item["time"] == publications[0]["time"]
        time = tg.Publication("p", "z", item["time"], {}).time
        ids = tuple(publication["id"] for publication in publications)
        return ids, set(item["subscriptions"]), time, item.get("score"), item.get("distance")


def in_some_order(queues):
    return {
        queue: sorted(str((ids, sorted(told), time.timestamp(), *rest)) for ids, told, time, *rest in items)
        for queue, items in queues.items()
        if items
    }


@given(seed=st.integers(0, 1 << 32))
@examples(2)
def test_queues_say_what_notifications_say(tmp_path_factory, seed):
    random = Random(seed)
    world = World(tmp_path_factory.mktemp("world"), random, lateness=random.choice([0.0, 1.0]))
    stream = Stream(seed % 1000, disorder=random.choice([0, 1]))
    for _ in range(6):
        world.subscribe()
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(random.randrange(3, 10)):
            for _ in range(random.randrange(1, 4)):
                world.log.append(stream.frame(random.randrange(1, 30)))
            if random.random() < 0.7:
                more = ((Queues, "commit"), (QueueSink, "commit"))
                while not killed(patch, random, world, random.choice([5, 40, 65_536]), more):
                    pass
            random.choice([world.subscribe, world.unsubscribe])()
        world.log.append(stream.last())
    assert world.run()
    assert in_some_order(world.delivered()) == in_some_order(world.expected())


def test_the_order_of_a_queue(tmp_path):
    """By the row that caused a delivery; first the publication, then what patterns tell, by version."""
    world = Broker(tmp_path)
    world.registry.subscribe(
        tg.Subscription("best", "ann", "topk(1, 'PT1H', n)"),
        tg.Subscription("any", "ann", "n >= 0"),
        tg.Subscription("more", "ann", "topk(2, 'PT1H', n)"),
        tg.Subscription("high", "ann", "n > 1"),
    )
    for i, n in enumerate((3, 2, 1)):
        world.log.append({"id": f"p{i}", "source": "z", "time": f"2026-11-15T08:00:0{i}Z", "n": n})
    world.run(sinks=[QueueSink(tmp_path / "queues", world.registry)])
    with QueueReader(tmp_path / "queues") as queues, LogRows(tmp_path / "log") as rows:
        page = DeliveredItems(queues, rows).page(queues.queue("ann"), QueuePosition(0))
    told = [(item["subscriptions"], item.get("publication", {}).get("id")) for item in page.items]
    assert told == [
        (["any", "high"], "p0"), (["best"], None), (["more"], None),
        (["any", "high"], "p1"), (["best"], None), (["more"], None),
        (["any"], "p2"), (["best"], None), (["more"], None),
    ]  # fmt: skip
    assert [item["number"] for item in page.items] == list(range(1, 10))
    assert page.items[1]["publications"] == [page.items[0]["publication"]]
    assert page.items[0]["publication"]["attributes"] == {"n": 3}


def test_queues_of_another_run_are_refused(tmp_path):
    world = Broker(tmp_path)
    world.registry.subscribe(tg.Subscription("any", "ann", "n >= 0"))
    world.log.append({"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z", "n": 1})
    world.run(sinks=[QueueSink(tmp_path / "queues", world.registry)])
    (tmp_path / "checkpoint").rename(tmp_path / "before")
    with pytest.raises(StoreError, match="the run that these queues belong to"):
        world.run(sinks=[QueueSink(tmp_path / "queues", world.registry)])


def test_where_there_is_no_log_content_is_kept_with_the_delivery(tmp_path):
    """Also attributes that no subscription asks about; what patterns name is known by its id."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.jsonl").write_text(
        '{"id": "p1", "source": "z", "time": "2026-11-15T08:00:00Z", "n": 1, "name": "north", "location": [16, 46]}\n'
        '{"id": "p2", "source": "z", "time": "2026-11-15T08:00:01Z", "n": 5, "bag": ["a", "b"]}\n'
    )
    with tg.Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(tg.Subscription("any", "ann", "n >= 0"), tg.Subscription("best", "ann", "topk(1, 2, n)"))
        run = ProcessRun(
            FilesSource(str(folder)), registry, [QueueSink(tmp_path / "queues", registry)],
            checkpoint=tmp_path / "checkpoint", lateness=0.0,
        )  # fmt: skip
        run.start(available_now=True)
        run.wait()
        run.close()
    with QueueReader(tmp_path / "queues") as queues:
        items = DeliveredItems(queues, None).page(queues.queue("ann"), QueuePosition(0)).items
    assert sorted((item["publication"] for item in items[:2]), key=str) == [
        {"id": "p1", "source": "z", "time": "2026-11-15T08:00:00.000000Z", "location": {"lon": 16.0, "lat": 46.0},
         "attributes": {"n": 1, "name": "north"}},
        {"id": "p2", "source": "z", "time": "2026-11-15T08:00:01.000000Z", "attributes": {"n": 5, "bag": ["a", "b"]}},
    ]  # fmt: skip
    assert [item["publications"] for item in items[2:]] == [[{"id": "p1"}]]


def test_what_cannot_be_shown_is_told(tmp_path):
    """What retention has passed is a gap, what was left out on purpose is skipped, and what the log dropped is gone."""
    with (
        tg.Registry(tmp_path / "registry.db") as registry,
        tg.Log(tmp_path / "log", segment_bytes=1, version=lambda: registry.version) as log,
    ):
        registry.subscribe(tg.Subscription("any", "ann", "n >= 0"))
        for i in range(6):
            log.append({"id": f"p{i}", "source": "z", "time": f"2026-11-15T08:00:0{i}Z", "n": i})
        sink = QueueSink(tmp_path / "queues", registry, most=4)
        run = ProcessRun(
            LogSource(tmp_path / "log", keep_bytes=1), registry, [sink], checkpoint=tmp_path / "checkpoint"
        )
        run.start(available_now=True)
        run.wait()
        run._tidy()
        run.close()
    with QueueReader(tmp_path / "queues", most=4) as queues, LogRows(tmp_path / "log") as rows:
        queue = queues.queue("ann")
        page = DeliveredItems(queues, rows).page(queue, QueuePosition(1))
        assert page.items[0] == {"type": "gap", "from": 2, "to": 2, "oldest": 3, "reason": "retention"}
        assert [item["number"] for item in page.items[1:]] == [3, 4, 5, 6]
        assert page.items[1]["publication"] == {
            "id": "p2", "source": "z", "time": "2026-11-15T08:00:02.000000Z", "gone": True
        }  # fmt: skip
        beyond = DeliveredItems(queues, rows).page(queue, QueuePosition(7))
        assert beyond.items[0] == {"type": "gap", "from": 1, "to": 2, "oldest": 3, "reason": "beyond"}
        other = DeliveredItems(queues, rows).page(queue, QueuePosition.parsed("beef-4"))
        assert (other.items[0]["reason"], len(other.items), other.next) == ("epoch", 5, 6)
        again = DeliveredItems(queues, rows).page(queue, QueuePosition.parsed(f"{queue.epoch}-4"))
        assert [item["number"] for item in again.items] == [5, 6]


def test_numbers_that_were_left_out_are_one_item(tmp_path):
    with Queues(tmp_path) as queues:
        queue = queues.make("ann")
        kinds = [DeliveryKind.SKIPPED] * 3
        more = {0: b'"expired"', 1: b'"expired"', 2: b'"unpublished"'}
        one = np.arange(3)
        told = Told(np.array(kinds, np.uint8), one, more, one, one, np.full(3, queue.number, np.int32))
        queues.commit(0, 1, told, lambda numbers: [MatchedSubscription("s", "all").packed() for _ in numbers])
        page = DeliveredItems(queues, None).page(queue, QueuePosition(0))
    assert page.items == [
        {"type": "skipped", "from": 1, "number": 2, "reason": "expired"},
        {"type": "skipped", "from": 3, "number": 3, "reason": "unpublished"},
    ]
    assert page.next == 3
