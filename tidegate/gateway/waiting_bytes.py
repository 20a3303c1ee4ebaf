"""What waits for all clients of a gateway together, and who is given up when that is too much.

Whoever writes to a client says how much. Once a second, and whenever it may have become too much, ``WaitingBytes`` asks
each what still waits. Beyond ``most`` those are given up that take longest to read what waits for them, and in any case
who takes longer than it may: reading a byte now and then holds no room. Knows no transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

__all__ = ["WaitingBytes", "WaitingClient"]

#: Seconds between two looks, and at least if all may have become too much.
_LOOK, _AGAIN = 1.0, 0.1
#: Seconds that a client is granted even if all is too much.
_SHORT = 1.0


class WaitingClient(Protocol):
    """Somebody for whom bytes may wait, and who reads within so many seconds what waits."""

    reads_within: float

    @property
    def waiting(self) -> int:
        """How many wait; 0 once it has been closed."""

    def give_up(self) -> None:
        """Close it."""


@dataclass(slots=True)
class _Account:
    """What was written to a client since nothing waited for it. ``until`` is how much was at the moment ``since``."""

    written: int
    until: int
    since: float


class WaitingBytes:
    """The bytes that wait for clients, at most about ``most``. A part of a broker, used in its event loop only."""

    is_ready = True

    def __init__(self, most: int, *, clock: Callable[[], float] = monotonic) -> None:
        self.most, self._clock = most, clock
        self._accounts: dict[WaitingClient, _Account] = {}
        self._bound = 0  # no more bytes than these wait
        self._looked = float("-inf")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look once a second."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            self.look()

    def note(self, client: WaitingClient, count: int) -> None:
        """So many bytes are written to a client."""
        account = self._accounts.get(client)
        if account is None:
            self._accounts[client] = _Account(count, count, self._clock())
        else:
            account.written += count
        self._bound += count
        if self._bound > self.most and self._clock() >= self._looked + _AGAIN:
            self.look()

    def look(self) -> None:
        """Count what waits, and give up who has to be."""
        now = self._clock()
        found = list[tuple[float, int, WaitingClient]]()
        for client, account in list(self._accounts.items()):
            waiting = client.waiting
            if not waiting:
                del self._accounts[client]
                continue
            if account.written - waiting >= account.until:  # what waited then has been read
                account.until, account.since = account.written, now
            found.append((account.since, waiting, client))
        found.sort(key=lambda one: one[0])
        self._bound = sum(waiting for _, waiting, _ in found)
        enough = self.most
        if self._bound > enough:  # then less, so that it is not too much again at once
            enough -= enough // 4
        self._looked = float("inf")  # what those are told who are given up is no reason to look
        try:
            for since, waiting, client in found:
                if now - since < (_SHORT if self._bound > enough else client.reads_within):
                    continue
                del self._accounts[client]
                self._bound -= waiting
                client.give_up()
        finally:
            self._looked = self._clock()
