"""Clients of a broker that is killed: publishers that retry, and subscribers that connect again and go on.

They are foreign to the broker: httpx and websockets, and what the documentation says. A subscriber writes down what it
was told, and objects at once where a number comes with another content than before, or leaves one out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

import httpx
import orjson
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

__all__ = ["Publisher", "Subscriber", "retried"]

PAUSE = 0.05
#: What a client does not see as the end: the broker is away, or not yet whole again.
AWAY = (httpx.TransportError, OSError, WebSocketException, TimeoutError, EOFError)


async def retried(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """The answer to a request, sent again until it is one of a broker that works."""
    while True:
        with suppress(*AWAY):
            answer = await ask()
            if answer.status_code < 500 and answer.status_code != 429:
                return answer
        await asyncio.sleep(PAUSE)


class Publisher:
    """Publishes what it has, some at a time, each until it is acknowledged. ``url`` tells where the broker is now."""

    def __init__(self, url, token, source, publications, rng):
        self._url, self._headers, self.source = url, {"Authorization": f"Bearer {token}"}, source
        self.publications, self._rng = publications, rng
        self.acknowledged = self.duplicates = 0

    async def run(self, client: httpx.AsyncClient, may: Callable[[], int]) -> None:
        """Publish everything; ``may`` says how many are allowed by now."""
        while self.acknowledged < len(self.publications):
            if self.acknowledged >= may():
                await asyncio.sleep(PAUSE)
                continue
            count = self._rng.choice((1, 1, 2, 7))
            some = self.publications[self.acknowledged : self.acknowledged + count]
            body = orjson.dumps(some if len(some) > 1 else some[0])
            headers = {**self._headers, "Content-Type": "application/json"}

            async def ask(body=body, headers=headers):
                return await client.post(f"{self._url()}/v1/publications", content=body, headers=headers, timeout=20)

            answer = await retried(ask)
            found = answer.json()
            assert answer.status_code == 202, found
            assert found["accepted"] + found["duplicates"] == len(some), found
            self.duplicates += found["duplicates"]
            self.acknowledged += len(some)


class Subscriber:
    """Reads its queue, by WebSocket, Server-Sent Events or long polls, until it is cancelled. ``told`` has each
    publication, (source, id), by its number.
    """

    def __init__(self, url, token, way, rng):
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"}
        self._read = {"WebSocket": self._websocket, "SSE": self._stream, "poll": self._poll}[way]
        self._rng = rng
        self.told: dict[int, tuple[str, str]] = {}
        self.connections = self.doubles = self.acknowledged = 0
        self.epoch: str | None = None

    async def run(self, client: httpx.AsyncClient) -> None:
        while True:
            after = f"?after={len(self.told)}" if self._rng.random() < 0.8 else ""  # else from what was acknowledged
            upto = self._rng.uniform(1, 5)
            with suppress(*AWAY):
                async with asyncio.timeout(upto):
                    await self._read(client, after)
            await asyncio.sleep(PAUSE * self._rng.random())

    async def _websocket(self, client: httpx.AsyncClient, after: str) -> None:
        url = self._url().replace("http:", "ws:") + "/v1/ws" + after
        async with connect(url, additional_headers=self._headers, compression=None, close_timeout=1) as socket:
            self.connections += 1
            hello = orjson.loads(await socket.recv())
            assert hello["type"] == "hello", hello
            async for message in socket:
                item = orjson.loads(message)
                if item["type"] == "accepted":
                    continue
                self._take(item)
                if self._rng.random() < 0.05:
                    await socket.send(orjson.dumps({"type": "ack", "upto": len(self.told)}).decode())

    async def _stream(self, client: httpx.AsyncClient, after: str) -> None:
        url, timeout = f"{self._url()}/v1/stream{after}", httpx.Timeout(20, read=None)
        async with client.stream("GET", url, headers=self._headers, timeout=timeout) as answer:
            if answer.status_code != 200:
                return
            self.connections += 1
            async with aclosing(answer.aiter_lines()) as lines:
                async for line in lines:
                    if line.startswith("data: "):
                        self._take(orjson.loads(line[6:]))

    async def _poll(self, client: httpx.AsyncClient, after: str) -> None:
        given = {"limit": "50", "wait": "1"} | ({"after": str(len(self.told))} if after else {})
        url = f"{self._url()}/v1/notifications"
        answer = await client.get(url, params=given, headers=self._headers, timeout=20)
        if answer.status_code != 200:
            return
        self.connections += 1
        page = answer.json()
        for item in page["notifications"]:
            self._take(item)
        if self.told:
            upto = {"upto": len(self.told)}
            url = f"{self._url()}/v1/notifications/ack"
            await client.post(url, json=upto, headers=self._headers, timeout=20)

    def _take(self, item: dict) -> None:
        if item["type"] == "lagging":
            return
        assert item["type"] == "notification", item
        number, publication = item["number"], (item["publication"]["source"], item["publication"]["id"])
        if number in self.told:
            assert self.told[number] == publication, (item, self.told[number])
            self.doubles += 1
            return
        assert number == len(self.told) + 1, (item, len(self.told))
        self.told[number] = publication


def drawn(rng: random.Random, source: str, count: int) -> list[dict]:
    """Publications of a source."""
    return [
        {"source": source, "id": f"{n}", "value": rng.randrange(1000), "room": rng.randrange(8)} for n in range(count)
    ]
