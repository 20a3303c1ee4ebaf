"""``ApiRequest``: a request as the functions of the API see it, with who makes it, and what the broker has open."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import anyio.to_thread
import orjson
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from tidegate.gateway.access import Caller
from tidegate.gateway.bodies import LARGE, decoded, expect_few, read_body

if TYPE_CHECKING:
    from tidegate.gateway.bodies import Loan
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["ApiRequest", "json_response"]

P = ParamSpec("P")
T = TypeVar("T")


class _Headers(Headers):
    """Headers that are looked up several times: each is decoded once. Of a name that comes twice, the first counts."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        super().__init__(raw=raw)
        self._first = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(raw)}

    def __getitem__(self, key: str) -> str:
        return self._first[key.lower()]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.lower() in self._first

    def get(self, key: str, default: Any = None) -> Any:
        return self._first.get(key.lower(), default)


class ApiRequest(Request):
    """A request of the API, once it is known which function answers it."""

    broker: OpenBroker
    named: dict[str, str]
    """What stands for the names in the path."""
    query: dict[str, Any]
    """The parameters, all that the route declares."""
    loan: Loan
    seconds: float | None = None
    """Within how many seconds it must be answered, body included; None for any time."""
    is_body_awaited = False
    _caller: Caller | None = None

    @cached_property
    def headers(self) -> Headers:
        return _Headers(self.scope["headers"])

    @property
    def caller(self) -> Caller:
        """Who makes the request."""
        assert self._caller is not None, "a route that anybody may ask has no caller"
        return self._caller

    @property
    def caller_or_none(self) -> Caller | None:
        """The same; None where that is not known, or not yet."""
        return self._caller

    def name(self, which: str) -> str:
        """What the request names: a segment of the path, or the parameter in its place."""
        found = self.named.get(which)
        return str(self.query[which]) if found is None else found

    async def bytes(self) -> bytes:
        """The body, within the limits."""
        limits = self.broker.limits
        is_over_sooner = self.seconds is not None and self.seconds <= limits.body_seconds
        self.is_body_awaited = True
        seconds = 0 if is_over_sooner else limits.body_seconds
        body = await read_body(self, self.loan, limits.max_body, self.broker.deadlines, seconds)
        self.is_body_awaited = False
        return body

    async def read(self, kind: type[T]) -> T:
        """The body as a value of a class of msgspec."""
        body = await self.bytes()
        expect_few(body, self.broker.limits.max_publications)
        if len(body) <= LARGE:
            return decoded(body, kind)
        return await anyio.to_thread.run_sync(decoded, body, kind, limiter=self.broker.large_bodies)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """What a function gives that waits for a disk or computes for a while, called in a thread."""
        return await anyio.to_thread.run_sync(partial(work, *args, **named), limiter=self.broker.threads)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON; times become texts of RFC 3339."""
    return Response(orjson.dumps(value, option=_OPTIONS), status, headers, "application/json")


_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC
