"""Batches of publications on their way to a broker: a bounded number at a time, answered in order.

Whoever has more waits until the oldest is answered; that is how a broker that is slow, or has no room, slows down the
generator that publications come from.
"""

from __future__ import annotations

import asyncio
from collections import deque

from tidegate.client.answers import Published
from tidegate.client.publication_batches import Batch
from tidegate.client.requests import Requests
from tidegate.errors import TidegateError

__all__ = ["PublishWindow"]


class PublishWindow:
    """At most ``in_flight`` batches that are not answered yet. With one, a broker gets them in their order."""

    def __init__(self, requests: Requests, in_flight: int) -> None:
        self._requests, self._in_flight = requests, in_flight
        self._under_way: deque[asyncio.Task[Published]] = deque()

    async def add(self, batch: Batch) -> list[Published]:
        """Send a batch as soon as there is room; the answers that were waited for."""
        answers = []
        while len(self._under_way) >= self._in_flight:
            answers.append(await self._oldest())
        self._under_way.append(asyncio.create_task(self._sent(batch)))
        return answers

    async def rest(self) -> list[Published]:
        """The answers to all that is under way."""
        return [await self._oldest() for _ in range(len(self._under_way))]

    async def cancel(self) -> None:
        """Wait for nothing any more. What is under way may be accepted or not."""
        tasks = list(self._under_way)
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _oldest(self) -> Published:
        answer = await self._under_way[0]
        self._under_way.popleft()
        return answer

    async def _sent(self, batch: Batch) -> Published:
        try:
            answer = await self._requests.send(
                "POST", "/v1/publications", batch.body, media_type=batch.media_type, also=(422,), once=False
            )
        except TidegateError as error:
            last = batch.first + batch.count - 1
            error.at = f"{error.at}, publications {batch.first:,} to {last:,}"
            raise
        return Published.of(answer.said, batch.first, batch.ids)
