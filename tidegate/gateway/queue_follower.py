"""The thread of a gateway that follows the queues: it waits for commits of the runner, reads for all channels at once
what there is for them, and hands it to the event loop.

Knows what channels can take, by their marks, and writes to none. ``Delivery`` has the other half.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from time import monotonic
from typing import NamedTuple

from tidegate.broker.connections import Connection, Hello
from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.open_queues import OpenQueues, has_queues
from tidegate.broker.session_states import ConnectionEvent, ConnectionState
from tidegate.broker.sessions import Sessions
from tidegate.errors import TidegateError
from tidegate.gateway.channels import Channel
from tidegate.gateway.delivered_traces import TracedItem, traced_items
from tidegate.runs.config import Config
from tidegate.store.registry import Registry

__all__ = ["Handed", "QueueFollower"]

_LOG = logging.getLogger("tidegate.gateway")
#: Seconds between two looks where nobody wakes us, while there are no queues yet, and after an error.
_LOOK, _UNMADE, _FAILED = 0.05, 0.1, 0.5
#: Channels that are read for together, deliveries that are read in one go at most, and of one queue.
_GROUP, _DELIVERIES, _OF_QUEUE = 256, 8_192, 512
#: Seconds between two deliveries whose times are measured.
_SAMPLED = 0.02
#: Groups that wait in the event loop at most.
_WAITING = 4


class SampledDelivery(NamedTuple):
    """When a publication that is delivered live was appended and when it was matched, in µs since 1970."""

    appended: int
    matched: int


class Handed(NamedTuple):
    """What the event loop is to do with a channel: greet it, give it items, close it."""

    channel: Channel
    hello: Hello | None = None
    items: Sequence[EncodedItem] = ()
    is_over: bool = False
    event: ConnectionEvent | None = None
    sample: SampledDelivery | None = None
    traced: Sequence[TracedItem] = ()


class QueueFollower:
    """Follows the queues of a broker. ``opened`` is called once these are there, ``hand`` with what is to be done, both
    in the thread; whoever has done what was handed calls ``done``. ``appended`` knows when a row was appended,
    ``room`` how many bytes a connection is given at a time; ``is_traced`` says whether traces are of interest.
    """

    def __init__(
        self,
        config: Config,
        registry: Registry,
        clock: Callable[[], int],
        opened: Callable[[], None],
        hand: Callable[[list[Handed]], None],
        appended: Callable[[int], int | None],
        room: Callable[[], int],
        is_traced: bool = False,
    ) -> None:
        self._room, self._is_traced = room, is_traced
        self._appended, self._sampled_at = appended, float("-inf")
        self._config, self._registry, self._clock, self._opened, self._hand = config, registry, clock, opened, hand
        self.queues: OpenQueues | None = None
        self.sessions: Sessions | None = None
        self._lock = threading.Lock()
        self._channels: dict[Connection, Channel] = {}
        self._new: list[Channel] = []
        self._stopping = threading.Event()
        self._slots = threading.Semaphore(_WAITING)
        self._thread = threading.Thread(target=self._run, name="tidegate-delivery", daemon=True)

    # --- called by others -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it: connections are closed, and what was acknowledged is durable."""
        self._stopping.set()
        self._slots.release()
        self.interrupt()
        self._thread.join()

    def interrupt(self) -> None:
        """Have it look now: a channel can take something again."""
        if self.queues is not None:
            self.queues.interrupt()

    def add(self, channel: Channel) -> None:
        """Follow the queue of a channel from now on."""
        assert channel.connection is not None
        with self._lock:
            self._channels[channel.connection] = channel
            self._new.append(channel)
        self.interrupt()

    def remove(self, channel: Channel) -> None:
        """Follow it no longer."""
        assert channel.connection is not None
        with self._lock:
            self._channels.pop(channel.connection, None)

    def channels(self) -> list[Channel]:
        """Those that are followed."""
        with self._lock:
            return list(self._channels.values())

    def done(self) -> None:
        """What was handed is done."""
        self._slots.release()

    # --- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with ExitStack() as opened:
            while not self._stopping.is_set() and not self._open(opened):
                self._stopping.wait(_UNMADE)
            while not self._stopping.is_set():
                try:
                    self._follow()
                except TidegateError as error:
                    _LOG.error("queues could not be read: %s", error)
                    self._stopping.wait(_FAILED)
                except Exception:
                    _LOG.exception("queues could not be followed")
                    self._stopping.wait(_FAILED)

    def _open(self, opened: ExitStack) -> bool:
        """Open the queues, if the runner has made them by now."""
        if not has_queues(self._config):
            return False
        try:
            queues = opened.enter_context(OpenQueues(self._config, clock=self._clock))
            self.sessions = opened.enter_context(Sessions(queues, self._registry, clock=self._clock))
        except TidegateError as error:
            _LOG.error("queues could not be opened: %s", error)
            self._stopping.wait(_FAILED)
            return False
        self.queues = queues
        self._opened()
        return True

    def _follow(self) -> None:
        """Wait until there may be something to do, and have it done."""
        assert self.sessions is not None
        self.sessions.wait(_LOOK)
        changed = self.sessions.tick()
        with self._lock:
            new, self._new = self._new, []
            found = [channel for one in changed if (channel := self._channels.get(one)) is not None]
        behind, handed = list[Channel](), list[Handed]()
        for channel in dict.fromkeys([*new, *found]):
            self._sort(channel, behind, handed)
        if handed:
            self._give(handed)
        limit = max(16, min(_OF_QUEUE, _DELIVERIES // (len(behind) or 1)))
        for at in range(0, len(behind), _GROUP):
            some = behind[at : at + _GROUP]
            while some and not self._stopping.is_set():
                some = self._read(some, limit)

    def _sort(self, channel: Channel, behind: list[Channel], handed: list[Handed]) -> None:
        """Find out what there is to do with a channel."""
        connection = channel.connection
        assert connection is not None
        if connection.state is ConnectionState.CLOSED:
            self.remove(channel)
            handed.append(Handed(channel, is_over=True, event=connection.reason))
        elif connection.state is ConnectionState.OPEN:
            if not channel.is_greeted:
                hello = connection.hello()
                if hello is None:
                    return
                channel.is_greeted, channel.reached = True, connection.resume
                handed.append(Handed(channel, hello=hello))
            if not connection.is_behind:
                return
            if not channel.takes_items:
                handed.append(Handed(channel))
                return
            channel.is_missed = True  # before its marks are read, which the event loop may change now
            if not channel.is_busy and not channel.is_full:
                channel.is_missed = False
                behind.append(channel)

    def _read(self, some: Sequence[Channel], limit: int) -> list[Channel]:
        """Read what there is for some channels, and hand it over; those for which nothing was read yet."""
        assert self.sessions is not None
        by_connection = {channel.connection: channel for channel in some if channel.connection is not None}
        try:
            found = self.sessions.pages(list(by_connection), limit, self._room())
        except TidegateError as error:
            if len(some) > 1:
                for channel in some:
                    self._read([channel], limit)
                return []
            _LOG.error("the queue of %s could not be read: %s", some[0].principal, error)
            next(iter(by_connection)).close()
            return []
        handed = []
        for connection, items in found.taken.items():
            channel = by_connection[connection]
            channel.is_missed = connection.is_behind
            channel.is_busy = True
            sample = self._sample(connection, items[-1].number)
            handed.append(Handed(channel, items=items, sample=sample, traced=self._traced(connection, items)))
        if handed:
            self._give(handed)
        return [by_connection[connection] for connection in found.others]

    def _sample(self, connection: Connection, number: int) -> SampledDelivery | None:
        """The times of a delivery, now and then, if it was matched while its connection was there."""
        queues, queue = self.queues, connection.queue
        if monotonic() < self._sampled_at + _SAMPLED or queues is None or queue is None:
            return None
        self._sampled_at = monotonic()
        with suppress(TidegateError):  # it is gone by now
            delivery = queues.delivery(queue, number)
            is_live = delivery is not None and delivery.kind == 0 and delivery.matched_at >= connection.record.since
            if delivery is not None and is_live and (appended := self._appended(delivery.row)) is not None:
                return SampledDelivery(appended, delivery.matched_at)
        return None

    def _traced(self, connection: Connection, items: Sequence[EncodedItem]) -> Sequence[TracedItem]:
        """Those of the items that belong to a trace, if there are any here."""
        if not self._is_traced or self.queues is None or connection.queue is None:
            return ()
        return traced_items(self.queues, connection.queue, items, self._appended)

    def _give(self, handed: list[Handed]) -> None:
        self._slots.acquire()
        if not self._stopping.is_set():
            self._hand(handed)
