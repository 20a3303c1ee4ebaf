"""WebSockets: what a client is told, and how its messages are answered."""

from __future__ import annotations

import json
from threading import current_thread

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.gateway.clients import Client
from tests.gateway.live_broker import live
from tests.gateway.test_notifications import publications
from tidegate.broker.open_queues import OpenQueues
from tidegate.gateway import websocket_requests


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with live(tmp_path_factory.mktemp("websockets")) as found:
        found.register("bob")
        yield found


def test_hello_then_backlog_then_live(broker):
    with broker.client("ann") as ann:
        assert ann.put("/v1/subscriptions/s1", json={"where": "n >= 0"}).status_code == 201
        ann.post("/v1/publications", json=publications(0, 3))
        broker.run()
        with Client(broker, "ann") as socket:
            hello = socket.receive()
            assert hello == {"type": "hello", "epoch": hello["epoch"], "acked": 0, "last": 3, "oldest": 1}
            assert [socket.receive()["number"] for _ in range(3)] == [1, 2, 3]
            ann.post("/v1/publications", json=publications(3, 2))
            broker.run()
            live = [socket.receive() for _ in range(2)]
            assert [one["publication"]["id"] for one in live] == ["p3", "p4"]
            assert socket.ask("ack", upto=4.0, ref=7) == {"type": "accepted", "ref": 7}
            assert ann.get("/v1/notifications").json()["notifications"] == live[1:]


def test_to_acknowledge_the_event_loop_waits_for_no_file(broker, monkeypatch):
    def noted(name):
        whole = getattr(OpenQueues, name)
        monkeypatch.setattr(OpenQueues, name, lambda *given: threads.append(current_thread()) or whole(*given))

    threads = []
    with Client(broker, "bob") as socket:
        epoch = socket.receive()["epoch"]
        for name in ("acknowledged", "oldest", "refresh"):
            noted(name)
        assert socket.ask("ack", upto=f"{epoch}-0")["type"] == "accepted"
        assert socket.ask("ack", upto=f"{epoch}-1000")["code"] == "setting"
        assert socket.ask("ack", upto="other-0")["code"] == "acknowledgement"
    assert threads
    assert broker._thread not in threads


def test_messages_are_answered_in_their_order(broker):
    with Client(broker, "bob") as socket:
        assert socket.receive()["type"] == "hello"
        for number in range(40):
            socket.send("publish", publications=publications(100 + number, 1), ref=number)
        socket.send("subscribe", id="s1", where="n > 1", ref="s")
        socket.send("ping")
        answers = [socket.receive() for _ in range(42)]
        assert [answer.get("ref") for answer in answers] == [*range(40), "s", None]
        assert answers[-1] == {"type": "accepted"}


def test_ids_that_are_made_are_told(broker):
    with Client(broker, "pub", "publisher") as socket:
        socket.receive()
        some = [{"source": "z1", "n": 1}, {"source": "z1", "id": "given"}, {"n": 1}]
        answer = socket.ask("publish", publications=some, ref=1)
        assert (answer["type"], answer["ref"], answer["accepted"]) == ("accepted", 1, 2)
        assert list(answer["ids"]) == ["0"]
        assert socket.ask("publish", publication={"source": "z1"}, ref=2)["ids"].keys() == {"0"}
        assert socket.ask("publish", publication={"n": 1}, ref=3)["type"] == "error"


def test_wrong_messages_are_refused_and_nothing_else_happens(broker):
    with Client(broker, "bob") as socket:
        socket.receive()
        for message, code in [
            ("{", "json"),
            ("[1]", "body"),
            ('{"type": "fly", "ref": 1}', "body"),
            ('{"type": "ping", "height": 1}', "body"),
            ('{"type": "ping", "ref": 99999999999999999999}', "body"),
            ('{"type": "publish", "ref": 99999999999999999999, "publications": []}', "body"),
            ('{"type": "ack", "upto": 1000}', "setting"),
            ('{"type": "publish"}', "message"),
            (b"{}", "message"),
            ("[" * 100_000, "body"),
            ('{"type": "publish", "publication": {"a": ' + "[" * 100_000, "json"),
        ]:
            socket.send_raw(message)
            answer = socket.receive()
            assert (answer["type"], answer["code"]) == ("error", code), answer
        assert socket.ask("ping") == {"type": "accepted"}


def test_a_message_that_is_too_large_closes_the_connection(tmp_path):
    with live(tmp_path, "[serve]\nmax_body = 1000\n") as broker, Client(broker, "pub", "publisher") as socket:
        assert socket.receive()["type"] == "hello"
        assert socket.ask("publish", publication={"id": "p", "source": "z", "text": 800 * "x"})["type"] == "accepted"
        socket.send("publish", publication={"id": "q", "text": 1000 * "x"})
        with pytest.raises(ConnectionClosed) as closed:
            socket.receive()
        assert closed.value.rcvd.code == 1009


def test_a_message_of_very_many_objects_is_refused_before_it_becomes_them(tmp_path):
    with live(tmp_path, "[serve]\nmax_publications = 3\n") as broker, Client(broker, "pub", "publisher") as socket:
        assert socket.receive()["type"] == "hello"
        answer = socket.ask("publish", publication={"id": "p", "source": "z", "a": [[]] * 60_000}, ref=1)
        assert (answer["type"], answer["status"], answer["code"], answer["ref"]) == ("error", 413, "too_large", 1)
        socket.send("publish", publication={"id": "q", "source": "z", "text": 70_000 * "x"}, ref=2)
        assert socket.receive()["accepted"] == 1


def test_a_publication_of_a_message_that_is_too_large_refuses_itself_only(tmp_path):
    with live(tmp_path, "[serve]\nmax_publication = 250\n") as broker, Client(broker, "pub", "publisher") as socket:
        assert socket.receive()["type"] == "hello"
        large, fits = ({"id": id, "source": "z", "text": 50 * "é" + id} for id in ("large", "f"))
        fits["text"] = 30 * "é"
        answer = socket.ask("publish", publications=[large, fits])
        assert (answer["accepted"], [(one["index"], one["code"]) for one in answer["refused"]]) == (1, [(0, "limit")])
        answer = socket.ask("publish", publication=large)
        assert (answer["type"], answer["status"], answer["code"]) == ("error", 422, "limit")
        assert socket.ask("publish", publication={**fits, "id": "g"})["accepted"] == 1
        assert socket.ask("publish", publications=[])["accepted"] == 0
        answer = socket.ask("publish", publications=[], ref=250 * "r")  # which alone is as long as a publication may be
        assert (answer["type"], answer["accepted"], answer["ref"]) == ("accepted", 0, 250 * "r")


def test_a_message_that_ends_its_connection_keeps_no_room(tmp_path, monkeypatch):
    def fail(text, most):
        raise ValueError("a mistake of ours")

    with live(tmp_path) as broker, Client(broker, "pub", "publisher") as socket:
        assert socket.receive()["type"] == "hello"
        monkeypatch.setattr(websocket_requests, "message_of", fail)
        with pytest.raises(ConnectionClosed):
            socket.ask("ping")
        assert broker.broker.budget.used == 0


def test_messages_that_come_too_often_are_refused(tmp_path):
    few = "[serve]\nrequests_per_second = 1\n"
    with live(tmp_path, few) as broker, Client(broker, "pub", "publisher") as socket:
        assert socket.receive()["type"] == "hello"
        answers = [socket.ask("ping", ref=number) for number in range(3)]
        assert [answer["ref"] for answer in answers] == [0, 1, 2]
        assert (answers[0]["type"], answers[2]["status"], answers[2]["code"]) == ("accepted", 429, "rate")


def test_handshakes_that_are_refused(broker):
    address = broker.url.replace("http", "ws")
    for path, headers, status in [
        ("/v1/ws", {}, 401),
        ("/v1/ws?access_token=wrong", {}, 401),
        ("/v1/wss", broker.token("ann"), 404),
        ("/v1/ws?after=x", broker.token("ann"), 422),
        ("/v1/ws", broker.token("ann") | {"Origin": "https://other.example"}, 403),
    ]:
        with pytest.raises(InvalidStatus) as refused, connect(address + path, additional_headers=headers):
            pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["status"] == status


def test_times_for_requests_of_http_are_none_for_a_websocket(tmp_path):
    with live(tmp_path, "[serve]\nheader_seconds = 0.1\nidle_seconds = 0.1\n") as broker, broker.client("ann") as ann:
        broker.register("ann")
        with Client(broker, "ann") as socket, Client(broker, "ann") as other:
            socket.receive(), other.receive()
            assert ann.get("/v1/notifications", params={"wait": 0.3}).json()["notifications"] == []
            assert socket.ask("ping") == other.ask("ping") == {"type": "accepted"}


def test_a_publisher_has_no_queue(broker):
    with Client(broker, "pub", "publisher") as socket:
        assert socket.receive() == {"type": "hello", "epoch": "", "acked": 0, "last": 0, "oldest": 1}
        assert socket.ask("publish", publication=publications(1000, 1)[0])["type"] == "accepted"
        assert socket.ask("subscribe", id="s", where="n > 1")["code"] == "forbidden"


def test_all_are_closed_when_the_broker_stops(tmp_path):
    with live(tmp_path) as broker:
        broker.register("ann")
        with Client(broker, "ann") as socket:
            socket.receive()
            broker.stop()
            with pytest.raises(ConnectionClosed) as closed:
                socket.receive()
            assert closed.value.rcvd.code == 1001
