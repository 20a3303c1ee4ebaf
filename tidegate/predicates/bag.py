"""Bags: lists without order in which multiplicity counts, compared with a constant bag.

``a_equals``, ``a_containedBy`` (sub-bag), ``a_contains`` (super-bag) and ``a_overlaps``. An optional third argument is
the sub-operator of a composite operator: ``a_containedBy(b, (1, 3, 5), '<')`` asks for an injective assignment of the
members of b to the members of the constant, each smaller than its partner (Keeney et al. 2008; Stevens 2009, §3.3).
With a relation of the ontology, a member of the constant is the list of its possible partners, as it is with the
sub-operator IN. ``predicates/bag_assignment.py`` decides whether an assignment exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, nextafter
from typing import Any

from tidegate.instant import render_instant
from tidegate.language.render import to_text
from tidegate.language.tree import Array, Attribute, Call, Instant, Literal, Node, Numbers, listed
from tidegate.model import RESERVED
from tidegate.ontologies.ontology import RELATIONS
from tidegate.predicates.bag_assignment import ORDERS, is_matched, is_related
from tidegate.predicates.bag_members import Member, is_comparable, member, members_of
from tidegate.predicates.column import Column, Row, column
from tidegate.predicates.family import BeyondLimit, Mismatch, function
from tidegate.predicates.ontology import Relation, relation_of, values
from tidegate.predicates.predicate import Alternatives, Hull, Predicate
from tidegate.predicates.ranges import TOP, Point, Ranges, intersect, subset, union
from tidegate.predicates.text import check_wildcards

__all__ = ["Bag"]

#: Members before which nothing comes.
NOTHING: tuple[Member, ...] = (("text", ""),)
#: Members that a constant bag may have with a sub-operator for which a matching must be searched.
CONSTANTS = {"LIKE": 64, "IN": 256}
SUB_OPERATORS = ("=", "<>", *ORDERS, "LIKE", "IN")


@dataclass(frozen=True, slots=True)
class Bag(Predicate):
    """A bag has a relation to a constant bag, with respect to a sub-operator (or has not, if ``negated``)."""

    attribute: str
    relation: str
    members: tuple[Member, ...]
    sub: str
    negated: bool

    @property
    def exact(self) -> bool:  # type: ignore[override]
        if self.negated:
            return False
        if self.relation in ("a_contains", "a_overlaps") and not self.members:
            return True
        return self._asks_for_one and self._some_partner() is not None

    @property
    def _asks_for_one(self) -> bool:
        """Whether one member with a partner is enough for the relation."""
        return self.relation == "a_overlaps" or (self.relation == "a_contains" and len(self.members) == 1)

    @property
    def _is_bounded(self) -> bool:
        """Whether every member has to be compared with every other, so that large bags are left out."""
        return self.sub == "LIKE"

    @property
    def _small_enough(self) -> Hull:
        """The range of bags that are not left out."""
        return ((column("compared", self.attribute), ((0.0, inf),)),) if self._is_bounded else ()

    @property
    def hull(self) -> Hull:
        n = len(self.members)
        sizes: dict[str, Ranges] = {
            "a_equals": ((float(n), float(n + 1)),),
            "a_contains": ((float(n), inf),),
            "a_containedBy": ((0.0, float(n + 1)),),
            "a_overlaps": ((1.0, inf),),
        }
        size = column("size", self.attribute)
        if self.negated:
            return (size, ((0.0, inf),)), *self._small_enough
        if self.relation == "a_overlaps" and not n:
            return ((size, ()),)
        partner = self._some_partner() if self._asks_for_one else self._one_member()
        return (size, sizes[self.relation]), *self._small_enough, *(() if partner is None else (partner,))

    def _some_partner(self) -> tuple[Any, Ranges] | None:
        """The points that have a partner among the constant's members, where they make ranges on one column."""
        if self.sub == "IN":
            return _one_of([member for _, some in self.members for member in some], self.attribute)
        kinds = {kind for kind, _ in self.members}
        if kinds not in ({"number"}, {"text"}) or self.sub not in ("=", *ORDERS):
            return None
        if self.sub == "=":
            return _one_of(self.members, self.attribute)
        (kind,) = kinds
        points = [point for _, point in self.members]
        least, top = ("", TOP) if kind == "text" else (-inf, inf)
        lowest, highest = min(points), max(points)
        if self.sub[0] == "<":
            ranges: Ranges = ((least, _after(highest) if self.sub == "<=" else highest),)
        else:
            ranges = ((lowest if self.sub == ">=" else _after(lowest), top),)
        return column("numbers" if kind == "number" else "texts", self.attribute), union(ranges)

    def _one_member(self) -> tuple[Any, Ranges] | None:
        """A member that every match has: the longest text, or the largest number; of lists, one of the shortest."""
        if self.sub not in ("=", "IN") or self.relation not in ("a_equals", "a_contains"):
            return None
        if self.sub == "IN":
            lists = sorted((some for _, some in self.members), key=len)
            return next((found for some in lists if (found := _one_of(some, self.attribute))), None)
        texts = [point for kind, point in self.members if kind == "text"]
        if texts:
            point: Point = max(texts, key=lambda t: (len(t), t))
            return column("texts", self.attribute), ((point, _after(point)),)
        numbers = [point for kind, point in self.members if kind == "number"]
        return (column("numbers", self.attribute), ((max(numbers), _after(max(numbers))),)) if numbers else None

    def holds(self, publication: Row) -> bool:
        value = publication.value(self.attribute)
        if not isinstance(value, list) or (self._is_bounded and not is_comparable(value)):
            return False
        return is_related(members_of(value), list(self.members), self.relation, self.sub) is not self.negated

    def covers(self, other: Predicate) -> bool:
        if self == other:
            return True
        if not isinstance(other, Bag) or other.attribute != self.attribute:
            return False
        if self._is_bounded and not other._is_bounded and not other._is_small:
            return False
        if self.negated and other.negated:  # NOT r(B) covers NOT q(C) exactly when q(C) covers r(B)
            return replace(other, negated=False).covers(replace(self, negated=False))
        if other.negated:
            return False
        if (other.relation, other.sub) == ("a_equals", "="):  # only one bag matches ``other``: try it
            return is_related(list(other.members), list(self.members), self.relation, self.sub) is not self.negated
        if self.negated:
            return self.covers_ranges(dict(other.hull))
        if self.exact and all(any(at == c and subset(r, ranges) for c, r in other.hull) for at, ranges in self.hull):
            return True
        if self.sub not in ("=", "IN") or other.sub not in ("=", "IN"):
            return False
        if "IN" in (self.sub, other.sub):
            return self._covers_lists(other)
        mine, theirs = Counter(self.members), Counter(other.members)
        known = other.relation in ("a_equals", "a_contains")  # a bag that matches ``other`` has at least its members
        if self.relation == "a_contains":
            return known and mine <= theirs
        if self.relation == "a_overlaps":
            return (known and bool(mine & theirs)) or (other.relation == "a_overlaps" and theirs.keys() <= mine.keys())
        if self.relation == "a_containedBy":
            return other.relation in ("a_equals", "a_containedBy") and theirs <= mine
        return False

    @property
    def _is_small(self) -> bool:
        """Whether everything that matches is known to be small enough for LIKE."""
        has_all = self.sub == "=" and not self.negated and self.relation in ("a_equals", "a_containedBy")
        return has_all and is_comparable([point for _, point in self.members])

    def _covers_lists(self, other: Bag) -> bool:
        """``covers`` for lists: those of one constant must be contained in different lists of the other."""
        mine, theirs = self._lists(), other._lists()
        if self.relation == "a_contains":
            known = other.relation in ("a_equals", "a_contains")
            return known and is_matched([_row(t <= m for t in theirs) for m in mine])
        if self.relation == "a_overlaps":
            some = frozenset[Member]().union(*mine)
            if other.relation == "a_overlaps":
                return all(t <= some for t in theirs)
            return other.relation in ("a_equals", "a_contains") and any(t <= some for t in theirs)
        if self.relation == "a_equals" and (other.relation != "a_equals" or len(mine) != len(theirs)):
            return False
        known = other.relation in ("a_equals", "a_containedBy")
        return known and is_matched([_row(t <= m for m in mine) for t in theirs])

    def _lists(self) -> list[frozenset[Member]]:
        """The possible partners of each member."""
        return [frozenset(point if self.sub == "IN" else [(kind, point)]) for kind, point in self.members]

    def covers_ranges(self, known: Mapping[Column, Ranges]) -> bool:
        size = column("size", self.attribute)
        if self.negated:  # no bag of those sizes can have the relation
            if not all(at in known for at, _ in self._small_enough):
                return False
            return size in known and not intersect(dict(replace(self, negated=False).hull)[size], known[size])
        # not ``super()``: slots=True replaces this class by another, which ``super()`` would not find
        return Predicate.covers_ranges(self, known)

    def call(self) -> tuple[Call, bool]:
        items = tuple(_node(member) for member in self.members)
        return Call(self.relation, (Attribute(self.attribute), listed(items), Literal(self.sub))), self.negated


def _one_of(members: Collection[Member], attribute: str) -> tuple[Column, Ranges] | None:
    """The column and ranges of a member that is one of these, if they are all texts or all numbers."""
    kinds = {kind for kind, _ in members} or {"text"}
    if kinds not in ({"number"}, {"text"}):
        return None
    ranges = union(tuple((point, _after(point)) for _, point in members))
    return column("texts" if kinds == {"text"} else "numbers", attribute), ranges


def _row(partners: Iterable[bool]) -> int:
    """Partners as the bits of a number."""
    return sum([1 << j for j, is_partner in enumerate(partners) if is_partner])


def _node(member: Member) -> Node:
    kind, point = member
    if kind == "list":
        return listed(tuple(map(_node, point)))
    if kind == "time":
        return Instant(render_instant(int(point)), int(point), False)
    return Literal(bool(point) if kind == "truth" else point)


def _after(point: Point) -> Point:
    return point + "\0" if isinstance(point, str) else nextafter(point, inf)


_RELATIONS = {
    "a_equals": "a_equals(tags, ('flood', 'river'))",
    "a_contains": "a_contains(tags, ('flood'))",
    "a_containedBy": "a_containedBy(levels, (1, 3, 5, 7, 9), '<')",
    "a_overlaps": "a_overlaps(tags, ('flood', 'storm'))",
}


@function("bag", _RELATIONS, (2, 3))
def relate(call: Call, negated: bool) -> Alternatives:
    value, items = call.args[:2]
    if not isinstance(value, Attribute) or value.name in RESERVED:
        raise Mismatch("an attribute that is a bag", to_text(value), value)
    if not isinstance(items, Array | Numbers):
        raise Mismatch("a bag such as (1, 2, 2)", to_text(items), items)
    if len(call.args) == 2:
        return _compiled(value.name, call.op, tuple(map(_constant_member, items.items)), "=", negated, items)
    wanted = call.args[2]
    relation = relation_of(wanted)
    if relation is not None:
        return _compiled(value.name, call.op, tuple(_semantic(relation, items, wanted)), "IN", negated, items)
    sub = wanted.value.upper() if isinstance(wanted, Literal) and isinstance(wanted.value, str) else ""
    if sub not in SUB_OPERATORS:
        names = f"{' '.join(SUB_OPERATORS)} {' '.join(RELATIONS)}(…)"
        raise Mismatch(f"a sub-operator, one of {names}", to_text(wanted), wanted)
    members = tuple(map(_list_member if sub == "IN" else _constant_member, items.items))
    if sub == "LIKE":
        if any(kind != "text" for kind, _ in members):
            raise Mismatch("patterns in the bag of a LIKE", to_text(items), items)
        for item, (_, pattern) in zip(items.items, members, strict=True):
            check_wildcards(pattern, item)
    return _compiled(value.name, call.op, members, sub, negated, items)


def _semantic(relation: Relation, items: Array | Numbers, wanted: Node) -> Iterator[Member]:
    """For each term of the constant bag the texts that have the relation to it."""
    property = wanted.args if isinstance(wanted, Call) else ()
    for item in items.items:
        if not isinstance(item, Literal) or not isinstance(item.value, str):
            raise Mismatch("terms such as 'vin:Red' in the bag", to_text(item), item)
        texts = values(relation.question(item.value), (*property, item), wanted)
        yield "list", tuple(("text", text) for text in texts)


def _compiled(
    attribute: str, relation: str, members: tuple[Member, ...], sub: str, negated: bool, items: Node
) -> Alternatives:
    if sub == "IN" and members:  # written more simply where possible: the hulls of simpler predicates decide more
        if relation in ("a_equals", "a_contains") and not all(some for _, some in members):
            relation, members = "a_overlaps", ()  # a member without any possible partner: nothing matches
        members = tuple(member for member in members if member[1])
        if not members:
            sub, members = "<", NOTHING
        elif relation == "a_overlaps" or (relation == "a_contains" and len(members) == 1):
            relation, sub, members = "a_overlaps", "=", tuple({one for _, some in members for one in some})
    if len(members) > (most := CONSTANTS.get(sub, len(members))):
        raise BeyondLimit(f"a bag of at most {most} members with {sub}", f"{len(members)}", items)
    return [(Bag(attribute, relation, tuple(sorted(members)), sub, negated),)]


def _list_member(node: Node) -> Member:
    """A member of a constant bag whose members are lists: any of these is a partner. A value is a list of one."""
    items = node.items if isinstance(node, Array | Numbers) else (node,)
    return "list", tuple(sorted({_constant_member(item) for item in items}))


def _constant_member(node: Node) -> Member:
    if isinstance(node, Literal):
        return member(node.value)
    if isinstance(node, Instant):
        return "time", float(node.micros)
    raise Mismatch("constants in a bag", to_text(node), node)
