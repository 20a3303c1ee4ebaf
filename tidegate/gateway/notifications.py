"""Reading a queue by requests: the notifications after a position, waited for if there are none yet, and acknowledging.

A first read registers a session. Knows nothing of streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from anyio.to_thread import run_sync
from starlette.responses import Response

from tidegate.broker.delivered_items import QueuePosition
from tidegate.broker.encoded_items import EncodedPage
from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.sessions import Sessions
from tidegate.errors import SessionError, SettingError
from tidegate.gateway.access import Caller, nobody
from tidegate.gateway.api_request import ApiRequest
from tidegate.gateway.bodies import Whole, whole
from tidegate.gateway.channels import GOING_AWAY, PollChannel
from tidegate.gateway.delivered_messages import NotificationPage
from tidegate.gateway.delivered_traces import TracedItem, traced_items
from tidegate.gateway.parameters import LIMIT, seconds, text
from tidegate.gateway.problems import RequestError
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.traces import AT_ONCE

__all__ = ["AFTER_NUMBER", "ROUTES", "Acknowledgement"]

#: Seconds that a first read waits for its queue to be made.
_UNMADE = 5.0
AFTER_NUMBER = text("after", "Go on behind this number, `N` or `epoch-N`; without it behind what is acknowledged.")
WAIT = seconds("wait", "For how long to wait if there is nothing yet.", 60, 0)


class Acknowledgement(msgspec.Struct, forbid_unknown_fields=True):
    """Up to which number of the queue everything has arrived: `N` or `epoch-N`."""

    upto: Whole | str


async def read(request: ApiRequest) -> Response:
    """Items of the caller's queue."""
    after, limit, wait = request.query["after"], request.query["limit"], request.query["wait"]
    if after is not None:
        QueuePosition.parsed(after)
    delivery, loop = request.broker.delivery, asyncio.get_running_loop()
    queues, sessions = await delivery.opened()
    name, until = request.caller.name, loop.time() + wait
    page = await request.in_thread(_page, queues, sessions, request.caller, after, limit)
    if page is None or (not page[0].items and wait):
        channel = await delivery.connect(request.caller, PollChannel(name), after)
        delivery.follow(channel)
        watching = asyncio.create_task(_end_when_gone(request, channel))
        try:
            unmade = loop.time() + _UNMADE
            while page is None or not page[0].items:
                left = max(until, unmade if page is None else 0) - loop.time()
                if left <= 0 or channel.is_ended or not await _woken(channel, left):
                    break
                if not request.broker.access.is_valid(request.caller):
                    raise nobody("one that holds no longer")
                page = await request.in_thread(_page, queues, sessions, request.caller, after, limit) or page
        finally:
            watching.cancel()
            delivery.leave(channel)
    if page is None:
        expected = "a queue, which the runner makes after a first read"
        raise RequestError(503, "not_ready", expected, "none yet: the runner is down or behind")
    if request.broker.traces is not None:
        traced = await request.in_thread(_traced, queues, sessions, name, page[0], request.broker.log.appended)
        moment = request.broker.clock()
        for at in range(0, len(traced), AT_ONCE):
            request.broker.traces.delivered(traced[at : at + AT_ONCE], PollChannel.kind, moment)
            await asyncio.sleep(0)
    return Response(_encoded(*page), media_type="application/json")


async def _end_when_gone(request: ApiRequest, channel: PollChannel) -> None:
    """End the channel of a client that waits no more."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    channel.end(GOING_AWAY)


async def _woken(channel: PollChannel, wait: float) -> bool:
    """Wait until there may be something; whether that was so in time."""
    try:
        async with asyncio.timeout(wait):
            await channel.something.wait()
    except TimeoutError:
        return False
    channel.something.clear()
    return True


Page = tuple[EncodedPage, int, int]


def _page(queues: OpenQueues, sessions: Sessions, caller: Caller, after: str | None, limit: int) -> Page | None:
    """A page, and the newest number and the oldest kept; None if there is no queue yet."""
    found = sessions.queue(caller.name)
    if found is None:
        return None
    position = QueuePosition(sessions.acknowledged(found)) if after is None else QueuePosition.parsed(after)
    (page,) = queues.pages_of([(found, position)], limit)
    caller.expect_read(page.read)
    sessions.seen(caller.name)
    return page, queues.last(found), queues.oldest(found)


def _traced(
    queues: OpenQueues, sessions: Sessions, principal: str, page: EncodedPage, appended: Callable[[int], int | None]
) -> list[TracedItem]:
    found = sessions.queue(principal)
    return [] if found is None else traced_items(queues, found, page.items, appended)


def _encoded(page: EncodedPage, last: int, oldest: int) -> bytes:
    items = b",".join([item.body for item in page.items])
    return b'{"epoch":"%b","notifications":[%b],"next":"%b-%d","last":%d,"oldest":%d}' % (
        page.epoch.encode(),
        items,
        page.epoch.encode(),
        page.next,
        last,
        oldest,
    )


async def acknowledge(request: ApiRequest) -> Response:
    """Acknowledge what has arrived."""
    given = await request.read(Acknowledgement)
    _, sessions = await request.broker.delivery.opened()
    upto = given.upto if isinstance(given.upto, str) else whole(given.upto)
    await run_sync(_acknowledge, sessions, request.caller.name, upto, limiter=request.broker.threads)
    return Response(status_code=204)


def _acknowledge(sessions: Sessions, principal: str, upto: int | str) -> None:
    try:
        sessions.acknowledge(principal, upto)
    except SessionError as wrong:
        raise RequestError(422, "acknowledgement", wrong.expected, wrong.got, wrong.at) from None
    except SettingError as wrong:
        raise RequestError(422, "acknowledgement", wrong.expected, wrong.got, "upto") from None


ROUTES = (
    Route(
        method="GET",
        path="/v1/notifications",
        handler=read,
        summary="What the caller was told, in the order of its queue.",
        role="subscriber",
        query=(AFTER_NUMBER, LIMIT, WAIT),
        answers={200: (BodyForm("application/json", NotificationPage),)},
        is_long=True,
    ),
    Route(
        method="POST",
        path="/v1/notifications/ack",
        handler=acknowledge,
        summary="Acknowledge everything up to a number.",
        role="subscriber",
        body=(BodyForm("application/json", Acknowledgement),),
        answers={204: ()},
    ),
)
