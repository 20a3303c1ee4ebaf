"""Announcements of publishers, for all transports, and the requests about them over HTTP.

They are kept and shown; nothing is activated by them yet. A publisher sees its own, an administrator all. Announcing a
source again replaces what the same principal announced of it, so whoever reconnects may announce anew.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from anyio.to_thread import run_sync
from msgspec import Meta, to_builtins
from starlette.responses import Response

from tidegate.errors import TidegateError, shown
from tidegate.gateway.access import Caller
from tidegate.gateway.announcement_bodies import AnnouncementBody, KeptAnnouncement, content_of, kept
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.parameters import AFTER, LIMIT
from tidegate.gateway.problems import RequestError, not_found
from tidegate.gateway.routes import BodyForm, Route
from tidegate.store.announcements import TooManyAnnouncements

__all__ = ["ROUTES", "Announced", "AnnouncementBody", "announce", "revoke"]

_MOST = 10_000


class Announced(NamedTuple):
    """An announcement that is kept, and whether it was made now."""

    created: bool
    announcement: KeptAnnouncement


class AnnouncementPage(msgspec.Struct):
    """Some announcements, in the order of their ids."""

    announcements: list[KeptAnnouncement]
    next: Annotated[str | None, Meta(description="The value of `after` for those that follow; null if none does.")]


async def announce(broker: OpenBroker, caller: Caller, body: AnnouncementBody) -> Announced:
    """Keep what the caller could publish as a source, and return once that is durable."""

    def work() -> Announced:
        if not caller.may_publish_as(body.source):
            raise RequestError(403, "source", "a source that the token may publish as", shown(body.source), "source")
        content = content_of(body)
        try:
            found = broker.announcements.put(caller.name, body.source, content, _MOST)
        except TooManyAnnouncements as error:
            raise RequestError(429, "quota", error.expected, error.got) from None
        return Announced(found.is_new, kept(found.announcement))

    try:
        announced = await run_sync(work, limiter=broker.threads)
    except TidegateError as error:
        broker.counts.add("announcements_refused", error.code)
        raise
    broker.counts.add("announcements", "made" if announced.created else "replaced")
    return announced


async def revoke(broker: OpenBroker, caller: Caller, id: str) -> None:
    """Remove an announcement of the caller; of anybody, if it is an administrator."""
    if not await run_sync(broker.announcements.remove, id, _seen_by(caller), limiter=broker.threads):
        raise not_found("the id of an announcement", shown(id))
    broker.counts.add("announcements", "revoked")


def _seen_by(caller: Caller) -> str | None:
    """Whose announcements the caller sees; None for everybody's."""
    if caller.has("administrator"):
        return None
    caller.expect("publisher")
    return caller.name


async def post(request: ApiRequest) -> Response:
    """Announce."""
    found = await announce(request.broker, request.caller, await request.read(AnnouncementBody))
    headers = {"Location": f"/v1/announcements/{found.announcement.id}"}
    return json_response(to_builtins(found.announcement), 201 if found.created else 200, headers)


async def listed(request: ApiRequest) -> Response:
    """Show announcements."""
    whose, limit = _seen_by(request.caller), request.query["limit"]
    page = request.broker.announcements.page
    found = await request.in_thread(page, whose, request.query["after"] or "", limit + 1)
    following = found[limit - 1].id if len(found) > limit else None
    return json_response(to_builtins(AnnouncementPage([kept(one) for one in found[:limit]], following)))


async def get(request: ApiRequest) -> Response:
    """Show one."""
    whose, id = _seen_by(request.caller), request.name("id")
    found = await request.in_thread(request.broker.announcements.find, id)
    if found is None or whose not in (None, found.principal):
        raise not_found("the id of an announcement", shown(id))
    return json_response(to_builtins(kept(found)))


async def delete(request: ApiRequest) -> Response:
    """Revoke one."""
    await revoke(request.broker, request.caller, request.name("id"))
    return Response(status_code=204)


_JSON = "application/json"
_KEPT = (BodyForm(_JSON, KeptAnnouncement),)

ROUTES = (
    Route(
        method="POST",
        path="/v1/announcements",
        handler=post,
        summary="Announce what a publisher could publish as a source; 200 if it had announced that source before.",
        role="publisher",
        body=(BodyForm(_JSON, AnnouncementBody),),
        answers={201: _KEPT, 200: _KEPT},
    ),
    Route(
        method="GET",
        path="/v1/announcements",
        handler=listed,
        summary="The caller's announcements; all of them, for an administrator.",
        role="any",
        query=(LIMIT, AFTER),
        answers={200: (BodyForm(_JSON, AnnouncementPage),)},
    ),
    Route(
        method="GET",
        path="/v1/announcements/{id}",
        handler=get,
        summary="An announcement.",
        role="any",
        answers={200: _KEPT},
        ids_in_query=True,
    ),
    Route(
        method="DELETE",
        path="/v1/announcements/{id}",
        handler=delete,
        summary="Revoke an announcement.",
        role="any",
        answers={204: ()},
        ids_in_query=True,
    ),
)
