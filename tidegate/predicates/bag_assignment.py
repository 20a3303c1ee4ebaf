"""Whether the members of one bag can be assigned to members of another, no two of them to the same one.

``predicates/bag.py`` asks this. Where the relation has a structure it is used: orders are decided by sorting, ``=`` and
``<>`` by counting. ``LIKE`` and ``IN`` have none; they make a row of bits for each member and search a largest
matching. Nothing here knows of publications or columns, or bounds the work: that is done by who calls it.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from tidegate.predicates.bag_members import Member
from tidegate.predicates.like_pattern import like_pattern

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
        return _has_pair(bag, constant, sub)
    few, many, flipped = (constant, bag, True) if relation == "a_contains" else (bag, constant, False)
    if len(few) > len(many):
        return False
    if sub == "=":
        there = Counter(many)
        return all(there[one] >= count for one, count in Counter(few).items())
    if sub in ("LIKE", "IN"):
        return _largest_matching(_partner_rows(bag, constant, sub), len(constant)) == len(few)
    mine, theirs = _by_kind(few), _by_kind(many)
    if sub == "<>":
        return all(_differ(points, theirs.get(kind, [])) for kind, points in mine.items())
    return all(_assigned(points, theirs.get(kind, []), sub, flipped) for kind, points in mine.items())


def _has_pair(bag: list[Member], constant: list[Member], sub: str) -> bool:
    """Whether some member has some partner."""
    if sub == "=":
        return not set(bag).isdisjoint(constant)
    if sub in ("LIKE", "IN"):
        return any(_partner_rows(bag, constant, sub))
    mine, theirs = _by_kind(bag), _by_kind(constant)
    for kind in mine.keys() & theirs.keys():
        left, right = mine[kind], theirs[kind]
        if sub == "<>":
            if len({*left, *right}) > 1:
                return True
        elif ORDERS[sub](*((min(left), max(right)) if sub[0] == "<" else (max(left), min(right)))):
            return True
    return False


def _by_kind(members: Iterable[Member]) -> Mapping[str, list[Any]]:
    """The points of each kind: members of different kinds are never partners."""
    found: dict[str, list[Any]] = {}
    for kind, point in members:
        found.setdefault(kind, []).append(point)
    return found


def _assigned(few: list[Any], many: list[Any], sub: str, flipped: bool) -> bool:
    """An injective assignment of ``few`` into ``many`` under an order, greedily: fewest partners first."""
    if len(few) > len(many):
        return False
    # the member of the bag stands left of the operator; flipped says that ``many`` is the bag
    wants_larger = (sub[0] == "<") is not flipped
    few, many = sorted(few, reverse=wants_larger), sorted(many, reverse=wants_larger)
    compare = ORDERS[sub]
    return all(compare(b, a) if flipped else compare(a, b) for a, b in zip(few, many, strict=False))


def _differ(few: list[Any], many: list[Any]) -> bool:
    """An injective assignment of ``few`` into ``many`` with nothing assigned to its equal.

    By Hall's theorem it exists if no part of ``few`` has fewer partners than members. A part with two different points
    has all of ``many`` as partners, a part with one point all but its equals.
    """
    if len(few) > len(many):
        return False
    equals = Counter(many)
    return all(count <= len(many) - equals[point] for point, count in Counter(few).items())


# --- relations without a structure ----------------------------------------------------------------------------------


def _partner_rows(bag: list[Member], constant: list[Member], sub: str) -> list[int]:
    """For each member of the bag its partners in the constant, as bits."""
    rows: dict[Member, int] = {}
    if sub == "IN":
        for j, (_, some) in enumerate(constant):
            for one in some:
                rows[one] = rows.get(one, 0) | 1 << j
    else:
        fits = [(1 << j, like_pattern(pattern).fits) for j, (_, pattern) in enumerate(constant)]
        for member in set(bag):
            kind, text = member
            if kind == "text":
                rows[member] = sum([bit for bit, fit in fits if fit(text)])
    return [rows.get(member, 0) for member in bag]


def is_matched(rows: Sequence[int]) -> bool:
    """Whether every left node of a bipartite graph, given by the bits of its right nodes, gets a partner of its own."""
    return _largest_matching(rows, reduce(operator.or_, rows, 0).bit_length()) == len(rows)


def _largest_matching(rows: Sequence[int], columns: int) -> int:
    """How many left nodes can have a partner of their own at most.

    Hopcroft and Karp (1973): a phase finds how long the shortest augmenting paths are, layer by layer, and then as many
    of them as have no node in common. Here a layer is the bits of its right nodes.
    """
    rows = _useful(rows) if len(rows) > columns else rows
    owner = [-1] * columns
    partner = [-1] * len(rows)
    free = (1 << columns) - 1
    for left, row in enumerate(rows):
        if found := row & free:
            right = (found & -found).bit_length() - 1
            owner[right], partner[left] = left, right
            free ^= 1 << right
    while free:
        unmatched = [left for left, right in enumerate(partner) if right < 0 and rows[left]]
        layers = _layers(rows, owner, unmatched, free)
        if not layers:
            break
        for left in unmatched:
            path = _path(rows, owner, layers, left)
            if path:
                free ^= 1 << path[-1][1]
            for member, right in path:
                owner[right], partner[member] = member, right
    return sum(right >= 0 for right in partner)


def _useful(rows: Sequence[int]) -> Sequence[int]:
    """The rows that can have a partner: of equal ones no more than they have partners."""
    used: dict[int, int] = {}
    kept = []
    for row in rows:
        if row and (before := used.get(row, 0)) < row.bit_count():
            used[row] = before + 1
            kept.append(row)
    return kept


def _layers(rows: Sequence[int], owner: Sequence[int], lefts: list[int], free: int) -> list[int]:
    """The right nodes by their distance from the unmatched left nodes, the last layer with free ones only."""
    layers: list[int] = []
    unseen = -1
    while lefts:
        reached = reduce(operator.or_, (rows[left] for left in lefts), 0) & unseen
        if reached & free:
            return [*layers, reached & free]
        unseen &= ~reached
        layers.append(reached)
        lefts = [owner[right] for right in _bits(reached)]
    return []


def _path(rows: Sequence[int], owner: Sequence[int], layers: list[int], start: int) -> list[tuple[int, int]]:
    """A shortest augmenting path through nodes that no path took, as pairs to be matched; takes them out of layers."""
    path: list[tuple[int, int]] = []
    left = start
    while True:
        depth = len(path)
        if found := rows[left] & layers[depth]:
            bit = found & -found
            layers[depth] ^= bit
            right = bit.bit_length() - 1
            path.append((left, right))
            if depth + 1 == len(layers):
                return path
            left = owner[right]
        elif path:
            left, _ = path.pop()
        else:
            return path


def _bits(mask: int) -> Iterable[int]:
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit
