"""Windows as patterns write them: a duration in ISO 8601, or a number of publications."""

from __future__ import annotations

from tidegate.errors import ParseError
from tidegate.language import duration
from tidegate.language.limits import Limits
from tidegate.language.render import to_text
from tidegate.language.tree import Literal, Node
from tidegate.predicates.family import BeyondLimit, Mismatch

__all__ = ["span", "whole"]

_SECOND = 1_000_000


def span(node: Node, of: str, limits: Limits) -> int:
    """Microseconds of a window of time."""
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        raise Mismatch(f"a duration such as 'PT5M' as window of {of}", to_text(node), node)
    try:
        micros = duration(node.value)
    except ParseError as error:
        raise Mismatch(f"{error.expected} as window of {of}", error.got, node) from None
    if micros <= 0:
        raise Mismatch(f"a window of {of} that is longer than nothing", to_text(node), node)
    if micros > limits.window * _SECOND:
        raise BeyondLimit(f"a window of at most {limits.window} seconds (setting window)", to_text(node), node)
    return micros


def whole(node: Node, what: str, most: int, setting: str) -> int:
    """A whole number from 1 to what a setting allows."""
    value = node.value if isinstance(node, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 1:
        raise Mismatch(f"a whole number above 0 as {what}", to_text(node), node)
    if value > most:
        raise BeyondLimit(f"at most {most} as {what} (setting {setting})", to_text(node), node)
    return int(value)
