"""``QueuePages``: what waits in the queues of endpoints, read for many at once, and how far they took it.

Each page is read with what its principal may read at that moment. What is acknowledged is durable within half a second,
all of it in one commit. A queue whose principal was unregistered or removed is as one that is not there: nobody can
say what that may read. Knows nothing of posting.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, TypeVar

from tidegate.broker.delivered_items import QueuePosition
from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.open_queues import OpenQueues
from tidegate.delivery_options import destination_of
from tidegate.errors import TidegateError
from tidegate.store.queue_directory import Queue

__all__ = ["PageWanted", "QueuePages", "ReadPage"]

T = TypeVar("T")
_LOG = logging.getLogger("tidegate.webhooks")
#: Pages that are read together, of endpoints that answer and of those that fail, in turn.
_GROUP, _FEW = 256, 4
#: Seconds until what was acknowledged is written, and for which a cursor is believed: others may move it.
_FLUSH, _BELIEVED = 0.3, 1.0


class PageWanted(NamedTuple):
    """What is wanted of the queue to an endpoint: so many items and bytes, behind what is acknowledged or behind
    ``after``. Those for endpoints that fail are read a few at a time.
    """

    principal: str
    name: str
    items: int
    bytes: int
    after: QueuePosition | None = None
    is_failing: bool = False


class ReadPage(NamedTuple):
    """Items of a queue in order, and when they were read, by the clock of ``monotonic``."""

    queue: Queue
    items: list[EncodedItem]
    read_at: float


#: Whose pages are wanted, in the order in which they asked.
_Waiting = list[tuple[PageWanted, asyncio.Future[ReadPage | None]]]


class QueuePages:
    """The queues of a broker, for the event loop of the sender. ``clock`` tells microseconds since 1970."""

    def __init__(self, queues: OpenQueues, clock: Callable[[], int]) -> None:
        self._queues, self._clock = queues, clock
        self._thread = ThreadPoolExecutor(1, "tidegate-pages")
        self._wanted: dict[bool, _Waiting] = {False: [], True: []}
        self._were_failing = False
        self._is_wanted = asyncio.Event()
        self._lock = threading.Lock()
        self._reached: dict[Queue, tuple[int, float]] = {}
        self._unwritten: dict[Queue, int] = {}
        self._takers: set[str] = set()
        self._early: set[tuple[str, str]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to read for those who ask."""
        self._tasks = [asyncio.create_task(self._read_all()), asyncio.create_task(self._keep_written())]

    async def stop(self) -> None:
        """Stop reading, and write what was acknowledged."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.flush()
        self._thread.shutdown(wait=False)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def read(self, wanted: PageWanted) -> ReadPage | None:
        """A page; None while there is no such queue."""
        found: asyncio.Future[ReadPage | None] = asyncio.get_running_loop().create_future()
        self._wanted[wanted.is_failing].append((wanted, found))
        self._is_wanted.set()
        return await found

    async def _read_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._is_wanted.wait()
            some = self._next()
            found = await loop.run_in_executor(self._thread, self._pages, [wanted for wanted, _ in some])
            for (_, future), one in zip(some, found, strict=True):
                if future.done():
                    continue
                if isinstance(one, BaseException):
                    future.set_exception(one)
                else:
                    future.set_result(one)

    def _next(self) -> _Waiting:
        """Whose pages are read next."""
        is_failing = bool(self._wanted[True]) and not (self._were_failing and self._wanted[False])
        self._were_failing = is_failing
        waiting, most = self._wanted[is_failing], _FEW if is_failing else _GROUP
        self._wanted[is_failing] = waiting[most:]
        if not any(self._wanted.values()):
            self._is_wanted.clear()
        return waiting[:most]

    def _pages(self, wanted: Sequence[PageWanted]) -> list[ReadPage | Exception | None]:
        """Pages for all of them; of one that cannot be read why."""
        try:
            return list(self._read(wanted))
        except Exception as error:
            if len(wanted) == 1:
                return [error]
            return [self._pages([one])[0] for one in wanted]

    def _read(self, wanted: Sequence[PageWanted]) -> list[ReadPage | None]:
        self._queues.refresh()
        registered = {
            one.principal: one.registration
            for one in self._queues.records.sessions(names=sorted({one.principal for one in wanted}))
        }
        found: list[ReadPage | None] = [None] * len(wanted)
        places: dict[tuple[int, int], list[tuple[int, Queue, QueuePosition]]] = {}
        for index, one in enumerate(wanted):
            queue = self._queues.find(one.principal, destination_of({"webhook": one.name}))
            if queue is None:
                continue
            since = registered.get(one.principal)
            if since is None or self._queues.version < since:
                with self._lock:
                    self._early.add((one.principal, one.name))
                continue
            position = one.after
            if position is None:
                position = QueuePosition(self._acknowledged(queue), queue.epoch)
            found[index] = ReadPage(queue, [], monotonic())
            if position.number != self._queues.last(queue):
                places.setdefault((one.items, one.bytes), []).append((index, queue, position))
        for (items, size), some in places.items():
            while some:
                pages = self._queues.pages_of([(queue, position) for _, queue, position in some], items, size)
                for (index, queue, _), page in zip(some, pages, strict=False):
                    found[index] = ReadPage(queue, page.items, monotonic())
                some = some[len(pages) :]
        there = self._queues.principals_among({one.principal for one in wanted})  # after what they may read was asked
        return [page if one.principal in there else None for one, page in zip(wanted, found, strict=True)]

    def take_early(self) -> set[tuple[str, str]]:
        """The endpoints, by principal and name, that have asked for a page since the last call while there was a queue
        but no session yet: a gateway notes it a moment after the runner has made the queue, and nobody says so.
        """
        with self._lock:
            found, self._early = self._early, set()
        return found

    def _acknowledged(self, queue: Queue) -> int:
        """How far a queue is acknowledged, also by others."""
        with self._lock:
            number, at = self._reached.get(queue, (0, 0.0))
            number = max(number, self._unwritten.get(queue, 0))
        if not at or monotonic() - at > _BELIEVED:
            number = max(number, self._queues.acknowledged(queue))
            with self._lock:
                self._reached[queue] = max(number, self._reached.get(queue, (0, 0.0))[0]), monotonic()
        return number

    async def matched_at(self, queue: Queue, number: int) -> int | None:
        """When a delivery was matched (µs since 1970); None if it is not kept."""
        return await self._in_thread(lambda: self._matched_at(queue, number))

    def _matched_at(self, queue: Queue, number: int) -> int | None:
        delivery = self._queues.delivery(queue, number)
        return None if delivery is None else delivery.matched_at

    async def last_before(self, queue: Queue, after: int, moment: int) -> int:
        """The last number behind ``after`` whose delivery was matched up to a moment, or is not kept; ``after`` if
        there is none. Deliveries of a queue are in the order in which they were matched.
        """
        return await self._in_thread(lambda: self._last_before(queue, after, moment))

    def _last_before(self, queue: Queue, after: int, moment: int) -> int:
        self._queues.refresh()
        low, high = after, self._queues.last(queue)
        while low < high:
            middle = (low + high + 1) // 2
            at = self._matched_at(queue, middle)
            if at is None or at <= moment:
                low = middle
            else:
                high = middle - 1
        return low

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # --- acknowledging ----------------------------------------------------------------------------------------------

    def acknowledge(self, queue: Queue, number: int, *, is_taken: bool) -> None:
        """Note that everything up to a number was taken, or given up; durable soon, or with ``flush``. Who takes
        something is there: so long a session does not expire.
        """
        with self._lock:
            if is_taken:
                self._takers.add(queue.principal)
            self._unwritten[queue] = max(number, self._unwritten.get(queue, 0))
            _, at = self._reached.get(queue, (0, 0.0))
            self._reached[queue] = number, at

    async def flush(self) -> None:
        """Make what was acknowledged durable."""
        await self._in_thread(self._write)

    async def _keep_written(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH)
            if self._unwritten:
                try:
                    await self.flush()
                except TidegateError as error:
                    _LOG.error("what was acknowledged could not be written, and will be: %s", error)

    def _write(self) -> None:
        with self._lock:
            noted, takers = dict(self._unwritten), set(self._takers)
        numbers = {queue: number for queue, number in noted.items() if queue in self._queues}
        principals, moment = takers & {queue.principal for queue in numbers}, self._clock()
        if numbers:
            records = self._queues.records
            self._queues.write(numbers, lambda connection: records.note_seen(connection, principals, moment))
        with self._lock:
            self._takers -= takers
            for queue, number in noted.items():
                if self._unwritten[queue] == number:
                    del self._unwritten[queue]
            for queue in [one for one in self._reached if one not in self._queues]:
                with suppress(KeyError):
                    del self._reached[queue]
