"""The JSON of subscriptions: what a client sends of one, what it gets of one, and the ETag that tells them apart.

Knows nothing of requests and of the registry but what a stored subscription is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from tidegate.delivery_options import STREAM, deliver_of
from tidegate.errors import SubscriptionError, shown
from tidegate.index.catalogue import restored
from tidegate.model import Subscription, moment
from tidegate.store.costs import Cost
from tidegate.store.stored_subscription import StoredSubscription

__all__ = [
    "Expression",
    "KeptSubscription",
    "Subscribed",
    "SubscriptionBody",
    "etag_of",
    "kept",
    "shown_cost",
    "subscription_of",
]

_IDS = (".", "..")
_MQTT = "mqtt"

#: A time in RFC 3339 with an offset.
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
#: CQL2 text, CQL2-JSON, or a truth value.
Expression = Annotated[str, Meta(extra_json_schema={"format": "cql2-text"})] | dict[str, Any] | bool


class Webhook(msgspec.Struct, forbid_unknown_fields=True):
    """The endpoint that deliveries are sent to."""

    webhook: str


class SubscriptionBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is asked, and how its subscriber is told of it."""

    where: Annotated[Expression, Meta(description="CQL2 text, CQL2-JSON, or a truth value.")]
    active_from: Time | None = None
    active_until: Time | None = None
    initial: bool = False
    fields: Literal["all", "none"] | list[str] = "all"
    expired: bool = False
    deliver: Literal["stream", "mqtt"] | Webhook = STREAM


class SubscriptionCost(msgspec.Struct):
    """The processor time that a subscription takes, in microseconds per publication."""

    microseconds: float
    measured_at: Time


class KeptSubscription(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A subscription as the broker keeps it."""

    id: str
    where: Expression
    active_from: Time | None
    active_until: Time | None
    initial: bool
    fields: Literal["all", "none"] | list[str]
    expired: bool
    deliver: Literal["stream", "mqtt"] | dict[str, str]
    etag: str
    warnings: list[str] | UnsetType = UNSET
    """Doubts whether it is meant as it is written; told when it is put."""
    cost: SubscriptionCost | UnsetType | None = UNSET
    """What it takes, told when it is asked for; null while it is not measured."""


class Subscribed(NamedTuple):
    """That a subscription was put: whether there was none of its id before, its ETag, and its JSON."""

    created: bool
    replaced: bool
    etag: str
    subscription: KeptSubscription


def subscription_of(principal: str, id: str, body: SubscriptionBody) -> Subscription:
    """The subscription that a body asks for; or an error. Whether it can be delivered is looked at elsewhere."""
    if id in _IDS:
        raise SubscriptionError("an id other than . and .., which no address can have", shown(id))
    deliver = body.deliver if isinstance(body.deliver, str) else {"webhook": body.deliver.webhook}
    times = body.active_from, body.active_until  # texts, which the model reads
    return Subscription(id, principal, body.where, *times, body.initial, body.fields, body.expired, deliver)  # type: ignore[arg-type]


def kept(stored: StoredSubscription, warnings: Sequence[str] | None = None) -> KeptSubscription:
    """The JSON of a subscription that is stored."""
    fields = stored.fields
    return KeptSubscription(
        id=stored.id,
        where=restored(stored.where if stored.asked is None else stored.asked),
        active_from=_text_or_none(stored.active_from),
        active_until=_text_or_none(stored.active_until),
        initial=stored.initial,
        fields=fields if fields == "all" or fields == "none" else list(fields),
        expired=stored.expired,
        deliver=deliver_of(stored.destination),
        etag=etag_of(stored),
        warnings=list(warnings) if warnings else UNSET,
    )


def shown_cost(cost: Cost | None) -> SubscriptionCost | None:
    """The JSON of what a subscription costs."""
    return None if cost is None else SubscriptionCost(cost.microseconds, _text(moment(cost.measured_at)))


def etag_of(stored: StoredSubscription) -> str:
    """A text that no other subscription had under this id: of its content, and of when it was made first, which stays
    when another ``read`` or ontology makes it anew.
    """
    options = stored.active_from, stored.active_until, stored.initial, stored.fields, stored.expired, stored.destination
    content = orjson.dumps([stored.first, stored.asked or stored.where, *options])
    return f'"{blake2b(content, digest_size=12).hexdigest()}"'


def _text_or_none(when: datetime | None) -> str | None:
    return None if when is None else _text(when)


def _text(when: datetime) -> str:
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")
