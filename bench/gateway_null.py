"""A server that does nothing: it accepts what is posted at once, and sends readers notifications as fast as they read.

What the clients of the bench reach with it is what they could reach at most, on a core that the gateway does not use.
``python -m bench.gateway_null PORT COUNT`` sends each reader so many notifications of its room, which is its token.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import cast

import orjson
import uvloop

__all__ = ["Nothing"]

_LENGTH, _AUTHORIZATION = b"content-length: ", b"authorization: bearer "
_ACCEPTED = b'{"accepted":1,"duplicates":0,"refused":[],"ids":{},"position":0}'
_ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: %d\r\n\r\n" % len(_ACCEPTED) + _ACCEPTED
_UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n"
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
#: Notifications that are sent at once.
_AT_ONCE = 16


class Nothing(asyncio.Protocol):
    """One connection: posts are answered, a reader is sent ``count`` notifications."""

    def __init__(self, count: int) -> None:
        self._count, self._rest = count, b""
        self._is_room = asyncio.Event()
        self._is_room.set()
        self._sending: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by class

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while (end := data.find(b"\r\n\r\n") + 4) >= 4:
            head = data[:end]
            lower = head.lower()
            at = lower.find(_LENGTH)
            size = int(lower[at + len(_LENGTH) : lower.index(b"\r", at)]) if at >= 0 else 0
            if len(data) < end + size:
                break
            data = data[end + size :]
            if head.startswith(b"POST"):
                self._transport.write(_ANSWER)
            else:
                at = lower.index(_AUTHORIZATION) + len(_AUTHORIZATION)
                room = head[at : head.index(b"\r", at)].decode()
                is_socket = head.startswith(b"GET /v1/ws")
                self._transport.write(_UPGRADED if is_socket else _STREAM)
                self._sending = asyncio.get_running_loop().create_task(self._send(room, is_socket))
        self._rest = data

    async def _send(self, room: str, is_socket: bool) -> None:
        form = _frame if is_socket else _chunk
        for first in range(1, self._count + 1, _AT_ONCE):
            await self._is_room.wait()
            numbers = range(first, min(first + _AT_ONCE, self._count + 1))
            for number in numbers:
                self._transport.write(form(number, _notification(room, number)))
            await asyncio.sleep(0)

    def pause_writing(self) -> None:
        self._is_room.clear()

    def resume_writing(self) -> None:
        self._is_room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._sending is not None:
            self._sending.cancel()


def _notification(room: str, number: int) -> bytes:
    publication = {
        "id": f"{room}:{number}",
        "source": "rooms",
        "time": "2026-11-01T08:00:00.000000Z",
        "attributes": {"room": room, "no2": 12.25, "pm10": 33.5, "temperature": 20.75},
    }
    told = {"type": "notification", "number": number, "subscriptions": [room], "time": publication["time"]}
    return orjson.dumps(told | {"matched_at": publication["time"], "publication": publication})


def _frame(number: int, payload: bytes) -> bytes:
    size = len(payload)
    return (bytes((0x81, size)) if size < 126 else b"\x81\x7e" + size.to_bytes(2, "big")) + payload


def _chunk(number: int, payload: bytes) -> bytes:
    event = b"event: notification\nid: epoch-%d\ndata: %s\n\n" % (number, payload)
    return b"%x\r\n%s\r\n" % (len(event), event)


async def _serve(port: int, count: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = await loop.create_server(lambda: Nothing(count), "127.0.0.1", port, backlog=2048)
    await ended.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
