"""Single posts at a steady rate, on as many connections as have none under way: how late an answer is delays none.

What is measured begins when a post is written to its socket. How much later than on time that was is kept beside it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import orjson

from bench.boolean_intervals import ATTRIBUTES
from bench.gateway_posting import PATIENCE, PostConnection, accepted_of
from bench.gateway_requests import post_request

__all__ = ["Latencies", "PacedPosts", "SentPosts"]

#: Bodies that are made beforehand and sent again under other ids, and connections that there may be.
_BODIES, _CONNECTIONS = 1_000, 256
_ID = b"########"


@dataclass
class SentPosts:
    """When each publication was sent, by its id; how late that was; answers other than accepted."""

    times: dict[str, float] = field(default_factory=dict)
    late: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)


@dataclass
class Latencies:
    """Seconds from each post to its notification, in the order of the posts, and how late the posts were sent."""

    seconds: list[float]
    late: list[float]
    failed: Counter[str]
    exact: bool
    cpu: float
    """Processor seconds of the clients per second."""


@dataclass(frozen=True)
class PacedPosts:
    """So many posts, each of one publication with ``ATTRIBUTES`` numbers between 0 and 1."""

    address: tuple[str, int]
    token: str
    rate: float
    count: int
    seed: int

    async def run(self) -> SentPosts:
        """Send all of them; return when the last was answered."""
        loop, found, bodies, accepted = asyncio.get_running_loop(), SentPosts(), self._bodies(), accepted_of(1)
        idle, open_connections = list[PostConnection](), 0

        def answered(connection: PostConnection, status: int, body: bytes) -> None:
            if status != 202 or accepted not in body:
                found.failed[f"{status} {body[:200]!r}"] += 1
            if status:
                idle.append(connection)

        begin = perf_counter()
        for number in range(self.count):
            on_time = begin + number / self.rate
            if (wait := on_time - perf_counter()) > 0:
                await asyncio.sleep(wait)
            while not idle:
                if open_connections < _CONNECTIONS:
                    open_connections += 1
                    made = await loop.create_connection(lambda: PostConnection(answered), *self.address)
                    idle.append(made[1])
                else:
                    await asyncio.sleep(0.001)
            id = f"{number:08d}"
            connection = idle.pop()
            connection.send(bodies[number % _BODIES].replace(_ID, id.encode()))
            found.times[id] = connection.sent_at
            found.late.append(connection.sent_at - on_time)
        async with asyncio.timeout(PATIENCE):
            while len(idle) < open_connections:
                await asyncio.sleep(0.01)
        for connection in idle:
            connection.close()
        return found

    def _bodies(self) -> list[bytes]:
        values = np.random.default_rng(self.seed).random((_BODIES, ATTRIBUTES)).tolist()
        given = ({"id": _ID.decode(), "source": "paced"} | {f"a{i}": v for i, v in enumerate(row)} for row in values)
        return [post_request(self.address, self.token, "application/json", orjson.dumps(one)) for one in given]
