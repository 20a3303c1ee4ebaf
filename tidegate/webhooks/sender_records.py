"""``SenderRecords``: what the sender writes down of endpoints, in threads and many at a time.

How an endpoint stands may be written half a second late: if the sender is killed meanwhile, it tries once more than it
had to. What is given up is written down before the queue goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tidegate.errors import TidegateError
from tidegate.store.dead_letters import Forgotten
from tidegate.store.webhook_tables import DeadLetters, Progress, Replay, Webhook
from tidegate.store.webhooks import StoredWebhooks

__all__ = ["SenderRecords"]

T = TypeVar("T")
_LOG = logging.getLogger("tidegate.webhooks")
#: Seconds between two writes of how endpoints stand.
_EVERY = 0.3


class SenderRecords:
    """What is written to ``webhooks``. ``note`` is called in the event loop."""

    def __init__(self, webhooks: StoredWebhooks) -> None:
        self._webhooks = webhooks
        self._noted: dict[tuple[str, str], tuple[Webhook, Progress]] = {}
        self._thread = ThreadPoolExecutor(1, "tidegate-records")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._keep_written())

    async def stop(self) -> None:
        """Write what was noted, and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._write()
        self._thread.shutdown(wait=False)

    def note(self, webhook: Webhook, progress: Progress) -> None:
        """How an endpoint stands now."""
        self._noted[webhook.principal, webhook.name] = webhook, progress

    async def _keep_written(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self._write()

    async def _write(self) -> None:
        """Write what was noted; what cannot be written now is with the next."""
        noted, self._noted = self._noted, {}
        try:
            if noted:
                await self.in_thread(lambda: self._webhooks.save(noted.values()))
        except TidegateError as error:
            _LOG.error("how webhooks stand could not be written, and will be: %s", error)
            self._noted = noted | self._noted

    async def bury(self, webhook: Webhook, letters: DeadLetters) -> Forgotten:
        """Write down that deliveries were given up; what was forgotten for it."""
        whose = webhook.principal, webhook.name
        return await self.in_thread(lambda: self._webhooks.dead.add(*whose, letters))

    async def unbury(self, webhook: Webhook, epoch: str, begin: int, upto: int) -> None:
        """Write down that deliveries were taken."""
        whose = webhook.principal, webhook.name
        await self.in_thread(lambda: self._webhooks.dead.remove(*whose, epoch, begin, upto))

    async def step_replay(self, replay: Replay, position: int) -> None:
        """Write down how far a replay is."""
        await self.in_thread(lambda: self._webhooks.step_replay(replay, position))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do something with the database."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
