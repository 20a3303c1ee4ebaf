"""A subscription as the registry stores it: its fields, and the versions between which it was active."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tidegate.delivery_options import STREAM, Fields, deliver_of
from tidegate.errors import StoreError, shown
from tidegate.index.catalogue import restored, stored
from tidegate.language import from_json, parse
from tidegate.language.limits import NO_LIMITS
from tidegate.language.tree import Node
from tidegate.model import Subscription
from tidegate.patterns import Pattern
from tidegate.predicates.filter import Filter
from tidegate.principal_names import registered_id
from tidegate.subscriptions import compile_subscription

__all__ = ["StoredSubscription", "as_condition"]


@lru_cache(maxsize=1024)
def as_condition(read: str) -> Node:
    """The tree of a ``read`` as it is stored."""
    where = restored(read)
    return parse(where, NO_LIMITS) if isinstance(where, str) else from_json(where, NO_LIMITS)


class StoredSubscription(NamedTuple):
    """Made at version ``since``, ended at ``until`` if it has; ``where`` is CQL2 text or the text of CQL2-JSON.

    ``where`` is what is matched. If the subscription was written with terms of an ontology, ``where`` is expanded and
    ``asked`` is the expression as it was given. ``destination`` is the text of ``deliver``.
    ``id`` is that of the subscriber, beside which another may have the same if they are ``registered``. ``read`` is the
    filter of what the subscriber may read, which is ANDed to ``where``.
    """

    since: int
    until: int | None
    id: str
    subscriber: str
    where: str
    active_from: datetime | None
    active_until: datetime | None
    asked: str | None = None
    initial: bool = False
    fields: Fields = "all"
    expired: bool = False
    destination: str = STREAM
    registered: bool = False
    origin: int | None = None
    read: str | None = None

    @staticmethod
    def of(subscription: Subscription, since: int, registered: bool = False) -> StoredSubscription:
        """The row of a subscription that is made now, in a list or in a registry."""
        s = subscription
        return StoredSubscription(
            *(since, None, s.id, s.subscriber, stored(s.where), s.active_from, s.active_until),
            *(None, s.initial, s.fields, s.expired, s.destination, registered),
        )

    @property
    def first(self) -> int:
        """The version at which it was made first: it may be made anew, by another ``read`` or another ontology."""
        return self.since if self.origin is None else self.origin

    @property
    def index_id(self) -> str:
        """What indexes and notifications call it: of a registry ``subscriber/id``, of a list its id."""
        return registered_id(self.subscriber, self.id) if self.registered else self.id

    @property
    def subscription(self) -> Subscription:
        """The subscription, as it was given."""
        return self._of(self.where if self.asked is None else self.asked)

    @property
    def meant(self) -> Subscription:
        """The subscription with ``where``, which needs no ontology."""
        return self._of(self.where)

    @property
    def condition(self) -> Node | None:
        """The condition of what the subscriber may read; None for everything."""
        return None if self.read is None else as_condition(self.read)

    def compiled(self) -> Filter | Pattern:
        """What is matched: the filter or pattern of what it means, of what its subscriber may read."""
        return compile_subscription(self.meant, NO_LIMITS, self.condition)

    def _of(self, where: str) -> Subscription:
        try:
            expression = restored(where)
        except ValueError as wrong:
            raise StoreError("an expression as it was stored", f"{shown(where)}, where {wrong}", self.id) from None
        names, times = (self.id, self.subscriber), (self.active_from, self.active_until)
        deliver = deliver_of(self.destination)
        return Subscription(*names, expression, *times, self.initial, self.fields, self.expired, deliver)
