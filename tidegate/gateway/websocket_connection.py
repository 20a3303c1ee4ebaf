"""One WebSocket of a gateway: uvicorn's, which keeps little of what it is sent, and waits for no message for long.

What has come of a message that is not whole takes its bytes and no more, however many frames it comes in, and counts
with the bodies of requests. Before it is known who the client is, messages are small. Knows nothing of what they say.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from websockets.frames import Frame

from tidegate.errors import TidegateError
from tidegate.gateway.lent_transports import LendingWebSocket

if TYPE_CHECKING:
    from tidegate.gateway.bodies import Loan
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["UNKNOWN_SIZE", "WebSocketConnection"]

#: Bytes of a message of somebody who is not known yet.
UNKNOWN_SIZE = 1 << 16
_CLOSED = "connections_closed"
#: The codes that say that the broker has no room now, and that a peer does what it should not.
_BUSY, _POLICY = 1013, 1008


class _Received:
    """What the application has not asked for yet, in place of an ``asyncio.Queue``, which takes 3 kB of each connection
    even when it is empty. Only the application of the connection waits for it.
    """

    __slots__ = ("_events", "_waiting")

    def __init__(self) -> None:
        self._events = list[Any]()
        self._waiting: asyncio.Future[None] | None = None

    def put_nowait(self, event: Any) -> None:
        self._events.append(event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def get(self) -> Any:
        while not self._events:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self._events.pop(0)

    def empty(self) -> bool:
        return not self._events


class WebSocketConnection(LendingWebSocket):
    """A WebSocket; ``limit`` says within which limits its client may send."""

    _broker: OpenBroker | None = None
    _loan: Loan | None = None
    _late: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.queue = _Received()  # type: ignore[assignment]

    def forget_handshake(self) -> None:
        """Keep its headers no longer: it is accepted."""
        del self.request, self.response

    def limit(self, broker: OpenBroker) -> None:
        """Take what a client sends within the limits of a broker."""
        self.ping_interval = self.ping_timeout = broker.limits.heartbeat or None
        self.conn.max_message_size = broker.limits.max_body
        self._broker, self._loan = broker, broker.budget.lent()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._broker is None or self._loan is None or self.close_sent:
            return
        rest = len(self.conn.reader.buffer) + sum(map(len, self.frames))
        try:
            self._loan.hold(rest)
        except TidegateError:
            self._end("busy", _BUSY, "too much of messages at once")
            return
        if not rest:
            self._end_timer()
        elif self._late is None and (seconds := self._broker.limits.body_seconds):
            self._late = self.loop.call_later(seconds, self._is_late)

    def handle_cont(self, event: Frame) -> None:
        if not isinstance(self.frames[0], bytearray):
            self.frames[0] = bytearray(self.frames[0])  # type: ignore[call-overload]
        self.frames[0] += event.data
        if event.fin:
            self.frames[0] = bytes(self.frames[0])
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        self._end_timer()
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # who does not read gets no answers that wait

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timer()
        if self._loan is not None:
            self._loan.hold(0)
        super().connection_lost(exc)

    def _is_late(self) -> None:
        self._late = None
        if self.read_paused and self._broker is not None:  # it is us who do not read
            self._late = self.loop.call_later(self._broker.limits.body_seconds, self._is_late)
        else:
            self._end("slow_message", _POLICY, "a message that takes too long")

    def _end(self, cause: str, code: int, reason: str) -> None:
        self._end_timer()
        self.frames = []
        if self._broker is not None and self._loan is not None:
            self._broker.counts.add(_CLOSED, cause)
            self._loan.hold(0)
        self.close(code, reason)

    def _end_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
