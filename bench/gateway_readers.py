"""Connections that read notifications, by WebSocket or Server-Sent Events, and compare each with what must come.

Publication n for a *room* has the id ``ROOM:n`` and is delivery n of everybody in that room; a reader knows that and
keeps nothing but the last number. What it parses is what a gateway sends: whole frames without masks, chunks, one line
of data per event.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable
from time import perf_counter
from typing import cast

import msgspec

__all__ = ["EventStreamReader", "Reader", "WebSocketReader"]

_HEAD_END = b"\r\n\r\n"
_TEXT, _CLOSE, _PING = 0x81, 0x88, 0x89


class _Publication(msgspec.Struct):
    id: str


class _Message(msgspec.Struct):
    type: str = ""
    number: int = 0
    publication: _Publication | None = None


_decode = msgspec.json.Decoder(_Message).decode


class Reader(asyncio.Protocol, ABC):
    """What one connection reads. ``noticed`` is called when it has ``target``, ``ended`` when it was closed."""

    status = b""

    def __init__(self, token: str, room: str) -> None:
        self.token, self._prefix = token, f"{room}:"
        self.last, self.target = 0, -1
        self.wrong: list[str] = []
        self.connections = self.lagged = 0
        self.arrivals: dict[str, float] | None = None
        """When each publication came, where that is wanted, and their order is not known."""
        self.is_stalled = False
        self.noticed: Callable[[], None] = _nothing
        self.ended: Callable[[Reader], None] = _nothing
        self.transport: asyncio.Transport | None = None
        self._rest, self._text, self._is_open = b"", b"", False
        self.opened: asyncio.Future[None] | None = None

    @abstractmethod
    def request(self, host: str) -> bytes:
        """The request that opens the connection, after what was read before."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by class
        self._rest, self._text, self._is_open = b"", b"", False
        self.connections += 1
        host, port = transport.get_extra_info("peername")[:2]
        self.transport.write(self.request(f"{host}:{port}"))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        if not self._is_open:
            end = data.find(_HEAD_END)
            if end < 0:
                self._rest = data
                return
            if self.opened is not None and not self.opened.done():
                self.opened.set_result(None)
            if data[9:12] != self.status:
                self._differs(f"opening: {data[:300]!r}")
                return
            data, self._is_open = data[end + len(_HEAD_END) :], True
        self._rest = self.read(data)

    @abstractmethod
    def read(self, data: bytes) -> bytes:
        """Take what is whole; the rest."""

    def take(self, payload: bytes) -> None:
        """One message."""
        message = _decode(payload)
        number = message.number
        if message.type == "notification":
            id = "" if message.publication is None else message.publication.id
            if self.arrivals is not None:
                self.arrivals[id] = perf_counter()
            elif id != self._prefix + str(number):
                self._differs(f"after {self.last}: {payload[:300]!r}")
            if number != self.last + 1:
                self._differs(f"after {self.last}: {payload[:300]!r}")
            self.last = number
            if number == self.target:
                self.noticed()
        elif message.type == "lagging":
            self.lagged += 1
        elif message.type not in ("hello", "pong"):
            self._differs(f"after {self.last}: {payload[:300]!r}")

    def _differs(self, what: str) -> None:
        if len(self.wrong) < 10:
            self.wrong.append(what)

    def stall(self) -> None:
        """Read nothing from now on."""
        assert self.transport is not None
        self.is_stalled = True
        self.transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        self.is_stalled = False
        if self.transport is not None:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.opened is not None and not self.opened.done():
            self.opened.set_exception(ConnectionError(str(exc)))
        self.ended(self)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class WebSocketReader(Reader):
    """Reads from ``/v1/ws``."""

    status = b"101"

    def request(self, host: str) -> bytes:
        lines = (
            f"GET /v1/ws?after={self.last} HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {self.token}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}",
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()

    def read(self, data: bytes) -> bytes:
        at, end = 0, len(data)
        while end - at >= 2:
            size, start = data[at + 1], at + 2
            if size >= 126:
                start += 2 if size == 126 else 8
                if start > end:
                    break
                size = int.from_bytes(data[at + 2 : start], "big")
            if start + size > end:
                break
            payload = data[start : start + size]
            if data[at] == _TEXT:
                self.take(payload)
            elif data[at] == _PING:
                self._pong(payload)
            elif data[at] != _CLOSE:
                self._differs(f"a frame {data[at : at + 2]!r}")
            at = start + size
        return data[at:]

    def _pong(self, payload: bytes) -> None:
        if self.transport is not None:
            self.transport.write(bytes((0x8A, 0x80 | len(payload), 0, 0, 0, 0)) + payload)


class EventStreamReader(Reader):
    """Reads from ``/v1/stream``."""

    status = b"200"

    def request(self, host: str) -> bytes:
        lines = (
            f"GET /v1/stream?after={self.last} HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {self.token}",
            "Accept: text/event-stream",
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()

    def read(self, data: bytes) -> bytes:
        at, end, texts = 0, len(data), [self._text]
        while (line := data.find(b"\r\n", at)) >= 0:
            size = int(data[at:line], 16)
            if line + 2 + size + 2 > end:
                break
            texts.append(data[line + 2 : line + 2 + size])
            at = line + 2 + size + 2
        *events, self._text = b"".join(texts).split(b"\n\n")
        for event in events:
            begin = 0 if event.startswith(b"data: ") else event.find(b"\ndata: ") + 1
            if begin or event.startswith(b"data: "):
                line = event.find(b"\n", begin)
                self.take(event[begin + 6 : line if line >= 0 else None])
        return data[at:]


def _nothing(*_: object) -> None:
    pass
