"""Whether the members of one bag can be assigned to members of another, no two of them to the same one.

``predicates/bag.py`` asks this. Orders are decided by sorting, everything else by augmenting paths. Nothing here knows
of publications or columns.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

from tidegate.predicates.bag_members import Member
from tidegate.predicates.text import regex

__all__ = ["ORDERS", "is_matched", "is_related"]

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_related(bag: list[Member], constant: list[Member], relation: str, sub: str) -> bool:
    """Whether the assignment that the relation asks for exists."""
    if relation == "a_equals" and len(bag) != len(constant):
        return False
    if relation == "a_overlaps":
        return any(_partners(member, other, sub) for member in bag for other in constant)
    few, many, flipped = (constant, bag, True) if relation == "a_contains" else (bag, constant, False)
    if len(few) > len(many):
        return False
    if sub == "=":
        return Counter(few) <= Counter(many)
    if sub in ORDERS:
        return all(
            _assigned([p for k, p in few if k == kind], [p for k, p in many if k == kind], sub, flipped)
            for kind in {k for k, _ in few}
        )
    return is_matched(
        [[j for j, b in enumerate(many) if _partners(*((b, a) if flipped else (a, b)), sub)] for a in few]
    )


def _partners(member: Member, other: Member, sub: str) -> bool:
    (kind, point), (other_kind, wanted) = member, other
    if sub == "IN":
        return member in wanted
    if sub == "LIKE":
        return kind == other_kind == "text" and regex(wanted).fullmatch(point) is not None
    if kind != other_kind:
        return False
    if sub == "=":
        return bool(point == wanted)
    return bool(point != wanted) if sub == "<>" else ORDERS[sub](point, wanted)


def _assigned(few: list[Any], many: list[Any], sub: str, flipped: bool) -> bool:
    """An injective assignment of ``few`` into ``many`` under an order, greedily: fewest partners first."""
    if len(few) > len(many):
        return False
    # the member of the bag stands left of the operator; flipped says that ``many`` is the bag
    wants_larger = (sub[0] == "<") is not flipped
    few, many = sorted(few, reverse=wants_larger), sorted(many, reverse=wants_larger)
    compare = ORDERS[sub]
    return all(compare(b, a) if flipped else compare(a, b) for a, b in zip(few, many, strict=False))


def is_matched(choices: list[list[int]]) -> bool:
    """Whether every left node of a bipartite graph gets a partner of its own (augmenting paths, without recursion)."""
    owner: dict[int, int] = {}
    for start in range(len(choices)):
        parent: dict[int, int] = {}
        queue, free = [start], -1
        while queue and free < 0:
            left = queue.pop()
            for right in choices[left]:
                if right in parent:
                    continue
                parent[right] = left
                if right not in owner:
                    free = right
                    break
                queue.append(owner[right])
        if free < 0:
            return False
        taken: dict[int, int] = {left: right for right, left in owner.items()}
        while True:
            left = parent[free]
            before = taken.get(left)
            owner[free] = left
            if before is None:
                break
            free = before
    return True
