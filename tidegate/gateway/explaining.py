"""``POST /v1/explain``: why a subscription matches a publication, or does not.

The publication stands in the request, or is one of the log. One of the log that the caller may not read is answered as
one that there is not. Patterns are explained by what they would remember of the log before (``rehearsing``).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from anyio.to_thread import run_sync
from msgspec import Meta, to_builtins
from starlette.responses import Response

from tidegate.broker.read_filter import with_gaps
from tidegate.engine.explain import explain as explained
from tidegate.errors import shown
from tidegate.gateway.access import Caller
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.asked_subscriptions import AskedSubscription, asked_subscription
from tidegate.gateway.given_publications import made_publication
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.problems import RequestError, not_found
from tidegate.gateway.publication_bodies import PUBLICATION
from tidegate.gateway.rehearsing import computed, task_of, while_wanted
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.subscription_bodies import SubscriptionBody
from tidegate.model import Publication, micros, moment
from tidegate.overlay.messages import Publish
from tidegate.overlay.wire import encode
from tidegate.predicates import Filter
from tidegate.records.record import publication
from tidegate.records.row_objects import row_objects
from tidegate.store.log_rows import LogRows

__all__ = ["ROUTES", "Explained", "ExplanationBody", "NamedPublication", "explain"]

_HOUR, _SECOND = 3_600_000_000, 1_000_000
_LARGEST = 64 << 20


class NamedPublication(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A publication of the log: the latest phase of that source and id, if no phase is given."""

    source: str
    id: str
    phase: Literal["START", "INSTANT", "END"] | None = None


_Publication = Annotated[dict[str, Any], Meta(extra_json_schema=PUBLICATION)]


class ExplanationBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be explained: a subscription for one publication, given or named."""

    subscription: Annotated[str | SubscriptionBody, Meta(description="The id of one of the caller's, or one itself.")]
    publication: Annotated[_Publication | None, Meta(description="As it is published.")] = None
    named: NamedPublication | None = None
    hours: Annotated[float, Meta(gt=0, le=168, description="How much of the log before it patterns look at.")] = 1.0


class Explained(msgspec.Struct, kw_only=True):
    """Whether the subscription matches, and why."""

    matches: bool
    reasons: Annotated[list[str], Meta(description="What keeps it from matching, beside its expression.")]
    readable: Annotated[bool, Meta(description="Whether the caller may read the publication.")]
    explanation: Annotated[dict[str, Any], Meta(description="The parts of the expression, each with its verdict.")]


class _Found(NamedTuple):
    """The publication, when it came, and its row and version if it is in the log."""

    publication: Publication
    taken: int
    row: int | None = None
    version: int | None = None


async def explain(broker: OpenBroker, caller: Caller, body: ExplanationBody) -> Explained:
    """Explain a subscription for a publication."""
    given, named = body.publication, body.named

    def work() -> tuple[AskedSubscription, _Found]:
        asked = asked_subscription(broker, caller, body.subscription)
        if given is not None and named is None:
            return asked, _given(broker, given)
        if named is not None and given is None:
            return asked, _named(broker, asked, named)
        got = "neither" if named is None else "both"
        raise RequestError(422, "body", "either publication or named", got, "publication")

    asked, found = await run_sync(work, limiter=broker.threads)
    reasons = list(_reasons(broker, asked, found))
    tree = await _explanation(broker, caller, asked, found, round(body.hours * _HOUR))
    readable = asked.may_read(found.publication)
    if not readable:
        reasons.append("the publication may not be read")
    held = bool(tree["held"])
    return Explained(matches=held and not reasons, reasons=reasons, readable=readable, explanation=tree)


async def _explanation(
    broker: OpenBroker, caller: Caller, asked: AskedSubscription, found: _Found, before: int
) -> dict[str, Any]:
    """The verdicts; of a pattern as if the publication came next after what came in so many microseconds before."""

    def work() -> dict[str, Any] | None:
        if not isinstance(asked.compiled(), Filter):
            return None
        return explained(asked.expression, found.publication).to_json()

    tree = await run_sync(work, limiter=broker.threads)
    if tree is not None:
        return tree
    content = encode(Publish(found.publication), _LARGEST).decode()
    end = found.taken + 1
    task = task_of(broker, asked, end - before, end, explained=content, explained_row=found.row)
    state = await computed(broker, caller, task)
    if state.explanation is None:
        raise RequestError(503, "slow", "as much of the log as can be looked at in time: fewer hours", "more")
    return state.explanation


def _given(broker: OpenBroker, given: dict[str, Any]) -> _Found:
    now = broker.clock()
    missing = {"time": moment(now), "id": secrets.token_hex(8)}
    made = {name: one for name, one in missing.items() if given.get(name) is None}
    return _Found(made_publication({**given, **made}), now)


def _named(broker: OpenBroker, asked: AskedSubscription, named: NamedPublication) -> _Found:
    """A publication of the log that the subscriber may read."""
    rows = broker.log.standing_rows(named.source, named.id)
    with LogRows(broker.data.log, valid=broker.data.valid) as contents:
        for row in reversed(rows):
            for _, table in contents.tables([row]):
                (content,) = row_objects(table)
                found = publication(with_gaps(content), "")
                is_it = (found.source, found.id) == (named.source, named.id) and named.phase in (None, found.phase)
                if is_it and asked.may_read(found):
                    return _at(broker, row, found)
    at = f"{shown(named.id)} of source {shown(named.source)}"
    raise not_found("a publication of the log that counts and may be read", at)


def _at(broker: OpenBroker, row: int, found: Publication) -> _Found:
    if row < broker.log.begin:  # only the valid set has it still
        return _Found(found, micros(found.time))
    entry = broker.log.stamp(row)
    return _Found(found, entry.appended, row, entry.version)


def _reasons(broker: OpenBroker, asked: AskedSubscription, found: _Found) -> Iterator[str]:
    """Why the subscription does not match whatever it asks."""
    subscription, one = asked.meant, found.publication
    is_filter = isinstance(asked.compiled(), Filter)
    had_expired = one.valid_until is not None and micros(one.valid_until) <= found.taken
    if is_filter and had_expired and not subscription.expired:
        yield "the publication had expired when it came, and the subscription does not want what has expired"
    if broker.ahead is not None and micros(one.time) > found.taken + round(broker.ahead * _SECOND):
        yield "the publication is dated too far ahead"
    if asked.since is not None and found.version is not None and found.version < asked.since:
        yield "the publication came before the subscription was made" + (
            ", which is told of it as an initial match while it is valid" if subscription.initial else ""
        )


async def post(request: ApiRequest) -> Response:
    """Explain."""
    body = await request.read(ExplanationBody)
    found = await while_wanted(request, request.broker, explain(request.broker, request.caller, body))
    return json_response(to_builtins(found))


def _only(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": "object"}}}


#: What the schema of the class cannot say: one of the two, not both.
_BODY = Annotated[ExplanationBody, Meta(extra_json_schema={"oneOf": [_only("publication"), _only("named")]})]
ROUTES = (
    Route(
        method="POST",
        path="/v1/explain",
        handler=post,
        summary="Why a subscription matches a publication, given or of the log, or does not.",
        role="subscriber",
        body=(BodyForm("application/json", _BODY),),
        answers={200: (BodyForm("application/json", Explained),)},
        is_long=True,
    ),
)
