"""The section ``[webhooks]`` of a TOML file: where deliveries may be posted to, and how patiently that is tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.runs.toml_sections import KeyPosition, count, key, location, networks, number, texts, truth

__all__ = ["WebhooksSection"]

_KIB, _DAY, _LAST_PORT = 1 << 10, 86_400.0, 65_535


def _ports(value: Any, at: KeyPosition) -> tuple[str, ...]:
    """Ports and ranges of ports, as texts."""
    found = texts(value, at)
    for place, one in enumerate(found):
        ends = one.split("-")
        is_right = len(ends) <= 2 and all(end.isascii() and end.isdecimal() for end in ends)
        if not is_right or not 1 <= int(ends[0]) <= int(ends[-1]) <= _LAST_PORT:
            raise at.key(str(place)).wrong('a port, or ports such as "1024-65535"', one)
    return found


@dataclass(frozen=True)
class WebhooksSection:
    """To whom and how deliveries are posted. Sizes are in bytes, times in seconds."""

    allow: tuple[str, ...] = key(networks, ())
    http: bool = key(truth, False)
    ports: tuple[str, ...] = key(_ports, ("80", "443", "1024-65535"))
    authorities: str | None = key(location, None)
    endpoints: int = key(count, 100)
    connect_seconds: float = key(number, 5.0)
    answer_seconds: float = key(number, 15.0)
    retry_first: float = key(number, 2.0)
    retry_longest: float = key(number, 3_600.0)
    failing_after: int = key(count, 5)
    give_up_seconds: float = key(number, 3 * _DAY)
    posts: int = key(count, 256)
    slow_posts: int = key(count, 256)
    failing_posts: int = key(count, 64)
    page: int = key(count, 256 * _KIB)
