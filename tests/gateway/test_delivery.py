"""What connections live through: they lag and resume, are unregistered, share a cursor, miss what is kept no longer."""

from __future__ import annotations

import json
import os
import socket
import time
from base64 import b64encode
from contextlib import ExitStack, closing

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.clients import Client, events
from tests.gateway.live_broker import live
from tests.gateway.test_notifications import publications
from tidegate.broker import encoded_items
from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.sessions import Sessions
from tidegate.gateway import channels, notifications, websocket
from tidegate.gateway.websocket_connection import WebSocketConnection


@pytest.fixture
def broker(tmp_path):
    with live(tmp_path) as found:
        yield found


def subscribed(broker, *principals, where="n >= 0"):
    for principal in principals:
        with broker.client(principal) as client:
            assert client.put("/v1/subscriptions/s1", json={"where": where}).status_code in (200, 201)
    broker.run()


def publish(broker, first, count, **more):
    with broker.client("publisher", "publisher") as client:
        assert client.post("/v1/publications", json=publications(first, count, **more)).json()["accepted"] == count
    broker.run()


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def counted(broker, name):
    return sum(count for said, _, count in broker.broker.counts.items() if said == name)


class Frames:
    """A WebSocket of a client that reads when it is told to, and answers no ping."""

    def __init__(self, broker, principal, after="0"):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.settimeout(20)
        host, port = broker.url.removeprefix("http://").split(":")
        self._socket.connect((host, int(port)))
        lines = [
            f"GET /v1/ws?after={after} HTTP/1.1",
            "Host: broker",
            f"Authorization: {broker.token(principal)['Authorization']}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}",
        ]
        self._socket.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        self._read = self._socket.makefile("rb")
        assert b" 101 " in self._read.readline()
        while self._read.readline().strip():
            pass

    def __iter__(self):
        """Frames until the end: their opcodes and what they say."""
        while head := self._read.read(2):
            size = head[1]
            if size == 126:
                size = int.from_bytes(self._read.read(2), "big")
            yield head[0] & 15, self._read.read(size)

    def send(self, opcode, payload, *, is_last=True):
        """A frame whose mask is 0."""
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
        self._socket.sendall(bytes([opcode | (0x80 if is_last else 0)]) + length + bytes(4) + payload)

    def closed(self):
        """The code with which it is closed; what was told before does not matter."""
        *_, (opcode, said) = list(self)
        assert opcode == 8
        return int.from_bytes(said[:2], "big")

    def close(self):
        self._read.close()
        self._socket.close()


def test_who_does_not_read_lags_is_closed_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(channels, "PATIENCE", 0.2)
    with live(tmp_path, "[serve]\nroom = 4096\n") as broker:
        subscribed(broker, "ann", "bob")
        with closing(Frames(broker, "ann")) as stalled, Client(broker, "bob") as reading:
            assert reading.receive()["type"] == "hello"
            publish(broker, 0, 300, text=1000 * "x")
            assert [reading.receive()["number"] for _ in range(300)] == list(range(1, 301))
            until(lambda: counted(broker, "lagging"))
            *told, (opcode, closed) = list(stalled)
        messages = [json.loads(text) for opcode, text in told]
        numbers = [message["number"] for message in messages if message["type"] == "notification"]
        assert numbers == list(range(1, len(numbers) + 1))
        assert 0 < len(numbers) < 300
        assert messages[-1]["type"] == "lagging"
        assert (opcode, int.from_bytes(closed[:2], "big")) == (8, 1013)
        with Client(broker, "ann", query=f"?after={numbers[-1]}") as again:
            assert again.receive()["type"] == "hello"
            assert [again.receive()["number"] for _ in range(300 - numbers[-1])] == list(range(numbers[-1] + 1, 301))


def test_who_lags_is_not_told_to_go_on_behind_what_was_on_its_way(broker, monkeypatch):
    def given_up(channel, items):
        if items[-1].number > 1:  # as where all clients together are too slow
            channel.give_up()
        deliver(channel, items)

    deliver = channels.WebSocketChannel.deliver
    subscribed(broker, "ann")
    with Client(broker, "ann") as socket:
        epoch = socket.receive()["epoch"]
        publish(broker, 0, 1)
        assert socket.receive()["number"] == 1
        monkeypatch.setattr(channels.WebSocketChannel, "deliver", given_up)
        publish(broker, 1, 2)
        assert socket.receive() == {"type": "lagging", "resume": f"{epoch}-1"}
    with closing(Frames(broker, "ann", after=f"{epoch}-1")) as other:
        assert [json.loads(text) for opcode, text in other if opcode == TEXT][1:] == [
            {"type": "lagging", "resume": f"{epoch}-1"}
        ]


def test_what_is_read_together_is_bounded_and_everybody_gets_everything(broker, monkeypatch):
    names = [f"reader-{i}" for i in range(5)]
    subscribed(broker, *names)
    monkeypatch.setattr(encoded_items, "_TOGETHER", 2_500)
    with ExitStack() as opened:
        sockets = [opened.enter_context(Client(broker, name)) for name in names]
        for socket in sockets:
            assert socket.receive()["type"] == "hello"
        publish(broker, 0, 20, text=1000 * "x")
        for socket in sockets:
            assert [socket.receive()["number"] for _ in range(20)] == list(range(1, 21))


# --- what clients send ------------------------------------------------------------------------------------------------

TEXT, MORE, PING = 1, 0, 9


def websockets_of(broker):
    return [one for one in broker.server.server_state.connections if isinstance(one, WebSocketConnection)]


def test_a_message_in_very_many_frames_takes_the_room_of_its_bytes(broker):
    broker.register("ann")
    with closing(Frames(broker, "ann")) as client:
        client.send(TEXT, b'{"type":', is_last=False)
        client.send(MORE, b"", is_last=False)
        [connection] = websockets_of(broker)
        for part in [b""] * 50 + [bytes([one]) for one in b'"ping", "ref": 7' + b" " * 50]:
            client.send(MORE, part, is_last=False)
        until(lambda: sum(map(len, connection.frames)) == 74)
        assert len(connection.frames) == 1
        client.send(MORE, b"}")
        assert [json.loads(text)["type"] for _, (_, text) in zip(range(2), client, strict=False)] == [
            "hello",
            "accepted",
        ]
        client.send(2, b"{", is_last=False)
        client.send(MORE, b"}")
        assert json.loads(next(iter(client))[1])["got"] == "one of bytes"


def test_what_has_come_of_messages_counts_with_bodies_and_is_not_waited_for(tmp_path):
    limits = "[serve]\nmax_bodies = 100000\nmax_body = 90000\nbody_seconds = 1\n"
    with live(tmp_path, limits) as broker:
        broker.register("ann")
        with closing(Frames(broker, "ann")) as slow, closing(Frames(broker, "ann")) as other:
            slow.send(TEXT, 60_000 * b" ", is_last=False)
            until(lambda: broker.broker.budget.used == 60_000)
            other.send(TEXT, 60_000 * b" ", is_last=False)
            assert other.closed() == 1013
            assert slow.closed() == 1008
            until(lambda: broker.broker.budget.used == 0)
        assert [cause for name, cause, _ in broker.broker.counts.items() if name == "connections_closed"] == [
            "busy",
            "slow_message",
        ]


def test_nothing_is_written_behind_the_frame_that_closes(broker, monkeypatch):
    def close_first(channel, hello):
        channel._protocol.close(1013, "busy")
        greet(channel, hello)

    greet = channels.WebSocketChannel.greet
    monkeypatch.setattr(channels.WebSocketChannel, "greet", close_first)
    broker.register("ann")
    with closing(Frames(broker, "ann")) as client:
        assert client.closed() == 1013


def flood(client, opcode, payload):
    """Send as much as the other side takes without that its answers are read."""
    client._socket.settimeout(0.5)
    try:
        for _ in range(60_000):
            client.send(opcode, payload)
    except OSError:
        pass
    finally:
        client._socket.settimeout(20)


@pytest.mark.parametrize(
    ("opcode", "payload"), [(TEXT, b'{"type": "ping", "ref": "%b"}' % (250 * b"x")), (PING, 125 * b"x")]
)
def test_who_does_not_read_gets_no_more_answers(tmp_path, opcode, payload):
    with live(tmp_path, "[serve]\nroom = 4096\n") as broker:
        broker.register("ann")
        with closing(Frames(broker, "ann")) as client:
            [connection] = websockets_of(broker)
            flood(client, opcode, payload)
            assert not connection.writable.is_set()
            assert connection.transport.get_write_buffer_size() < 100_000


def test_who_does_not_read_lags_also_while_the_queue_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setattr(channels, "PATIENCE", 0.2)
    monkeypatch.setattr(websocket, "_GREETED", 0.01)
    with live(tmp_path, "[serve]\nroom = 4096\n") as broker:
        broker.register("bob")
        with closing(Frames(broker, "ann")) as client:
            flood(client, TEXT, b'{"type": "ping", "ref": "%b"}' % (250 * b"x"))
            until(lambda: counted(broker, "lagging"))
            assert client.closed() == 1013


def test_a_peer_that_is_gone_is_noticed_and_others_are_shown_that_the_broker_is_there(tmp_path):
    with live(tmp_path, "[serve]\nheartbeat = 0.2\n") as broker, broker.client("ann") as ann:
        subscribed(broker, "ann")
        with closing(Frames(broker, "ann")) as silent, events(ann) as stream:
            assert next(stream) is next(stream) is None
            opcodes = [opcode for opcode, _ in silent]
        assert opcodes[:2] == [1, 9]
        assert opcodes[-1] == 8


def test_all_connections_of_a_principal_see_everything_and_share_what_is_acknowledged(broker):
    subscribed(broker, "ann")
    with (
        Client(broker, "ann") as one,
        Client(broker, "ann") as other,
        broker.client("ann") as ann,
        events(ann) as stream,
    ):
        one.receive(), other.receive()
        publish(broker, 0, 5)
        for client in (one, other):
            assert [client.receive()["number"] for _ in range(5)] == [1, 2, 3, 4, 5]
        assert [next(stream)[2]["number"] for _ in range(5)] == [1, 2, 3, 4, 5]
        assert one.ask("ack", upto=3)["type"] == "accepted"
        assert other.ask("ack", upto=2)["type"] == "accepted"
        with Client(broker, "ann") as third:
            assert third.receive()["acked"] == 3
            assert [third.receive()["number"] for _ in range(2)] == [4, 5]
        present = broker.broker.delivery._follower.sessions.present("ann")
        assert len(present.connections) >= 3


def test_who_is_unregistered_is_closed_and_begins_anew(broker):
    subscribed(broker, "ann")
    publish(broker, 0, 3)
    with Client(broker, "ann") as socket, broker.client("ann") as ann, events(ann) as stream:
        epoch = socket.receive()["epoch"]
        assert [socket.receive()["number"] for _ in range(3)] == [1, 2, 3]
        assert [next(stream)[2]["number"] for _ in range(3)] == [1, 2, 3]
        broker.broker.delivery._follower.sessions.unregister("ann")
        with pytest.raises(ConnectionClosed) as closed:
            socket.receive()
        assert closed.value.rcvd.code == 4001
        assert list(stream) == []
    subscribed(broker, "ann")
    publish(broker, 3, 2)
    with Client(broker, "ann", query=f"?after={epoch}-3") as socket:
        hello = socket.receive()
        assert (hello["epoch"] != epoch, hello["acked"], hello["last"]) == (True, 0, 2)
        assert socket.receive() == {"type": "gap", "from": 1, "to": 0, "oldest": 1, "reason": "epoch"}
        assert [socket.receive()["number"] for _ in range(2)] == [1, 2]


def test_what_is_kept_no_longer_is_told_as_a_gap(tmp_path):
    with live(tmp_path, '[[sinks]]\ntype = "queues"\nmost = 4\n') as broker:
        subscribed(broker, "ann")
        publish(broker, 0, 10)
        with Client(broker, "ann", query="?after=2") as socket:
            assert socket.receive()["oldest"] == 7
            assert socket.receive() == {"type": "gap", "from": 3, "to": 6, "oldest": 7, "reason": "retention"}
            assert [socket.receive()["number"] for _ in range(4)] == [7, 8, 9, 10]


def test_what_is_unpublished_or_unreadable_is_skipped(broker):
    subscribed(broker, "ann")
    publish(broker, 0, 4)
    with Client(broker, "ann") as socket:
        socket.receive()
        assert [socket.receive()["number"] for _ in range(4)] == [1, 2, 3, 4]
        with broker.client("publisher", "publisher") as client:
            assert client.delete("/v1/publications/z1/p1").status_code == 204
        broker.run()
        retracted = socket.receive()
        assert (retracted["type"], retracted["number"], retracted["retracts"]) == ("retracted", 5, 2)
    broker.broker.principals.put("ann", read="n <> 3")
    with Client(broker, "ann") as socket:
        socket.receive()
        told = [socket.receive() for _ in range(5)]
        assert [(one["type"], one["number"], one.get("reason")) for one in told] == [
            ("notification", 1, None),
            ("skipped", 2, "unpublished"),
            ("notification", 3, None),
            ("skipped", 4, "unreadable"),
            ("retracted", 5, None),
        ]


def test_quotas_and_room_for_connections(tmp_path):
    with live(tmp_path, "[serve]\nmax_connections = 3\n") as broker:
        broker.register("ann", "bob")
        broker.broker.principals.put("ann", quotas={"connections": 1})
        with Client(broker, "ann"), broker.client("ann") as ann:
            assert ann.get("/v1/stream").status_code == 429
            with pytest.raises(InvalidStatus) as refused, Client(broker, "ann"):
                pass
            assert refused.value.response.status_code == 429
        until(lambda: broker.broker.delivery.connections == 0)
        with Client(broker, "ann") as socket:
            assert socket.receive()["type"] == "hello"


def test_a_long_poll_whose_client_is_gone_ends(broker):
    broker.register("ann")
    with broker.client("ann") as ann, pytest.raises(httpx.ReadTimeout):
        ann.get("/v1/notifications", params={"wait": 60}, timeout=0.3)
    until(lambda: broker.broker.delivery.connections == 0, 3)


def test_a_quota_counts_the_connections_to_other_gateways(broker):
    broker.register("ann")
    broker.broker.principals.put("ann", quotas={"connections": 1})
    with OpenQueues(broker.broker.config) as queues, Sessions(queues, broker.broker.registry) as other:
        elsewhere = other.connect("ann")
        other.flush()
        with pytest.raises(InvalidStatus) as refused, Client(broker, "ann"):
            pass
        assert refused.value.response.status_code == 429
        elsewhere.close()
        other.flush()
        with Client(broker, "ann") as socket:
            assert socket.receive()["type"] == "hello"


def test_without_a_runner_a_first_read_says_so_and_publishing_goes_on(broker, monkeypatch):
    monkeypatch.setattr(notifications, "_UNMADE", 0.1)
    broker.run()
    with broker.client("ann") as ann:
        answer = ann.get("/v1/notifications")
        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert "retry-after" in answer.headers
        with Client(broker, "ann") as socket:
            assert socket.ask("publish", publications=publications(0, 1))["accepted"] == 1
            broker.run()
            assert socket.receive()["type"] == "hello"
        assert ann.get("/v1/notifications").json()["notifications"] == []
