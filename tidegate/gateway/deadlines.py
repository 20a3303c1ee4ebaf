"""Deadlines of requests: a task that takes too long is cancelled, as ``asyncio.timeout`` does it.

That starts a timer for each ``with`` statement, which takes longer than much of what requests do. ``Deadlines`` has one
timer for all, which looks ten times a second, as long as there is anything to look at, whose time is over. Used in one
event loop; knows nothing of requests.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

__all__ = ["Deadline", "Deadlines"]

#: Seconds between two looks: a task may take so much longer.
_LOOK = 0.1


class Deadlines:
    """The deadlines of the tasks of a loop."""

    def __init__(self) -> None:
        self._open = set[Deadline]()
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float | None) -> Deadline:
        """A deadline for a ``with`` statement, which ends with a ``TimeoutError`` after so many seconds; 0 or None for
        never.
        """
        return Deadline(self, seconds)

    def add(self, deadline: Deadline) -> None:
        """Look after a deadline from now on."""
        self._open.add(deadline)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def remove(self, deadline: Deadline) -> None:
        """Look after it no longer."""
        self._open.discard(deadline)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for deadline in [one for one in self._open if one.at <= now]:
            self._open.discard(deadline)
            deadline.end()
        self._timer = loop.call_later(_LOOK, self._look) if self._open else None


class Deadline:
    """One ``with`` statement of one task."""

    __slots__ = ("_all", "_cancelling", "_is_over", "_seconds", "_task", "at")

    def __init__(self, every: Deadlines, seconds: float | None) -> None:
        self._all, self._seconds = every, seconds
        self._task: asyncio.Task[object] | None = None
        self._cancelling, self._is_over = 0, False
        self.at = 0.0
        """When it is over, by the clock of the loop."""

    def __enter__(self) -> None:
        if self._seconds:
            task = asyncio.current_task()
            assert task is not None, "only a task can be ended"
            self._task, self._cancelling = task, task.cancelling()
            self.at = asyncio.get_running_loop().time() + self._seconds
            self._all.add(self)

    def end(self) -> None:
        """Cancel the task: it takes too long."""
        assert self._task is not None
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is None:
            return
        self._all.remove(self)
        # Somebody else may have cancelled the task as well: then it is that cancellation which goes on.
        if self._is_over and self._task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error
