"""``SenderNumbers``: the counts of the sender in the files that gateways add up, so that any of them serves these."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from tidegate.gateway.process_numbers import ProcessNumbers
from tidegate.gateway.shared_numbers import SharedNumbers

__all__ = ["SenderNumbers"]

_LOG = logging.getLogger("tidegate.webhooks")
#: Seconds between two writes.
_EVERY = 1.0


class SenderNumbers:
    """Writes what ``numbers`` gives to a file in ``directory``."""

    def __init__(self, directory: Path, numbers: Callable[[], ProcessNumbers]) -> None:
        self._numbers, self._shared = numbers, SharedNumbers(directory)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._keep_written())

    async def stop(self) -> None:
        """Write once more, and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._write()
        self._shared.close()

    async def _keep_written(self) -> None:
        while True:
            await self._write()
            await asyncio.sleep(_EVERY)

    async def _write(self) -> None:
        try:
            await asyncio.to_thread(self._shared.write, self._numbers())
        except Exception:
            _LOG.exception("what was counted could not be written")
