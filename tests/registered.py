"""An engine that is compared with a run needs the ids that the run's registry gives to subscriptions."""

from __future__ import annotations

from dataclasses import replace

import tidegate as tg

__all__ = ["registered"]


def registered(subscription: tg.Subscription) -> tg.Subscription:
    """The same subscription under the id that a registry gives it: notifications have equal ids then."""
    return replace(subscription, id=subscription.registered_id)
