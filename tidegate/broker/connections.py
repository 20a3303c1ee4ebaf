"""Connections: each goes through one queue in order, from where its principal says or from what is acknowledged.

``Sessions`` makes them; a gateway asks one where it stands (``hello``), takes items from it, and passes on what its
principal acknowledges. Sends nothing by itself and has no socket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidegate.broker.delivered_items import Item, QueuePosition
from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.session_states import CONNECTIONS, ConnectionEvent, ConnectionState, after
from tidegate.errors import SessionError, StoreError
from tidegate.store.queue_directory import Queue
from tidegate.store.session_records import ConnectionRecord

__all__ = ["Connection", "Hello", "Shared", "TakenTogether", "taken_together"]


class Hello(NamedTuple):
    """What a connection is told first: the epoch of its queue, the number up to which it is acknowledged, the last
    number, and the oldest that is kept.
    """

    epoch: str
    acked: int
    last: int
    oldest: int


class Shared(NamedTuple):
    """What the connections of a process share: queues, their lock, and what they tell ``Sessions``."""

    queues: OpenQueues
    lock: threading.RLock
    acknowledge: Callable[[Queue, int], None]
    acknowledged: Callable[[Queue], int]
    closed: Callable[[Connection], None]


class Connection:
    """One connection of a principal to one of its queues."""

    def __init__(
        self,
        record: ConnectionRecord,
        registration: int,
        position: QueuePosition | None,
        shared: Shared,
        read: str | None = None,
    ) -> None:
        self.record, self.registration = record, registration
        self.read = read
        """The only ``read`` of its principal with which it is told anything; None for any."""
        self.state = ConnectionState.WAITING
        self.reason: ConnectionEvent | None = None
        """Why it was closed; ``LAG`` if it lagged."""
        self._position, self._shared = position, shared
        self._queue: Queue | None = None
        self._taking = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self._whose}: {self.state}>"

    @property
    def _whose(self) -> str:
        return f"connection of {self.principal} to {self.record.destination}"

    @property
    def principal(self) -> str:
        """Whose connection it is."""
        return self.record.principal

    @property
    def queue(self) -> Queue | None:
        """The queue that it goes through, once that is there."""
        return self._queue

    def begin(self, queue: Queue, acknowledged: int) -> None:
        """Note that its queue is there. Without a position it goes on after what is acknowledged."""
        with self._shared.lock:
            self._step(ConnectionEvent.QUEUE)
            self._queue = queue
            if self._position is None:
                self._position = QueuePosition(acknowledged, queue.epoch)

    # --- what a gateway asks ----------------------------------------------------------------------------------------

    def hello(self) -> Hello | None:
        """What it is told first; None while it waits for its queue, and once that has ended."""
        queue = self._queue
        if queue is None or queue not in self._shared.queues:
            return None
        queues = self._shared.queues
        return Hello(queue.epoch, self._shared.acknowledged(queue), queues.last(queue), queues.oldest(queue))

    @property
    def resume(self) -> str | None:
        """What to give for ``after`` to go on behind what was taken; None before anything could be."""
        queue, position = self._queue, self._position
        if queue is None or position is None:
            return None
        return f"{queue.epoch if position.epoch is None else position.epoch}-{position.number}"

    @property
    def is_behind(self) -> bool:
        """Whether there is something to take."""
        queue, position = self._queue, self._position
        if self.state is not ConnectionState.OPEN or queue is None or position is None:
            return False
        last = self._shared.queues.last(queue)
        return position.number != last or position.epoch not in (None, queue.epoch)

    @property
    def position(self) -> tuple[Queue, QueuePosition] | None:
        """Where it goes on in which queue; None if there is nothing that it may take."""
        with self._shared.lock:
            queue, position = self._queue, self._position
            if self.state is not ConnectionState.OPEN or queue is None or position is None:
                return None
        return (queue, position) if queue in self._shared.queues else None

    def step_behind(self, number: int, epoch: str) -> None:
        """Note that it has taken what there was up to a number: what ``take`` does, for those that read for many
        connections at once.
        """
        with self._shared.lock:
            if self.state is ConnectionState.OPEN:
                self._position = QueuePosition(number, epoch)

    def take(self, limit: int = 100) -> list[Item]:
        """The next items, and step behind them. What cannot be had is told by the first, a ``gap``."""
        with self._taking:
            with self._shared.lock:
                self._step(ConnectionEvent.TAKE)
                queue, position = self._queue, self._position
            if queue is None or position is None or queue not in self._shared.queues:
                return []
            try:
                page = self._shared.queues.page_of(queue, position, limit)
            except StoreError:
                if queue in self._shared.queues:
                    raise
                return []  # it has ended meanwhile, and the connection is about to be told
            with self._shared.lock:
                if self.state is not ConnectionState.OPEN or self.read not in (None, page.read):
                    return []  # closed meanwhile, or not for this connection
                self._position = QueuePosition(page.next, page.epoch)
            return page.items

    def acknowledge(self, number: int) -> None:
        """Acknowledge deliveries up to a number, for all connections of the principal; durable with the next flush."""
        with self._shared.lock:
            self._step(ConnectionEvent.ACKNOWLEDGE)
            queue = self._queue
        if queue is None:  # it lags, and had nothing to take yet
            raise SessionError("a connection that has begun", "one whose queue is not made", self._whose)
        self._shared.acknowledge(queue, number)

    def lag(self) -> None:
        """Note that it cannot take what there is: it is told nothing any more, and is to be closed."""
        with self._shared.lock:
            self._step(ConnectionEvent.LAG)

    def close(self, reason: ConnectionEvent = ConnectionEvent.LEAVE) -> None:
        """Close it. Closing again has no effect."""
        with self._shared.lock:
            was = self.state
            self._step(reason)
            if was is ConnectionState.CLOSED:
                return
            self.reason = ConnectionEvent.LAG if was is ConnectionState.LAGGING else reason
        self._shared.closed(self)

    def _step(self, event: ConnectionEvent) -> None:
        self.state = after(CONNECTIONS, self.state, event, self._whose)


class TakenTogether(NamedTuple):
    """What connections have to take, without those that have nothing; and those that nothing was read for yet."""

    taken: dict[Connection, list[EncodedItem]]
    others: list[Connection]


def taken_together(queues: OpenQueues, connections: Sequence[Connection], limit: int, most_bytes: int) -> TakenTogether:
    """What ``take`` gives, for many connections at once, and as JSON: for each up to so many items, and up to the one
    with which there are so many bytes. Where these are many it is read for the first connections only. A connection
    that may be told of another ``read`` only than its principal has now gets nothing.

    Only one thread may call it, and nobody may call ``take`` meanwhile.
    """
    places = [(one, place) for one in connections if (place := one.position) is not None]
    if not places:
        return TakenTogether({}, [])
    pages = queues.pages_of([place for _, place in places], limit, most_bytes)
    found = {}
    for (connection, _), page in zip(places, pages, strict=False):
        if connection.read not in (None, page.read):
            continue
        connection.step_behind(page.next, page.epoch)
        if page.items:
            found[connection] = page.items
    return TakenTogether(found, [connection for connection, _ in places[len(pages) :]])
