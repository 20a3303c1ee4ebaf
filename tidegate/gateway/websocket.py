"""A client's WebSocket: who connects, what it is told, and its messages, until either side closes it.

``hello`` comes first. The channel of the connection writes what the queue has; ``ClientMessages`` does what the client
asks. Knows no HTTP but the handshake.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from tidegate.broker.delivered_items import QueuePosition
from tidegate.errors import TidegateError, shown
from tidegate.gateway.access import Caller, address_of, bearer_of
from tidegate.gateway.application import TOKEN_PARAMETER, caller_of, query_of
from tidegate.gateway.channels import WebSocketChannel
from tidegate.gateway.cross_origin import CrossOrigin
from tidegate.gateway.lent_transports import LENDER, limit_room
from tidegate.gateway.notifications import AFTER_NUMBER
from tidegate.gateway.parameters import read_query, text
from tidegate.gateway.problems import RequestError, not_found, response_of
from tidegate.gateway.routes import segments_of
from tidegate.gateway.websocket_connection import WebSocketConnection
from tidegate.gateway.websocket_requests import ClientMessages

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["WebSockets"]

_LOG = logging.getLogger("tidegate.gateway")
_PATH = "v1", "ws"
#: Seconds that the first message of a client waits for the queue to be made: ``hello`` comes before any answer.
_GREETED = 2.0
_TOKEN = text(TOKEN_PARAMETER, "The token, where no header can have it.")


class WebSockets:
    """The ASGI application of ``/v1/ws``."""

    def __init__(self, broker: OpenBroker) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        channel = None
        try:
            await receive()  # websocket.connect
            connection = HTTPConnection(scope)
            try:
                secret, after = self._asked(connection)
            finally:
                scope["query_string"] = b""  # it may have a token, and is written to no log
            caller = await caller_of(connection, self._broker, secret)
            channel = await self._connected(scope, caller, after)
        except TidegateError as error:
            await response_of(error)(scope, receive, send)
            return
        except Exception:
            _LOG.exception("a WebSocket failed")
            wrong = RequestError(500, "internal", "a WebSocket", "an error of the broker, in its log")
            await response_of(wrong)(scope, receive, send)
            return
        try:
            await send({"type": "websocket.accept"})
            scope["extensions"][LENDER].forget_handshake()
            self._broker.delivery.follow(channel)
            renewed = partial(caller_of, connection, self._broker, secret)
            await self._serve(receive, channel, renewed, address_of(connection))
        finally:
            self._broker.delivery.leave(channel)

    def _asked(self, connection: HTTPConnection) -> tuple[str | None, str | None]:
        """The token of a handshake, and where the queue is to go on."""
        scope = connection.scope
        path = segments_of(scope.get("raw_path") or scope["path"].encode())
        if path != _PATH:
            raise not_found("a WebSocket of the API", shown("/" + "/".join(path)))
        CrossOrigin(self._broker.limits.origins).expect(connection.headers)
        found = read_query((AFTER_NUMBER, _TOKEN), query_of(connection))
        after = found["after"]
        if after is not None:
            QueuePosition.parsed(after)
        secret = bearer_of(connection.headers.get("authorization"))
        return found[TOKEN_PARAMETER] if secret is None else secret, after

    async def _connected(self, scope: Scope, caller: Caller, after: str | None) -> WebSocketChannel:
        protocol, limits = scope["extensions"].get(LENDER), self._broker.limits
        if not isinstance(protocol, WebSocketConnection):
            raise RequestError(501, "server", "a server that lends its transport", "another one")
        protocol.limit(self._broker)
        channel = WebSocketChannel(caller.name, protocol, self._broker.delivery.lagged, self._broker.waiting)
        try:
            await self._broker.delivery.connect(caller, channel, after)
        except BaseException:
            protocol.outlet = None
            raise
        limit_room(protocol.transport, limits.room, 3 * limits.heartbeat)
        return channel

    async def _serve(
        self, receive: Receive, channel: WebSocketChannel, renewed: Callable[[], Awaitable[Caller]], address: str
    ) -> None:
        """Do what the client asks until it, or the broker, closes."""

        async def acknowledge(upto: int | str) -> None:
            connection, position = channel.connection, QueuePosition.parsed(str(upto))
            if connection is None:
                raise RequestError(409, "session", "a client with a queue", "one that may only publish")
            queue, queues = connection.queue, self._broker.delivery.queues
            if position.epoch is not None and (queue is None or queue.epoch != position.epoch):
                raise RequestError(422, "acknowledgement", "a number of this queue", "one of another epoch", "upto")
            if queue is not None and queues is not None and position.number <= queues.last(queue):
                connection.acknowledge(position.number)
            else:  # which looks at files, perhaps in vain
                await run_sync(connection.acknowledge, position.number, limiter=self._broker.threads)

        with suppress(TimeoutError):  # a runner that is down keeps nobody from publishing
            async with asyncio.timeout(_GREETED):
                await channel.greeted
        messages = ClientMessages(self._broker, renewed, acknowledge, channel.write, address)
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                text = message.get("text")
                await messages.take(message["bytes"] if text is None else text)
                await channel.has_room()
        finally:
            messages.end()
