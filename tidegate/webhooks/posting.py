"""``Poster``: requests to one endpoint, one at a time, over one connection that is kept for a while.

Whatever an endpoint does, a request ends within its time, and no more than a few KiB of an answer are read. Redirects
are not followed, no proxy is asked, and no cookie is kept. Knows nothing of queues.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from time import monotonic
from typing import NamedTuple

import httpcore

from tidegate import __version__
from tidegate.broker.webhook_url import WebhookUrl
from tidegate.errors import TidegateError
from tidegate.webhooks.endpoint_states import Failure
from tidegate.webhooks.pinned_connections import ForbiddenAddress, UnresolvedName

__all__ = ["OUTCOMES", "Patience", "PostOutcome", "Poster"]

#: How a request may end; all but the first are failures.
OUTCOMES = ("answered", "status", "redirect", "gone", "timeout", "connection", "tls", "name", "address", "protocol")
#: Bytes that are read of an answer, and seconds for which a connection is kept that nobody uses.
_READ, _KEPT = 4096, 30.0
_AGENT = f"Tidegate/{__version__}"
# httpcore tries to import sniffio several times in each request. Where there is none, Python looks through all its
# folders each time, unless the name stands among the modules.
if "sniffio" not in sys.modules and find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]
#: What says that a connection was closed while it was not used.
_STALE = (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError)


class Patience(NamedTuple):
    """Seconds for a connection with TLS, and for everything: connection, request and answer."""

    connect: float
    answer: float


class PostOutcome(NamedTuple):
    """How a request ended: one of ``OUTCOMES``, the failure unless it was answered, what was answered, and how long it
    took in seconds.
    """

    cause: str
    failure: Failure | None
    body: bytes
    seconds: float


class Poster:
    """The connection to an endpoint. Only one request is made at a time."""

    def __init__(self, context: ssl.SSLContext, patience: Patience) -> None:
        self._context, self._patience = context, patience
        self._connection: httpcore.AsyncHTTPConnection | None = None
        self._place: tuple[str, str, int] | None = None
        self.used_at = monotonic()

    async def post(
        self, url: WebhookUrl, headers: Sequence[tuple[str, str]], body: bytes, network: httpcore.AsyncNetworkBackend
    ) -> PostOutcome:
        """Post a body, over ``network`` if a connection has to be made."""
        began = monotonic()
        try:
            async with asyncio.timeout(self._patience.answer + self._patience.connect):
                found = await self._posted(url, headers, body, network)
        except (Exception, asyncio.CancelledError) as error:
            await self.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            found = _failed(error)
        self.used_at = monotonic()
        return found._replace(seconds=self.used_at - began)

    async def _posted(
        self, url: WebhookUrl, headers: Sequence[tuple[str, str]], body: bytes, network: httpcore.AsyncNetworkBackend
    ) -> PostOutcome:
        if await self._is_kept(url):
            with suppress(*_STALE):  # perhaps closed at the same moment: once more, over a new one
                return await self._exchanged(url, headers, body)
            await self.close()
        origin = httpcore.Origin(url.scheme.encode(), url.host.encode(), url.port)
        self._connection = httpcore.AsyncHTTPConnection(
            origin, self._context, keepalive_expiry=_KEPT, network_backend=network
        )
        self._place = url[:3]
        return await self._exchanged(url, headers, body)

    async def _is_kept(self, url: WebhookUrl) -> bool:
        """Whether there is a connection that can be used again."""
        kept = self._connection
        if kept is None:
            return False
        if self._place == url[:3] and kept.is_available() and not kept.has_expired():
            return True
        await self.close()
        return False

    async def _exchanged(self, url: WebhookUrl, headers: Sequence[tuple[str, str]], body: bytes) -> PostOutcome:
        assert self._connection is not None, "a connection that was made or kept"
        host = f"[{url.host}]" if ":" in url.host else url.host
        is_usual = url.port == (443 if url.scheme == "https" else 80)
        given = [("host", host if is_usual else f"{host}:{url.port}"), ("user-agent", _AGENT), ("accept", "*/*")]
        there = httpcore.URL(
            scheme=url.scheme.encode(), host=url.host.encode(), port=url.port, target=url.target.encode()
        )
        connect, answer = self._patience
        times = {"connect": connect, "read": answer, "write": answer, "pool": answer}
        all_of = [(name.encode(), value.encode()) for name, value in [*given, *headers]]
        async with self._connection.stream(
            "POST", there, headers=all_of, content=body, extensions={"timeout": times}
        ) as response:
            found = b""
            async for some in response.aiter_stream():
                found += some
                if len(found) > _READ:  # the connection is closed with the rest on its way
                    break
            return _judged(response, found[:_READ])

    async def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                await connection.aclose()

    @property
    def is_open(self) -> bool:
        """Whether a connection is kept."""
        return self._connection is not None


def _judged(response: httpcore.Response, body: bytes) -> PostOutcome:
    """What a status says."""
    status = response.status
    if 200 <= status < 300:
        return PostOutcome("answered", None, body, 0.0)
    if status == 410:
        return PostOutcome("gone", Failure("status 410: it wants no more", is_gone=True), body, 0.0)
    if 300 <= status < 400:
        return PostOutcome("redirect", Failure(f"status {status}: a redirect, which is not followed"), body, 0.0)
    return PostOutcome("status", Failure(f"status {status}", _retry_after(response)), body, 0.0)


def _retry_after(response: httpcore.Response) -> float | None:
    """Seconds that an answer asks to wait, given as such or as a date."""
    given = next((value for name, value in response.headers if name.lower() == b"retry-after"), b"").decode("latin-1")
    if given.isascii() and given.isdecimal() and len(given) < 10:
        return float(given)
    with suppress(ValueError, TypeError, OverflowError):
        when = parsedate_to_datetime(given)
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    return None


def _failed(error: Exception) -> PostOutcome:
    """How a request ended that has no answer."""
    cause, reason = "connection", "the connection broke"
    if isinstance(error, ForbiddenAddress | UnresolvedName):
        cause, reason = error.code, str(error)
    elif isinstance(error, TimeoutError | httpcore.TimeoutException):
        cause, reason = "timeout", "no answer in time"
    elif _is_of_tls(error):
        cause, reason = "tls", "TLS failed, or the certificate is not good"
    elif isinstance(error, httpcore.ConnectError):
        reason = "nobody takes the connection"
    elif isinstance(error, httpcore.ProtocolError):
        cause, reason = "protocol", "what came is no answer of HTTP/1.1"
    elif not isinstance(error, httpcore.NetworkError | OSError | TidegateError):
        raise error
    return PostOutcome(cause, Failure(reason), b"", 0.0)


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
