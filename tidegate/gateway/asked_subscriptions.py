"""The subscription that a request asks about: one of the caller's, by its id, or one that stands in the request.

What the caller may read is bound to it either way, as it is to what the caller subscribes to.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidegate.gateway.access import Caller
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.subscribing import stored
from tidegate.gateway.subscription_bodies import SubscriptionBody, subscription_of
from tidegate.language import DEFAULT_LIMITS, Node, to_json
from tidegate.language.limits import NO_LIMITS
from tidegate.model import Publication, Subscription
from tidegate.patterns import Pattern
from tidegate.predicates import Filter, compile_filter
from tidegate.store.stored_subscription import StoredSubscription, as_condition
from tidegate.store.subscribing import checked
from tidegate.subscriptions import bounded_expression, compile_subscription, expression_of
from tidegate.subscriptions.readable import readable

__all__ = ["AskedSubscription", "asked_subscription"]


class AskedSubscription(NamedTuple):
    """A subscription as it is matched, and the condition of what its subscriber may read; None for everything."""

    meant: Subscription
    read: Node | None
    since: int | None
    """The version at which it was made; None for one that stands in the request."""

    @property
    def expression(self) -> Node:
        """Its expression within its time of activity, without what may be read."""
        return bounded_expression(self.meant, NO_LIMITS)

    @property
    def bound(self) -> Any:
        """Its expression, asked of what may be read alone, as CQL2-JSON."""
        node = expression_of(self.meant, NO_LIMITS)
        return to_json(node if self.read is None else readable(node, self.read))

    def may_read(self, publication: Publication) -> bool:
        """Whether its subscriber may read a publication."""
        return self.read is None or compile_filter(self.read, limits=NO_LIMITS).holds(publication)

    def compiled(self) -> Filter | Pattern:
        """What it is without what may be read."""
        return compile_subscription(self.meant, NO_LIMITS)


def asked_subscription(broker: OpenBroker, caller: Caller, asked: str | SubscriptionBody) -> AskedSubscription:
    """The subscription that is asked about. Called in a thread."""
    if isinstance(asked, str):
        there = stored(broker, caller, asked)
        caller.expect_read(there.read)
        return AskedSubscription(there.meant, there.condition, there.since)
    subscription = subscription_of(caller.name, "subscription", asked)
    found = checked(subscription, DEFAULT_LIMITS)
    where = StoredSubscription.of(found.subscription, 0)._replace(where=found.texts[0])
    read = broker.principals.read_of(caller.name)
    caller.expect_read(read)
    return AskedSubscription(where.meant, None if read is None else as_condition(read), None)
