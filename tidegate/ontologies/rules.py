"""The rules of OWL 2 RL that ``reasonable`` does not have, by the names of the profile's tables 4 to 9.

What it lacks is mostly the schema: that a class is below another because of what both are made of. A rule is a
generator of the triples that follow from a graph; ``extend`` runs all rules until none derives a new triple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from itertools import product

from tidegate.ontologies.graph import Graph
from tidegate.ontologies.words import Owl, Rdf, Rdfs, Triple

__all__ = ["RULES", "extend", "qualified", "restricted"]

Rule = Callable[[Graph, Mapping[str, int]], Iterator[Triple]]

#: Every rule by its names in the profile.
RULES: dict[str, Rule] = {}


def _rule(names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES[names] = rule
        return rule

    return register


def extend(graph: Graph, counts: Mapping[str, int]) -> bool:
    """Add all triples that follow by these rules; return whether any did. ``counts``: the whole numbers among terms."""
    before, seen = len(graph), -1
    while len(graph) > seen:
        seen = len(graph)
        for rule in RULES.values():
            graph.extend(rule(graph, counts))
    return len(graph) > before


# --- the order of classes and properties ----------------------------------------------------------------------------


@_rule("scm-cls")
def classes(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for kind in (Owl.klass, Owl.restriction):
        for c in graph.of_type(kind):
            yield c, Rdfs.sub_class, c
            yield c, Rdfs.sub_class, Owl.thing
            yield Owl.nothing, Rdfs.sub_class, c


@_rule("scm-op, scm-dp")
def properties(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for kind in Owl.properties:
        for p in graph.of_type(kind):
            yield p, Rdfs.sub_property, p


@_rule("scm-sco, scm-spo, scm-eqc1, scm-eqc2, scm-eqp1, scm-eqp2")
def order(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for below, equivalent in (
        (Rdfs.sub_class, Owl.equivalent_class),
        (Rdfs.sub_property, Owl.equivalent_property),
    ):
        for a, b in graph.pairs(equivalent):
            yield a, below, b
            yield b, below, a
        up = graph.by_subject(below)
        for start in up:
            for a in _reached(start, up):
                yield start, below, a
                if start in up.get(a, ()):
                    yield start, equivalent, a
                    yield a, equivalent, start


def _reached(start: str, up: Mapping[str, Set[str]]) -> set[str]:
    """All terms that can be reached from ``start`` by one or more steps up."""
    found, to_do = set[str](), [start]
    while to_do:
        for above in up.get(to_do.pop(), ()):
            if above not in found:
                found.add(above)
                to_do.append(above)
    return found


@_rule("scm-int, scm-uni")
def parts(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for whole, head in graph.pairs(Owl.intersection):
        for part in graph.members(head):
            yield whole, Rdfs.sub_class, part
    for whole, head in graph.pairs(Owl.union):
        for part in graph.members(head):
            yield part, Rdfs.sub_class, whole


def restricted(graph: Graph, word: str) -> Iterator[tuple[str, str, str]]:
    """Restrictions of one kind: the class, its property, and what the property is restricted to."""
    for c, value in graph.pairs(word):
        for p in graph.objects(c, Owl.on_property):
            yield c, p, value


@_rule("scm-hv, scm-svf1, scm-svf2, scm-avf1, scm-avf2")
def restrictions(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for word in (Owl.has_value, Owl.some, Owl.every):
        alike: dict[tuple[str, str], list[str]] = {}
        for c, p, value in restricted(graph, word):
            alike.setdefault((p, value), []).append(c)
        for (p, value), below in alike.items():
            for q in graph.objects(p, Rdfs.sub_property):
                for c, d in product(below, alike.get((q, value), ())):
                    yield (d, Rdfs.sub_class, c) if word == Owl.every else (c, Rdfs.sub_class, d)
            for wider in graph.objects(value, Rdfs.sub_class) if word != Owl.has_value else ():
                for c, d in product(below, alike.get((p, wider), ())):
                    yield c, Rdfs.sub_class, d


@_rule("scm-dom1, scm-dom2, scm-rng1, scm-rng2")
def domains(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for word in (Rdfs.domain, Rdfs.range):
        for p, c in graph.pairs(word):
            for above in graph.objects(c, Rdfs.sub_class):
                yield p, word, above
            for q in graph.subjects(Rdfs.sub_property, p):
                yield q, word, c


# --- facts about individuals ----------------------------------------------------------------------------------------


@_rule("cls-oo")
def listed(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for c, head in graph.pairs(Owl.one_of):
        for member in graph.members(head):
            yield member, Rdf.type, c


@_rule("cls-int1")
def whole_of_all_parts(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    """``reasonable`` 0.4.4 has this rule, but of several intersections that one class is it takes any one."""
    for whole, head in graph.pairs(Owl.intersection):
        first, *others = graph.members(head) or [""]
        for x in graph.of_type(first) if first else ():
            if all(x in graph.of_type(part) for part in others):
                yield x, Rdf.type, whole


@_rule("prp-spo2")
def chains(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for p, head in graph.pairs(Owl.chain):
        steps = graph.members(head)
        for start in list(graph.by_subject(steps[0])) if steps else ():
            reached = {start}
            for step in steps:
                reached = {o for s in reached for o in graph.objects(s, step)}
            for end in reached:
                yield start, p, end


@_rule("prp-ifp")
def inverse_functional(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for p in graph.of_type(Owl.inverse_functional):
        for y in {y for _, y in graph.pairs(p)}:
            first, *others = sorted(graph.subjects(p, y))
            for other in others:
                yield first, Owl.same, other


@_rule("prp-key")
def keys(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for c, head in graph.pairs(Owl.key):
        first, *others = graph.members(head) or [""]
        for x in graph.of_type(c) if first else ():
            for value in graph.objects(x, first):
                for y in graph.subjects(first, value) & graph.of_type(c):
                    if y != x and all(graph.objects(x, p) & graph.objects(y, p) for p in others):
                        yield x, Owl.same, y


def qualified(graph: Graph, counts: Mapping[str, int], most: int) -> Iterator[tuple[str, str, str | None, set[str]]]:
    """For each restriction to at most ``most`` values: a member, the property, the class of values, and its values."""
    for word in (Owl.most, Owl.most_of):
        for c, p, bound in restricted(graph, word):
            if counts.get(bound) != most:
                continue
            for kind in graph.objects(c, Owl.on_class) if word == Owl.most_of else [None]:
                for member in graph.of_type(c):
                    has = set(graph.objects(member, p))
                    if kind is not None and kind != Owl.thing:
                        has &= graph.of_type(kind)
                    yield member, p, kind, has


@_rule("cls-maxc2, cls-maxqc3, cls-maxqc4")
def at_most_one(graph: Graph, counts: Mapping[str, int]) -> Iterator[Triple]:
    for _, _, _, has in qualified(graph, counts, 1):
        first, *others = sorted(has) or [""]
        for other in others:
            yield first, Owl.same, other
