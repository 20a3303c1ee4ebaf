"""Waiting for the processes of a broker whose supervisor was killed: they end by themselves, but not at once.

Each of them holds a lock while it lives: the runner that of the data directory, the others one of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, sleep

from tidegate.errors import StoreError
from tidegate.store.data_directory import DataDirectory
from tidegate.store.directory_lock import DirectoryLock

__all__ = ["cost_lock", "gateway_lock", "sender_lock", "wait_for_processes"]

#: Seconds to wait for them, and between two looks.
_PATIENCE, _LOOK = 10.0, 0.05
_GATEWAY, _SENDER, _COSTS = "gateway-", "sender-of-webhooks", "costs"


def gateway_lock(data: DataDirectory, number: int | str) -> DirectoryLock:
    """What a gateway, or another process that appends as one does, holds while it lives."""
    return _lock(data.run / f"{_GATEWAY}{number}")


def sender_lock(data: DataDirectory) -> DirectoryLock:
    """What the sender of webhooks holds while it lives."""
    return _lock(data.run / _SENDER)


def cost_lock(data: DataDirectory) -> DirectoryLock:
    """What the process that measures costs holds while it lives."""
    return DirectoryLock(str(data.run / _COSTS), "place in a broker", "process")


def _lock(place: Path) -> DirectoryLock:
    return DirectoryLock(str(place), "place in a broker", "gateway")


def wait_for_processes(data: DataDirectory) -> None:
    """Wait until no process of an earlier broker lives; an error that names the one that does not end."""
    until = monotonic() + _PATIENCE
    takes: list[Callable[[], DirectoryLock]] = [
        partial(_lock, place) for pattern in (f"{_GATEWAY}*", f"{_SENDER}*") for place in sorted(data.run.glob(pattern))
    ]
    takes += [partial(cost_lock, data), data.locked]
    for take in takes:
        while not _is_free(take, monotonic() > until):
            sleep(_LOOK)


def _is_free(take: Callable[[], DirectoryLock], is_last: bool) -> bool:
    """Whether nobody holds a lock; the last time that we look it is an error if somebody does."""
    try:
        take().release()
    except StoreError:
        if is_last:
            raise
        return False
    return True
