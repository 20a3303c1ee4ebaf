"""A receiver of webhooks in a thread of the test: it notes what comes, and answers as the test says."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["Received", "Receiver", "receiving"]


class Received(NamedTuple):
    """A request: its path, headers with names in small letters, and body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def is_challenge(self):
        return b'"url_verification"' in self.body


class Receiver:
    """Serves ``url``. ``answers`` says by path what is answered to what is no challenge: a status, or a function of the
    request that gives one; None hangs. Challenges are echoed at paths that ``verifies`` does not forbid.
    """

    def __init__(self, port=0, ssl=None):
        self.received: list[Received] = []
        self.by_path: dict[str, list[Received]] = defaultdict(list)
        self.answers: dict[str, object] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.refuses_challenges: set[str] = set()
        self.connections = 0
        self._port, self._ssl = port, ssl
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def start(self):
        self._thread.start()
        assert self._is_ready.wait(10)
        return self

    def stop(self):
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    async def _serve(self):
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._talk, "127.0.0.1", self._port, ssl=self._ssl, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._ssl else 'http'}://localhost:{self.port}"
        self._is_ready.set()
        await self._stopped.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _talk(self, reader, writer):
        self.connections += 1
        try:
            while (request := await self._request(reader)) is not None:
                await self._answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @staticmethod
    async def _request(reader):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        headers = {name.lower(): value.strip() for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Received(first.split(" ")[1], headers, body)

    async def _answer(self, request, writer):
        if request.is_challenge and request.path not in self.refuses_challenges:
            status, body = 200, json.dumps({"challenge": request.json["challenge"]}).encode()
        else:
            answer = self.answers.get(request.path, 200)
            status, body = answer(request) if callable(answer) else answer, b""
        self.received.append(request)
        self.by_path[request.path].append(request)
        if status is None:
            await asyncio.sleep(3600)
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.get(request.path, {}).items())
        writer.write(f"HTTP/1.1 {status} OK\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    def told(self, path):
        """The deliveries that came to a path."""
        return [one for one in self.by_path[path] if not one.is_challenge]

    def numbers(self, path):
        """Their numbers, of those with one item each."""
        return [one.json["number"] for one in self.told(path)]


@contextmanager
def receiving(**settings):
    receiver = Receiver(**settings).start()
    try:
        yield receiver
    finally:
        receiver.stop()
