"""The requests about subscriptions, over HTTP: put, show, list and end them, one by one or in bulk."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, to_builtins
from starlette.responses import Response

from tidegate.errors import shown
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.bodies import content_type
from tidegate.gateway.bulk_subscribing import BulkAnswer, BulkLine, subscribe_lines
from tidegate.gateway.parameters import AFTER, LIMIT
from tidegate.gateway.preconditions import EntityTags
from tidegate.gateway.problems import RequestError
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.subscribing import (
    Subscribed,
    SubscriptionBody,
    subscribe,
    subscription_named,
    subscription_page,
    unsubscribe,
)
from tidegate.gateway.subscription_bodies import KeptSubscription

__all__ = ["ROUTES"]

_JSON, _NDJSON = "application/json", "application/x-ndjson"
_LINES = (_NDJSON, "application/ndjson", "application/jsonl")


class SubscriptionPage(msgspec.Struct):
    """Some of the caller's subscriptions, in the order in which they were made."""

    subscriptions: list[KeptSubscription]
    next: Annotated[str | None, Meta(description="The value of `after` for those that follow; null if none does.")]


async def put(request: ApiRequest) -> Response:
    """Take a subscription under an id."""
    body = await request.read(SubscriptionBody)
    match = request.headers.get("if-match"), request.headers.get("if-none-match")
    found: Subscribed = await subscribe(request.broker, request.caller, request.name("id"), body, *match)
    return json_response(to_builtins(found.subscription), 201 if found.created else 200, {"ETag": found.etag})


async def get(request: ApiRequest) -> Response:
    """Show a subscription of the caller."""
    found = await subscription_named(request.broker, request.caller, request.name("id"))
    none_match = request.headers.get("if-none-match")
    if none_match is not None and (tags := EntityTags(none_match, "If-None-Match")).has_weakly(found.etag):
        return Response(status_code=304, headers={"ETag": tags.given(found.etag), "Vary": "Accept-Encoding"})
    return json_response(to_builtins(found), headers={"ETag": found.etag})


async def delete(request: ApiRequest) -> Response:
    """End a subscription of the caller."""
    await unsubscribe(request.broker, request.caller, request.name("id"), request.headers.get("if-match"))
    return Response(status_code=204)


async def listed(request: ApiRequest) -> Response:
    """Show the caller's subscriptions."""
    found, following = await subscription_page(
        request.broker, request.caller, request.query["after"], request.query["limit"]
    )
    return json_response(to_builtins(SubscriptionPage(found, following)))


async def bulk(request: ApiRequest) -> Response:
    """Put many subscriptions."""
    if (given := content_type(request)) not in _LINES:
        raise RequestError(415, "content_type", f"the Content-Type {_NDJSON}", shown(given))
    answer = await subscribe_lines(request.broker, request.caller, await request.bytes())
    is_any = answer.made or answer.same or answer.replaced
    return json_response(to_builtins(answer, str_keys=True), 200 if is_any or not answer.refused else 422)


_KEPT = (BodyForm(_JSON, KeptSubscription),)
_BULK = (BodyForm(_JSON, BulkAnswer),)

ROUTES = (
    Route(
        method="PUT",
        path="/v1/subscriptions/{id}",
        handler=put,
        summary="Take a subscription: 201 if there was none, 200 if it is the same or, with If-Match, replaced.",
        role="subscriber",
        body=(BodyForm(_JSON, SubscriptionBody),),
        answers={201: _KEPT, 200: _KEPT},
        ids_in_query=True,
    ),
    Route(
        method="GET",
        path="/v1/subscriptions/{id}",
        handler=get,
        summary="A subscription of the caller.",
        role="subscriber",
        answers={200: _KEPT, 304: ()},
        ids_in_query=True,
    ),
    Route(
        method="DELETE",
        path="/v1/subscriptions/{id}",
        handler=delete,
        summary="End a subscription. What it has matched is delivered all the same.",
        role="subscriber",
        answers={204: ()},
        ids_in_query=True,
    ),
    Route(
        method="GET",
        path="/v1/subscriptions",
        handler=listed,
        summary="The caller's subscriptions, in the order in which they were made.",
        role="subscriber",
        query=(LIMIT, AFTER),
        answers={200: (BodyForm(_JSON, SubscriptionPage),)},
    ),
    Route(
        method="POST",
        path="/v1/subscriptions",
        handler=bulk,
        summary="Put many subscriptions as one change, a line for each; 422 with the same body if all were refused.",
        role="subscriber",
        body=(BodyForm(_NDJSON, BulkLine),),
        answers={200: _BULK, 422: _BULK},
    ),
)
