"""Whether a subscription can ever send a notification: more thorough than the doubts that are looked for when one is
made, and meant for those who check subscriptions before.
"""

from __future__ import annotations

from tidegate.covering.temporal import covers
from tidegate.patterns import Pattern
from tidegate.predicates import Filter

__all__ = ["is_never"]

#: The filter that matches nothing: it covers only filters that can never match.
_NOTHING = Filter(())


def is_never(found: Filter | Pattern) -> bool:
    """Whether what a subscription compiles to can never match; False may mean that this was not seen.

    ``absent`` is left out: it notifies of silence, also if no publication can ever end the silence.
    """
    if isinstance(found, Filter) or found.family == "past":
        return covers(_NOTHING, found)
    return found.family != "absent" and any(covers(_NOTHING, inner.filter) for inner in found.filters)
