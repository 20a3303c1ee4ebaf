"""Requests over HTTP that are tried again until they are answered, refused, or take too long.

What says that another attempt may succeed is tried again after a while, as is what was perhaps lost on its way, unless
the request must not be made twice. Certificates that are not trusted are an error at once. Knows no request of the API.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import httpx

from tidegate.client.address import BrokerAddress
from tidegate.client.answers import json_of
from tidegate.client.backoff import Backoff, retry_after
from tidegate.client.refusals import IS_TRIED_AGAIN, refusal
from tidegate.client.token_source import TokenSource
from tidegate.errors import AccessError, BrokerError, TidegateError

__all__ = ["Answer", "Requests"]

#: Bytes of an answer that are read at most.
_MOST = 1 << 28
JSON = "application/json"


class Answer(NamedTuple):
    """A status, the headers, what the JSON says; and whether an earlier attempt may have done it already."""

    status: int
    headers: Mapping[str, str]
    said: dict[str, Any]
    at: str
    is_repeated: bool = False


class _Failed(NamedTuple):
    """Why an attempt is to be made again, how long to wait at least, and whether the broker may have done it."""

    error: TidegateError
    wait: float
    is_open: bool


class _RefusedToken(NamedTuple):
    """A token that the broker does not take, of which there may be another by now."""

    token: str
    error: AccessError


class Requests:
    """Requests to one broker, in one event loop."""

    def __init__(self, address: BrokerAddress, tokens: TokenSource) -> None:
        self._address, self._tokens = address, tokens
        self._http = httpx.AsyncClient(
            verify=address.tls or not address.is_local,
            timeout=httpx.Timeout(address.timeout),
            trust_env=not address.is_local,
            limits=httpx.Limits(max_keepalive_connections=16),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        media_type: str = JSON,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        also: Collection[int] = (),
        once: bool = False,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """The answer to a request: of 2xx, or of a status in ``also``; any other is an error.

        A request that may be made only ``once`` is not repeated if the broker may have done what it wants.
        """
        at, seconds = f"{method} {path}", timeout or self._address.timeout
        request = self._http.build_request(
            method,
            f"{self._address.url}{path}",
            params={name: str(value) for name, value in (query or {}).items() if value is not None} or None,
            headers={**(headers or {}), **({} if body is None else {"Content-Type": media_type})},
            content=body,
        )
        backoff, is_repeated = Backoff(max(deadline or self._address.deadline, timeout or 0.0)), False
        refused: _RefusedToken | None = None
        while True:
            found = await self._attempt_with_token(request, at, seconds, also, refused)
            if isinstance(found, _RefusedToken):
                refused = found
                continue
            if isinstance(found, Answer):
                return found._replace(is_repeated=is_repeated)
            wait = None if once and found.is_open else backoff.delay(found.wait)
            if wait is None:
                raise found.error
            is_repeated = is_repeated or found.is_open
            await asyncio.sleep(wait)

    async def _attempt_with_token(
        self, request: httpx.Request, at: str, seconds: float, also: Collection[int], refused: _RefusedToken | None
    ) -> Answer | _Failed | _RefusedToken:
        """An attempt with the token of the moment. The first that the broker does not take may be replaced by another,
        if there is one.
        """
        try:
            token = await self._tokens.current()
        except BrokerError as wrong:
            return _Failed(wrong, 0.0, False)
        if refused is not None and token == refused.token:
            raise refused.error
        request.headers["Authorization"] = f"Bearer {token}"
        try:
            return await self._attempt(request, at, seconds, also)
        except AccessError as wrong:
            if wrong.status != 401 or refused is not None or not self._tokens.is_renewable:
                raise
            self._tokens.drop(token)
            return _RefusedToken(token, wrong)

    async def _attempt(
        self, request: httpx.Request, at: str, seconds: float, also: Collection[int]
    ) -> Answer | _Failed:
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.send(request, stream=True)
                try:
                    body = await _read(response, at)
                finally:
                    await response.aclose()
        except TimeoutError:
            return _Failed(BrokerError(f"an answer within {seconds:g} seconds", "none", at), 0.0, True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as wrong:
            if _is_distrusted(wrong):
                raise BrokerError("a certificate that is trusted", str(wrong), at) from None
            return _Failed(
                BrokerError(f"a broker at {self._address.url}", f"{wrong or type(wrong).__name__}", at), 0.0, False
            )
        except (httpx.TransportError, httpx.DecodingError) as wrong:
            return _Failed(BrokerError("a whole answer", f"{type(wrong).__name__} {wrong}".strip(), at), 0.0, True)
        status = response.status_code
        if 200 <= status < 300 or status in also:
            try:
                return Answer(status, response.headers, json_of(body, at) if body else {}, at)
            except BrokerError as wrong:
                return _Failed(wrong, 0.0, True)
        error = refusal(status, body, at)
        if status not in IS_TRIED_AGAIN:
            raise error
        return _Failed(error, retry_after(response.headers), status not in (429, 507))


async def _read(response: httpx.Response, at: str) -> bytes:
    chunks, size = list[bytes](), 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > _MOST:
            raise BrokerError(f"an answer of at most {_MOST:,} bytes", "a larger one", at)
    return b"".join(chunks)


def _is_distrusted(wrong: BaseException | None) -> bool:
    """Whether a connection failed because the certificate of the broker is not trusted."""
    while wrong is not None:
        if isinstance(wrong, ssl.SSLCertVerificationError):
            return True
        wrong = wrong.__cause__ or wrong.__context__
    return False
