"""Delivery: what principals are told, to all connections of one gateway process.

A ``QueueFollower`` reads in a thread; here, in the event loop, connections begin and end, and each gets what there is
for it, a millisecond's worth at a time, so that whoever else is served does not wait. Knows channels, and nothing of
how they write.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from anyio.to_thread import run_sync

from tidegate.broker.connections import Connection, Hello
from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.session_states import ConnectionEvent
from tidegate.broker.sessions import Sessions
from tidegate.errors import SessionError
from tidegate.gateway.access import Caller
from tidegate.gateway.channels import GOING_AWAY, REVOKED, Channel, Ending, ending_of
from tidegate.gateway.delivered_traces import TracedItem
from tidegate.gateway.problems import RequestError
from tidegate.gateway.queue_follower import Handed, QueueFollower
from tidegate.gateway.traces import AT_ONCE

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["Delivery"]

_LOG = logging.getLogger("tidegate.gateway")

C = TypeVar("C", bound=Channel)
#: Seconds that the event loop writes at a time.
_SLICE = 0.001
#: Seconds that a connection waits for queues to be there, and for its own to be made.
_PATIENCE, _UNMADE = 5.0, 60.0
_FAILED = Ending(1011, "an error of the broker, in its log")
#: How the queue stands of who has none.
_NO_QUEUE = Hello("", 0, 0, 1)
_UNMADE_ENDING = Ending(1013, "the runner has not made the queue: connect again")
#: Channels that are shown to be there, or whose tokens are looked at, at a time.
_BEATS = 500
#: Seconds between two looks whether tokens still hold.
_TOKENS = 0.3


class _Delivered(NamedTuple):
    """Items that were written and belong to traces, of which nothing is said yet: how, and when."""

    items: Sequence[TracedItem]
    kind: str
    moment: int


class Delivery:
    """The connections of a gateway. ``start`` and all others are called in its event loop."""

    def __init__(self, broker: OpenBroker) -> None:
        self._broker = broker
        self._count, self._of_principal = 0, Counter[str]()
        self._callers: dict[Channel, Caller] = {}
        self._waiting: deque[list[Handed | _Delivered]] = deque()
        self._follower = QueueFollower(
            broker.config,
            broker.registry,
            broker.clock,
            self._note_opened,
            self._hand,
            broker.log.appended,
            lambda: broker.limits.room // 2,
            broker.traces is not None,
        )
        self._is_stopped = False

    async def start(self) -> None:
        self._loop, self._opened = asyncio.get_running_loop(), asyncio.Event()
        self._follower.start()
        works = self._beat(), self._close(), self._look_at_tokens()
        self._tasks = [asyncio.create_task(work) for work in works]

    async def stop(self) -> None:
        """Close all connections, and make durable what was acknowledged."""
        for task in self._tasks:
            task.cancel()
        self._end_all()
        await asyncio.to_thread(self._follower.stop)

    @property
    def is_ready(self) -> bool:
        """Whether the queues are there."""
        return self._follower.sessions is not None

    @property
    def queues(self) -> OpenQueues | None:
        """The queues, once they are there."""
        return self._follower.queues

    def note_seen(self, principals: Iterable[str]) -> None:
        """Note that tokens of principals were used: sessions of theirs are kept so much longer."""
        sessions = self._follower.sessions
        if sessions is not None:
            for principal in principals:
                sessions.seen(principal)

    @property
    def connections(self) -> int:
        """How many connections there are now."""
        return self._count

    async def opened(self) -> tuple[OpenQueues, Sessions]:
        """Queues and sessions, once they are there; refused if that takes too long."""
        follower = self._follower
        if follower.queues is None or follower.sessions is None:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._opened.wait()
            except TimeoutError:
                pass
        if follower.queues is None or follower.sessions is None or self._is_stopped:
            raise RequestError(503, "not_ready", "a broker whose runner has started", "one whose runner has not")
        return follower.queues, follower.sessions

    # --- connections ------------------------------------------------------------------------------------------------

    async def connect(self, caller: Caller, channel: C, after: str | None = None) -> C:
        """Connect the queue of a caller to a channel, behind ``after`` or behind what is acknowledged.

        ``follow`` has it told; ``leave`` must be called at the end. Whoever connects for the first time gets a session;
        who may only publish has none.
        """
        self._enter(caller)
        if not caller.has("subscriber"):
            self._callers[channel] = caller
            return channel
        try:
            _, sessions = await self.opened()
            work = partial(self._connected, sessions, caller, after, self._of_principal[caller.name])
            channel.connection = await run_sync(work, limiter=self._broker.threads)
        except BaseException:
            self._exit(caller.name)
            raise
        self._callers[channel] = caller
        channel.room_again = self._follower.interrupt
        channel.since = self._loop.time()
        return channel

    async def attach(self, channels: Sequence[Channel], destination: str) -> list[Channel]:
        """Connect the queues of the channels' principals to a destination that is no connection of theirs: they have no
        token here, and no limit. Those of principals without a session are left out. For the rest see ``connect``.
        """
        _, sessions = await self.opened()

        def work() -> list[Channel]:
            found = list[Channel]()
            with ExitStack() as made:  # all of them, or none if one cannot be made
                for channel in channels:
                    with suppress(SessionError):
                        channel.connection = sessions.connect(channel.principal, destination=destination)
                        made.callback(channel.connection.close)
                        found.append(channel)
                made.pop_all()
            return found

        attached = await run_sync(work, limiter=self._broker.threads)
        for channel in attached:
            self._count += 1
            self._of_principal[channel.principal] += 1
            channel.room_again, channel.since = self._follower.interrupt, self._loop.time()
        return attached

    def follow(self, channel: Channel) -> None:
        """Tell a channel what there is for it from now on."""
        if channel.connection is None:
            channel.greet(_NO_QUEUE)
        else:
            self._follower.add(channel)
        if self._is_stopped:
            channel.end(GOING_AWAY)

    def leave(self, channel: Channel) -> None:
        """The peer of a channel is gone, or the channel has ended."""
        if channel.connection is not None:
            self._follower.remove(channel)
            channel.connection.close(ConnectionEvent.LEAVE)
        self._callers.pop(channel, None)
        self._exit(channel.principal)

    def lagged(self, channel: Channel) -> None:
        """Note that a channel lags."""
        self._broker.counts.add("lagging", channel.kind)
        if channel.connection is not None:
            channel.connection.lag()

    def _enter(self, caller: Caller) -> None:
        limits, most = self._broker.limits, caller.quotas.get("connections")
        if self._count >= limits.max_connections:
            self._broker.counts.add("connections_refused", "max_connections")
            raise RequestError(503, "busy", f"at most {limits.max_connections:,} connections", "one more")
        if most is not None and self._of_principal[caller.name] >= most:
            raise self._beyond_quota(caller)
        self._count += 1
        self._of_principal[caller.name] += 1

    def _beyond_quota(self, caller: Caller) -> RequestError:
        self._broker.counts.add("connections_refused", "quota")
        most = caller.quotas["connections"]
        return RequestError(429, "quota", f"at most {most:,g} connections of {caller.name}", "one more")

    def _connected(self, sessions: Sessions, caller: Caller, after: str | None, here: int) -> Connection:
        """A connection of a caller, who gets a session if it has none; called in a thread. Those that the caller has to
        other gateways count as well.
        """
        most = caller.quotas.get("connections")
        if most is not None and sessions.elsewhere(caller.name) + here > most:
            raise self._beyond_quota(caller)
        try:
            return sessions.connect(caller.name, after=after, read=caller.read)
        except SessionError:
            sessions.register(caller.name)
            return sessions.connect(caller.name, after=after, read=caller.read)

    def _exit(self, principal: str) -> None:
        self._count -= 1
        self._of_principal[principal] -= 1
        if not self._of_principal[principal]:
            del self._of_principal[principal]

    # --- what the thread hands over ---------------------------------------------------------------------------------

    def _note_opened(self) -> None:
        self._call(self._opened.set)

    def _hand(self, handed: list[Handed]) -> None:
        self._call(self._take, handed)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop has ended
            self._follower.done()

    def _take(self, handed: list[Handed]) -> None:
        self._waiting.append([*handed])
        if len(self._waiting) == 1:
            self._write()

    def _write(self) -> None:
        """Write what waits, for a millisecond, and go on after others had their turn."""
        until = perf_counter() + _SLICE
        while self._waiting:
            some = self._waiting[0]
            while some:
                what = some.pop()
                if isinstance(what, _Delivered):
                    some += self._trace(what)
                else:
                    some += self._written(what)
                if perf_counter() > until:
                    self._loop.call_soon(self._write)
                    return
            self._waiting.popleft()
            self._follower.done()

    def _written(self, what: Handed) -> list[_Delivered]:
        """Do it; what is to be traced of it then. One connection keeps no other from what it is told."""
        try:
            self._do(what)
        except Exception:
            _LOG.exception("%s of %s failed", what.channel.kind, what.channel.principal)
            what.channel.end(_FAILED)
            return []
        return [_Delivered(what.traced, what.channel.kind, self._broker.clock())] if what.traced else []

    def _trace(self, what: _Delivered) -> list[_Delivered]:
        """Make the spans of some; the others, if there are any."""
        items, kind, moment = what
        try:
            if self._broker.traces is not None:
                self._broker.traces.delivered(items[:AT_ONCE], kind, moment)
        except Exception:
            _LOG.exception("what was written to %s cannot be traced", kind)
        return [_Delivered(items[AT_ONCE:], kind, moment)] if len(items) > AT_ONCE else []

    def _do(self, what: Handed) -> None:
        channel, hello, items, is_over, event, sample, _ = what
        if is_over:
            channel.end(ending_of(event))
            return
        if hello is not None:
            channel.greet(hello)
            return
        channel.deliver(items)
        channel.taken()
        if items:
            self._broker.counts.add("delivered", channel.kind, len(items))
        if sample is not None:
            now, numbers = self._broker.clock(), self._broker.numbers
            numbers.matched.add((sample.matched - sample.appended) / 1e6)
            numbers.delivered.add((now - sample.matched) / 1e6)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _close(self) -> None:
        """Close all connections as soon as the gateway is to end."""
        await self._broker.closing.wait()
        self._end_all()

    def _end_all(self) -> None:
        self._is_stopped = True
        for channel in self._follower.channels():
            channel.end(GOING_AWAY)

    # --- as time passes ---------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Show peers that the broker is there, and close connections whose queue nobody makes."""
        while True:
            await asyncio.sleep(self._broker.limits.heartbeat or _UNMADE)
            now = self._loop.time()
            for at, channel in enumerate(self._follower.channels()):
                if not channel.is_greeted and now - channel.since > _UNMADE:
                    channel.end(_UNMADE_ENDING)
                else:
                    channel.beat()
                if at % _BEATS == _BEATS - 1:
                    await asyncio.sleep(0)

    async def _look_at_tokens(self) -> None:
        """Close the connections of tokens that were revoked or have expired."""
        while True:
            await asyncio.sleep(_TOKENS)
            for at, (channel, caller) in enumerate(list(self._callers.items())):
                if not channel.is_ended and not self._broker.access.is_valid(caller):
                    self._broker.counts.add("connections_closed", "revoked")
                    channel.end(REVOKED)
                if at % _BEATS == _BEATS - 1:
                    await asyncio.sleep(0)
