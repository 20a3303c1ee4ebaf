"""The time in which a subscription is active, as conditions on ``time`` that are added to its expression."""

from __future__ import annotations

from tidegate.language import Attribute, Call, Instant, Node, render_instant
from tidegate.model import Subscription, micros

__all__ = ["activity"]


def activity(subscription: Subscription) -> list[Node]:
    """``time >= active_from`` and ``time < active_until``, as far as the subscription has them."""
    bounds: list[Node] = []
    for op, when in ((">=", subscription.active_from), ("<", subscription.active_until)):
        if when is not None:
            at = micros(when)
            bounds.append(Call(op, (Attribute("time"), Instant(render_instant(at), at, False))))
    return bounds
