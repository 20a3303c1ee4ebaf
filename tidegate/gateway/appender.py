"""``Appender``: the one thread of a gateway that appends to the log, for all requests that wait as one group.

The event loop brings what a request wants to publish and awaits what became of it. While the thread waits for the
disk, the loop takes further requests; these are the next group, with one write to the disk. Knows no HTTP, and of
publications only that ``Log.append_all`` takes them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from tidegate.closing import Closing
from tidegate.errors import PublicationError
from tidegate.gateway.problems import RequestError
from tidegate.gateway.submission import Published, Submission
from tidegate.gateway.submission_groups import checked_together
from tidegate.store.log import Log

__all__ = ["Appender"]

_LOG = logging.getLogger("tidegate.gateway")
#: Publications that are written together, about, and that may wait at a time.
_GROUP, _MOST_WAITING = 20_000, 500_000


class _Waiting:
    """A submission that waits, and the task of an event loop that waits for it."""

    __slots__ = ("done", "size", "submission")

    def __init__(self, submission: Submission, loop: asyncio.AbstractEventLoop) -> None:
        self.submission, self.size = submission, submission.size
        self.done: asyncio.Future[None] = loop.create_future()


class _Handed(NamedTuple):
    """What an event loop hands over at once: all that came in one of its rounds."""

    waiting: list[_Waiting]
    loop: asyncio.AbstractEventLoop


class Appender(Closing):
    """Appends to a log, as a part of a broker that works between requests: its thread begins with ``start``, or else
    with the first submission. Used by one event loop at a time.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._queue = SimpleQueue[_Handed | None]()
        self._thread: threading.Thread | None = None
        self._round = list[_Waiting]()
        self._waiting = 0
        self._is_ready = self._is_closed = False

    async def append(self, submission: Submission) -> Published:
        """Append what a submission has, and say what became of it once that is durable."""
        if self._is_closed:
            raise RequestError(503, "closing", "a broker that goes on", "one that ends")
        if self._waiting > _MOST_WAITING:
            raise RequestError(503, "busy", f"at most {_MOST_WAITING:,} publications that wait", "more")
        loop = asyncio.get_running_loop()
        one = _Waiting(submission, loop)
        self._waiting += one.size
        self._round.append(one)
        if len(self._round) == 1:
            loop.call_soon(self._hand_over, loop)
        await one.done
        if submission.error is not None:
            raise submission.error
        assert submission.published is not None, "a submission that was settled"
        return submission.published

    @property
    def is_ready(self) -> bool:
        """Whether the first publication will not have to wait longer than others."""
        return self._is_ready

    async def start(self) -> None:
        """Start the thread, which makes the log ready first."""
        self._start()

    async def stop(self) -> None:
        """Nothing: ``close`` ends the thread, once all is appended."""

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tidegate-appender", daemon=True)
            self._thread.start()

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the thread what came in this round of the loop: it is woken once."""
        self._start()
        handed, self._round = self._round, []
        self._queue.put(_Handed(handed, loop))

    def close(self) -> None:
        """Append what waits, then end the thread."""
        self._is_closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._log.prepare()
            self._is_ready = True
        except Exception:
            _LOG.exception("the log cannot be written")  # the first publication will say so again
        while True:
            group, is_last = self._next()
            try:
                self._append([one.submission for handed in group for one in handed.waiting])
            except Exception as error:
                _LOG.exception("appending failed")
                for handed in group:
                    for one in handed.waiting:
                        one.submission.error = one.submission.error or error
            for handed in group:
                with suppress(RuntimeError):  # a loop that was closed: nobody waits
                    handed.loop.call_soon_threadsafe(self._wake, handed.waiting)
            if is_last:
                return

    def _next(self) -> tuple[list[_Handed], bool]:
        """All that waits, at least one; and whether nothing will follow."""
        group, size = list[_Handed](), 0
        handed = self._queue.get()
        with suppress(Empty):
            while handed is not None:
                group.append(handed)
                size += sum(one.size for one in handed.waiting)
                if size >= _GROUP:
                    return group, False
                handed = self._queue.get_nowait()
            return group, True
        return group, False

    def _append(self, group: Sequence[Submission]) -> None:
        together, others = checked_together(group)
        lots = [one.prepare() for one in others]
        outcomes = self._log.append_all(lots, [some.lots for some in together])
        for submission, lot, outcome in zip(others, lots, outcomes, strict=False):
            if isinstance(outcome, PublicationError) and lot.publications:
                submission.settle_each(self._log.append_all(lot.one_by_one()))
            else:
                submission.settle(outcome)
        submissions = [submission for some in together for submission in some.submissions]
        for submission, outcome in zip(submissions, outcomes[len(lots) :], strict=True):
            submission.settle(outcome)

    def _wake(self, some: Sequence[_Waiting]) -> None:
        for one in some:
            self._waiting -= one.size
            if not one.done.done():  # else its client has gone
                one.done.set_result(None)
