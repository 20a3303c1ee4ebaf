"""What waits for clients that do not read is bounded, and who reads loses nothing by that."""

from __future__ import annotations

import socket
from contextlib import closing
from math import inf

import pytest

from tests.gateway.clients import Client
from tests.gateway.live_broker import live
from tests.gateway.test_delivery import Frames, counted, publish, subscribed, until, websockets_of
from tidegate.gateway import channels, waiting_bytes
from tidegate.gateway.http_connection import HttpConnection
from tidegate.gateway.lent_transports import SYSTEM_BUFFER
from tidegate.gateway.waiting_bytes import WaitingBytes


class Reader:
    """Somebody who reads as much as is said."""

    reads_within = 60.0

    def __init__(self, all_waiting):
        self._all_waiting, self.waiting, self.is_given_up = all_waiting, 0, False

    def write(self, count):
        self.waiting += count
        self._all_waiting.note(self, count)

    def give_up(self):
        assert not self.is_given_up
        self.is_given_up = True


class Clients:
    """Clients of a gateway at a moment that is set."""

    def __init__(self, most):
        self.now = 0.0
        self.all_waiting = WaitingBytes(most, clock=lambda: self.now)

    def reader(self, count=0):
        reader = Reader(self.all_waiting)
        if count:
            reader.write(count)
        return reader

    def pass_time(self, seconds):
        for _ in range(seconds):
            self.now += 1
            self.all_waiting.look()


def given_up(*readers):
    return [reader.is_given_up for reader in readers]


def test_who_has_not_read_for_longest_is_given_up_first():
    clients = Clients(1000)
    readers = []
    for _ in range(3):
        readers.append(clients.reader(300))
        clients.pass_time(2)
    last = clients.reader(90)
    assert given_up(*readers, last) == [False] * 4
    clients.now += 1
    last.write(20)
    assert given_up(*readers, last) == [True, False, False, False]


def test_who_has_read_what_waited_is_kept_however_much_waits_again():
    clients = Clients(1000)
    stalled, healthy = clients.reader(400), clients.reader(400)
    for _ in range(100):
        healthy.waiting -= 400
        healthy.write(400)
        clients.pass_time(1)
    assert given_up(stalled, healthy) == [True, False]


def test_a_moment_is_granted_to_all():
    clients = Clients(1000)
    readers = [clients.reader(400) for _ in range(5)]
    assert given_up(*readers) == [False] * 5
    clients.pass_time(1)
    assert given_up(*readers).count(True) == 4


def test_who_reads_a_byte_now_and_then_holds_its_room_for_as_long_as_it_may():
    clients = Clients(1_000_000)
    slow, slower, patient = clients.reader(1000), clients.reader(1000), clients.reader(1000)
    patient.reads_within = inf
    for _ in range(59):
        slow.waiting -= 17
        slow.write(17)
        slower.waiting -= 16
        slower.write(16)
        clients.pass_time(1)
    assert given_up(slow, slower) == [False, False]
    slow.waiting -= 17
    clients.pass_time(2)
    assert given_up(patient, slow, slower) == [False, False, True]


def test_to_say_goodbye_to_many_may_take_longer_than_between_two_looks(monkeypatch):
    def give_up(reader):
        assert not reader.is_given_up
        reader.write(1)
        clients.now += 0.2
        reader.is_given_up, reader.waiting = True, 0

    clients = Clients(1000)
    monkeypatch.setattr(Reader, "give_up", give_up)
    readers = [clients.reader(240) for _ in range(8)]
    clients.pass_time(1)
    assert given_up(*readers) == [True] * 5 + [False] * 3
    clients.pass_time(1)
    assert given_up(*readers) == [True] * 5 + [False] * 3


def test_who_is_closed_is_forgotten():
    clients = Clients(1000)
    readers = [clients.reader(10) for _ in range(9)]
    for reader in readers:
        reader.waiting = 0
    clients.pass_time(1)
    assert not clients.all_waiting._accounts
    assert clients.reader(1000).is_given_up is False


# --- connections ------------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch):
    """Looks often, and grants little time where all is too much; nobody lags because it reads nothing."""
    monkeypatch.setattr(channels, "PATIENCE", 1000.0)
    monkeypatch.setattr(waiting_bytes, "_LOOK", 0.05)
    monkeypatch.setattr(waiting_bytes, "_SHORT", 0.2)


def stalled_by(broker, name):
    """A client that reads nothing any more, and what its broker has of it."""
    before = set(websockets_of(broker))
    client = Frames(broker, name)
    [connection] = set(until(lambda: set(websockets_of(broker)) - before))
    return client, connection


def test_a_stalled_client_holds_its_room_and_lags_where_all_is_too_much(tmp_path, soon):
    with live(tmp_path, "[serve]\nroom = 600000\nmax_waiting = 900000\n") as broker:
        subscribed(broker, "ann", "bob")
        stalled, connection = stalled_by(broker, "ann")
        with closing(stalled), Client(broker, "bob") as reading:
            assert reading.receive()["type"] == "hello"
            publish(broker, 0, 300, text=4000 * "x")
            assert [reading.receive()["number"] for _ in range(300)] == list(range(1, 301))
            assert until(connection.transport.get_write_buffer_size) <= 600_000 + 5_000
            assert not counted(broker, "lagging")
            broker.broker.waiting.most = 100_000
            until(lambda: counted(broker, "lagging"))
            publish(broker, 300, 50, text=4000 * "x")
            assert [reading.receive()["number"] for _ in range(50)] == list(range(301, 351))
            assert counted(broker, "lagging") == 1
        with Client(broker, "ann") as again:
            assert again.receive()["type"] == "hello"
            assert [again.receive()["number"] for _ in range(350)] == list(range(1, 351))


def test_who_reads_hardly_anything_lags(tmp_path, soon, monkeypatch):
    monkeypatch.setattr(channels._TransportChannel, "reads_within", 0.5)
    with live(tmp_path, "[serve]\nroom = 100000\n") as broker:
        subscribed(broker, "ann")
        with closing(Frames(broker, "ann")) as client:
            publish(broker, 0, 300, text=4000 * "x")
            until(lambda: client._read.read(1) and counted(broker, "lagging"))


@pytest.mark.parametrize("how", ["a frame", "half of TCP"])
def test_who_closes_and_does_not_read_holds_its_room_no_longer(tmp_path, monkeypatch, how):
    monkeypatch.setattr(channels, "PATIENCE", 2.0)
    with live(tmp_path) as broker:
        subscribed(broker, "ann")
        client, connection = stalled_by(broker, "ann")
        with closing(client):
            publish(broker, 0, 300, text=4000 * "x")
            assert until(connection.transport.get_write_buffer_size)
            if how == "a frame":
                client.send(8, b"\x03\xe8")
            else:
                client._socket.shutdown(socket.SHUT_WR)
            until(lambda: not websockets_of(broker), seconds=8)


def test_who_closes_half_of_a_stream_holds_its_room_no_longer(tmp_path):
    with live(tmp_path) as broker, socket.socket() as client:
        subscribed(broker, "ann")
        host, port = broker.url.removeprefix("http://").split(":")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        token = broker.token("ann")["Authorization"]
        client.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: broker\r\nAuthorization: {token}\r\n\r\n".encode())
        [connection] = until(lambda: [one for one in broker.server.server_state.connections if one.outlet])
        publish(broker, 0, 300, text=4000 * "x")
        assert until(connection.transport.get_write_buffer_size)
        client.shutdown(socket.SHUT_WR)
        until(lambda: connection not in broker.server.server_state.connections, seconds=8)


@pytest.mark.parametrize("more", [[], ["Connection: close"]])
def test_who_does_not_read_a_page_is_closed_where_all_is_too_much(tmp_path, soon, more):
    with live(tmp_path, "[serve]\nmax_waiting = 300000\n") as broker:
        subscribed(broker, "ann")
        publish(broker, 0, 300, text=4000 * "x")
        host, port = broker.url.removeprefix("http://").split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            token = broker.token("ann")["Authorization"]
            lines = [
                "GET /v1/notifications?limit=1000 HTTP/1.1",
                "Host: broker",
                f"Authorization: {token}",
                *more,
                "",
                "",
            ]
            client.sendall("\r\n".join(lines).encode())
            until(lambda: ("connections_closed", "slow_reader", 1) in list(broker.broker.counts.items()))


def test_what_the_system_buffers_for_a_client_is_bounded(tmp_path):
    with live(tmp_path) as broker, broker.client("ann") as ann:
        ann.get("/healthz")
        [connection] = [one for one in broker.server.server_state.connections if isinstance(one, HttpConnection)]
        there = connection.transport.get_extra_info("socket")
        assert there.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * SYSTEM_BUFFER  # Linux says twice as much
