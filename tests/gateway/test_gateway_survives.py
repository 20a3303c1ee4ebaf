"""Gateway, runner and the whole broker are killed while many publish and many are told, all over HTTP.

Everything that was acknowledged must have been delivered to whom it concerns, by comparison with a filter in plain
Python, each number once, and the publications of each publisher in their order.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from dataclasses import dataclass
from itertools import cycle

import httpx
import pytest

from tests.gateway.retrying_clients import Publisher, Subscriber, drawn, retried
from tests.gateway.served import TOKEN, Broker

PATIENCE = 180.0


@dataclass
class Sizes:
    publishers: int
    subscribers: int
    each: int
    """Publications of a publisher."""
    kills: list[str]
    workers: int = 1


class World:
    """A broker that is started again when it was killed as a whole, its clients, and who wants what."""

    def __init__(self, directory, sizes: Sizes, rng: random.Random) -> None:
        self.directory, self.sizes, self.rng = directory, sizes, rng
        self.text = f"[serve]\nworkers = {sizes.workers}\n"
        self.broker = Broker(directory, "--runner", "process", text=self.text)
        self.url = self.broker.wait()
        self.wanted: list[tuple[int, int, int]] = []
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.killed: list[str] = []
        self._allowed = 0

    async def people(self, client: httpx.AsyncClient) -> None:
        """Tokens and subscriptions, each of a value between two bounds in one of the rooms."""
        ways = cycle(("WebSocket", "SSE", "WebSocket", "poll"))
        for number in range(self.sizes.publishers):
            source = f"source-{number}"
            token = await self._token(client, source, "publisher", sources=[source])
            some = drawn(self.rng, source, self.sizes.each)
            self.publishers.append(Publisher(lambda: self.url, token, source, some, self.rng))
        for number in range(self.sizes.subscribers):
            token = await self._token(client, f"reader-{number}", "subscriber")
            low = self.rng.randrange(800)
            self.wanted.append((low, low + 199, self.rng.randrange(8)))
            where = "value BETWEEN {} AND {} AND room = {}".format(*self.wanted[-1])
            answer = await client.put(
                f"{self.url}/v1/subscriptions/mine",
                json={"where": where},
                headers={"Authorization": f"Bearer {token}"},
            )
            assert answer.status_code == 201, answer.text
            self.subscribers.append(Subscriber(lambda: self.url, token, next(ways), self.rng))

    async def _token(self, client: httpx.AsyncClient, principal: str, role: str, **more) -> str:
        body = {"principal": principal, "roles": [role], **more}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = await retried(lambda: client.post(f"{self.url}/v1/tokens", json=body, headers=headers))
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    async def run(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(limits=limits) as client:
            await self.people(client)
            publishing = [asyncio.create_task(one.run(client, lambda: self._allowed)) for one in self.publishers]
            reading = [asyncio.create_task(one.run(client)) for one in self.subscribers]
            try:
                for number, name in enumerate(self.sizes.kills):
                    self._allowed = self.sizes.each * (number + 1) // (len(self.sizes.kills) + 1)
                    await self._until(lambda: self.acknowledged > self._low(), [*publishing, *reading])
                    await asyncio.sleep(self.rng.uniform(0, 0.2))
                    await self._kill(name)
                self._allowed = self.sizes.each
                await self._until(lambda: all(task.done() for task in publishing), [*publishing, *reading])
                expected = self.expected()
                await self._until(
                    lambda: all(len(one.told) >= len(all_of) for one, all_of in self._pairs(expected)), reading
                )
            finally:
                for task in (*publishing, *reading):
                    task.cancel()
                ended = await asyncio.gather(*publishing, *reading, return_exceptions=True)
            for one in ended:
                assert one is None or isinstance(one, asyncio.CancelledError), one

    def _low(self) -> int:
        """So many acknowledged that the publishing of this stretch is under way, and not over."""
        stretch = self.sizes.each // (len(self.sizes.kills) + 1)
        return self.sizes.publishers * (self._allowed - stretch + stretch // 3)

    @property
    def acknowledged(self) -> int:
        return sum(one.acknowledged for one in self.publishers)

    async def _until(self, holds, tasks) -> None:
        due = time.monotonic() + PATIENCE
        while not holds():
            for task in tasks:
                if task.done() and task.exception() is not None:
                    await task
            assert time.monotonic() < due, (self.killed, self.acknowledged, self.broker.log.read_text()[-3000:])
            await asyncio.sleep(0.02)

    async def _kill(self, name: str) -> None:
        """Kill a process of the broker; the whole broker is started again by us, its parts by itself."""
        processes = self.broker.processes
        if name == "broker":
            processes.started.kill()
            await asyncio.to_thread(processes.started.wait)
            self.broker = Broker(self.directory, "--runner", "process", text=self.text)
            self.url = await asyncio.to_thread(lambda: self.broker.url)
        else:
            process = await asyncio.to_thread(processes.__getitem__, name)
            os.kill(process, signal.SIGKILL)
        self.killed.append(name)

    # --- what must come -----------------------------------------------------------------------------------------------

    def expected(self) -> list[set[tuple[str, str]]]:
        """Of each subscriber the publications that it wants."""
        return [
            {
                (one["source"], one["id"])
                for publisher in self.publishers
                for one in publisher.publications
                if low <= one["value"] <= high and one["room"] == room
            }
            for low, high, room in self.wanted
        ]

    def _pairs(self, expected):
        return zip(self.subscribers, expected, strict=True)

    def check(self) -> int:
        """Compare; how many were delivered."""
        for subscriber, all_of in self._pairs(self.expected()):
            told = list(subscriber.told.values())
            assert list(subscriber.told) == list(range(1, len(told) + 1))
            assert len(set(told)) == len(told)
            assert set(told) == all_of
            for publisher in self.publishers:
                of_one = [int(id) for source, id in told if source == publisher.source]
                assert of_one == sorted(of_one)
        return sum(len(one.told) for one in self.subscribers)


def survived(directory, sizes: Sizes, seed: int) -> World:
    world = World(directory, sizes, random.Random(seed))
    try:
        asyncio.run(world.run())
        delivered = world.check()
    finally:
        world.broker.end()
    connections = sum(one.connections for one in world.subscribers)
    doubles = sum(one.doubles for one in world.subscribers)
    again = sum(one.duplicates for one in world.publishers)
    print(
        f"{len(world.killed)} kills, {world.acknowledged:,} acknowledged ({again:,} of them when sent again), "
        f"{delivered:,} deliveries, {doubles:,} twice, {connections:,} connections"
    )
    assert delivered > 0
    assert connections > len(world.subscribers)
    return world


def test_what_was_acknowledged_is_delivered_whatever_is_killed(tmp_path):
    survived(tmp_path, Sizes(6, 12, 200, ["gateway 1", "runner", "broker"]), 1)


@pytest.mark.thorough
def test_twenty_kills(tmp_path):
    rng = random.Random(2)
    kills = [rng.choice(["gateway 1", "gateway 2", "runner", "runner", "broker"]) for _ in range(20)]
    survived(tmp_path, Sizes(50, 200, 1_000, kills, workers=2), 3)
