"""The covering forest: subscriptions in trees in which every parent covers its children.

CUPUS §4.4.1 (Figure 23): a node may have many children but one parent, and the forest grows and shrinks one
subscription at a time. There a publication is tried on a node only if it matches the node's parent; here the index
matches (``tidegate/index``), and the forest says only which subscriptions others cover. ``Forest`` knows keys and
filters, but not the subscriptions they belong to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import Generic, TypeVar

import numpy as np

from tidegate.covering.covers import clauses_cover
from tidegate.covering.implied import Implied, knowledge
from tidegate.covering.postings import Facts, Postings, facts_of
from tidegate.errors import SubscriptionError, UnknownSubscription, shown
from tidegate.predicates import Filter

__all__ = ["DEEPEST", "Forest"]

#: Nodes on a way from a root to a leaf at most: a way that is looked up or counted along takes so many steps.
DEEPEST = 64

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True, eq=False)
class _Node(Generic[K]):
    key: K
    clauses: tuple[Implied, ...]
    facts: Facts | None
    number: int
    parent: _Node[K] | None = None
    children: dict[K, _Node[K]] = field(default_factory=dict)
    #: Nodes inserted later whose clauses have the same needs. They are leaves, and ``Postings`` does not hold them.
    twins: dict[K, _Node[K]] = field(default_factory=dict)
    #: Nodes on a way down from here at most. It is not lowered when nodes go, so there may be fewer.
    height: int = 1

    @property
    def identity(self) -> Hashable:
        return frozenset(frozenset(known.needs) for known in self.clauses)


class Forest(Generic[K]):
    """Subscriptions by key, ordered by covering.

    No root is covered by another root, and every filter is covered by its parent's. Of equal filters the later is a
    child of the earlier. A new node goes under a filter with narrow bounds that covers it, or where the tree would
    become deeper than ``DEEPEST`` under one above that; if there is none, it takes over the roots that it covers.
    """

    def __init__(self) -> None:
        self._nodes: dict[K, _Node[K]] = {}
        self._roots: dict[K, _Node[K]] = {}
        self._first: dict[Hashable, _Node[K]] = {}
        self._numbered: dict[int, _Node[K]] = {}
        self._free: list[int] = []
        self._postings = Postings()

    # --- growing and shrinking --------------------------------------------------------------------------------------

    def insert(self, key: K, filter: Filter) -> None:
        """Add a subscription; a key that is in the forest already is refused."""
        if key in self._nodes:
            raise SubscriptionError("a key that is not in the forest", f"{shown(key)}, which is")
        clauses = knowledge(filter)
        node = _Node(key, clauses, facts_of(clauses), -1)
        first = self._first.setdefault(node.identity, node)
        self._nodes[key] = node
        if first is not node:
            node.parent = first
            first.twins[key] = node
            self._raise(first, 2)
            return
        node.number = self._free.pop() if self._free else len(self._numbered)
        self._numbered[node.number] = node
        self._roots[key] = node
        self._place(node)
        self._postings.add(node.number, node.facts)

    def remove(self, key: K) -> None:
        """Take a subscription out; its children go to its parent, or find new parents, or become roots."""
        node = self._node(key)
        del self._nodes[key]
        if node.number < 0:
            assert node.parent is not None
            del node.parent.twins[key]
            return
        self._siblings(node.parent).pop(key)
        if node.twins:
            self._succeed(node)
            return
        self._postings.remove(node.number, node.facts)
        del self._numbered[node.number], self._first[node.identity]
        self._free.append(node.number)
        for child in node.children.values():
            child.parent = node.parent
        self._siblings(node.parent).update(node.children)
        if node.parent is None:
            for child in node.children.values():
                if child.parent is None:  # still a root: no other child has taken it over
                    self._place(child)

    def _succeed(self, node: _Node[K]) -> None:
        """The eldest twin takes the node's place."""
        key = next(iter(node.twins))
        heir = node.twins.pop(key)
        heir.number, heir.parent, heir.children, heir.twins = node.number, node.parent, node.children, node.twins
        heir.height = node.height
        for below in (*heir.children.values(), *heir.twins.values()):
            below.parent = heir
        self._siblings(heir.parent)[key] = self._numbered[heir.number] = self._first[heir.identity] = heir

    def _place(self, node: _Node[K]) -> None:
        """Move a root under a node that covers it; if there is none, move the roots that it covers under it."""
        parent = self._covering(node)
        if parent is not None:
            self._move(node, parent)
            return
        for other in self._narrower_roots(node):
            if clauses_cover(node.clauses, other.clauses):
                self._move(other, node)

    def _narrower_roots(self, node: _Node[K]) -> list[_Node[K]]:
        """The roots that a root may cover, as far as ``Postings`` can tell."""
        may = self._postings.narrower(node.facts)
        if np.count_nonzero(may) > len(self._roots):
            others = [other for other in self._roots.values() if other is not node]
            return list(compress(others, may[[other.number for other in others]].tolist()))
        found = (self._numbered[number] for number in np.flatnonzero(may).tolist())
        return [other for other in found if other.parent is None and other is not node]

    def _covering(self, node: _Node[K]) -> _Node[K] | None:
        """A node that covers this one and is not below it, of those with the narrowest bounds."""
        for group in self._postings.wider(node.facts):
            for number in group:
                other = self._numbered[number]
                if other is node or not clauses_cover(other.clauses, node.clauses) or self._is_below(other, node):
                    continue
                return other
        return None

    def _move(self, node: _Node[K], parent: _Node[K]) -> None:
        """Put a node with all below it under one that covers it, or under one above that, so deep as it may."""
        above = [parent]  # from the one that was chosen up to its root; all of them cover the node
        while above[-1].parent is not None:
            above.append(above[-1].parent)
        most = DEEPEST - 1  # a place below for what may be equal to the deepest one later
        chosen = next((one for level, one in zip(range(len(above), 0, -1), above, strict=True)
                       if level + node.height <= most), above[-1])  # fmt: skip
        level = len(above) - above.index(chosen)
        if level + node.height > most:  # what it covers is covered by the new parent as well
            for child in node.children.values():
                child.parent = chosen
            chosen.children.update(node.children)
            self._raise(chosen, 1 + max((child.height for child in node.children.values()), default=0))
            node.children = {}
            node.height = 2 if node.twins else 1
        del self._siblings(node.parent)[node.key]
        node.parent = chosen
        chosen.children[node.key] = node
        self._raise(chosen, 1 + node.height)

    @staticmethod
    def _raise(node: _Node[K], height: int) -> None:
        """Note that there are so many nodes on a way down from one, and with that on those from above it."""
        above: _Node[K] | None = node
        while above is not None and above.height < height:
            above.height, above, height = height, above.parent, height + 1

    @staticmethod
    def _is_below(node: _Node[K], top: _Node[K]) -> bool:
        if not top.children:
            return False
        above: _Node[K] | None = node
        while above is not None and above is not top:
            above = above.parent
        return above is top

    # --- looking ----------------------------------------------------------------------------------------------------

    def roots(self) -> list[K]:
        """The subscriptions that no other covers."""
        return list(self._roots)

    def parent(self, key: K) -> K | None:
        """The subscription this one is under; None for a root."""
        parent = self._node(key).parent
        return None if parent is None else parent.key

    def children(self, key: K) -> list[K]:
        """The subscriptions directly under this one."""
        node = self._node(key)
        return [*node.twins, *node.children]

    @property
    def depth(self) -> int:
        """Nodes on the longest way from a root to a leaf."""
        level, depth = list(self._roots.values()), 0
        while level:
            level = [below for node in level for below in (*node.twins.values(), *node.children.values())]
            depth += 1
        return depth

    def __iter__(self) -> Iterator[K]:
        """The keys, parents first."""
        stack = list(reversed(self._roots.values()))
        while stack:
            node = stack.pop()
            yield node.key
            stack.extend(reversed((*node.twins.values(), *node.children.values())))

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: object) -> bool:
        return key in self._nodes

    def _node(self, key: K) -> _Node[K]:
        node = self._nodes.get(key)
        if node is None:
            raise UnknownSubscription("a key that is in the forest", shown(key))
        return node

    def _siblings(self, parent: _Node[K] | None) -> dict[K, _Node[K]]:
        return self._roots if parent is None else parent.children
