"""The bench of the gateway measures what it says: its clients send what the log must have and notice what is wrong."""

from __future__ import annotations

import io
import socket
import sys
from contextlib import contextmanager
from time import monotonic, sleep

import orjson
import pyarrow as pa
import pytest

from bench.gateway_load import LoadProcess
from bench.gateway_paced import PacedPosts
from bench.gateway_readers import EventStreamReader, WebSocketReader
from bench.gateway_requests import PublishRequests
from bench.processes import started


@contextmanager
def served(tmp_path, module, *words):
    """A server of the bench at a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    given = [str(address[1]) if word == "PORT" else str(word) for word in words]
    with started([sys.executable, "-m", module, *given], tmp_path / "output"):
        until = monotonic() + 30
        while True:
            try:
                socket.create_connection(address).close()
                break
            except ConnectionRefusedError:
                assert monotonic() < until
                sleep(0.02)
        yield address


def test_requests_differ_in_the_ids_of_their_publications_alone():
    for form, events in (("object", 1), ("array", 3), ("NDJSON", 3), ("Arrow", 3)):
        client = PublishRequests(("127.0.0.1", 1), "secret", "here", form, events)
        rows, ids = [], list(client.ids(2))
        for number in range(2):
            head, _, body = client.numbered(number).partition(b"\r\n\r\n")
            assert b"Content-Length: %d" % len(body) in head
            if form == "Arrow":
                found = pa.ipc.open_stream(io.BytesIO(body)).read_all().to_pylist()
            else:
                found = orjson.loads(b"[" + body.rstrip().replace(b"}\n{", b"},{") + b"]")
                found = found[0] if form == "array" else found
            rows += found
        assert [row["id"] for row in rows] == ids
        assert len(set(ids)) == 2 * events
        assert {row["source"] for row in rows} == {"here"}


def test_clients_post_until_the_end_and_count_what_was_answered(tmp_path):
    file = tmp_path / "bodies"
    with served(tmp_path, "bench.gateway_bare", file, "PORT", 1) as address, LoadProcess() as load:
        clients = [PublishRequests(address, "secret", f"c{i}", "object", 1) for i in range(3)]
        found = load.call("post", clients, 0.3, 0.1)
    assert not found.failed
    assert 0 < len(found.latencies) < sum(found.sent)
    bodies = sorted(line + b"}" for line in file.read_bytes().split(b"}")[:-1])
    expected = [
        client.numbered(number).partition(b"\r\n\r\n")[2]
        for client, count in zip(clients, found.sent, strict=True)
        for number in range(count)
    ]
    assert bodies == sorted(expected)


@pytest.mark.parametrize("kind", ["WebSocket", "SSE"])
def test_readers_take_every_notification_of_their_room(kind, tmp_path):
    with served(tmp_path, "bench.gateway_null", "PORT", 5_000) as address, LoadProcess() as load:
        load.call("connect", kind, address, [("r000", "r000"), ("r001", "r001")])
        until = monotonic() + 20
        while (found := load.call("numbers")) != (5_000, 5_000, []):
            assert monotonic() < until, found
        load.call("disconnect")
        load.call("connect", kind, address, [("r000", "r001")])
        while not (wrong := load.call("numbers")[2]):
            assert monotonic() < until
        assert "r000:1" in wrong[0]


def test_readers_notice_gaps_doubles_and_what_is_no_notification():
    for texts in (["a:2"], ["a:1", "a:1"], ["b:1"], ["a:1", "gap"]):
        reader = WebSocketReader("secret", "a")
        for text in texts:
            number = int(text.partition(":")[2] or 9)
            kind = "notification" if ":" in text else text
            reader.take(orjson.dumps({"type": kind, "number": number, "publication": {"id": text}}))
        assert reader.wrong, texts


def test_what_readers_parse_may_come_in_any_pieces():
    payloads = [orjson.dumps({"type": "notification", "number": n, "publication": {"id": f"a:{n}"}}) for n in (1, 2)]
    padded = orjson.dumps({"type": "hello", "more": 70_000 * "x"})
    frames = b"".join(
        b"\x81" + (bytes([len(one)]) if len(one) < 126 else b"\x7f" + len(one).to_bytes(8, "big")) + one
        for one in (payloads[0], padded, payloads[1])
    )
    events = b": heartbeat\n\n" + b"".join(b"id: e-1\nevent: notification\ndata: %s\n\n" % one for one in payloads)
    chunks = b"".join(b"1e\r\n%s\r\n" % events[at : at + 30] for at in range(0, len(events) // 30 * 30, 30))
    rest = events[len(events) // 30 * 30 :]
    chunks += b"%x\r\n%s\r\n" % (len(rest), rest)
    for kind, data in ((WebSocketReader, frames), (EventStreamReader, chunks)):
        for step in (1, 7, 1000):
            if step == 1 and len(data) > 10_000:
                continue
            reader, kept = kind("secret", "a"), b""
            for at in range(0, len(data), step):
                kept = reader.read(kept + data[at : at + step])
            assert (reader.last, reader.wrong, kept) == (2, [], b"")


def test_posts_go_out_on_time(tmp_path):
    with served(tmp_path, "bench.gateway_null", "PORT", 0) as address, LoadProcess() as load:
        found = load.call("pace", PacedPosts(address, "secret", 200.0, 60, 1))
    assert not found.failed
    moments = list(found.times.values())
    assert list(found.times) == [f"{number:08d}" for number in range(60)]
    assert moments[-1] - moments[0] >= 59 / 200 - (max(found.late) - min(found.late)) - 1e-6
    assert min(found.late) > -0.002  # uvloop rounds to milliseconds
