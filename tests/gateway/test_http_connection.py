"""Connections over real sockets: who is slow, large or one too many is closed, and the others are served."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.responses import Response

from tests.gateway.broker import opened
from tidegate.gateway.api_request import json_response
from tidegate.gateway.application import Application
from tidegate.gateway.gateway_process import new_loop
from tidegate.gateway.health import healthz
from tidegate.gateway.listening import listening_socket
from tidegate.gateway.routes import Route, Routes
from tidegate.gateway.serving import GatewayServer

_PATIENCE = 20.0
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


async def echoed(request):
    return json_response({"size": len(await request.bytes())})


async def large(request):
    return Response(b"x" * (16 << 20))


async def deaf(request):
    return Response(status_code=204)


async def waiting(request):
    await request.broker.closing.wait()
    return json_response({"was": "asked to end"})


async def stubborn(request):
    await asyncio.sleep(60)
    return Response()


def route(method, path, handler, **more):
    return Route(method=method, path=path, handler=handler, summary="", role=None, answers={}, **more)


ROUTES = Routes(
    [
        route("GET", "/healthz", healthz),
        route("GET", "/large", large),
        route("POST", "/echo", echoed),
        route("POST", "/deaf", deaf),
        route("GET", "/waiting", waiting, is_long=True),
        route("GET", "/stubborn", stubborn, is_long=True),
    ]
)


class Gateway:
    """A gateway in this process. ``connect`` opens connections to it, which are closed with it."""

    def __init__(self, broker, server, port):
        self.broker, self.server, self.port = broker, server, port
        self.opened = []

    async def connect(self, *sent, **settings):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **settings)
        self.opened.append(writer)
        for some in sent:
            writer.write(some)
        return reader, writer

    async def ask(self, sent, **settings):
        reader, writer = await self.connect(sent, **settings)
        found = await answer(reader)
        writer.close()
        return found

    def closed(self, cause):
        return {of: count for name, of, count in self.broker.counts.items() if name == "connections_closed"}.get(cause)


@asynccontextmanager
async def gateway(directory, text="", **settings):
    with opened(directory, f'[serve]\nlisten = "127.0.0.1:0"\n{text}', **settings) as broker:
        started = asyncio.Event()
        listening = listening_socket(broker.limits)
        server = GatewayServer(broker, Application(broker, ROUTES), listening, started.set)
        found = Gateway(broker, server, listening.getsockname()[1])
        serving = asyncio.create_task(server._serve())
        try:
            await started.wait()
            yield found
        finally:
            for writer in found.opened:
                writer.close()
            server.should_exit = True
            await asyncio.wait_for(serving, _PATIENCE)


async def answer(reader):
    """Status, headers and body of the next answer."""
    async with asyncio.timeout(_PATIENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(head[0].split()[1]), headers, body


async def ended(reader):
    """What still came until the connection was closed."""
    async with asyncio.timeout(_PATIENCE):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


def run(work, *arguments):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work(*arguments))


def running(work):
    """The test as a function without ``async``."""

    def ran(tmp_path):
        run(work, tmp_path)

    ran.__name__ = work.__name__
    return ran


@running
async def test_connections_that_come_while_the_gateway_is_busy_are_all_taken(tmp_path):
    async with gateway(tmp_path) as found:
        clients = []
        for _ in range(400):  # the event loop has no turn before all are there
            client = socket.create_connection(("127.0.0.1", found.port), timeout=_PATIENCE)
            client.setblocking(False)
            clients.append(client)
        for client in clients:
            reader, writer = await asyncio.open_connection(sock=client)
            found.opened.append(writer)
            writer.write(HEALTH + b"\r\n")
            assert (await answer(reader))[0] == 200


@running
async def test_headers_that_come_slowly_are_refused_and_the_others_served(tmp_path):
    async with gateway(tmp_path, "header_seconds = 0.5\n") as found:
        slow = [await found.connect(HEALTH[:count]) for count in (1, 5, 20, len(HEALTH) - 1) for _ in range(60)]
        silent = [await found.connect() for _ in range(60)]
        assert (await found.ask(HEALTH))[0] == 200
        for reader, _ in slow:
            status, headers, body = await answer(reader)
            assert (status, headers["connection"], json.loads(body)["code"]) == (408, "close", "slow")
            assert await ended(reader) == b""
        assert [await ended(reader) for reader, _ in silent] == [b""] * 60
        assert (found.closed("slow_headers"), found.closed("silent")) == (240, 60)
        assert (await found.ask(HEALTH))[0] == 200


@running
async def test_a_byte_now_and_then_does_not_put_the_end_off(tmp_path):
    async def trickle(writer, some):
        with suppress(ConnectionError):
            for byte in some * 100:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.02)

    async with gateway(tmp_path, "header_seconds = 0.4\nbody_seconds = 0.4\n") as found:
        body = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
        blank = [await found.connect(), await found.connect(HEALTH)]  # empty lines before and between requests
        header = await found.connect(b"GET /healthz HTTP/1.1\r\nX: ")
        sending = await found.connect(body)
        assert (await answer(blank[1][0]))[0] == 200
        kinds = [(blank[0], b"\r\n"), (blank[1], b"\r\n"), (header, b"x"), (sending, b"x")]
        tasks = [asyncio.create_task(trickle(writer, some)) for (_, writer), some in kinds]
        assert b"408" in (await ended(header[0])).split(b"\r\n")[0]
        assert b"408" in (await ended(sending[0])).split(b"\r\n")[0]
        for reader, _ in blank:
            await ended(reader)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for(tmp_path, monkeypatch):
    async def work():
        head = b"POST /deaf HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
        async with gateway(tmp_path) as found:
            reader, writer = await found.connect(head + b"12345")
            assert (await answer(reader))[0] == 204
            writer.write(b"67890" + HEALTH)  # the rest comes, and another request
            assert (await answer(reader))[0] == 200
            reader, writer = await found.connect(head)
            assert (await answer(reader))[0] == 204
            writer.write(b"1")
            assert await ended(reader) == b""
            assert found.closed("slow_body") == 1

    monkeypatch.setattr("tidegate.gateway.http_connection._REST_SECONDS", 0.3)
    run(work)


@pytest.mark.parametrize(
    ("sent", "status", "cause"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 3000 + b"\r\n\r\n", 431, "large_headers"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 3000, 431, "large_headers"),
        (b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\n\r\n", 431, "large_headers"),
        (b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 201 + b"\r\n", 431, "large_headers"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 201, None, "large_headers"),
        (b"HELLO\r\n\r\n", 400, "no_http"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "no_http"),  # TLS
        (b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "no_http"),
    ],
)
def test_what_is_no_request_is_refused_and_closed(tmp_path, sent, status, cause):
    async def work():
        async with gateway(tmp_path, "max_header = 2048\n") as found:
            reader, _ = await found.connect(sent)
            if status is not None:
                assert (await answer(reader))[0] == status
            await ended(reader)
            assert found.closed(cause) == 1
            assert (await found.ask(HEALTH))[0] == 200

    run(work)


@running
async def test_headers_of_many_requests_are_counted_one_by_one(tmp_path):
    async with gateway(tmp_path, "max_header = 200\n") as found:
        reader, writer = await found.connect()
        for _ in range(50):
            writer.write(HEALTH)
            assert (await answer(reader))[0] == 200
        body = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
        writer.write(body + HEALTH)
        assert (await answer(reader))[2] == b'{"size":5000}'
        assert (await answer(reader))[0] == 200


@running
async def test_one_connection_too_many_is_told_so(tmp_path):
    async with gateway(tmp_path, "max_connections = 20\n") as found:
        there = [await found.connect(HEALTH) for _ in range(20)]
        for reader, _ in there:
            assert (await answer(reader))[0] == 200
        for _ in range(50):
            status, headers, body = await found.ask(HEALTH)
            assert (status, headers["retry-after"], json.loads(body)["code"]) == (503, "1", "busy")
        there[0][1].write(HEALTH)
        assert (await answer(there[0][0]))[0] == 200
        there[0][1].close()
        await there[0][1].wait_closed()
        async with asyncio.timeout(_PATIENCE):
            while (await found.ask(HEALTH))[0] != 200:
                await asyncio.sleep(0.01)
        assert found.closed("too_many") >= 50


@running
async def test_who_does_not_read_is_closed(tmp_path):
    async with gateway(tmp_path, "body_seconds = 0.3\n") as found:
        here = socket.create_connection(("127.0.0.1", found.port))
        here.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(_PATIENCE):
            while not found.closed("slow_reader"):
                await asyncio.sleep(0.02)
        here.close()
        assert (await found.ask(HEALTH))[0] == 200


@running
async def test_who_reads_slowly_gets_all_of_it(tmp_path):
    async with gateway(tmp_path, "body_seconds = 0.3\n") as found:
        reader, writer = await asyncio.open_connection("127.0.0.1", found.port, limit=1 << 16)
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        size = 0
        while size < 16 << 20:
            size += len(some := await reader.read(1 << 20))
            assert some, size
            await asyncio.sleep(0.004)
        assert not found.closed("slow_reader")
        writer.close()


@running
async def test_an_idle_connection_is_closed_after_a_while(tmp_path):
    async with gateway(tmp_path, "idle_seconds = 0.2\n") as found:
        reader, _ = await found.connect(HEALTH)
        assert (await answer(reader))[0] == 200
        assert await ended(reader) == b""


@running
async def test_nobody_is_told_what_serves(tmp_path):
    async with gateway(tmp_path) as found:
        _, headers, _ = await found.ask(HEALTH)
        assert "server" not in headers
        assert "date" in headers


@running
async def test_only_named_proxies_say_for_whom_they_ask(tmp_path):
    asked = b"POST /deaf HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n"
    seen = []

    async def noted(scope, receive, send):
        if scope["type"] == "http":
            seen.append(scope["client"][0])
        await application(scope, receive, send)

    for proxies in ("", 'proxies = ["127.0.0.0/8"]\n', 'proxies = ["10.0.0.0/8"]\n'):
        with opened(tmp_path, f'[serve]\nlisten = "127.0.0.1:0"\n{proxies}') as broker:
            application, listening = Application(broker, ROUTES), listening_socket(broker.limits)
            port, started = listening.getsockname()[1], asyncio.Event()
            server = GatewayServer(broker, noted, listening, started.set)
            serving = asyncio.create_task(server._serve())
            await started.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked)
            assert (await answer(reader))[0] == 204
            writer.close()
            server.should_exit = True
            await serving
    assert seen == ["127.0.0.1", "203.0.113.7", "127.0.0.1"]


# --- the end --------------------------------------------------------------------------------------------------------


@running
async def test_at_the_end_requests_are_answered_and_streams_end(tmp_path):
    async with gateway(tmp_path) as found:
        (idle, _), (waits, _), (stuck, _) = [
            await found.connect(sent)
            for sent in (
                HEALTH,
                b"GET /waiting HTTP/1.1\r\nHost: a\r\n\r\n",
                b"GET /stubborn HTTP/1.1\r\nHost: a\r\n\r\n",
            )
        ]
        half = (await found.connect(HEALTH[:10]))[0]
        assert (await answer(idle))[0] == 200
        while len(found.server.server_state.tasks) < 2:
            await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        found.server.should_exit = True
        status, headers, body = await answer(waits)
        assert (status, headers["connection"], json.loads(body)) == (200, "close", {"was": "asked to end"})
        with pytest.raises(ConnectionRefusedError):
            await found.connect()
        for reader in (idle, half, stuck, waits):
            assert await ended(reader) == b""
        assert asyncio.get_running_loop().time() - began < 4
