"""One WebSocket to a broker: opened, listened to, and known to be dead when it is silent for too long.

Gives the messages of the broker as dicts, and sends what is to be acknowledged. Knows no order of items.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from tidegate.client.address import BrokerAddress
from tidegate.client.backoff import retry_after
from tidegate.client.queue_position import QueuePosition
from tidegate.client.refusals import IS_TRIED_AGAIN, refusal
from tidegate.errors import BrokerError, TidegateError, shown

__all__ = ["ConnectionLost", "QueueConnection"]

#: Bytes of one message, and how many messages wait in the library: what is beyond that waits in the socket.
_MOST, _WAITING = 1 << 26, 16
#: Seconds in which a connection is closed in good order.
_CLOSING = 0.5
_MISSES = 3
_AT = "WebSocket /v1/ws"
#: Gets nothing: a library may write headers, with the token in them, to the log of its debugging.
_SILENT = logging.Logger("tidegate.client.websocket")
_SILENT.disabled = True


class ConnectionLost(Exception):
    """A connection ended or could not be made, which another attempt may mend: why, and how long to wait at least."""

    def __init__(self, error: TidegateError, wait: float = 0.0) -> None:
        super().__init__(error)
        self.error, self.wait = error, wait


class _Connect(connect):
    """Without following redirects, so that a token goes where it was meant to go."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class QueueConnection:
    """A WebSocket that is open. ``confirmed`` is the highest number whose acknowledgement the broker has confirmed."""

    def __init__(self, websocket: ClientConnection, heartbeat: float) -> None:
        self._websocket, self._heartbeat = websocket, heartbeat
        self._heard, self._asked = monotonic(), monotonic()
        self._is_listening = False
        self._sent, self.confirmed = 0, 0

    @staticmethod
    @asynccontextmanager
    async def opened(address: BrokerAddress, token: str, after: QueuePosition | None) -> AsyncIterator[QueueConnection]:
        """A connection that is told what comes after a position; closed at the end."""
        url = address.websocket if after is None else f"{address.websocket}?after={after}"
        try:
            websocket = await _Connect(
                url,
                additional_headers={"Authorization": f"Bearer {token}"},
                ssl=address.tls,
                proxy=None if address.is_local else True,
                compression=None if address.is_local else "deflate",
                open_timeout=address.timeout,
                ping_interval=None,  # what answers it waits behind what the caller has no room for
                close_timeout=_CLOSING,
                max_size=_MOST,
                max_queue=_WAITING,
                logger=_SILENT,
            )
        except InvalidStatus as refused:
            raise _refused(refused) from None
        except (OSError, InvalidHandshake, WebSocketException, EOFError) as wrong:
            raise _unreachable(address, wrong) from None
        try:
            yield QueueConnection(websocket, address.heartbeat)
        finally:
            await websocket.close()

    async def messages(self) -> AsyncIterator[tuple[dict[str, Any], int]]:
        """What the broker says, and the length of each in bytes, until the connection is lost."""
        while True:
            self._heard, self._is_listening = monotonic(), True
            try:
                text = await self._websocket.recv(decode=False)
            except (WebSocketException, OSError) as wrong:
                raise ConnectionLost(BrokerError("a connection that lasts", f"{wrong}", _AT)) from None
            finally:
                self._is_listening = False
            message = _message(text)
            if message["type"] == "accepted" and isinstance(ref := message.get("ref"), int):
                self.confirmed = max(self.confirmed, ref)
            yield message, len(text)

    async def acknowledge(self, position: QueuePosition) -> None:
        """Send that all up to a position is done. What was sent before is not sent again."""
        if position.number > self._sent:
            self._sent = position.number
            await self._send({"type": "ack", "upto": str(position), "ref": position.number})

    async def keep_alive(self) -> None:
        """Ask whether the broker is there if it has been silent; end the connection if it does not answer.

        While the caller has no room nobody listens, and nothing is concluded from silence.
        """
        now = monotonic()
        if not self._is_listening:
            return
        if now - self._heard > _MISSES * self._heartbeat:
            self._websocket.transport.abort()
        elif now - max(self._heard, self._asked) > self._heartbeat:
            self._asked = now
            await self._send({"type": "ping"})

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._heartbeat):
                await self._websocket.send(orjson.dumps(message), text=True)
        except TimeoutError:
            self._websocket.transport.abort()
        except (WebSocketException, OSError):
            return  # whoever listens is told


def _message(text: bytes) -> dict[str, Any]:
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError as wrong:
        raise ConnectionLost(BrokerError("messages in JSON", f"{shown(text)}, where {wrong.msg}", _AT)) from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ConnectionLost(BrokerError("messages with a type", shown(message), _AT))
    return message


def _refused(refused: InvalidStatus) -> Exception:
    """The error of a broker that does not open a connection."""
    response = refused.response
    error = refusal(response.status_code, bytes(response.body or b""), _AT)
    if response.status_code in IS_TRIED_AGAIN or response.status_code >= 500:
        return ConnectionLost(error, retry_after(response.headers))
    return error


def _unreachable(address: BrokerAddress, wrong: Exception) -> Exception:
    error = BrokerError(f"a broker at {address.url}", str(wrong) or type(wrong).__name__, _AT)
    return error if isinstance(wrong, ssl.SSLCertVerificationError) else ConnectionLost(error)
