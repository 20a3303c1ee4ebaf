"""Taking, showing and ending subscriptions, for all transports.

What a caller puts under an id is compared with what is there in one transaction of the registry; the subscription then
applies to every publication whose publish begins later, as the log reads the registry's version for each write. Knows
neither HTTP nor WebSocket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from tidegate.errors import TidegateError, UnknownSubscription, shown
from tidegate.gateway.access import Caller
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.preconditions import EntityTags
from tidegate.gateway.problems import RequestError
from tidegate.gateway.subscription_bodies import (
    KeptSubscription,
    Subscribed,
    SubscriptionBody,
    etag_of,
    kept,
    shown_cost,
    subscription_of,
)
from tidegate.gateway.webhooks import expect_deliverable
from tidegate.language import DEFAULT_LIMITS
from tidegate.principal_names import registered_id
from tidegate.store.replacing import Outcome, Put, Wanted
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.store.subscribing import Checked, checked

__all__ = [
    "Subscribed",
    "SubscriptionBody",
    "expectation",
    "put_all",
    "refusal",
    "stored",
    "subscribe",
    "subscription_named",
    "subscription_page",
    "threads_of",
    "unsubscribe",
]

T = TypeVar("T")
Expectation = Callable[[StoredSubscription | None], bool]


async def subscribe(
    broker: OpenBroker,
    caller: Caller,
    id: str,
    body: SubscriptionBody,
    if_match: str | None = None,
    if_none_match: str | None = None,
) -> Subscribed:
    """Take a subscription of the caller, and return once it applies to every publication that comes later."""
    expected = expectation(if_match, if_none_match)

    def work() -> tuple[Checked, Put | RequestError]:
        wanted = subscription_of(caller.name, id, body)
        expect_deliverable(broker, caller.name, wanted.deliver)
        found = checked(wanted, DEFAULT_LIMITS)
        (made,) = put_all(broker, caller, [Wanted(found, expected)])
        return found, made

    try:
        found, made = await run_sync(work, limiter=threads_of(broker, caller))
        if (refused := refusal(caller, id, made)) is not None:
            raise refused
    except TidegateError as error:
        broker.counts.add("subscriptions_refused", error.code)
        raise
    assert isinstance(made, Put), "what was not refused"
    assert made.stored is not None, "a subscription that was put"
    broker.counts.add("subscriptions", made.outcome)
    is_new, is_other = made.outcome is Outcome.MADE, made.outcome is Outcome.REPLACED
    return Subscribed(is_new, is_other, etag_of(made.stored), kept(made.stored, found.doubts))


def put_all(broker: OpenBroker, caller: Caller, wanted: Sequence[Wanted]) -> list[Put | RequestError]:
    """Put subscriptions of the caller, within its quotas, as one change of the registry. Called in a thread."""
    if "cost" in caller.quotas:
        return broker.cost_quota.put(caller, wanted)
    return list(broker.registry.put(caller.name, wanted, caller.quotas.get("subscriptions")))


def threads_of(broker: OpenBroker, caller: Caller) -> CapacityLimiter:
    """The threads in which subscriptions of the caller are put."""
    return broker.cost_quota.threads if "cost" in caller.quotas else broker.threads


def expectation(if_match: str | None, if_none_match: str | None = None) -> Expectation | None:
    """What must be there for a subscription to be put; None if only nothing else may be."""
    if if_match is None and if_none_match is None:
        return None
    match = None if if_match is None else EntityTags(if_match, "If-Match")
    none_match = None if if_none_match is None else EntityTags(if_none_match, "If-None-Match")

    def expected(there: StoredSubscription | None) -> bool:
        etag = None if there is None else etag_of(there)
        return (match is None or match.has(etag)) and (none_match is None or not none_match.has_weakly(etag))

    return expected


def refusal(caller: Caller, id: str, put: Put | RequestError) -> RequestError | None:
    """Why nothing became of what was put, if nothing did. Has the ETag of what is there."""
    if isinstance(put, RequestError):
        return put
    headers = {} if put.stored is None else {"ETag": etag_of(put.stored)}
    there = f"subscription {shown(id)}"
    match put.outcome:
        case Outcome.CONFLICT:
            expected = "the subscription that is there, or If-Match with its ETag to replace it"
            return RequestError(409, "conflict", expected, "another of this id", there, headers=headers)
        case Outcome.STALE:
            return _stale(put.stored, id)
        case Outcome.BEYOND_QUOTA:
            most = caller.quotas["subscriptions"]
            return RequestError(429, "quota", f"at most {most:,g} subscriptions of {caller.name}", "one more", there)
    return None


def _stale(there: StoredSubscription | None, id: str) -> RequestError:
    headers = {} if there is None else {"ETag": etag_of(there)}
    got = "none of this id" if there is None else f"one with the ETag {headers['ETag']}"
    expected = "a subscription as If-Match or If-None-Match says"
    return RequestError(412, "stale", expected, got, f"subscription {shown(id)}", headers=headers)


def _unknown(id: str) -> UnknownSubscription:
    """It is called as the caller does, who knows nothing of the registry's names."""
    return UnknownSubscription("the id of a subscription", shown(id))


async def unsubscribe(broker: OpenBroker, caller: Caller, id: str, if_match: str | None = None) -> None:
    """End a subscription of the caller; one of an ETag that ``if_match`` names, if it is given."""
    tags = None if if_match is None else EntityTags(if_match, "If-Match")
    ended = list[int]()

    def check(there: StoredSubscription) -> None:
        ended.append(there.since)
        if tags is not None and not tags.has(etag_of(there)):
            raise _stale(there, id)

    def work() -> None:
        try:
            broker.registry.unsubscribe(registered_id(caller.name, id), check=check)
        except UnknownSubscription:
            raise _unknown(id) from None
        if "cost" in caller.quotas:
            broker.cost_quota.forget(ended)

    try:
        await run_sync(work, limiter=broker.threads)
    except TidegateError as error:
        broker.counts.add("subscriptions_refused", error.code)
        raise
    broker.counts.add("subscriptions", "ended")


def stored(broker: OpenBroker, caller: Caller, id: str) -> StoredSubscription:
    """The subscription that the caller calls so. Called in a thread."""
    try:
        return broker.registry.stored(registered_id(caller.name, id))
    except UnknownSubscription:
        raise _unknown(id) from None


async def subscription_named(broker: OpenBroker, caller: Caller, id: str) -> KeptSubscription:
    """The JSON of a subscription of the caller, with what it costs."""

    def work() -> KeptSubscription:
        there = stored(broker, caller, id)
        found = kept(there)
        found.cost = shown_cost(broker.costs.of(there.since))
        return found

    return await run_sync(work, limiter=broker.threads)


async def subscription_page(
    broker: OpenBroker, caller: Caller, after: str | None, limit: int
) -> tuple[list[KeptSubscription], str | None]:
    """Some of the caller's subscriptions in the order in which they were made, and behind what the next ones come."""
    if after is not None and not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise RequestError(422, "parameter", "the next of the page before", shown(after), "after")

    def work() -> tuple[list[KeptSubscription], str | None]:
        found = broker.registry.page(caller.name, int(after or 0), limit + 1)
        following = str(found[limit - 1].since) if len(found) > limit else None
        return [kept(one) for one in found[:limit]], following

    return await run_sync(work, limiter=broker.threads)
