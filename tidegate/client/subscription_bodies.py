"""Subscriptions as the bodies of requests: one, or many as lines of JSON. What they mean is the broker's to judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from tidegate.client.publication_json import stamp
from tidegate.errors import SettingError, SubscriptionError, shown
from tidegate.model import Subscription, zoned

__all__ = ["json_body", "subscription_bodies", "subscription_body"]

_OPTIONS = ("where", "active_from", "active_until", "initial", "fields", "expired", "deliver")
_TIMES = ("active_from", "active_until")
#: Lines and bytes of one body at most.
_LINES, _BYTES = 10_000, 1 << 23


def subscription_body(options: Mapping[str, Any], at: str) -> dict[str, Any]:
    """What a request says of a subscription."""
    body = {name: value for name, value in options.items() if value is not None}
    for name in _TIMES:
        if name in body:
            body[name] = stamp(zoned(body[name], name, at, SubscriptionError))
    return body


def subscription_bodies(given: Iterable[Subscription | Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Bodies with a line for each subscription, and the number of the first in each. Who subscribes is not said."""
    first, lines, size = 0, list[bytes](), 0
    for number, one in enumerate(given):
        line = json_body(_line(one, f"subscription {number}"))
        if lines and (len(lines) == _LINES or size + len(line) > _BYTES):
            yield first, b"\n".join(lines)
            first, lines, size = number, [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield first, b"\n".join(lines)


def _line(one: Subscription | Mapping[str, Any], at: str) -> dict[str, Any]:
    if isinstance(one, Subscription):
        one = {name: getattr(one, name) for name in ("id", *_OPTIONS)}
    elif not isinstance(one, Mapping):
        raise SubscriptionError("a subscription or a dict", shown(one), at)
    return subscription_body({name: value for name, value in one.items() if name != "subscriber"}, at)


def json_body(body: object) -> bytes:
    """A value as JSON."""
    try:
        return orjson.dumps(body, default=_json)
    except (TypeError, ValueError) as wrong:
        raise SettingError("values that JSON has", str(wrong)) from None


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no type of JSON")
