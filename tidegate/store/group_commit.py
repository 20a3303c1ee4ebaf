"""Group commit: of several threads that want to write at once, one writes for all of them.

``Log.append`` calls ``GroupCommit.bring``. While one thread writes, the others wait; one of those then writes all that
has been brought meanwhile, in one call of ``write``. Knows nothing of what is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

__all__ = ["GroupCommit"]

#: Seconds for which a thread that is about to write waits for as many others to join as joined the last time.
_PATIENCE = 0.001


class PendingWrite(Protocol):
    """What a thread brings; ``is_done`` once it has been written or refused."""

    @property
    def is_done(self) -> bool: ...


T = TypeVar("T", bound=PendingWrite)


class GroupCommit(Generic[T]):
    """Lets one thread at a time call ``write`` with all that waits.

    ``write`` must leave everything it is given done, and may raise only to stop its thread (``KeyboardInterrupt``).
    """

    def __init__(self, write: Callable[[list[T]], None]) -> None:
        self._write = write
        self._waiting: list[T] = []
        lock = threading.Lock()
        self._turn, self._is_busy = threading.Condition(lock), False
        self._company, self._expected = threading.Condition(lock), 1

    def bring(self, thing: T) -> None:
        """Return once the thing is done, written by this thread or by another."""
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
        """Run the body of a ``with`` statement while no thread writes."""
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
