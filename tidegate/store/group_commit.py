"""Threads that bring something to write: one at a time writes, and it writes for all who wait.

Who comes while another writes shares the next write with everyone else who came. Knows nothing of what is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

__all__ = ["GroupCommit"]

#: Seconds for which one who is about to write waits for as many to join as joined the last time.
_PATIENCE = 0.001


class PendingWrite(Protocol):
    """Something that is done once it has been written or refused."""

    @property
    def is_done(self) -> bool: ...


T = TypeVar("T", bound=PendingWrite)


class GroupCommit(Generic[T]):
    """Takes turns at calling ``write``, which leaves everything done that it is given, and raises only to stop."""

    def __init__(self, write: Callable[[list[T]], None]) -> None:
        self._write = write
        self._waiting: list[T] = []
        lock = threading.Lock()
        self._turn, self._is_busy = threading.Condition(lock), False
        self._company, self._expected = threading.Condition(lock), 1

    def bring(self, thing: T) -> None:
        """Return once the thing is done."""
        with self._turn:
            self._waiting.append(thing)
            self._company.notify()
            self._turn.wait_for(lambda: thing.is_done or not self._is_busy)
            if thing.is_done:
                return
            self._is_busy = True
        with self._ending():
            self._write(self._taken())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nobody writes."""
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy)
            self._is_busy = True
        with self._ending():
            yield

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._turn:
                self._is_busy = False
                self._turn.notify_all()

    def _taken(self) -> list[T]:
        with self._turn:
            self._company.wait_for(lambda: len(self._waiting) >= self._expected, _PATIENCE)
            taken, self._waiting = self._waiting, []
            self._expected = len(taken)
            return taken
