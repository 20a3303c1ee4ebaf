"""The protocols of the server, uvicorn's, as streams and WebSockets use them: they lend their transport.

What thousands of connections are told is written to their transports as bytes that are framed already; a task per
connection that awaits each message would cost more than the message. Who writes is an ``Outlet``, which is told when
the peer does not read, and when the server ends. Knows nothing of what is written.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

__all__ = ["LENDER", "SYSTEM_BUFFER", "Lender", "LendingHttp", "LendingWebSocket", "Outlet", "limit_room"]

#: The extension of a scope that has its protocol.
LENDER = "tidegate.lender"
#: The most bytes that the system buffers for a peer.
SYSTEM_BUFFER = 1 << 17
#: The code that tells a peer that the server goes away.
_GOING_AWAY = 1001
#: Seconds for a peer to answer that it closes as well.
_CLOSING = 1.0


class Outlet(Protocol):
    """Who writes to a transport that is lent."""

    def pause(self) -> None:
        """More bytes wait in the transport than it has room for."""

    def resume(self) -> None:
        """The peer has read most of them."""

    def shut_down(self) -> None:
        """The server ends."""


class Lender(Protocol):
    """A protocol that lends its transport to an outlet."""

    transport: asyncio.Transport
    outlet: Outlet | None


def limit_room(transport: asyncio.Transport, room: int, silence: float) -> None:
    """Have a transport say when half of ``room`` waits in it, so that the rest can take a page more, and end when its
    peer is silent for so long.
    """
    transport.set_write_buffer_limits(high=room // 2, low=room // 8)
    there = transport.get_extra_info("socket")
    if there is not None:
        with suppress(OSError):
            there.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, min(room, SYSTEM_BUFFER))
            if silence and hasattr(socket, "TCP_USER_TIMEOUT"):
                there.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(silence * 1000))


class LendingHttp(HttpToolsProtocol):
    """uvicorn's HTTP, whose transport a response may have as long as it streams."""

    outlet: Outlet | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        extensions: dict[str, Any] = {LENDER: self}
        self.scope["extensions"] = extensions

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.outlet is not None:
            self.outlet.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.outlet is not None:
            self.outlet.resume()

    def eof_received(self) -> None:
        super().eof_received()
        if self.outlet is not None:  # it is closed as soon as what waits was read, which nobody counts any more
            self.loop.call_later(_CLOSING, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self.outlet = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        if self.outlet is not None:
            self.outlet.shut_down()


class LendingWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket without wsproto, which measured fastest; frames may be written beside it."""

    outlet: Outlet | None = None

    async def run_asgi(self) -> None:
        extensions: Any = self.scope["extensions"]
        extensions[LENDER] = self
        await super().run_asgi()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.outlet is not None:
            self.outlet.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.outlet is not None:
            self.outlet.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.outlet = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self.outlet is not None:
            self.outlet.shut_down()
        elif self.handshake_complete:
            self.close(_GOING_AWAY, "")
        else:
            super().shutdown()

    def close(self, code: int, reason: str) -> None:
        """Close it; a peer that does not answer is cut off."""
        if self.close_sent:
            return
        if self.transport.is_closing():
            self._end_soon()
            return
        self.stop_keepalive()
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._end_soon()

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        if self.transport.is_closing():
            self._end_soon()

    def eof_received(self) -> None:
        super().eof_received()
        self._end_soon()

    def _end_soon(self) -> None:
        """Cut a peer off that does not read what waits for it: nobody counts that any more."""
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(_CLOSING, self.transport.abort)
