"""Principals over HTTP: administrators say what each may read and how much of everything it may use.

Everybody may see their own. Who asks for another's gets the same answer whether it is there or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from tidegate.errors import SettingError, shown
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.changes import note_change
from tidegate.gateway.parameters import AFTER, LIMIT
from tidegate.gateway.problems import not_found
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.subscription_bodies import Expression
from tidegate.store.principal_tables import QUOTAS

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker
    from tidegate.store.principals import Kept, Principal

__all__ = ["ROUTES", "PrincipalBody", "PrincipalShown"]


#: Limits by name.
Quotas = Annotated[dict[str, float], Meta(extra_json_schema={"propertyNames": {"enum": QUOTAS}})]


class PrincipalBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a principal may read, a filter in CQL2 text or CQL2-JSON, its limits, and the issuer whose JWTs may speak of
    it. What is left out stays as it is; null takes it away.
    """

    read: Expression | UnsetType | None = UNSET
    quotas: Quotas | UnsetType | None = UNSET
    issuer: str | UnsetType | None = UNSET


class PrincipalShown(msgspec.Struct):
    """A principal. Without ``read`` it reads everything. ``issuer`` is whose JWTs speak of it. ``registered`` is the
    version of the registry since which it has a session.
    """

    name: str
    read: Expression | None
    quotas: dict[str, int | float]
    created: str
    issuer: str | None
    registered: int | None


class PrincipalPage(msgspec.Struct):
    principals: list[PrincipalShown]
    next: str | None


async def put(request: ApiRequest) -> Response:
    """Make a principal or change it."""
    name, body, broker = request.name("name"), await request.read(PrincipalBody), request.broker
    keep: list[Kept] = []
    if body.read is UNSET:
        keep.append("read")
    if body.quotas is UNSET:
        keep.append("quotas")
    if body.issuer is UNSET:
        keep.append("issuer")
    issuer = None if body.issuer is UNSET else body.issuer
    read = None if body.read is UNSET else body.read
    quotas = None if body.quotas is UNSET else body.quotas

    def work() -> tuple[bool, PrincipalShown]:
        was_there = _find(broker, name) is not None
        made = broker.principals.put(name, read=read, quotas=quotas, issuer=issuer, keep=keep)
        return was_there, _shown(broker, made)

    was_there, found = await request.in_thread(work)
    facts = {"read": found.read, "quotas": found.quotas, "issuer": found.issuer}
    await note_change(request, "put principal", name=name, **facts)
    return json_response(msgspec.to_builtins(found), 200 if was_there else 201)


async def get(request: ApiRequest) -> Response:
    """One principal."""
    name, broker = request.name("name"), request.broker
    found = await request.in_thread(_find, broker, name) if _may_see(request, name) else None
    if found is None:
        raise not_found("a principal that there is", shown(name))
    return json_response(msgspec.to_builtins(await request.in_thread(_shown, broker, found)))


async def every(request: ApiRequest) -> Response:
    """Principals by name."""
    broker, after, limit = request.broker, request.query["after"] or "", request.query["limit"]

    def work() -> PrincipalPage:
        found = broker.principals.all(after=after, limit=limit + 1)
        page = [_shown(broker, one) for one in found[:limit]]
        return PrincipalPage(page, page[-1].name if len(found) > limit else None)

    return json_response(msgspec.to_builtins(await request.in_thread(work)))


async def remove(request: ApiRequest) -> Response:
    """Remove a principal: itself with tokens and webhooks, and its session with subscriptions and queues. What is left
    of it, if a removal was interrupted, is removed by another one.
    """
    name, broker = request.name("name"), request.broker

    def work() -> None:
        was_there = True
        try:
            broker.principals.remove(name, keeping_a_way_in=True)
        except SettingError:
            was_there = False
        if broker.registry.registered(name) is not None:
            broker.registry.unregister(name)
        elif not was_there:
            raise not_found("a principal that there is", shown(name))

    await request.in_thread(work)
    await note_change(request, "remove principal", name=name)
    return Response(status_code=204)


def _may_see(request: ApiRequest, name: str) -> bool:
    return request.caller.is_administrator or request.caller.name == name


def _find(broker: OpenBroker, name: str) -> Principal | None:
    try:
        return broker.principals.principal(name)
    except SettingError:
        return None


def _shown(broker: OpenBroker, one: Principal) -> PrincipalShown:
    created = one.created.isoformat(timespec="microseconds").replace("+00:00", "Z")
    registered = broker.registry.registered(one.name)
    return PrincipalShown(one.name, one.read, dict(one.quotas), created, one.issuer, registered)


_ONE = (BodyForm("application/json", PrincipalShown),)
ROUTES = (
    Route(
        method="PUT",
        path="/v1/principals/{name}",
        handler=put,
        summary="Make a principal, or change what it may read and its quotas.",
        role="administrator",
        body=(BodyForm("application/json", PrincipalBody),),
        answers={200: _ONE, 201: _ONE},
    ),
    Route(
        method="GET",
        path="/v1/principals/{name}",
        handler=get,
        summary="A principal; administrators see all, others their own.",
        role="any",
        answers={200: _ONE},
    ),
    Route(
        method="GET",
        path="/v1/principals",
        handler=every,
        summary="Principals, by name.",
        role="administrator",
        query=(LIMIT, AFTER),
        answers={200: (BodyForm("application/json", PrincipalPage),)},
    ),
    Route(
        method="DELETE",
        path="/v1/principals/{name}",
        handler=remove,
        summary="Remove a principal with its tokens, subscriptions and queues.",
        role="administrator",
        answers={204: ()},
    ),
)
