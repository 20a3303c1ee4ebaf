"""Tokens over HTTP: administrators make and revoke them. A secret is told once, by the answer that made it.

Everybody may see their own, without the secrets. Who asks for another's gets the same answer whether it is there or
not.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tidegate.errors import SettingError, shown
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.changes import note_change
from tidegate.gateway.parameters import AFTER, LIMIT, text
from tidegate.gateway.problems import RequestError, not_found
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.subscription_bodies import Expression
from tidegate.model import micros
from tidegate.principal_names import PATTERN
from tidegate.store.principal_tables import ROLES
from tidegate.store.principals import Token

__all__ = ["ROUTES", "TokenBody"]

_Role = Annotated[str, Meta(extra_json_schema={"enum": ROLES})]


class TokenBody(msgspec.Struct, forbid_unknown_fields=True):
    """A token to be made. Its principal is made if it is new. Without ``sources`` it may publish as any source."""

    principal: Annotated[str, Meta(extra_json_schema={"pattern": f"^{PATTERN}$"})]
    roles: Annotated[list[_Role], Meta(extra_json_schema={"minItems": 1})]
    sources: list[str] | None = None
    read: Expression | None = None
    expires: Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})] | None = None


class TokenMade(msgspec.Struct):
    id: str
    token: str


class TokenShown(msgspec.Struct):
    """A token, without its secret. ``used`` is when it was last used, by the hour."""

    id: str
    principal: str
    roles: list[str]
    sources: list[str] | None
    created: str
    expires: str | None
    used: str | None


class TokenPage(msgspec.Struct):
    tokens: list[TokenShown]
    next: str | None


async def make(request: ApiRequest) -> Response:
    """Make a token."""
    body, principals = await request.read(TokenBody), request.broker.principals

    def work() -> TokenMade:
        made = principals.make_token(
            body.principal, body.roles, sources=body.sources, read=body.read, expires=body.expires
        )
        return TokenMade(made.id, made.secret)

    made = await request.in_thread(work)
    facts = {"roles": body.roles, "sources": body.sources, "read": body.read, "expires": body.expires}
    await note_change(request, "make token", id=made.id, of=body.principal, **facts)
    return json_response(msgspec.to_builtins(made), 201, {"Location": f"/v1/tokens/{made.id}"})


async def every(request: ApiRequest) -> Response:
    """Tokens in the order in which they were made."""
    query, caller = request.query, request.caller
    principal = query["principal"] if caller.is_administrator else caller.name
    after, limit = None if query["after"] is None else _position(query["after"]), query["limit"]
    found = await request.in_thread(request.broker.principals.tokens, principal, after=after, limit=limit + 1)
    last = found[limit - 1] if len(found) > limit else None
    following = None if last is None else f"{micros(last.created)}-{last.id}"
    return json_response(msgspec.to_builtins(TokenPage([_shown(one) for one in found[:limit]], following)))


def _position(after: str) -> tuple[int, str]:
    made, _, id = after.partition("-")
    if not (made.isascii() and made.isdecimal() and len(made) < 19):
        raise RequestError(422, "parameter", "the `next` of a page before", shown(after), "after")
    return int(made), id


async def get(request: ApiRequest) -> Response:
    """One token."""
    found = await request.in_thread(_find, request)
    if found is None or not (request.caller.is_administrator or found.principal == request.caller.name):
        raise _not_there()
    return json_response(msgspec.to_builtins(_shown(found)))


async def revoke(request: ApiRequest) -> Response:
    """Revoke a token: what is open for it is closed within a second."""
    found = await request.in_thread(_find, request)
    if found is None:
        raise _not_there()
    await request.in_thread(request.broker.principals.revoke, found.id, keeping_a_way_in=True)
    await note_change(request, "revoke token", id=found.id, of=found.principal)
    return Response(status_code=204)


def _find(request: ApiRequest) -> Token | None:
    try:
        return request.broker.principals.token(request.name("id"))
    except SettingError:
        return None


def _not_there() -> Exception:
    return not_found("the id of a token that there is", "another text")  # perhaps a secret: not to be shown


def _shown(token: Token) -> TokenShown:
    times = [_text(at) for at in (token.created, token.expires, token.used)]
    sources = None if token.sources is None else list(token.sources)
    return TokenShown(token.id, token.principal, list(token.roles), sources, times[0] or "", *times[1:])


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="microseconds").replace("+00:00", "Z")


_PRINCIPAL = text("principal", "Only the tokens of this principal.")
ROUTES = (
    Route(
        method="POST",
        path="/v1/tokens",
        handler=make,
        summary="Make a token; its secret is told in the answer, this once.",
        role="administrator",
        body=(BodyForm("application/json", TokenBody),),
        answers={201: (BodyForm("application/json", TokenMade),)},
        has_secret=True,
    ),
    Route(
        method="GET",
        path="/v1/tokens",
        handler=every,
        summary="Tokens without their secrets; administrators see all, others their own.",
        role="any",
        query=(LIMIT, AFTER, _PRINCIPAL),
        answers={200: (BodyForm("application/json", TokenPage),)},
    ),
    Route(
        method="GET",
        path="/v1/tokens/{id}",
        handler=get,
        summary="A token without its secret; administrators see all, others their own.",
        role="any",
        answers={200: (BodyForm("application/json", TokenShown),)},
    ),
    Route(
        method="DELETE",
        path="/v1/tokens/{id}",
        handler=revoke,
        summary="Revoke a token, if it is not the last of an administrator.",
        role="administrator",
        answers={204: ()},
    ),
)
