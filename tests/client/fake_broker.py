"""A broker that misbehaves by a script: a socket of its own, HTTP and WebSocket by hand, so that it can break anywhere.

It keeps what a broker keeps, a log that takes each publication once and a queue with an epoch, and notes what it is
asked. Each connection of HTTP or WebSocket takes the next fault of a list; without one it behaves.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PHRASES = {101: "Switching Protocols", 200: "OK", 202: "Accepted", 204: "No Content"}


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a request or a WebSocket.

    ``status``: answered with it, nothing is done. ``before``: closed before anything is done. ``cut``: done, and closed
    after so many bytes of the answer. For a WebSocket also: ``items``: closed after so many items; ``again``: so many
    items before its position come again; ``left_out``: so many are left out; ``silent``: nothing more is said, and it
    stays open; ``lagging``: says so before it is closed; ``epoch``: the queue is another from now on.
    """

    status: int = 0
    retry_after: str | None = None
    before: bool = False
    cut: int | None = None
    items: int | None = None
    again: int = 0
    left_out: int = 0
    silent: bool = False
    lagging: bool = False
    epoch: bool = False
    tells_gap: bool = True


GOOD = Fault()


class Cut(Exception):
    """The connection ends here."""


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeBroker:
    faults: deque[Fault] = field(default_factory=deque)
    """Of requests, in their order."""
    websocket_faults: deque[Fault] = field(default_factory=deque)
    token: str = "a-token-of-a-test"
    log: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    attempts: int = 0
    """Publications that came, duplicates too."""
    most_in_flight: int = 0
    epoch: str = "e1"
    epochs: list[str] = field(default_factory=lambda: ["e1"])
    items: list[dict[str, Any]] = field(default_factory=list)
    acked: int = 0
    acks: list[int] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    answers: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    """Of what this broker does not do by itself, by method and path."""
    tls: ssl.SSLContext | None = None
    pings: int = 0
    sent: int = 0
    _in_flight: int = 0

    async def __aenter__(self) -> FakeBroker:
        self._tasks = set[asyncio.Task[None]]()
        self.changed = asyncio.Condition()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self.tls)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"{'https' if self.tls else 'http'}://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def tell(self, count: int) -> None:
        """So many notifications more."""
        async with self.changed:
            for _ in range(count):
                number = len(self.items) + 1
                publication = {"id": f"{self.epoch}.{number}", "source": "z", "time": "2026-11-15T08:00:00.000000Z"}
                self.items.append(
                    {
                        "number": number,
                        "type": "notification",
                        "subscriptions": ["s1"],
                        "time": "2026-11-15T08:00:00.000000Z",
                        "matched_at": "2026-11-15T08:00:01.000000Z",
                        "initial": False,
                        "publication": publication | {"attributes": {"n": number}},
                    }
                )
            self.changed.notify_all()

    # --- connections ------------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                if request.headers.get("upgrade", "").lower() == "websocket":
                    await _WebSocket(self, request, reader, writer).run()
                    break
                await self._answer(request, writer)
        except (Cut, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            if writer.transport is not None:
                writer.transport.abort()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        fault = self.faults.popleft() if self.faults else GOOD
        if fault.before:
            raise Cut
        if fault.status:
            status, said = fault.status, {"code": "busy", "expected": "less", "got": "more"}
        else:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            await asyncio.sleep(0)
            status, said = self._done(request)
            self._in_flight -= 1
        extra = f"Retry-After: {fault.retry_after}\r\n" if fault.retry_after else ""
        text = b"" if status == 204 else orjson.dumps(said)
        kind = "application/json" if status < 400 or "refused" in said else "application/problem+json"
        head = f"HTTP/1.1 {status} {_PHRASES.get(status, 'No')}\r\nContent-Type: {kind}\r\n{extra}"
        answer = f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text
        writer.write(answer if fault.cut is None else answer[: fault.cut])
        await writer.drain()
        if fault.cut is not None:
            writer.close()
            raise Cut

    def _done(self, request: Request) -> tuple[int, Any]:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"code": "unauthorized", "expected": "Authorization: Bearer and a token", "got": "another"}
        path = request.target.partition("?")[0]
        if (request.method, path) in self.answers:
            return self.answers[request.method, path]
        if (request.method, path) == ("POST", "/v1/publications"):
            return self._publish(request)
        if (request.method, path) == ("POST", "/v1/notifications/ack"):
            self.acknowledge(orjson.loads(request.body)["upto"])
            return 204, None
        return 404, {"code": "not_found", "expected": "a path of the API", "got": path}

    def acknowledge(self, given: str | int) -> None:
        epoch, _, digits = str(given).rpartition("-")
        upto = int(digits)
        if epoch not in ("", self.epoch):
            return
        assert upto <= len(self.items)
        self.acks.append(upto)
        self.acked = max(self.acked, upto)

    def _publish(self, request: Request) -> tuple[int, Any]:
        if request.headers["content-type"] == "application/vnd.apache.arrow.stream":
            given = pa.ipc.open_stream(request.body).read_all().to_pylist()
        else:
            given = [orjson.loads(line) for line in request.body.split(b"\n")]
        accepted, duplicates, refused = 0, 0, []
        for index, one in enumerate(given):
            self.attempts += 1
            key = one["source"], one["id"]
            if "bad" in one:
                refused.append({"index": index, "code": "ahead", "detail": "expected a time; got one ahead"})
            elif key in self.log and self.log[key] != one:
                refused.append({"index": index, "code": "conflict", "detail": "expected the same; got another"})
            elif key in self.log:
                duplicates += 1
            else:
                self.log[key] = one
                accepted += 1
        said = {"accepted": accepted, "duplicates": duplicates, "refused": refused, "ids": {}}
        return (202 if accepted or duplicates else 422), said | {"position": len(self.log) - 1 if accepted else None}


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


class _WebSocket:
    """One WebSocket, with its fault."""

    def __init__(self, broker: FakeBroker, request: Request, reader: Any, writer: Any) -> None:
        self._broker, self._request, self._reader, self._writer = broker, request, reader, writer
        self._fault = broker.websocket_faults.popleft() if broker.websocket_faults else GOOD
        self._room = self._fault.cut

    async def run(self) -> None:
        broker, fault = self._broker, self._fault
        if fault.before:
            raise Cut
        if self._request.headers.get("authorization") != f"Bearer {broker.token}":
            await self._refuse(401, '{"code": "unauthorized", "expected": "a token", "got": "another"}')
        if fault.status:
            await self._refuse(fault.status, "{}")
        key = self._request.headers["sec-websocket-key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + _MAGIC).digest()).decode()
        head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        await self._write(f"{head}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        if fault.epoch:
            broker.epoch = f"e{len(broker.epochs) + 1}"
            broker.epochs.append(broker.epoch)
            count = len(broker.items)
            broker.items.clear()
            broker.acked = 0
            await broker.tell(count)
        listening = asyncio.create_task(self._listen())
        try:
            await self._deliver()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _refuse(self, status: int, text: str) -> None:
        retry = f"Retry-After: {self._fault.retry_after}\r\n" if self._fault.retry_after else ""
        head = f"HTTP/1.1 {status} No\r\n{retry}Content-Type: application/problem+json\r\n"
        await self._write(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        self._writer.close()
        raise Cut

    async def _deliver(self) -> None:
        broker, fault = self._broker, self._fault
        last = len(broker.items)
        await self.say({"type": "hello", "epoch": broker.epoch, "acked": broker.acked, "last": last, "oldest": 1})
        number = await self._begin()
        number = max(0, number - fault.again)
        number = min(number + fault.left_out, max(number, len(broker.items) - 1))  # what follows shows what is missing
        told = 0
        while True:
            async with broker.changed:
                while len(broker.items) <= number:
                    await broker.changed.wait()
                some = broker.items[number:]
            for item in some:
                if fault.items is not None and told >= fault.items:
                    await self._end()
                await self.say(item)
                broker.sent += 1
                number, told = number + 1, told + 1

    async def _begin(self) -> int:
        """Behind which number to begin; after another epoch, or a number that there is not, a gap is told."""
        broker = self._broker
        _, _, after = self._request.target.partition("?after=")
        if not after:
            return broker.acked
        epoch, _, digits = after.rpartition("-")
        number = int(digits)
        if epoch in ("", broker.epoch) and number <= len(broker.items):
            return number
        reason = "epoch" if epoch not in ("", broker.epoch) else "beyond"
        if self._fault.tells_gap:
            await self.say({"type": "gap", "from": 1, "to": 0, "oldest": 1, "reason": reason})
        return 0

    async def _end(self) -> None:
        if self._fault.silent:
            await asyncio.Event().wait()
        if self._fault.lagging:
            await self.say({"type": "lagging"})
        await self._write(b"\x88\x02" + struct.pack(">H", 1001))
        self._writer.close()
        raise Cut

    async def say(self, message: Any) -> None:
        text = orjson.dumps(message)
        length = bytes([len(text)]) if len(text) < 126 else b"\x7e" + struct.pack(">H", len(text))
        await self._write(b"\x81" + length + text)

    async def _write(self, data: bytes) -> None:
        if self._room is not None:
            data, self._room = data[: self._room], max(0, self._room - len(data))
        self._writer.write(data)
        await self._writer.drain()
        if self._room == 0:
            self._writer.close()
            raise Cut

    async def _listen(self) -> None:
        """Messages of the client, which masks them."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                first, second = await self._reader.readexactly(2)
                length = second & 127
                if length == 126:
                    (length,) = struct.unpack(">H", await self._reader.readexactly(2))
                mask = await self._reader.readexactly(4)
                text = bytes(b ^ mask[i % 4] for i, b in enumerate(await self._reader.readexactly(length)))
                if first & 15 == 8:
                    self._writer.write(b"\x88\x02" + text[:2])
                    self._writer.close()
                    return
                if first & 15 == 1:
                    await self._heard(orjson.loads(text))

    async def _heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "ping":
            self._broker.pings += 1
            if self._fault.silent:
                return
        elif message["type"] == "ack":
            self._broker.acknowledge(message["upto"])
        ref = {"ref": message["ref"]} if "ref" in message else {}
        with suppress(Cut):
            await self.say({"type": "accepted", **ref})
