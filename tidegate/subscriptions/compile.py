"""From a subscription, or an expression tree, to a filter, or to a pattern and its filters.

The engine, the pipeline and the command line call ``compile_subscription``. A pattern stands alone or beside conditions
joined by AND. These conditions become part of each of its filters: they decide which publications the pattern sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from tidegate.errors import LimitError, SubscriptionError, TypeMismatch
from tidegate.language import from_json, parse, to_json
from tidegate.language.limits import DEFAULT_LIMITS, Limits
from tidegate.language.text_position import located, position_of
from tidegate.language.tree import Call, Node, walk
from tidegate.model import Subscription, micros
from tidegate.patterns import Inner, Pattern, family_of
from tidegate.predicates.family import BeyondLimit, Mismatch
from tidegate.predicates.filter import Filter, compile_filter
from tidegate.predicates.ontology import expanded
from tidegate.subscriptions.activity import activity
from tidegate.subscriptions.readable import readable

__all__ = ["bounded_expression", "compile_subscription", "compile_where", "expression_of", "filter_key"]


def expression_of(subscription: Subscription, limits: Limits) -> Node:
    """The expression of a subscription as a tree."""
    where = subscription.where
    return parse(where, limits) if isinstance(where, str) else from_json(where, limits)


def bounded_expression(subscription: Subscription, limits: Limits, read: Node | None = None) -> Node:
    """The expression of a subscription, joined by AND with ``read`` and its time of activity, if it has them."""
    node, bounds = expression_of(subscription, limits), activity(subscription)
    if read is not None:
        node = readable(node, read)
    return Call("and", (node, *bounds)) if bounds else node


def compile_subscription(subscription: Subscription, limits: Limits, read: Node | None = None) -> Filter | Pattern:
    """The filter or pattern of a subscription. Its time of activity is added as a range of ``time`` like any other.

    ``read`` is joined to it as ``readable`` says; ``limits`` apply to both together.
    """
    node = expression_of(subscription, limits)
    if read is not None:
        node = readable(node, read)
    found = compile_where(node, subscription.where, limits, activity(subscription))
    if isinstance(found, Pattern):
        if subscription.initial:
            raise SubscriptionError("a filter with initial: true, which is not for patterns", found.family)
        begins, ends = (None if w is None else micros(w) for w in (subscription.active_from, subscription.active_until))
        found = replace(found, begins=begins, ends=ends)
    return found


def compile_where(
    node: Node, source: Any = None, limits: Limits = DEFAULT_LIMITS, bounds: Sequence[Node] = ()
) -> Filter | Pattern:
    """The filter or pattern of an expression. ``source`` is the text or JSON of it; ``bounds`` are added conditions."""
    patterns = [(part, family) for part in walk(node) if (family := family_of(part)) is not None]
    if not patterns:
        filter = compile_filter(node, source, limits)
        for bound in bounds:
            filter &= compile_filter(bound)
        return filter
    wanted, family = patterns[0]
    whole = next((of for _, of in patterns if of.takes_all), None)
    if whole is not None:
        wanted, family = node, whole
    beside = list(_conjuncts(node)) if whole is None else [node]
    stray = next((p for p in patterns if (p[0] is not wanted if whole is None else p[1] is not whole)), None)
    if not any(part is wanted for part in beside) or stray is not None:
        wrong, of = patterns[0] if stray is None else stray
        raise located(
            TypeMismatch,
            "one pattern, alone or beside conditions joined by AND",
            f"{of.name} {'under OR, NOT or another function' if stray is None else 'as well'}",
            position_of(wrong, node),
            source,
        )
    least, most = family.arity
    try:
        if not isinstance(wanted, Call):
            raise Mismatch("a condition", "a list", wanted)
        if whole is None and not least <= len(wanted.args) <= most:
            count = f"{least}" if least == most else f"{least} or more" if most > 99 else f"{least} to {most}"
            raise Mismatch(f"{count} arguments of {wanted.op}", f"{len(wanted.args)}", wanted)
        form, numbers, conditions, timeless = family.compile(wanted, limits)
    except Mismatch as error:
        kind = LimitError if isinstance(error, BeyondLimit) else TypeMismatch
        raise located(kind, error.expected, error.got, position_of(error.node, node), source) from None
    common = [part for part in beside if part is not wanted]
    inner = []
    for i, condition in enumerate(conditions or [None]):
        parts = [*common, *([condition] if condition is not None else []), *([] if i in timeless else bounds)]
        inner.append(_inner(parts, source, limits, node))
    return Pattern(family.name, form, numbers, tuple(inner))


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.op == "and":
        for arg in node.args:
            yield from _conjuncts(arg)
    else:
        yield node


def _inner(parts: Sequence[Node], source: Any, limits: Limits, root: Node) -> Inner:
    if not parts:
        return Inner(b"true", Filter(((),)))
    node = parts[0] if len(parts) == 1 else Call("and", tuple(parts))
    compiled = compile_filter(node, source, limits, root)  # first, because it says where a mistake is
    return Inner(_text(node), compiled)


def _text(node: Node) -> bytes:
    """What tells a filter apart; with another ontology it is another filter."""
    return orjson.dumps(to_json(expanded(node)))


def filter_key(condition: Node) -> bytes:
    """The key of the filter that a condition of a pattern becomes, where none is beside it."""
    return Inner(_text(condition), Filter(((),))).key
