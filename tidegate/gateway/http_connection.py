"""One HTTP connection of a gateway: uvicorn's, which waits for nobody for long and keeps little of anybody.

Who sends headers or bodies slowly, sends large headers, does not read what it is sent, or comes when there are
``max_connections``, is closed and counted. All of it is constant work, and no timer runs while a request is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any

import orjson
from uvicorn.config import Config as UvicornConfig
from uvicorn.server import ServerState

from tidegate.gateway.lent_transports import LendingHttp
from tidegate.gateway.problems import PROBLEM_TYPE, RequestError, problem

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["HttpConnection"]

#: What is counted of connections, and the most that headers of one request may be.
_CLOSED = "connections_closed"
_MOST_HEADERS = 200
#: Seconds for the rest of a body that nobody waits for, and for a client to read why it is refused.
_REST_SECONDS, _REFUSED_SECONDS = 5.0, 0.5
#: Bytes that a client reads within ``body_seconds`` at least, while more wait for it.
_LEAST_READ = 1 << 16
#: So many of the refused may read why at the same time.
_MOST_REFUSED = 1_000


def _answer(status: int, code: str, expected: str, got: str) -> bytes:
    """A whole response that says why a connection is closed."""
    body = orjson.dumps(problem(RequestError(status, code, expected, got)))
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"content-type: {PROBLEM_TYPE}",
        f"content-length: {len(body)}",
        "connection: close",
        *(["retry-after: 1"] if status == 503 else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


_TOO_MANY = _answer(503, "busy", "fewer connections at once", "one beyond max_connections")
_SLOW = _answer(408, "slow", "headers within header_seconds", "some that took longer")
_LARGE = _answer(431, "headers", "smaller headers", "some of more bytes than max_header, or too many")
_BAD = _answer(400, "http", "a request of HTTP/1.1", "something else")


class HttpConnection(LendingHttp):
    """A connection of ``broker``. ``refused`` has those that are told why, of all connections of the gateway."""

    reads_within = inf  # a slow client could never have a large answer; ``_slow_reader`` closes who hardly reads

    def __init__(
        self,
        broker: OpenBroker,
        refused: set[HttpConnection],
        config: UvicornConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._broker, self._refused = broker, refused
        self._is_refused = self._is_lost = False
        self._is_upgraded = False  # to a WebSocket, which has timers of its own
        self._in_head = False  # amid the headers of a request
        self._head_received = self._head_bytes = self._head_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    # --- who connects -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        limits = self._broker.limits
        self.timeout_keep_alive = limits.idle_seconds  # type: ignore[assignment]  # fractions are taken too
        if len(self.connections) > limits.max_connections:
            self._refuse(_TOO_MANY, "too_many")
        else:
            self._within(limits.header_seconds, self._slow_headers)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._end_timer()
        self._end_stalled()
        self._refused.discard(self)
        super().connection_lost(exc)

    # --- what comes -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if self._is_refused or self._is_upgraded or self.transport.is_closing():
            return
        if self._in_head:
            self._head_received += len(data)
            if self._head_received > self._broker.limits.max_header:
                self._refuse(_LARGE, "large_headers")
                return
        if self._timer is None and (self._in_head or self._is_idle):
            self._within(self._broker.limits.header_seconds, self._slow_headers)

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_received = self._head_bytes = self._head_count = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._take_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_count += 1
        self._take_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _take_head(self, count: int) -> None:
        """Count bytes of headers, and of what may follow a body like headers."""
        self._head_bytes += count
        if self._is_large_head:
            raise _LargeHeaders

    @property
    def _is_large_head(self) -> bool:
        return self._head_bytes > self._broker.limits.max_header or self._head_count > _MOST_HEADERS

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._end_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self._is_idle:
            self._end_timer()  # the rest of a body that nobody waited for has come
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._is_large_head:
            self._refuse(_LARGE, "large_headers")
        else:
            self._refuse(_BAD, "no_http")

    # --- what goes --------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        is_partial = self.cycle.more_body
        super().on_response_complete()
        if is_partial and not self.transport.is_closing():
            self._unset_keepalive_if_required()  # any byte would put it off
            self._within(_REST_SECONDS, self._slow_rest)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None and self.outlet is None:  # an outlet looks after its peer by itself
            self._look_later()

    def _look_later(self) -> None:
        """Look after a while whether the client has read something of what waits for it."""
        waits = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(self._broker.limits.body_seconds, self._slow_reader, waits)

    def resume_writing(self) -> None:
        self._end_stalled()
        super().resume_writing()

    def _end_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def handle_websocket_upgrade(self) -> None:
        self._end_timer()
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    # --- who is slow ------------------------------------------------------------------------------------------------

    def _within(self, seconds: float, late: Callable[[], None]) -> None:
        """Call ``late`` after so many seconds; 0 is never."""
        self._end_timer()
        if seconds:
            self._timer = self.loop.call_later(seconds, late)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _slow_headers(self) -> None:
        if self._in_head:
            self._refuse(_SLOW, "slow_headers")
        else:
            self._broker.counts.add(_CLOSED, "silent")
            self.transport.close()

    def _slow_rest(self) -> None:
        self._broker.counts.add(_CLOSED, "slow_body")
        self.transport.abort()

    def _slow_reader(self, waited: int) -> None:
        if self.transport.get_write_buffer_size() <= waited - _LEAST_READ:
            self._look_later()
            return
        self.give_up()

    @property
    def waiting(self) -> int:
        """Bytes that wait for the client; 0 once it is gone. One that is to be closed is, when it has read them."""
        return 0 if self._is_lost else self.transport.get_write_buffer_size()

    def give_up(self) -> None:
        """Close it, because the client does not read its answer."""
        self._broker.counts.add(_CLOSED, "slow_reader")
        self.transport.abort()

    def _refuse(self, answer: bytes, cause: str) -> None:
        """Say why, and close. What still comes is not read, for a moment: a connection that is closed with something
        unread takes our answer along.
        """
        self._is_refused = True
        self._broker.counts.add(_CLOSED, cause)
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        if len(self._refused) >= _MOST_REFUSED:
            self.transport.abort()
            return
        if not self._is_idle:  # an answer to an earlier request is on its way
            self.transport.close()
            return
        self._refused.add(self)
        self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._within(_REFUSED_SECONDS, self.transport.abort)


class _LargeHeaders(Exception):
    """Headers are larger than they may be; the parser passes it on as an error of its own."""
