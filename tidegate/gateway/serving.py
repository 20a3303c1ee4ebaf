"""One gateway under uvicorn: a server of its application on a socket that its starter listens on, until it is told to
stop.

Stopping takes ``_WHOLE`` seconds at most: nobody is accepted, requests that are under way are answered, streams and
long polls end, WebSockets are closed with 1001, and then the parts of the broker stop.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from tidegate.errors import TidegateError
from tidegate.gateway.certificates import has_tls, load_certificate, tls_context
from tidegate.gateway.http_connection import HttpConnection
from tidegate.gateway.lent_transports import SYSTEM_BUFFER
from tidegate.gateway.listening import BACKLOG
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.websocket_connection import UNKNOWN_SIZE, WebSocketConnection
from tidegate.runs.issuer_sections import IssuerSection
from tidegate.runs.serve_section import ServeSection

__all__ = ["GatewayServer"]

_LOG = logging.getLogger("tidegate.gateway")
#: Seconds: for answers and for streams that end by themselves, then for WebSockets that were closed, and for parts.
_ANSWERS, _CLOSES, _PARTS = 1.5, 1.0, 1.5
_LOOK = 0.02


class GatewayServer(uvicorn.Server):
    """Serves an application with the limits and the certificate of ``broker``; calls ``started`` when it listens."""

    def __init__(
        self,
        broker: OpenBroker,
        application: ASGIApp,
        listening: socket.socket,
        started: Callable[[], None],
    ) -> None:
        limits = broker.limits
        super().__init__(
            uvicorn.Config(
                application,
                http=HttpConnection,
                ws=WebSocketConnection,
                ws_max_size=min(UNKNOWN_SIZE, limits.max_body),
                ws_ping_interval=limits.heartbeat or None,
                ws_ping_timeout=limits.heartbeat or None,
                ws_per_message_deflate=False,  # 20 kB and more for each connection
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(limits.proxies),
                forwarded_allow_ips=list(limits.proxies),
            )
        )
        self._broker, self._listening, self._told = broker, listening, started
        self._tls = tls_context(limits) if has_tls(limits) else None
        self._refused = set[HttpConnection]()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM stops it; Ctrl-C and SIGHUP are for the supervisor, who tells us."""
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        # Connections have it from here: what the system buffers for a client does not grow with what it leaves unread.
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SYSTEM_BUFFER)
        loop = asyncio.get_running_loop()
        seconds = None if self._tls is None else self._broker.limits.header_seconds or None
        server = await loop.create_server(  # it listens anew
            self._connection, sock=self._listening, backlog=BACKLOG, ssl=self._tls, ssl_handshake_timeout=seconds
        )
        self.servers = [server]
        self.started = True
        self._told()

    def _connection(self) -> HttpConnection:
        return HttpConnection(self._broker, self._refused, self.config, self.server_state, self.lifespan.state)

    def reload(self, limits: ServeSection, issuers: Sequence[IssuerSection] = ()) -> None:
        """Use other limits and issuers, and the certificate as it is now. If that is no good, all stays as it is."""
        try:
            if self._tls is not None:
                load_certificate(self._tls, limits)
        except TidegateError as wrong:
            _LOG.error("the certificate stays what it was: %s", wrong)
            return
        self._broker.reload(limits, issuers)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        self._listening.close()
        self._broker.closing.set()
        for connection in list(self.server_state.connections):
            if isinstance(connection, HttpConnection):
                connection.shutdown()
        await self._emptied(_ANSWERS)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._emptied(_CLOSES)
        left = list(self.server_state.tasks)
        for task in left:
            task.cancel()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if left:
            _LOG.warning("%d requests were cut off", len(left))
        try:
            async with asyncio.timeout(_PARTS):
                await asyncio.gather(*left, return_exceptions=True)
                await self.lifespan.shutdown()
        except TimeoutError:
            _LOG.warning("the gateway did not stop in time")

    async def _emptied(self, seconds: float) -> None:
        """Wait until nobody is connected and no request is under way, or so long."""
        until = asyncio.get_running_loop().time() + seconds
        state = self.server_state
        while (state.connections or state.tasks) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_LOOK)
