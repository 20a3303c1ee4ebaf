"""Which function answers which request: a table of routes, and the one that fits a path.

Paths are split before they are decoded, so a segment that stands for an id may hold a slash, encoded; ``.`` and ``..``
are refused. An id may also stand in the query (``DELETE /v1/subscriptions?id=…``). Knows no function of the API.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.responses import Response

from tidegate.errors import shown
from tidegate.gateway.parameters import Parameter, text
from tidegate.gateway.problems import RequestError, not_found

if TYPE_CHECKING:
    from tidegate.gateway.api_request import ApiRequest

__all__ = ["BodyForm", "FoundRoute", "Handler", "Role", "Route", "Routes", "segments_of"]

Handler: TypeAlias = "Callable[[ApiRequest], Awaitable[Response]]"
#: A role that the caller's token must have; ``any`` is any token, None is nobody in particular.
Role = Literal["subscriber", "publisher", "administrator", "any"]


class BodyForm(NamedTuple):
    """One form of a body: its media type, and its type for msgspec, or a JSON schema."""

    media_type: str
    type: Any = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One request of the API: ``path`` has names of segments in braces."""

    method: str
    path: str
    handler: Handler
    summary: str
    role: Role | None
    query: tuple[Parameter, ...] = ()
    body: tuple[BodyForm, ...] = ()
    answers: Mapping[int, tuple[BodyForm, ...]]
    """The forms of the body of each answer that is no problem."""
    is_long: bool = False
    """Whether it may take longer than a request usually may: a stream, a long poll."""
    has_secret: bool = False
    """Whether its answer tells a secret, which it must not be compressed with."""
    ids_in_query: bool = False
    """Whether the names of the path may stand in the query of the path before them."""

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(segment[1:-1] for segment in self.segments if segment.startswith("{"))


class FoundRoute(NamedTuple):
    """A route, and what stands in the place of the names of its path."""

    route: Route
    named: dict[str, str]


class Routes:
    """All routes, found by path and method."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_length: dict[int, list[Route]] = {}
        self._by_query: dict[tuple[str, ...], list[Route]] = {}
        self._plain: dict[tuple[str, bytes], FoundRoute] = {}
        self.all: tuple[Route, ...] = tuple(routes)
        for route in self.all:
            self._by_length.setdefault(len(route.segments), []).append(route)
            if route.ids_in_query:
                self._by_query.setdefault(_before_names(route), []).append(_in_query(route))
            if not route.names:
                self._plain.setdefault((route.method, route.path.encode()), FoundRoute(route, {}))

    def find(self, method: str, raw_path: bytes, query: Sequence[tuple[str, str]]) -> FoundRoute:
        """The route of a request, or an error: 404, or 405 with the methods that there are."""
        plain = self._plain.get((method, raw_path))
        if plain is not None and not query:
            return plain
        segments = segments_of(raw_path)
        by_query = self._by_query.get(segments, ())
        given = {name for name, _ in query}
        for route in by_query:
            if route.method == method and given.issuperset(_ids(route)):
                return FoundRoute(route, {})
        methods = {route.method for route in by_query}
        for route in self._by_length.get(len(segments), ()):
            if (named := _matched(route.segments, segments)) is None:
                continue
            if route.method == method or (method == "HEAD" and route.method == "GET" and not route.is_long):
                return FoundRoute(route, named)
            methods.add(route.method)
        if methods:
            allowed = ", ".join(sorted(methods))
            raise RequestError(405, "method", allowed, method, headers={"Allow": allowed})
        raise not_found("a path of the API", shown("/" + "/".join(segments)))

    def methods(self, raw_path: bytes) -> list[str]:
        """The methods that a path has."""
        segments = segments_of(raw_path)
        found = {route.method for route in self._by_query.get(segments, ())}
        of_length = self._by_length.get(len(segments), ())
        found |= {route.method for route in of_length if _matched(route.segments, segments) is not None}
        return sorted(found)


def segments_of(raw_path: bytes) -> tuple[str, ...]:
    """The segments of a path, decoded one by one."""
    path = raw_path.partition(b"?")[0]
    if not path.startswith(b"/"):
        raise RequestError(400, "path", "a path that begins with a slash", shown(path))
    found = []
    for encoded in path[1:].split(b"/"):
        try:
            segment = unquote_to_bytes(encoded).decode()
        except UnicodeDecodeError:
            raise RequestError(400, "path", "a path in UTF-8", shown(encoded)) from None
        if segment in (".", ".."):
            raise RequestError(400, "path", "segments other than . and ..", shown(segment))
        found.append(segment)
    return tuple(found)


def _matched(route: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    named = {}
    for wanted, segment in zip(route, segments, strict=True):
        if wanted.startswith("{"):
            if not segment:
                return None
            named[wanted[1:-1]] = segment
        elif wanted != segment:
            return None
    return named


def _before_names(route: Route) -> tuple[str, ...]:
    return tuple(segment for segment in route.segments if not segment.startswith("{"))


def _in_query(route: Route) -> Route:
    """The same request with its ids in the query."""
    ids = tuple(text(name, f"The same as `{name}` in the path.", required=True) for name in route.names)
    return Route(
        method=route.method,
        path="/" + "/".join(_before_names(route)),
        handler=route.handler,
        summary=route.summary,
        role=route.role,
        query=(*ids, *route.query),
        body=route.body,
        answers=route.answers,
    )


def _ids(route: Route) -> set[str]:
    return {parameter.name for parameter in route.query if parameter.required}
