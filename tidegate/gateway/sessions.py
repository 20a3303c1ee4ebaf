"""Sessions over HTTP: who is registered and connected, and how far behind each queue is; and ending a session.

Administrators see and end all of them, a subscriber its own. Who asks for another's gets the same answer whether it is
there or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from starlette.responses import Response

from tidegate.errors import SessionError, shown
from tidegate.gateway.access import address_of
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.parameters import AFTER, LIMIT
from tidegate.gateway.problems import RequestError, not_found
from tidegate.gateway.routes import BodyForm, Route
from tidegate.model import moment

if TYPE_CHECKING:
    from tidegate.broker.presence import SessionPresence

__all__ = ["ROUTES"]

Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class ConnectionShown(msgspec.Struct):
    destination: str
    since: Time


class QueueShown(msgspec.Struct):
    """A queue: its newest number, how far it is acknowledged, how much waits, and for how many seconds."""

    destination: str
    last: int
    acknowledged: int
    depth: int
    lag: float


class SessionShown(msgspec.Struct):
    """A session. ``queues`` is empty until the runner has made them."""

    principal: str
    registered_at: Time
    seen_at: Time
    connections: list[ConnectionShown]
    queues: list[QueueShown]


class SessionPage(msgspec.Struct):
    sessions: list[SessionShown]
    next: str | None


async def every(request: ApiRequest) -> Response:
    """Sessions by the names of their principals."""
    caller, after, limit = request.caller, request.query["after"] or "", request.query["limit"]
    _, sessions = await request.broker.delivery.opened()
    if caller.is_administrator:
        found = await request.in_thread(sessions.presence, after=after, limit=limit + 1)
    else:
        mine = await _present(request, caller.name) if caller.name > after else None
        found = [] if mine is None else [mine]
    following = found[limit - 1].session.principal if len(found) > limit else None
    return json_response(msgspec.to_builtins(SessionPage([_shown(one) for one in found[:limit]], following)))


async def get(request: ApiRequest) -> Response:
    """The session of one principal."""
    name = _its_name(request)
    found = await _present(request, name)
    if found is None:
        raise _not_there(name)
    return json_response(msgspec.to_builtins(_shown(found)))


async def unregister(request: ApiRequest) -> Response:
    """End a session: its subscriptions, its queues and what waits in them; its connections are closed."""
    name, caller = _its_name(request), request.caller
    _, sessions = await request.broker.delivery.opened()
    try:
        await request.in_thread(sessions.unregister, name)
    except SessionError:
        raise _not_there(name) from None
    audit = request.broker.access.audit
    audit.changed("unregister", principal=caller.name, token=caller.token, address=address_of(request), name=name)
    return Response(status_code=204)


def _its_name(request: ApiRequest) -> str:
    """The principal that is asked for, if the caller may ask for it."""
    name, caller = request.name("principal"), request.caller
    if not caller.is_administrator and name != caller.name:
        raise _not_there(name)
    return name


def _not_there(name: str) -> RequestError:
    return not_found("a principal with a session", shown(name))


async def _present(request: ApiRequest, name: str) -> SessionPresence | None:
    _, sessions = await request.broker.delivery.opened()
    try:
        return await request.in_thread(sessions.present, name)
    except SessionError:
        return None


def _shown(one: SessionPresence) -> SessionShown:
    return SessionShown(
        one.session.principal,
        _text(one.session.registered_at),
        _text(one.session.seen_at),
        [ConnectionShown(there.destination, _text(there.since)) for there in one.connections],
        [
            QueueShown(queue.destination, queue.last, queue.acknowledged, queue.waiting, one.lag(queue) / 1e6)
            for queue in one.queues
        ],
    )


def _text(micros: int) -> str:
    return moment(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


_ONE = (BodyForm("application/json", SessionShown),)
ROUTES = (
    Route(
        method="GET",
        path="/v1/sessions",
        handler=every,
        summary="Who is registered and connected, and how far behind; administrators see all, others their own.",
        role="any",
        query=(LIMIT, AFTER),
        answers={200: (BodyForm("application/json", SessionPage),)},
    ),
    Route(
        method="GET",
        path="/v1/sessions/{principal}",
        handler=get,
        summary="The session of a principal; administrators see all, others their own.",
        role="any",
        answers={200: _ONE},
    ),
    Route(
        method="DELETE",
        path="/v1/sessions/{principal}",
        handler=unregister,
        summary="Unregister: end a session with its subscriptions and queues; administrators all, others their own.",
        role="any",
        answers={204: ()},
    ),
)
