"""Finding what is dear among very many by measuring groups: one measurement tells of all that are cheap together.

A group that takes little is shared out evenly; one that takes more is halved, until what is dear is alone. Knows
neither subscriptions nor clocks: what a group takes is a function that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["GROUP", "figures"]

T = TypeVar("T")

#: How many are measured together at first.
GROUP = 1_000
#: A group of which each takes more than this part of the threshold, on average, is halved too.
_PART = 1 / 20


def figures(
    items: Sequence[T],
    measure: Callable[[Sequence[T]], float],
    threshold: float,
    group: int = GROUP,
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[float]:
    """What each of some items takes, of which ``measure`` says what several take together.

    Whatever takes more than ``threshold`` by itself has a figure of its own, as a group takes no less than what is in
    it; the others of its group share what that takes, which is little for each. Of n items that take s together about
    ``n / group + 2 (log2(group) + 20) s / threshold`` groups are measured at most. Once it may not go on, groups are
    halved no further.
    """
    found = [0.0] * len(items)
    waiting = [(at, min(at + group, len(items))) for at in range(0, len(items), group)]
    while waiting:
        begin, end = waiting.pop()
        taken = measure(items[begin:end])
        is_dear = taken > min(threshold, _PART * threshold * (end - begin))
        if is_dear and end - begin > 1 and may_go_on():
            middle = (begin + end) // 2
            waiting += [(middle, end), (begin, middle)]
            continue
        found[begin:end] = [taken / (end - begin)] * (end - begin)
    return found
