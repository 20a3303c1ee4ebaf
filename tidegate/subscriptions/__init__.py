"""From a subscription to what matches it: its expression compiled to a filter or a pattern, its time of activity, its
expression as other processes understand it. Knows nothing of an index, an engine or a store.
"""

from tidegate.subscriptions.compile import compile_subscription, compile_where, expression_of

__all__ = ["compile_subscription", "compile_where", "expression_of"]
