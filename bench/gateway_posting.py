"""Connections that post over keep-alive HTTP/1.1 and cost little: bytes out, the status and the body of the answer in.

``post`` has each client send its next request when the last one was answered, for some seconds. ``PostConnection`` is
one connection. They know what our servers answer (``Content-Length``, no chunks) and no more of HTTP.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, process_time
from typing import cast

from bench.gateway_requests import PublishRequests

__all__ = ["PATIENCE", "PostConnection", "Posted", "accepted_of", "post"]

#: Seconds that anybody waits for anything.
PATIENCE = 60.0
_HEAD_END, _LENGTH = b"\r\n\r\n", b"content-length:"


def accepted_of(events: int) -> bytes:
    """What the answer has to say if so many events were accepted."""
    return b'"accepted":%d,' % events


class PostConnection(asyncio.Protocol):
    """One connection, with one request under way at a time; ``answered`` is called with each status and body."""

    def __init__(self, answered: Callable[[PostConnection, int, bytes], None]) -> None:
        self._answered, self._rest = answered, b""
        self.is_waiting, self.sent_at = False, 0.0
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by class

    def send(self, request: bytes) -> None:
        """Send a request; the one before it must have been answered."""
        self.is_waiting, self.sent_at = True, perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if end >= len(_HEAD_END):
            head = data[:end].lower()
            at = head.index(_LENGTH) + len(_LENGTH)
            size = int(head[at : head.index(b"\r", at)])
            if len(data) >= end + size:
                self._rest, self.is_waiting = data[end + size :], False
                self._answered(self, int(data[9:12]), data[end : end + size])
                return
        self._rest = data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.is_waiting:
            self.is_waiting = False
            self._answered(self, 0, str(exc).encode())

    def close(self) -> None:
        self._transport.close()


@dataclass
class Posted:
    """What came of posts: how many of each client were sent, and of those within the measured time the seconds each."""

    seconds: float = 0.0
    sent: list[int] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    """Answers other than that everything was accepted, with their count."""
    cpu: float = 0.0
    """Processor seconds of the clients per second."""

    @property
    def rate(self) -> float:
        """Posts per second."""
        return len(self.latencies) / self.seconds


async def post(clients: Sequence[PublishRequests], seconds: float, warm: float) -> Posted:
    """Each client posts for ``warm`` seconds and then for those that are measured."""
    return await _ClosedLoop(clients, seconds).run(warm)


class _ClosedLoop:
    """Clients that each send the next request when the last one was answered."""

    def __init__(self, clients: Sequence[PublishRequests], seconds: float) -> None:
        self._clients, self._found = clients, Posted(seconds, [0] * len(clients))
        self._accepted = accepted_of(clients[0].events)
        self._begin = self._end = float("inf")
        self._open, self._closed = len(clients), asyncio.Event()

    async def run(self, warm: float) -> Posted:
        loop, connections = asyncio.get_running_loop(), list[PostConnection]()
        for number, client in enumerate(self._clients):
            made = partial(PostConnection, partial(self._answered, number))
            connections.append((await loop.create_connection(made, *client.address))[1])
        self._begin = perf_counter() + warm
        self._end = self._begin + self._found.seconds
        for number, connection in enumerate(connections):
            self._send(number, connection)
        await asyncio.sleep(warm)
        cpu = process_time()
        await asyncio.sleep(self._found.seconds)
        self._found.cpu = (process_time() - cpu) / self._found.seconds
        await asyncio.wait_for(self._closed.wait(), PATIENCE)
        for connection in connections:
            connection.close()
        return self._found

    def _send(self, number: int, connection: PostConnection) -> None:
        sent = self._found.sent
        connection.send(self._clients[number].numbered(sent[number]))
        sent[number] += 1

    def _answered(self, number: int, connection: PostConnection, status: int, body: bytes) -> None:
        now = perf_counter()
        if status != 202 or self._accepted not in body:
            self._found.failed[f"{status} {body[:200]!r}"] += 1
        elif self._begin <= now < self._end:
            self._found.latencies.append(now - connection.sent_at)
        if now < self._end and status:
            self._send(number, connection)
            return
        self._open -= 1
        if not self._open:
            self._closed.set()
