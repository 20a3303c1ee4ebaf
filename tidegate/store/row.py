"""A subscription as it is stored: its fields, and the versions between which it was active."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tidegate.index.catalogue import restored, stored
from tidegate.model import Subscription

__all__ = ["Row"]


class Row(NamedTuple):
    """Made at version ``since``, ended at ``until`` if it has; ``where`` is CQL2 text or the text of CQL2-JSON."""

    since: int
    until: int | None
    id: str
    subscriber: str
    where: str
    active_from: datetime | None
    active_until: datetime | None

    @staticmethod
    def of(subscription: Subscription, since: int) -> Row:
        """The row of a subscription that is made now."""
        s = subscription
        return Row(since, None, s.id, s.subscriber, stored(s.where), s.active_from, s.active_until)

    @property
    def subscription(self) -> Subscription:
        """The subscription, as it was given."""
        return Subscription(self.id, self.subscriber, restored(self.where), self.active_from, self.active_until)
