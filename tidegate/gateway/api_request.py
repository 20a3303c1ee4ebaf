"""``ApiRequest``: a request as the functions of the API see it, with who makes it, and what the broker has open."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import anyio.to_thread
import orjson
from starlette.requests import Request
from starlette.responses import Response

from tidegate.gateway.access import Caller
from tidegate.gateway.bodies import decoded, read_body

if TYPE_CHECKING:
    from tidegate.gateway.bodies import _Loan
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["ApiRequest", "json_response"]

P = ParamSpec("P")
T = TypeVar("T")


class ApiRequest(Request):
    """A request of the API, once it is known which function answers it."""

    broker: OpenBroker
    named: dict[str, str]
    """What stands for the names in the path."""
    query: dict[str, Any]
    """The parameters, all that the route declares."""
    loan: _Loan
    _caller: Caller | None = None

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
        return await read_body(self, self.loan, limits.max_body, limits.body_seconds)

    async def read(self, kind: type[T]) -> T:
        """The body as a value of a class of msgspec."""
        return decoded(await self.bytes(), kind)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """What a function gives that waits for a disk or computes for a while, called in a thread."""
        return await anyio.to_thread.run_sync(partial(work, *args, **named), limiter=self.broker.threads)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON; times become texts of RFC 3339."""
    return Response(orjson.dumps(value, option=_OPTIONS), status, headers, "application/json")


_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC
