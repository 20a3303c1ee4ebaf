"""Expressions that every process understands: shapes of the user's own are written out as numbers, terms of an ontology
as the lists of terms that they mean. The registry stores these, so that workers need neither shapes nor ontology.
"""

from __future__ import annotations

from typing import Any

from tidegate.language import Limits, to_json
from tidegate.model import Subscription
from tidegate.predicates.ontology import expanded, is_loaded
from tidegate.predicates.shape import written_out
from tidegate.shapes import named_shapes
from tidegate.subscriptions.compile import expression_of

__all__ = ["self_contained"]

Where = str | dict[str, Any] | bool


def self_contained(subscription: Subscription, limits: Limits) -> tuple[Where, Where | None]:
    """The expression without what other processes do not know: shapes of the user's own, terms of an ontology.

    Where it has terms of an ontology, the expression as it was written comes second, else None: the registry keeps it
    to expand it again with another ontology.
    """
    as_written: Where = subscription.where
    if not named_shapes.own() and not is_loaded():
        return as_written, None
    node = expression_of(subscription, limits)
    drawn = written_out(node)
    if drawn is not node:
        as_written = to_json(drawn)
    meant = expanded(drawn)
    return (as_written, None) if meant is drawn else (to_json(meant), as_written)
