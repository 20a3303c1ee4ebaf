"""Webhooks over HTTP: the endpoints of the caller, their secrets, what was given up and what is to be sent again.

Each sees its own endpoints only. Nothing is sent from here: the sender is a process of its own, which hears of changes
by a number in the database.
"""

from __future__ import annotations

import re

from msgspec import to_builtins
from starlette.responses import Response

from tidegate.broker.sessions import Sessions
from tidegate.broker.webhook_mark import set_mark
from tidegate.broker.webhook_url import parsed
from tidegate.delivery_options import Deliver, destination_of
from tidegate.errors import SessionError, SettingError, TidegateError, shown
from tidegate.gateway.access import Caller
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.bodies import whole
from tidegate.gateway.changes import note_change
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.parameters import AFTER, LIMIT
from tidegate.gateway.problems import RequestError, not_found
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.webhook_bodies import (
    DeadPage,
    ReplayBody,
    ReplayShown,
    RotatedSecret,
    RotationBody,
    WebhookBody,
    WebhookPage,
    WebhookShown,
    batch_of,
    dead_shown,
    replay_shown,
    webhook_shown,
)
from tidegate.store.queue_directory import Queue
from tidegate.store.webhook_tables import NAME_LENGTH, Webhook
from tidegate.store.webhooks import TooManyWebhooks

__all__ = ["ROUTES", "expect_deliverable"]

_NAME = re.compile(rf"(?!\.\.?$)[A-Za-z0-9._-]{{1,{NAME_LENGTH}}}")


def expect_deliverable(broker: OpenBroker, principal: str, deliver: Deliver) -> None:
    """Refuse a subscription to a webhook that its principal does not have, or to an MQTT broker where there is none, or
    none for this principal. Called in a thread.
    """
    if deliver == "mqtt" and not broker.is_told_by_mqtt(principal):
        expected = "deliver: stream or a webhook, or a section [mqtt] for this principal in the file of this broker"
        raise RequestError(422, "undeliverable", expected, "mqtt", "deliver")
    if not isinstance(deliver, str) and broker.webhooks.find(principal, deliver["webhook"]) is None:
        expected, got = f"a webhook of {principal}", shown(deliver["webhook"])
        raise RequestError(422, "undeliverable", expected, got, "deliver")


async def put(request: ApiRequest) -> Response:
    """Make an endpoint, or change it."""
    name, caller, broker = request.name("name"), request.caller, request.broker
    body = await request.read(WebhookBody)

    def work() -> tuple[Webhook, bool]:
        if _NAME.fullmatch(name) is None:
            expected = f"a name of 1 to {NAME_LENGTH} of the characters A-Z a-z 0-9 . _ -"
            raise RequestError(422, "webhook", expected, shown(name), "name")
        _check_url(broker, body.url)
        set_mark(broker.data.run)
        most = broker.config.webhooks.endpoints
        try:
            return broker.webhooks.put(caller.name, name, body.url, batch=batch_of(body), secret=body.secret, most=most)
        except TooManyWebhooks as error:
            raise RequestError(429, "quota", error.expected, error.got, error.at) from None
        except SettingError as error:
            raise RequestError(422, "webhook", error.expected, error.got, error.at) from None

    try:
        found, is_new = await request.in_thread(work)
    except TidegateError as error:
        broker.counts.add("webhooks_refused", error.code)
        raise
    broker.counts.add("webhooks", "made" if is_new else "changed")
    await note_change(request, "put webhook", name=name, host=parsed(found.url, broker.webhook_rules).host)
    told = webhook_shown(found, broker.clock(), with_secret=is_new)
    return json_response(to_builtins(told), 201 if is_new else 200)


def _check_url(broker: OpenBroker, url: str) -> None:
    try:
        parsed(url, broker.webhook_rules)
    except SettingError as error:
        raise RequestError(422, "webhook", error.expected, error.got, error.at) from None


async def listed(request: ApiRequest) -> Response:
    """The caller's endpoints."""
    broker, after, limit = request.broker, request.query["after"] or "", request.query["limit"]
    found = await request.in_thread(broker.webhooks.page, request.caller.name, after, limit + 1)
    following = found[limit - 1].name if len(found) > limit else None
    page = [webhook_shown(one, broker.clock()) for one in found[:limit]]
    return json_response(to_builtins(WebhookPage(page, following)))


async def get(request: ApiRequest) -> Response:
    """One of them."""
    found = await request.in_thread(_find, request.broker, request.caller, request.name("name"))
    return json_response(to_builtins(webhook_shown(found, request.broker.clock())))


async def delete(request: ApiRequest) -> Response:
    """Remove an endpoint to which nothing is delivered."""
    name, caller, broker = request.name("name"), request.caller, request.broker
    if not await request.in_thread(broker.webhooks.remove, caller.name, name):
        raise _unknown(name)
    broker.counts.add("webhooks", "removed")
    await note_change(request, "remove webhook", name=name)
    return Response(status_code=204)


async def verify(request: ApiRequest) -> Response:
    """Have an endpoint asked again whether it wants what is posted to it."""
    name, broker = request.name("name"), request.broker
    found = await request.in_thread(broker.webhooks.ask_verification, request.caller.name, name)
    if found is None:
        raise _unknown(name)
    return json_response(to_builtins(webhook_shown(found, broker.clock())), 202)


async def rotate(request: ApiRequest) -> Response:
    """Give an endpoint another secret."""
    name, caller, broker = request.name("name"), request.caller, request.broker
    body = await request.read(RotationBody)
    try:
        found = await request.in_thread(broker.webhooks.rotate, caller.name, name, body.secret, body.overlap)
    except SettingError as error:
        raise RequestError(422, "webhook", error.expected, error.got, error.at) from None
    if found is None:
        raise _unknown(name)
    await note_change(request, "rotate webhook", name=name)
    until = webhook_shown(found, broker.clock()).old_secret_until
    return json_response(to_builtins(RotatedSecret(found.secret, until)))


async def replay(request: ApiRequest) -> Response:
    """Have deliveries sent again by their numbers."""
    name, caller, broker = request.name("name"), request.caller, request.broker
    body = await request.read(ReplayBody)
    queues, sessions = await broker.delivery.opened()

    def work() -> ReplayShown:
        _find(broker, caller, name)
        queue = _queue(sessions, caller.name, name)
        if queue is None:
            raise RequestError(409, "session", "a webhook to which something was delivered", "one without a queue")
        least, most = queues.oldest(queue), sessions.acknowledged(queue)
        begin, upto = whole(body.begin), whole(body.upto)
        if not least <= begin <= upto <= most:
            expected = f"numbers of deliveries that are kept and done with, {least} to {most}"
            raise RequestError(422, "webhook", expected, f"{begin} to {upto}", "from and to")
        try:
            asked = broker.webhooks.ask_replay(caller.name, name, queue.epoch, begin, upto)
        except TooManyWebhooks as error:
            raise RequestError(429, "quota", error.expected, error.got, error.at) from None
        return replay_shown(asked)

    return json_response(to_builtins(await request.in_thread(work)), 202)


def _queue(sessions: Sessions, principal: str, name: str) -> Queue | None:
    try:
        return sessions.queue(principal, destination_of({"webhook": name}))
    except SessionError:
        return None


async def dead(request: ApiRequest) -> Response:
    """What was given up."""
    name, caller, broker = request.name("name"), request.caller, request.broker
    after, limit = request.query["after"] or "0", request.query["limit"]
    if not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise RequestError(422, "parameter", "the next of the page before", shown(after), "after")

    def work() -> DeadPage:
        _find(broker, caller, name)
        found = broker.webhooks.dead.page(caller.name, name, int(after), limit + 1)
        following = str(found[limit - 1].upto) if len(found) > limit else None
        return DeadPage([dead_shown(one) for one in found[:limit]], following)

    return json_response(to_builtins(await request.in_thread(work)))


def _find(broker: OpenBroker, caller: Caller, name: str) -> Webhook:
    found = broker.webhooks.find(caller.name, name)
    if found is None:
        raise _unknown(name)
    return found


def _unknown(name: str) -> RequestError:
    return not_found("the name of a webhook", shown(name))


_JSON = "application/json"
_ONE = (BodyForm(_JSON, WebhookShown),)
_PLACE = "/v1/webhooks/{name}"

ROUTES = (
    Route(
        method="GET",
        path="/v1/webhooks",
        handler=listed,
        summary="The caller's webhooks, by name.",
        role="subscriber",
        query=(LIMIT, AFTER),
        answers={200: (BodyForm(_JSON, WebhookPage),)},
    ),
    Route(
        method="PUT",
        path=_PLACE,
        handler=put,
        summary="Make a webhook, or change it; its secret is told in the answer that makes it, this once.",
        role="subscriber",
        body=(BodyForm(_JSON, WebhookBody),),
        answers={201: _ONE, 200: _ONE},
        has_secret=True,
    ),
    Route(
        method="GET",
        path=_PLACE,
        handler=get,
        summary="A webhook and how it stands.",
        role="subscriber",
        answers={200: _ONE},
    ),
    Route(
        method="DELETE",
        path=_PLACE,
        handler=delete,
        summary="Remove a webhook to which no subscription delivers.",
        role="subscriber",
        answers={204: ()},
    ),
    Route(
        method="POST",
        path=f"{_PLACE}/verify",
        handler=verify,
        summary="Verify a webhook anew and now, whatever became of it.",
        role="subscriber",
        answers={202: _ONE},
    ),
    Route(
        method="POST",
        path=f"{_PLACE}/rotate",
        handler=rotate,
        summary="Give a webhook another secret, told in the answer; the one before signs as well for a while.",
        role="subscriber",
        body=(BodyForm(_JSON, RotationBody),),
        answers={200: (BodyForm(_JSON, RotatedSecret),)},
        has_secret=True,
    ),
    Route(
        method="POST",
        path=f"{_PLACE}/replay",
        handler=replay,
        summary="Send deliveries again, by their numbers.",
        role="subscriber",
        body=(BodyForm(_JSON, ReplayBody),),
        answers={202: (BodyForm(_JSON, ReplayShown),)},
    ),
    Route(
        method="GET",
        path=f"{_PLACE}/dead",
        handler=dead,
        summary="The deliveries that were given up, as ranges of numbers.",
        role="subscriber",
        query=(LIMIT, AFTER),
        answers={200: (BodyForm(_JSON, DeadPage),)},
    ),
)
