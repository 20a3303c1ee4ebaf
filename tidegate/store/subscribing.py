"""What ``Registry.subscribe`` checks before its transaction, and the texts that it stores of each expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.errors import SubscriptionError, TidegateError, shown
from tidegate.index.catalogue import stored
from tidegate.language import Limits
from tidegate.model import NAME_LENGTH, Subscription
from tidegate.principal_names import EXPECTED, is_principal_name
from tidegate.subscriptions import compile_subscription
from tidegate.subscriptions.doubts import warn
from tidegate.subscriptions.expansion import self_contained

__all__ = ["expressions", "one_by_one"]


def one_by_one(given: Iterable[Subscription | Iterable[Subscription]]) -> list[Subscription]:
    """All that is given, as one list."""
    found: list[Subscription] = []
    for one in given:
        if isinstance(one, Iterable) and not isinstance(one, str | bytes | Mapping):
            found += one
        else:
            found.append(one)  # type: ignore[arg-type]  # what is no subscription is refused by ``expressions``
    return found


def expressions(subscriptions: Sequence[Subscription], limits: Limits) -> list[tuple[str, str | None]]:
    """Each expression as it is stored and, where an ontology has expanded it, as it was asked; or an error."""
    ids, found = set[str](), list[tuple[str, str | None]]()
    for subscription in subscriptions:
        _check_names(subscription)
        try:
            warn(subscription, compile_subscription(subscription, limits), limits)
        except TidegateError as error:
            name = shown(subscription.id)
            error.at = f"{error.at} of subscription {name}" if error.at else name
            raise
        name = subscription.registered_id
        if name in ids:
            raise SubscriptionError("each id once", f"{shown(name)} twice")
        ids.add(name)
        meant, asked = self_contained(subscription, limits)
        found.append((stored(meant), None if asked is None else stored(asked)))
        texts = (subscription.id, *found[-1], subscription.destination)
        for text in texts:  # fields are JSON, which writes NUL in other characters
            if text is not None and "\0" in text:  # PostgreSQL takes no text with NUL
                raise SubscriptionError("text without the character NUL", shown(text), shown(subscription.id))
    return found


def _check_names(subscription: object) -> None:
    if not isinstance(subscription, Subscription):
        raise SubscriptionError("a Subscription", shown(subscription))
    at = f"subscription {shown(subscription.id)}"
    if not is_principal_name(subscription.subscriber):
        raise SubscriptionError(f"{EXPECTED}, as the subscriber", shown(subscription.subscriber), at)
    if (length := len(subscription.registered_id)) > NAME_LENGTH:
        raise SubscriptionError(f"at most {NAME_LENGTH} characters as subscriber/id", f"{length}", at)
