"""The cases that hubs of the Mercure protocol are tried with, for our streams: how events are written, from which id a
stream goes on, and that no id leaves a client in silence.

Events are read as the HTML standard says (section 9.2.6), from bytes, by a reader of its own. What a wrong token,
another principal and a slow client get is in ``test_revoked.py``, ``test_access_law.py`` and ``test_delivery.py``.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

import pytest

from tests.gateway.live_broker import live
from tests.gateway.test_notifications import publications


class Event(NamedTuple):
    """An event as a browser gives it: its type, the data, and the last id."""

    type: str
    data: str
    id: str

    @property
    def item(self):
        return json.loads(self.data)


class EventReader:
    """Reads the events of a stream, None for a comment; notes the last id and the time to wait before a reconnect."""

    def __init__(self, chunks):
        self._chunks = chunks
        self.retry, self.last_id = None, ""

    def __iter__(self):
        type, data = "", []
        for line in self._lines():
            if not line:
                if data:
                    yield Event(type or "message", "\n".join(data), self.last_id)
                type, data = "", []
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match name:
                case "":
                    yield None
                case "event":
                    type = value
                case "data":
                    data.append(value)
                case "id":
                    self.last_id = value
                case "retry":
                    self.retry = int(value)
                case _:
                    raise AssertionError(line)

    def _lines(self):
        """Lines end with CRLF, LF or CR, and with nothing else; one whose end has not come is none yet."""
        rest = b""
        for chunk in self._chunks:
            *lines, rest = re.split(rb"\r\n|\n|\r", rest + chunk)
            yield from (line.decode() for line in lines)


@contextmanager
def reading(broker, principal="ann", last=None, **query):
    headers = {} if last is None else {"Last-Event-ID": last}
    with broker.client(principal) as client, client.stream("GET", "/v1/stream", params=query, headers=headers) as found:
        assert found.status_code == 200, found.read()
        yield EventReader(found.iter_raw())


def numbers(broker, count, last=None, **query):
    """The numbers of the first events."""
    with reading(broker, last=last, **query) as found:
        return [event.item["number"] for event in islice(found, count)]


def publish(broker, first, count, **more):
    with broker.client("ann") as ann:
        items = [{**one, **more} for one in publications(first, count)]
        assert ann.post("/v1/publications", json=items).json()["accepted"] == count
    broker.run()


def prepare(broker, *principals):
    broker.register(*principals)
    for principal in principals:
        with broker.client(principal) as client:
            assert client.put("/v1/subscriptions/s", json={"where": "n >= 0"}).status_code == 201


@pytest.fixture
def broker(tmp_path):
    with live(tmp_path) as found:
        prepare(found, "ann")
        yield found


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """A broker with five events for ann, which nobody changes, and ann's epoch."""
    with live(tmp_path_factory.mktemp("five")) as found:
        prepare(found, "ann", "bob")
        publish(found, 0, 5)
        yield found


@pytest.fixture
def epoch(five):
    return epoch_of(five, "ann")


def epoch_of(broker, principal):
    with broker.client(principal) as client:
        return client.get("/v1/notifications").json()["epoch"]


# --- how it is written ----------------------------------------------------------------------------------------------


def test_the_answer_begins_at_once_and_says_when_to_come_again(broker):
    """Before there is any event, so that a browser knows that it is connected."""
    with broker.client("ann") as ann, ann.stream("GET", "/v1/stream") as found:
        headers = found.headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
        assert next(found.iter_raw()) == b"retry: 1000\n\n"


def test_the_bytes_of_an_event(five, epoch):
    with five.client("ann") as ann, ann.stream("GET", "/v1/stream", params={"after": "4"}) as found:
        text = b""
        for chunk in found.iter_raw():
            text += chunk
            if text.endswith(b"\n\n") and b"data" in text:
                break
    begin = f"retry: 1000\n\nevent: notification\nid: {epoch}-5\ndata: ".encode()
    assert text.startswith(begin)
    assert re.fullmatch(rb"\{[^\n\r]*\}\n\n", text.removeprefix(begin))


def test_data_of_several_lines_is_one_event(broker):
    """Whatever ends a line, or would end the event and begin another, is escaped in JSON."""
    texts = ["a\nb", "a\rb", "a\r\nb\n", "\n\n", "x\n\nevent: gap\nid: 1\ndata: {}\n\n", "\u2028\u2029\u0085\v\f", ":"]
    for number, text in enumerate(texts):
        publish(broker, number, 1, source=f"{text}id: 9", text=text)
    with reading(broker) as found:
        events = list(islice(found, len(texts)))
    for number, (text, event) in enumerate(zip(texts, events, strict=True), 1):
        told = event.item["publication"]
        assert (told["source"], told["attributes"]["text"]) == (f"{text}id: 9", text)
        assert event.id.endswith(f"-{number}")


def test_the_types_of_events_are_those_of_their_data(broker):
    publish(broker, 0, 3)
    with broker.client("ann") as ann, reading(broker) as found:
        before = list(islice(found, 2))
        assert ann.delete("/v1/publications/z1/p0").status_code == 204
        broker.run()
    with reading(broker, last=before[0].id.replace("-1", "-99")) as found:
        events = list(islice(found, 5))
    assert [event.type for event in before] == ["notification"] * 2
    assert [event.type for event in events] == ["gap", "skipped", "notification", "notification", "retracted"]
    assert all(event.item["type"] == event.type for event in [*before, *events])


def test_heartbeats_are_comments_and_leave_the_last_id(tmp_path):
    with live(tmp_path, "[serve]\nheartbeat = 0.05\n") as broker:
        prepare(broker, "ann")
        publish(broker, 0, 1)
        with reading(broker) as found:
            first, *beats = islice(found, 4)
        assert (first.item["number"], beats) == (1, [None] * 3)
        assert (found.last_id, found.retry) == (first.id, 1000)


# --- where it goes on -----------------------------------------------------------------------------------------------


def test_from_the_beginning(five):
    assert numbers(five, 5, after="0") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("at", [1, 2, 4])
def test_from_an_id_in_the_middle(five, epoch, at):
    behind = list(range(at + 1, 6))
    assert numbers(five, len(behind), last=f"{epoch}-{at}") == behind
    assert numbers(five, len(behind), after=f"{epoch}-{at}") == behind
    assert numbers(five, len(behind), after=str(at)) == behind


def test_the_header_counts_before_the_query_and_an_empty_one_is_none(five, epoch):
    assert numbers(five, 1, last=f"{epoch}-4", after="1") == [5]
    assert numbers(five, 2, last="", after="3") == [4, 5]


def test_from_the_newest_id_only_what_is_new_comes(broker):
    publish(broker, 0, 3)
    with reading(broker, last=f"{epoch_of(broker, 'ann')}-3") as found:
        events = iter(found)
        publish(broker, 3, 2)
        assert [event.item["number"] for event in islice(events, 2)] == [4, 5]


def test_history_and_what_comes_meanwhile_follow_each_other(broker):
    publish(broker, 0, 200)
    with reading(broker, after="50") as found:
        events = iter(found)
        told = [event.item["number"] for event in islice(events, 10)]
        publish(broker, 200, 100)
        told += [event.item["number"] for event in islice(events, 240)]
    assert told == list(range(51, 301))


def test_an_id_that_nobody_knows_is_told_and_everything_comes(five, epoch):
    bob = epoch_of(five, "bob")
    for last in ("earliest", "urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb", f"{bob}-2", f"{epoch}-6", f"{epoch}-x"):
        with reading(five, last=last) as found:
            gap, *events = islice(found, 6)
        assert (gap.type, gap.id, gap.item["oldest"]) == ("gap", f"{epoch}-0", 1)
        assert bob not in gap.data  # nor is said whether anybody else knows it
        assert [event.item["number"] for event in events] == [1, 2, 3, 4, 5]


def test_an_id_that_nobody_knows_in_an_empty_queue_leaves_no_client_in_silence(broker):
    with reading(broker, last="urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb") as found:
        events = iter(found)
        assert next(events).type == "gap"
        publish(broker, 0, 2)
        assert [event.item["number"] for event in islice(events, 2)] == [1, 2]


def test_history_that_is_gone_is_told_once(tmp_path):
    with live(tmp_path, '[[sinks]]\ntype = "queues"\nmost = 4\n') as broker:
        prepare(broker, "ann")
        publish(broker, 0, 10)
        epoch = epoch_of(broker, "ann")
        with reading(broker, last=f"{epoch}-2") as found:
            gap, *events = islice(found, 5)
        assert gap.item == {"type": "gap", "from": 3, "to": 6, "oldest": 7, "reason": "retention"}
        assert [event.item["number"] for event in events] == [7, 8, 9, 10]
        assert gap.id == f"{epoch}-6"
        assert numbers(broker, 2, last=gap.id) == [7, 8]


def test_clients_that_lose_their_connection_again_and_again_miss_nothing(broker):
    told, last = [], None
    for count in (1, 4, 2, 7, 1):
        publish(broker, len(told), count)
        with reading(broker, last=last) as found:
            events = list(islice(found, count))
        told += [event.item["number"] for event in events]
        last = events[-1].id
    assert told == list(range(1, 16))


def test_a_broker_that_stops_ends_its_streams_and_the_next_one_goes_on(tmp_path):
    with live(tmp_path) as broker:
        prepare(broker, "ann")
        publish(broker, 0, 3)
        with reading(broker) as found:
            events = iter(found)
            seen = list(islice(events, 2))
            broker.stop()
            seen += events  # it ends, and not amid an event
    with live(tmp_path) as again:
        publish(again, 3, 2)
        assert numbers(again, 5 - len(seen), last=seen[-1].id) == [4, 5]
    assert [event.item["number"] for event in seen] == [1, 2, 3]


# --- what is none ---------------------------------------------------------------------------------------------------


def test_only_get_reads_a_stream(five):
    with five.client("ann") as ann:
        for method in ("POST", "HEAD", "DELETE"):
            answer = ann.request(method, "/v1/stream")
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_other_names_of_the_parameter_are_refused(five):
    with five.client("ann") as ann:
        for name in ("last_event_id", "lastEventID", "Last-Event-ID"):
            answer = ann.get("/v1/stream", params={name: "1"})
            assert (answer.status_code, answer.json()["expected"]) == (422, "a parameter of after")
