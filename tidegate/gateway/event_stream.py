"""A queue as Server-Sent Events: backlog, then live, resumed by the id of the last event.

An id is ``epoch-N``. One that is none of ours is taken for one of an epoch that has passed: the client is told of a gap
and gets everything from the oldest on. Writes nothing by itself.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidegate.broker.delivered_items import QueuePosition
from tidegate.errors import SettingError
from tidegate.gateway.api_request import ApiRequest
from tidegate.gateway.channels import EventStreamChannel
from tidegate.gateway.delivery import Delivery
from tidegate.gateway.lent_transports import LENDER, LendingHttp, limit_room
from tidegate.gateway.notifications import AFTER_NUMBER
from tidegate.gateway.problems import RequestError
from tidegate.gateway.routes import BodyForm, Route

__all__ = ["ROUTES"]

#: A position that no queue has.
_UNKNOWN = "unknown-0"
_HEADERS = {"Cache-Control": "no-store", "Connection": "close", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """The answer that goes on until the client leaves."""

    media_type = "text/event-stream"

    def __init__(self, channel: EventStreamChannel, delivery: Delivery) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._channel, self._delivery = channel, delivery

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope["query_string"] = b""  # it may have a token, and is written to no log
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            self._channel.begin()
            self._delivery.follow(self._channel)
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._delivery.leave(self._channel)


async def stream(request: ApiRequest) -> Response:
    """The caller's queue as events."""
    lender = request.scope.get("extensions", {}).get(LENDER)
    if not isinstance(lender, LendingHttp):
        raise RequestError(501, "server", "a server that lends its transport", "another one")
    after = _resumed(request.headers.get("last-event-id"), request.query["after"])
    delivery, limits = request.broker.delivery, request.broker.limits
    channel = EventStreamChannel(request.caller.name, lender, delivery.lagged, request.broker.waiting)
    try:
        await delivery.connect(request.caller, channel, after)
    except BaseException:
        lender.outlet = None
        raise
    limit_room(lender.transport, limits.room, 3 * limits.heartbeat)
    return EventStream(channel, delivery)


def _resumed(last_event: str | None, after: str | None) -> str | None:
    """Where to go on: behind the last event that a client has, which it knows better than the address it came with."""
    if last_event:
        try:
            QueuePosition.parsed(last_event)
        except SettingError:
            return _UNKNOWN
        return last_event
    if after is not None:
        QueuePosition.parsed(after)
    return after


ROUTES = (
    Route(
        method="GET",
        path="/v1/stream",
        handler=stream,
        summary="What the caller is told, as Server-Sent Events.",
        role="subscriber",
        query=(AFTER_NUMBER,),
        answers={200: (BodyForm("text/event-stream", schema={"type": "string"}),)},
        is_long=True,
    ),
)
