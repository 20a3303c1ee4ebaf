"""Publishing and unpublishing: what both HTTP and WebSocket do with what a publisher sends.

``publish`` says of each item what became of it once all of them are durable. Knows the forms of bodies only where a
request of HTTP is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from anyio.to_thread import run_sync
from starlette.responses import Response

from tidegate.errors import shown
from tidegate.gateway.access import Caller
from tidegate.gateway.api_request import ApiRequest
from tidegate.gateway.problems import RequestError, not_found
from tidegate.gateway.publication_bodies import FORMS, items_of
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.submission import Published, Refused, Submission
from tidegate.gateway.submission_groups import check_large

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["ROUTES", "Published", "Refused", "publish", "unpublish"]

_SECOND = 1_000_000
#: Items of a request that are not looked at in the thread that appends for all.
_MANY = 1000
_QUOTA = "publications_per_second"
_NONE: Mapping[str, str] = {}


async def publish(
    broker: OpenBroker, caller: Caller, given: Sequence[Any], headers: Mapping[str, str] = _NONE
) -> Published:
    """Publish decoded objects, and say what became of each once all are durable. ``headers`` may name a trace."""
    if broker.traces is None:
        return await _publish(broker, caller, given)
    with broker.traces.publishing(headers, len(given)) as span:
        found = await _publish(broker, caller, span.carried(given))
        span.note(found)
        return found


async def _publish(broker: OpenBroker, caller: Caller, given: Sequence[Any]) -> Published:
    _expect_room(broker, caller, len(given))
    now, ahead = broker.clock(), broker.ahead
    most_valid = caller.quotas.get("valid_set")
    validity = None
    if most_valid is not None and broker.log.limits is not None:
        validity = broker.valid_quotas.limits(caller.name, most_valid, broker.log.limits, now)
    submission = Submission(
        given,
        now=now,
        latest=None if ahead is None else now + round(ahead * _SECOND),
        covers=None if caller.holder.token.sources is None else caller.may_publish_as,
        limits=validity or broker.log.limits,
        known=broker.log.has,
    )
    accepted = 0
    try:
        if len(given) > _MANY or validity is not None:  # what is counted is looked at before it is appended
            await run_sync(check_large, submission, limiter=broker.threads)
        found = await broker.appender.append(submission)
        accepted = found.accepted
    finally:
        if validity is not None:
            broker.valid_quotas.note(caller.name, validity, accepted)
    counts = broker.counts
    counts.add("published", "accepted", found.accepted)
    if found.duplicates:
        counts.add("published", "duplicate", found.duplicates)
    for one in found.refused:
        counts.add("refused", one.code)
    return found


def _expect_room(broker: OpenBroker, caller: Caller, count: int) -> None:
    """Refuse as a whole what is too much: for one request, for the caller's quota, or for the disk."""
    most = broker.limits.max_publications
    if count > most:
        broker.counts.add("refused", "too_large", count)
        raise RequestError(413, "too_large", f"at most {most:,} publications at once", f"{count:,}")
    if broker.free_room.is_full():
        broker.counts.add("refused", "full", count)
        broker.free_room.expect()
    rate = caller.quotas.get(_QUOTA)
    if rate is not None and (wait := _wait(broker, caller, rate, count)) > 0:
        broker.counts.add("refused", "rate", count)
        headers = {"Retry-After": str(max(1, round(wait)))}
        raise RequestError(429, "rate", f"at most {rate:,g} publications a second", "more", headers=headers)


def _wait(broker: OpenBroker, caller: Caller, rate: float, count: int) -> float:
    return broker.rates.take(f"publications of {caller.name}", rate, count) if rate > 0 else 1.0


async def unpublish(broker: OpenBroker, caller: Caller, source: str, id: str) -> None:
    """Withdraw all phases of a publication; return once that is durable."""
    if not caller.may_publish_as(source):
        broker.counts.add("refused", "source")
        raise RequestError(403, "source", "a source that the token may publish as", shown(source))
    _expect_room(broker, caller, 1)
    [was_there] = await run_sync(broker.log.unpublish, [(source, id)], limiter=broker.threads)
    if not was_there:
        raise not_found("a publication that counts and was not unpublished", f"{shown(id)} of source {shown(source)}")
    broker.counts.add("published", "unpublished")


async def _post(request: ApiRequest) -> Response:
    items = await items_of(request)
    found = await publish(request.broker, request.caller, items, request.headers)
    status = 422 if found.refused and not (found.accepted or found.duplicates) else 202
    return Response(msgspec.json.encode(found), status, media_type="application/json")


async def _delete(request: ApiRequest) -> Response:
    await unpublish(request.broker, request.caller, request.name("source"), request.name("id"))
    return Response(status_code=204)


_PUBLISHED = (BodyForm("application/json", Published),)
ROUTES = (
    Route(
        method="POST",
        path="/v1/publications",
        handler=_post,
        summary="Publish one or many; answered once they are durable.",
        role="publisher",
        body=FORMS,
        answers={202: _PUBLISHED, 422: _PUBLISHED},
    ),
    Route(
        method="DELETE",
        path="/v1/publications/{source}/{id}",
        handler=_delete,
        summary="Unpublish: all phases of an id.",
        role="publisher",
        answers={204: ()},
        ids_in_query=True,
    ),
)
