"""Which pages of other origins may use the API: what preflights are answered, and what is said with each answer.

A page of an origin that is not allowed gets no header that would let its browser show it anything, and cannot open a
WebSocket or a stream with a token in the address.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import Response

from tidegate.errors import shown
from tidegate.gateway.problems import RequestError

__all__ = ["CrossOrigin"]

_HEADERS = "Authorization, Content-Type, Content-Encoding, If-Match, If-None-Match, Last-Event-ID"
_EXPOSED = "ETag, Location, Retry-After"
_SECONDS = "600"


class CrossOrigin:
    """The origins whose pages may use the API; ``*`` among them is every origin."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins, self._any = frozenset(origins), "*" in origins

    def allows(self, headers: Headers) -> bool:
        """Whether a request comes from no page, from one of the broker's own origin, or from one that is allowed."""
        origin = headers.get("origin")
        if origin is None or self._any or origin in self._origins:
            return True
        return origin.partition("://")[2] == headers.get("host", "")

    def expect(self, headers: Headers) -> None:
        """Refuse a request of a page that may not make it."""
        if not self.allows(headers):
            got = shown(headers.get("origin"))
            raise RequestError(403, "origin", "an Origin that [serve] origins names", got, "the header Origin")

    def told(self, headers: Headers) -> dict[str, str]:
        """What the answer to a request says of it."""
        origin = headers.get("origin")
        if origin is None or not (self._any or origin in self._origins):
            return {}
        return {
            "Access-Control-Allow-Origin": "*" if self._any else origin,
            "Access-Control-Expose-Headers": _EXPOSED,
            "Vary": "Origin",
        }

    def preflight(self, headers: Headers, methods: Sequence[str]) -> Response:
        """The answer to an OPTIONS: the methods that there are, and for an allowed page that it may use them."""
        allowed = ", ".join(sorted({*methods, "OPTIONS"}))
        found = {"Allow": allowed, **self.told(headers)}
        if "Access-Control-Allow-Origin" in found:
            more = {"Methods": allowed, "Headers": _HEADERS}
            found |= {f"Access-Control-Allow-{name}": value for name, value in more.items()}
            found["Access-Control-Max-Age"] = _SECONDS
        return Response(status_code=204, headers=found)
