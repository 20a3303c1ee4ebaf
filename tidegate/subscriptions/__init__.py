"""From a subscription to a filter or a pattern: ``compile_subscription`` compiles its expression and its activity.

The engine, the pipeline and the command line call it. ``subscriptions/expansion.py`` writes an expression so that other
processes understand it. Nothing here knows of an index, an engine or a store.
"""

from tidegate.subscriptions.compile import (
    bounded_expression,
    compile_subscription,
    compile_where,
    expression_of,
    filter_key,
)

__all__ = ["bounded_expression", "compile_subscription", "compile_where", "expression_of", "filter_key"]
