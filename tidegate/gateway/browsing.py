"""Looking at what is published: recent publications, and for editors of subscriptions which sources, attributes and
functions there are.

Of publications everybody sees what they may read, and nothing that says how much else there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from starlette.responses import Response

from tidegate.broker.read_filter import ReadFilter
from tidegate.broker.recent_publications import RecentPublications
from tidegate.errors import shown
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.opaque_positions import OpaquePositions
from tidegate.gateway.parameters import AFTER, LIMIT, Parameter, text
from tidegate.gateway.problems import RequestError
from tidegate.gateway.routes import BodyForm, Role, Route
from tidegate.patterns import FAMILIES
from tidegate.predicates import FUNCTIONS, MEASURES
from tidegate.store.identity_settings import IdentitySettings

__all__ = ["ROUTES"]

T = TypeVar("T")
SOURCE = text("source", "Only of this source.")


class RecentPublicationsPage(msgspec.Struct):
    """Publications of the log, the newest last, and what to give for `after` to go on."""

    publications: list[dict[str, Any]]
    next: str


class Sources(msgspec.Struct):
    """The sources of recent publications."""

    sources: list[str]


class Attribute(msgspec.Struct):
    """An attribute of recent publications, and of which kinds its values are."""

    name: str
    kinds: list[str]


class Attributes(msgspec.Struct):
    """The attributes of recent publications."""

    attributes: list[Attribute]


class Function(msgspec.Struct):
    """An operator, a function or a pattern, with its family and an example that is an expression."""

    name: str
    kind: Literal["predicate", "measure", "pattern"]
    family: str
    example: str


class Functions(msgspec.Struct):
    """What expressions may be made of."""

    functions: list[Function]


# --- requests ---------------------------------------------------------------------------------------------------------


async def _recent(request: ApiRequest) -> Response:
    after, limit = request.query["after"], request.query["limit"]

    def work() -> RecentPublicationsPage:
        read = _read_of(request)
        hidden = None if read is None else _opaque(request)
        row = None if after is None else _row(after) if hidden is None else hidden.read(after)
        page = _asked(request, lambda recent: recent.page(row, limit), read)
        return RecentPublicationsPage(page.publications, str(page.next) if hidden is None else hidden.shown(page.next))

    return json_response(msgspec.to_builtins(await request.in_thread(work)))


async def _sources(request: ApiRequest) -> Response:
    found = await request.in_thread(lambda: _asked(request, RecentPublications.sources, _read_of(request)))
    return json_response({"sources": found})


async def _attributes(request: ApiRequest) -> Response:
    found = await request.in_thread(lambda: _asked(request, RecentPublications.attributes, _read_of(request)))
    return json_response({"attributes": [one._asdict() for one in found]})


async def _functions(request: ApiRequest) -> Response:
    listed = [Function(one.op, "predicate", one.family, one.example) for one in FUNCTIONS.values()]
    listed += [Function(one.op, "measure", one.family, one.example) for one in MEASURES.values()]
    listed += [Function(name, "pattern", "pattern", family.example) for name, family in FAMILIES.items()]
    return json_response(msgspec.to_builtins(Functions(sorted(listed, key=lambda one: (one.kind, one.name)))))


def _read_of(request: ApiRequest) -> str | None:
    read = request.broker.principals.read_of(request.caller.name)
    request.caller.expect_read(read)
    return read


def _asked(request: ApiRequest, question: Callable[[RecentPublications], T], read: str | None) -> T:
    """What is said of the publications that may be read."""
    broker, allowed = request.broker, None if read is None else ReadFilter.of(read)
    with RecentPublications(broker.data, broker.log, allowed, request.query.get("source")) as recent:
        return question(recent)


def _row(after: str) -> int:
    if after == "-1" or (after.isascii() and after.isdecimal() and len(after) < 19):
        return int(after)
    raise RequestError(422, "parameter", "the `next` of a page before", shown(after), "after")


def _opaque(request: ApiRequest) -> OpaquePositions:
    halves = IdentitySettings.used(request.broker.data.ids, None, None).key
    return OpaquePositions(b"".join(half.to_bytes(8, "little") for half in halves))


def _route(
    path: str, handler: Any, summary: str, answer: Any, role: Role = "subscriber", query: tuple[Parameter, ...] = ()
) -> Route:
    answers = {200: (BodyForm("application/json", answer),)}
    return Route(method="GET", path=path, handler=handler, summary=summary, role=role, query=query, answers=answers)


ROUTES = (
    _route(
        "/v1/publications",
        _recent,
        "Recent publications that the caller may read; without `after` the newest ones.",
        RecentPublicationsPage,
        query=(SOURCE, AFTER, LIMIT),
    ),
    _route("/v1/sources", _sources, "The sources of recent publications that the caller may read.", Sources),
    _route(
        "/v1/attributes",
        _attributes,
        "The attributes of recent publications that the caller may read, with the kinds of their values.",
        Attributes,
        query=(SOURCE,),
    ),
    _route("/v1/functions", _functions, "What expressions may be made of, with examples.", Functions, role="any"),
)
