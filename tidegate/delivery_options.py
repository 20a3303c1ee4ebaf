"""How a subscription wants to be told: which attributes of a publication, and where to.

``Subscription`` checks its options with these functions. A destination has a text of its own, ``stream``, ``mqtt`` or
``webhook:NAME``, which names the queue; the registry stores it. Knows nothing of queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tidegate.errors import SubscriptionError, shown

__all__ = ["STREAM", "Deliver", "Fields", "checked_deliver", "checked_fields", "deliver_of", "destination_of"]

#: All attributes, none of them, or those of these names.
Fields = Literal["all", "none"] | Sequence[str]
#: The queue that applications read, MQTT, or ``{"webhook": name}``.
Deliver = Literal["stream", "mqtt"] | Mapping[str, str]

STREAM: Literal["stream"] = "stream"
_WORDS = (STREAM, "mqtt")
_WEBHOOK = "webhook"
#: Characters of the name of a field or a webhook, and how many fields there may be.
_NAME_LENGTH, _MOST_FIELDS = 1024, 1024


def checked_fields(fields: object, at: str) -> Fields:
    """The fields as a subscription keeps them: a word, or a tuple that names each once. No names are ``none``."""
    if isinstance(fields, str) and fields in ("all", "none"):
        return fields
    if not isinstance(fields, list | tuple):
        raise SubscriptionError("all, none or a list of names as fields", shown(fields), at)
    if len(fields) > _MOST_FIELDS:
        raise SubscriptionError(f"at most {_MOST_FIELDS} names as fields", f"{len(fields)}", at)
    for name in fields:
        _check_name(name, "a name of fields", at)
    return tuple(dict.fromkeys(fields)) or "none"


def checked_deliver(deliver: object, at: str) -> Deliver:
    """The choice as a subscription keeps it: a word, or a dict with the name of a webhook."""
    if isinstance(deliver, str) and deliver in _WORDS:
        return deliver  # type: ignore[return-value]  # one of the two words
    if not isinstance(deliver, Mapping) or list(deliver) != [_WEBHOOK]:
        raise SubscriptionError('stream, mqtt or {"webhook": NAME} as deliver', shown(deliver), at)
    _check_name(deliver[_WEBHOOK], "the name of a webhook", at)
    return {_WEBHOOK: deliver[_WEBHOOK]}


def destination_of(deliver: Deliver) -> str:
    """The text of a choice: ``stream``, ``mqtt`` or ``webhook:NAME``."""
    return deliver if isinstance(deliver, str) else f"{_WEBHOOK}:{deliver[_WEBHOOK]}"


def deliver_of(destination: str) -> Any:
    """The choice that a text stands for; a text that stands for none comes back, for ``checked_deliver`` to refuse."""
    if destination in _WORDS:
        return destination
    kind, colon, name = destination.partition(":")
    return {_WEBHOOK: name} if kind == _WEBHOOK and colon else destination


def _check_name(name: object, what: str, at: str) -> None:
    if not isinstance(name, str) or not name:
        raise SubscriptionError(f"a non-empty string as {what}", shown(name), at)
    if len(name) > _NAME_LENGTH:
        raise SubscriptionError(f"at most {_NAME_LENGTH} characters as {what}", f"{len(name)}", at)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SubscriptionError(f"Unicode text as {what}", f"{shown(name)} with a lone surrogate", at) from None
