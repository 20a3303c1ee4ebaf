"""Channels: how what a connection is told is written to its peer, and what becomes of a peer that does not read.

``Delivery`` gives each ``Channel`` the items of its connection; a subclass per transport frames and writes them. There
is room for so many bytes; while they wait a channel is *full* and is given nothing. One whose peer then reads nothing
for a while *lags*: it is told so and closed, and its principal connects again and goes on from its cursor. So does one
that ``WaitingBytes``, which knows all channels, gives up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import orjson

from tidegate.broker.connections import Connection, Hello
from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.session_states import ConnectionEvent
from tidegate.gateway.lent_transports import Lender, LendingHttp, LendingWebSocket
from tidegate.gateway.waiting_bytes import WaitingBytes

__all__ = ["GOING_AWAY", "Channel", "Ending", "EventStreamChannel", "PollChannel", "WebSocketChannel"]

#: Seconds after which a full channel lags whose peer has read nothing since.
PATIENCE = 5.0
#: Seconds in which a peer reads what waits for it: long, since a slow one must get past a large publication.
_READS_WITHIN = 300.0
#: Seconds for a peer to read what waits for it when its channel is closed.
_FLUSH = 1.0


class Ending(NamedTuple):
    """Why a channel is closed: the code that a WebSocket is closed with, and a reason in words."""

    code: int
    reason: str


GOING_AWAY = Ending(1001, "the broker goes away")
REVOKED = Ending(4003, "the token holds no longer")
LAGGING = Ending(1013, "lagging: connect again to go on")
_BY_EVENT = {
    ConnectionEvent.UNREGISTERED: Ending(4001, "unregistered"),
    ConnectionEvent.REPLACED: Ending(4002, "the queue is another one: connect again"),
    ConnectionEvent.LAG: LAGGING,
}


def ending_of(event: ConnectionEvent | None) -> Ending:
    """Why a channel is closed whose connection was."""
    return GOING_AWAY if event is None else _BY_EVENT.get(event, GOING_AWAY)


class Channel(ABC):
    """How one connection is told. Used in the event loop, but for the marks of the thread that reads queues."""

    kind: str
    """What is counted of it is counted as this."""
    takes_items = True
    """Whether it is given items, or only told that there are some."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.connection: Connection | None = None
        """Its connection to a queue; None for one that only publishes."""
        self.is_busy = self.is_full = self.is_ended = False
        self.is_missed = False
        """Whether there was something for it while it could not take it."""
        self.is_greeted = False
        self.reached: str | None = None
        """Behind what was written to it, as ``epoch-number``; its connection is further, with what is on its way."""
        self.since = 0.0
        """When it connected, by the clock of the event loop."""
        self.room_again: Callable[[], None] = lambda: None
        """Called when it can take something again, and there was something."""

    @abstractmethod
    def greet(self, hello: Hello) -> None:
        """Tell how the queue stands."""

    @abstractmethod
    def deliver(self, items: Sequence[EncodedItem]) -> None:
        """Write items."""

    @abstractmethod
    def beat(self) -> None:
        """Show that the broker is there."""

    @abstractmethod
    def end(self, ending: Ending) -> None:
        """Close it."""

    def taken(self) -> None:
        """Note that items were written."""
        self.is_busy = False
        if self.is_missed and not self.is_full:
            self.is_missed = False
            self.room_again()


class _TransportChannel(Channel):
    """A channel that writes to a transport."""

    reads_within = _READS_WITHIN

    def __init__(
        self, principal: str, lender: Lender, lagged: Callable[[Channel], None], all_waiting: WaitingBytes
    ) -> None:
        super().__init__(principal)
        self._transport, self._lagged, self._all_waiting = lender.transport, lagged, all_waiting
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self.is_quiet = True
        """Whether nothing was written since the last beat."""
        lender.outlet = self

    def pause(self) -> None:
        self.is_full = True
        self._look_later()

    def resume(self) -> None:
        self.is_full = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.taken()

    def shut_down(self) -> None:
        self.end(GOING_AWAY)

    def _look_later(self) -> None:
        self._waiting = self._transport.get_write_buffer_size()
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._look)

    def _look(self) -> None:
        """Lag, unless the peer has read something."""
        if self._transport.get_write_buffer_size() < self._waiting:
            self._look_later()
        elif not self.is_ended:
            self.give_up()

    @property
    def waiting(self) -> int:
        """Bytes that wait for the peer; 0 once it is told nothing any more."""
        return self._transport.get_write_buffer_size() if self._is_open else 0

    def give_up(self) -> None:
        """Lag: say where to go on, and close."""
        self._tell_lagging()
        self._lagged(self)
        self.end(LAGGING)

    def _put(self, data: bytes) -> None:
        """Write to an open transport."""
        self._transport.write(data)
        self._all_waiting.note(self, len(data))

    def _note_written(self, items: Sequence[EncodedItem]) -> None:
        """Note that items were written."""
        queue = None if self.connection is None else self.connection.queue
        if items and queue is not None:
            self.reached = f"{queue.epoch}-{items[-1].number}"

    @abstractmethod
    def _tell_lagging(self) -> None:
        """Say that it lags."""

    @property
    def _is_open(self) -> bool:
        """Whether anything may be written."""
        return not (self.is_ended or self._transport.is_closing())

    def _ended(self) -> bool:
        """Note that it ends; whether it has ended before."""
        was, self.is_ended = self.is_ended, True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return was


class WebSocketChannel(_TransportChannel):
    """A WebSocket. Its protocol sends the pings that show that both are there."""

    kind = "websocket"

    def __init__(
        self,
        principal: str,
        protocol: LendingWebSocket,
        lagged: Callable[[Channel], None],
        all_waiting: WaitingBytes,
    ) -> None:
        super().__init__(principal, protocol, lagged, all_waiting)
        self._protocol = protocol
        self.greeted = asyncio.get_running_loop().create_future()
        """Done once the peer has been greeted, or nobody waits for that any more."""

    def greet(self, hello: Hello) -> None:
        self.write(orjson.dumps({"type": "hello", **hello._asdict()}))
        if not self.greeted.done():
            self.greeted.set_result(None)

    @property
    def _is_open(self) -> bool:
        return super()._is_open and not self._protocol.close_sent

    def deliver(self, items: Sequence[EncodedItem]) -> None:
        if not self._is_open:
            return
        parts = []
        for item in items:
            body = item.body
            parts.append(_frame_head(len(body)))
            parts.append(body)
        self._note_written(items)
        self._put(b"".join(parts))

    def write(self, message: bytes) -> None:
        """Write one message."""
        if self._is_open:
            self._put(_frame_head(len(message)) + message)

    async def has_room(self) -> None:
        """Wait until the peer has read most of what waits for it, or is gone: who does not read its answers gets no
        more of them.
        """
        await self._protocol.writable.wait()

    def beat(self) -> None:
        """The protocol does it."""

    def _tell_lagging(self) -> None:
        self.write(b'{"type":"lagging","resume":%b}' % orjson.dumps(self.reached))

    def end(self, ending: Ending) -> None:
        if not self._ended():
            self._protocol.close(*ending)


class EventStreamChannel(_TransportChannel):
    """Server-Sent Events, in chunks of HTTP."""

    kind = "stream"

    def __init__(
        self, principal: str, protocol: LendingHttp, lagged: Callable[[Channel], None], all_waiting: WaitingBytes
    ) -> None:
        super().__init__(principal, protocol, lagged, all_waiting)
        self._epoch = b""

    def greet(self, hello: Hello) -> None:
        self._epoch = hello.epoch.encode()

    def deliver(self, items: Sequence[EncodedItem]) -> None:
        if not self._is_open:
            return
        epoch = self._epoch
        self._note_written(items)
        self._write(b"".join([
            b"event: %b\nid: %b-%d\ndata: %b\n\n" % (item.type.encode(), epoch, item.number, item.body)
            for item in items
        ]))  # fmt: skip

    def _write(self, text: bytes) -> None:
        if self._is_open:
            self.is_quiet = False
            self._put(b"%x\r\n%b\r\n" % (len(text), text))

    def begin(self) -> None:
        """Say at once that the stream is there."""
        self._write(b"retry: 1000\n\n")

    def beat(self) -> None:
        if self.is_quiet and not self.is_full:
            self._write(b":\n\n")
        self.is_quiet = True

    def _tell_lagging(self) -> None:
        self._write(b'event: lagging\ndata: {"type":"lagging","resume":%b}\n\n' % orjson.dumps(self.reached))

    def end(self, ending: Ending) -> None:
        if not self._ended() and not self._transport.is_closing():
            self._transport.write(b"0\r\n\r\n")
            self._transport.close()
            asyncio.get_running_loop().call_later(_FLUSH, self._transport.abort)


class PollChannel(Channel):
    """A long poll, which is only woken: it reads by itself."""

    kind, takes_items = "poll", False

    def __init__(self, principal: str) -> None:
        super().__init__(principal)
        self.something = asyncio.Event()
        """Set when there may be something to read, or it is over."""

    def greet(self, hello: Hello) -> None:
        self.something.set()

    def deliver(self, items: Sequence[EncodedItem]) -> None:
        self.something.set()

    def beat(self) -> None:
        """Its time is limited."""

    def end(self, ending: Ending) -> None:
        self.is_ended = True
        self.something.set()


def _frame_head(size: int) -> bytes:
    """What comes before the text of a frame."""
    if size < 126:
        return bytes((0x81, size))
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")
