"""What is to be said of a subscription before it is made: its mistakes with their places, doubts whether it is meant as
it is written, and the same expression in the other forms. Looks at no publication and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from anyio.to_thread import run_sync
from msgspec import Meta, to_builtins
from starlette.responses import Response

from tidegate.covering import is_never
from tidegate.delivery_options import Deliver
from tidegate.errors import TidegateError
from tidegate.gateway.access import Caller
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.routes import BodyForm, Route
from tidegate.gateway.subscription_bodies import SubscriptionBody, subscription_of
from tidegate.gateway.webhooks import expect_deliverable
from tidegate.language import DEFAULT_LIMITS, Attribute, Call, to_json, to_text, walk
from tidegate.model import RESERVED, Subscription
from tidegate.patterns import Pattern
from tidegate.predicates import Filter
from tidegate.store.subscribing import checked
from tidegate.subscriptions import compile_subscription, expression_of
from tidegate.subscriptions.doubts import is_contradictory

__all__ = ["ROUTES", "CheckedSubscription", "check"]


#: What a subscription is called that has no id yet; no place of a mistake.
_ID = "checked"


class CheckedBody(SubscriptionBody, kw_only=True):
    """As the body of a subscription; a time that is none is a mistake that is answered."""

    active_from: str | None = None
    active_until: str | None = None


class Mistake(msgspec.Struct, omit_defaults=True):
    """Why the subscription cannot be taken, and where."""

    code: str
    detail: str
    expected: str
    got: str
    at: str = ""
    caret: str = ""


class CheckedSubscription(msgspec.Struct, kw_only=True):
    """What is to be said of a subscription. Without mistakes, all of it; with some, no forms."""

    mistakes: list[Mistake]
    warnings: list[str] = []
    kind: Annotated[str | None, Meta(description="`filter`, or the name of the pattern.")] = None
    text: Annotated[str | None, Meta(description="The expression as CQL2 text, in its normal form.")] = None
    json: Annotated[Any, Meta(description="The expression as CQL2-JSON.")] = None
    attributes: list[str] = []
    fields: Annotated[list[str], Meta(description="The fields of a publication that it asks about.")] = []
    functions: Annotated[list[str], Meta(description="Its operators, functions and patterns.")] = []


async def check(broker: OpenBroker, caller: Caller, body: SubscriptionBody) -> CheckedSubscription:
    """Check a subscription as if the caller made it."""
    deliverable = partial(expect_deliverable, broker, caller.name)
    return await run_sync(_checked, caller.name, body, deliverable, limiter=broker.threads)


def _checked(
    principal: str, body: SubscriptionBody, expect_delivery: Callable[[Deliver], None] | None = None
) -> CheckedSubscription:
    try:
        subscription = subscription_of(principal, _ID, body)
        if expect_delivery is not None:
            expect_delivery(subscription.deliver)
        doubts = list(checked(subscription, DEFAULT_LIMITS).doubts)
        found = compile_subscription(subscription, DEFAULT_LIMITS)
    except TidegateError as error:
        caret = getattr(error, "caret", "")
        error.at = "" if error.at == f"subscription {_ID!r}" else error.at
        mistake = Mistake(error.code, str(error), error.expected, error.got, error.at, caret)
        return CheckedSubscription(mistakes=[mistake])
    if not is_contradictory(found) and is_never(found):
        doubts.append("can never match")
    return _described(subscription, found, doubts)


def _described(subscription: Subscription, found: Filter | Pattern, doubts: list[str]) -> CheckedSubscription:
    node = expression_of(subscription, DEFAULT_LIMITS)
    names = {part.name for part in walk(node) if isinstance(part, Attribute)}
    return CheckedSubscription(
        mistakes=[],
        warnings=doubts,
        kind=found.family if isinstance(found, Pattern) else "filter",
        text=to_text(node),
        json=to_json(node),
        attributes=sorted(name for name in names if name not in RESERVED),
        fields=sorted(names & RESERVED.keys()),
        functions=sorted({part.op for part in walk(node) if isinstance(part, Call)}),
    )


async def post(request: ApiRequest) -> Response:
    """Check a subscription."""
    found = await check(request.broker, request.caller, await request.read(CheckedBody))
    return json_response(to_builtins(found))


ROUTES = (
    Route(
        method="POST",
        path="/v1/check",
        handler=post,
        summary="What is wrong with a subscription, or doubtful, and its expression in both forms.",
        role="subscriber",
        body=(BodyForm("application/json", CheckedBody),),
        answers={200: (BodyForm("application/json", CheckedSubscription),)},
    ),
)
