"""Doubts about a subscription: that it can be taken, but can hardly be meant as it is written.

``warn`` is called when a subscription is made, by the engine, the registry and ``tg.match``, and not when one is loaded
from where it is kept; a gateway, which answers with them, calls ``doubts``. Both look for the commonest mistakes only
and take a microsecond for a subscription without one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

from tidegate.errors import SubscriptionWarning, shown
from tidegate.language.limits import Limits
from tidegate.language.tree import Attribute, Call, walk
from tidegate.language.words import is_name
from tidegate.model import Subscription
from tidegate.patterns import Pattern
from tidegate.predicates.filter import Filter
from tidegate.predicates.predicate import Clause, Within
from tidegate.subscriptions.compile import expression_of

__all__ = ["doubts", "is_contradictory", "warn"]

#: Types of which a value has at most one, by the readings that read them.
_TYPES = {"number": "number", "long": "number", "text": "text", "time": "time", "truth": "truth"}


def warn(subscription: Subscription, found: Filter | Pattern, limits: Limits) -> None:
    """Warn of what can hardly be meant; ``found`` is what the subscription compiles to."""
    for doubt in doubts(subscription, found, limits):
        _say(subscription, doubt)


def doubts(subscription: Subscription, found: Filter | Pattern, limits: Limits) -> Iterator[str]:
    """The same as texts, for those who cannot catch warnings: Python's way to do so is for one thread only."""
    if is_contradictory(found):
        yield "can never match, as its conditions contradict each other"
    where = subscription.where
    if isinstance(where, str) and '"' in where:
        for left, op, right in _quoted(subscription, where, limits):
            yield f"""{left} {op} "{right}" compares two attributes; a text has single quotes"""


def _say(subscription: Subscription, doubt: str) -> None:
    joint = " " if doubt.startswith("can ") else ": "
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tidegate."):
        level, frame = level + 1, frame.f_back  # the warning names the line of the program that subscribes
    warnings.warn(f"subscription {shown(subscription.id)}{joint}{doubt}", SubscriptionWarning, stacklevel=level)


def is_contradictory(found: Filter | Pattern) -> bool:
    """Whether no publication can satisfy all the conditions on some attribute; False may mean that nobody looked."""
    if isinstance(found, Filter):
        return _is_never(found)
    # ``absent`` is told of silence, and ``past`` has filters that it need not pass
    return found.family not in ("absent", "past") and any(_is_never(inner.filter) for inner in found.filters)


def _is_never(filter: Filter) -> bool:
    """FALSE, which has no clauses, is meant."""
    return bool(filter.clauses) and all(map(_contradicts, filter.clauses))


def _contradicts(clause: Clause) -> bool:
    """Whether a range is empty, or one attribute would have to be of two types."""
    kinds: dict[object, str] = {}
    for predicate in clause:
        if isinstance(predicate, Within):
            if not predicate.ranges:
                return True
            reading, operand = predicate.column
            if reading in _TYPES and kinds.setdefault(operand, _TYPES[reading]) != _TYPES[reading]:
                return True
    return False


def _quoted(subscription: Subscription, where: str, limits: Limits) -> Iterator[tuple[str, str, str]]:
    """Two attributes that are compared for equality, the right one in double quotes that it does not need there.

    Quotes are needed for a name that is no plain word, but hardly beside one without them.
    """
    for node in walk(expression_of(subscription, limits)):
        if not isinstance(node, Call) or node.op not in ("=", "<>"):
            continue
        left, right = node.args
        if not isinstance(left, Attribute) or not isinstance(right, Attribute) or not _is_quoted(where, right):
            continue
        if is_name(right.name) or not _is_quoted(where, left):
            yield left.name, node.op, right.name


def _is_quoted(where: str, attribute: Attribute) -> bool:
    return isinstance(attribute.at, int) and where[attribute.at] == '"'
