"""The ASGI application: finds the route of a request, who makes it and whether they may, and turns errors into answers.

What the API does is in the modules whose routes ``api`` lists. Knows sockets as ASGI shows them, no server.
"""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.errors import TidegateError
from tidegate.gateway.access import Caller, address_of, bearer_of, nobody
from tidegate.gateway.answer_encodings import accepted_encoding, compressed, is_compressible, set_encoding
from tidegate.gateway.api_request import ApiRequest
from tidegate.gateway.audit import is_refused_access
from tidegate.gateway.bodies import LARGE, slow_body
from tidegate.gateway.cross_origin import CrossOrigin
from tidegate.gateway.http_connection import HttpConnection
from tidegate.gateway.lent_transports import LENDER
from tidegate.gateway.parameters import read_query
from tidegate.gateway.problems import RequestError, response_of
from tidegate.gateway.request_log import log_request
from tidegate.gateway.routes import FoundRoute, Route, Routes
from tidegate.gateway.whole_answers import write_whole

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["TOKEN_PARAMETER", "Application", "caller_of", "query_of"]

_LOG = logging.getLogger("tidegate.gateway")
#: Where browsers, which set no headers there, give the token of a stream.
TOKEN_PARAMETER = "access_token"
#: Bytes of an answer that no client leaves unread for long, and nobody counts.
_SMALL = 4096


class Application:
    """Answers HTTP requests by ``routes``; ``websocket`` is called for each WebSocket."""

    def __init__(self, broker: OpenBroker, routes: Routes, websocket: ASGIApp | None = None) -> None:
        self._broker, self._routes, self._websocket = broker, routes, websocket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket" and self._websocket is not None:
            await self._websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Start the broker's parts before the first request, and stop them after the last."""
        assert (await receive())["type"] == "lifespan.startup"
        try:
            await self._broker.start()
        except Exception as error:
            _LOG.exception("the gateway could not start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._broker.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = ApiRequest(scope, receive, send)
        request.broker = self._broker
        origins = CrossOrigin(self._broker.limits.origins)
        began, found = perf_counter(), list[Route]()
        try:
            with self._broker.budget.lent() as request.loan:
                response = await self._answer(request, origins, found)
        except TidegateError as error:
            response = response_of(error)
            if is_refused_access(error):
                self._note_refusal(request, error, found)
        except Exception:
            _LOG.exception("%s %s failed", request.method, scope["path"])
            response = response_of(RequestError(500, "internal", "an answer", "an error of the broker, in its log"))
        if told := origins.told(request.headers):
            vary = told.pop("Vary")  # beside what the answer says itself
            response.headers.update(told)
            response.headers.add_vary_header(vary)
        response.headers.setdefault("Cache-Control", "no-store")
        await self._compress(request, response, found[0] if found else None)
        self._note(request, found[0] if found else None, response.status_code, perf_counter() - began)
        if not write_whole(response, send):
            await response(scope, receive, send)
        connection = scope.get("extensions", {}).get(LENDER)
        if isinstance(connection, HttpConnection) and len(response.body) > _SMALL:
            self._broker.waiting.note(connection, len(response.body))

    async def _answer(self, request: ApiRequest, origins: CrossOrigin, noted: list[Route]) -> Response:
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        if request.method == "OPTIONS":
            return origins.preflight(request.headers, self._routes.methods(raw))
        query = query_of(request)
        route, request.named = found = self._routes.find(request.method, raw, query)
        noted.append(route)
        if route.role is not None:
            request._caller = await caller_of(request, self._broker, _secret(request, found, query, origins))
            request._caller.expect(route.role)
            self._check_rate(request._caller)
        request.query = read_query(route.query, [pair for pair in query if pair[0] != TOKEN_PARAMETER])
        request.seconds = limit = None if route.is_long else self._broker.limits.request_seconds or None
        try:
            with self._broker.deadlines.within(limit):
                return await route.handler(request)
        except TimeoutError:
            if limit is None:
                raise
            if request.is_body_awaited:
                raise slow_body(limit) from None
            raise RequestError(503, "slow", f"an answer within {limit:g} seconds", "a longer work") from None

    async def _compress(self, request: ApiRequest, response: Response, route: Route | None) -> None:
        """Compress an answer that is worth it, if the client takes that."""
        least = self._broker.limits.compress_from
        if not least or route is None or route.has_secret or not is_compressible(response, least):
            return
        response.headers.add_vary_header("Accept-Encoding")
        encoding = accepted_encoding(request.headers.get("accept-encoding"))
        if encoding is None:
            return
        body = bytes(response.body)
        if len(body) <= LARGE:
            found = compressed(body, encoding)
        else:
            found = await request.in_thread(compressed, body, encoding)
        set_encoding(response, encoding, found)
        self._broker.counts.add("answers_compressed", encoding)
        self._broker.counts.add("bytes_saved", encoding, len(body) - len(found))

    def _note(self, request: ApiRequest, route: Route | None, status: int, seconds: float) -> None:
        self._broker.numbers.requests.add(route, request.method, status, seconds)
        if self._broker.limits.request_log:
            log_request(request, status, seconds)

    def _note_refusal(self, request: ApiRequest, error: TidegateError, noted: list[Route]) -> None:
        caller = request._caller
        who = {} if caller is None else {"principal": caller.name, "token": caller.token}
        what = f"{request.method} {noted[0].path if noted else ''}".rstrip()
        self._broker.access.audit.refused(what, str(error), address=address_of(request), **who)

    def _check_rate(self, caller: Caller) -> None:
        rate = self._broker.limits.requests_per_second
        if rate and (wait := self._broker.rates.take(f"requests of {caller.name}", rate)) > 0:
            headers = {"Retry-After": str(max(1, round(wait)))}
            raise RequestError(429, "rate", f"at most {rate:,g} requests a second", "more", headers=headers)


def query_of(request: HTTPConnection) -> list[tuple[str, str]]:
    """The names and values of a query."""
    if not request.scope["query_string"]:
        return []
    try:
        text = request.scope["query_string"].decode("ascii")
        return parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=64)
    except ValueError as wrong:
        raise RequestError(400, "parameter", "a query of names and values in UTF-8", str(wrong), "the query") from None


def _secret(request: ApiRequest, found: FoundRoute, query: list[tuple[str, str]], origins: CrossOrigin) -> str | None:
    """The token of a request. In the address it may stand only for a stream, whose origin is then checked."""
    secret = bearer_of(request.headers.get("authorization"))
    if secret is None and found.route.path == "/v1/stream":
        secret = next((value for name, value in query if name == TOKEN_PARAMETER), None)
    if found.route.path == "/v1/stream":
        origins.expect(request.headers)
    return secret


async def caller_of(connection: HTTPConnection, broker: OpenBroker, secret: str | None) -> Caller:
    """Who makes a request with this token."""
    address = address_of(connection)
    if secret is None:
        broker.access.audit.refused("authenticate", "no token", address=address)
        raise nobody("none")
    return await broker.access.caller(secret, address)
