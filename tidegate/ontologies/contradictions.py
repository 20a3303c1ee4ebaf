"""Contradictions: the rules of OWL 2 RL that end in *false*. ``closure.closed`` applies them to a closed graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.ontologies.graph import Graph
from tidegate.ontologies.rules import qualified
from tidegate.ontologies.words import Owl, Rdf

__all__ = ["Contradiction", "contradictions"]

#: The profile's name of the rule, a sentence with places for terms, and the terms, the one it is about first.
Contradiction = tuple[str, str, tuple[str, ...]]


def contradictions(graph: Graph, counts: Mapping[str, int]) -> Iterator[Contradiction]:
    """Every contradiction in a graph, found lazily: the caller may stop at the first."""
    for check in (_equality, _classes, _properties, _denied, _too_many):
        yield from check(graph, counts)


def _equality(graph: Graph, counts: Mapping[str, int]) -> Iterator[Contradiction]:
    said = "{} is the same as {}, and different from it"
    for a, b in graph.pairs(Owl.different):
        if a == b or (a, Owl.same, b) in graph:
            yield "eq-diff1", said, (a, b)
    for a, b in _all(graph, Owl.all_different, Owl.members, Owl.distinct_members):
        if (a, Owl.same, b) in graph:
            yield "eq-diff2, eq-diff3", said, (a, b)


def _classes(graph: Graph, counts: Mapping[str, int]) -> Iterator[Contradiction]:
    for x in graph.of_type(Owl.nothing):
        yield "cls-nothing2", "{} is of {}, which nothing is", (x, Owl.nothing)
    said = "{} is of {} and of {}, which have nothing in common"
    for word, name in ((Owl.complement, "cls-com"), (Owl.disjoint, "cax-dw")):
        for a, b in graph.pairs(word):
            for x in graph.of_type(a) & graph.of_type(b):
                yield name, said, (x, a, b)
    for a, b in _all(graph, Owl.all_disjoint, Owl.members):
        for x in graph.of_type(a) & graph.of_type(b):
            yield "cax-adc", said, (x, a, b)


def _properties(graph: Graph, counts: Mapping[str, int]) -> Iterator[Contradiction]:
    for p in graph.of_type(Owl.irreflexive):
        for x, y in graph.pairs(p):
            if x == y:
                yield "prp-irp", "{} has {} to itself, which nothing can", (x, p)
    for p in graph.of_type(Owl.asymmetric):
        for x, y in graph.pairs(p):
            if (y, p, x) in graph:
                yield "prp-asyp", "{} has {} to {} and the other way round, which cannot be", (x, p, y)
    said = "{} has both {} and {} to {}, which cannot be"
    apart = [(*pair, "prp-pdw") for pair in graph.pairs(Owl.property_disjoint)]
    apart += [(*pair, "prp-adp") for pair in _all(graph, Owl.all_disjoint_properties, Owl.members)]
    for p, q, name in apart:
        for x, y in graph.pairs(p):
            if (x, q, y) in graph:
                yield name, said, (x, p, q, y)


def _denied(graph: Graph, counts: Mapping[str, int]) -> Iterator[Contradiction]:
    for word, name in ((Owl.target, "prp-npa1"), (Owl.value, "prp-npa2")):
        for denial, y in graph.pairs(word):
            for x in graph.objects(denial, Owl.source):
                for p in graph.objects(denial, Owl.assertion):
                    if (x, p, y) in graph:
                        yield name, "{} has {} to {}, which is denied", (x, p, y)


def _too_many(graph: Graph, counts: Mapping[str, int]) -> Iterator[Contradiction]:
    for x, p, kind, has in qualified(graph, counts, 0):
        if has:
            name = "cls-maxc1" if kind is None else "cls-maxqc1, cls-maxqc2"
            yield name, "{} has {} to {}, and may have it to nothing", (x, p, min(has))


def _all(graph: Graph, kind: str, *words: str) -> Iterator[tuple[str, str]]:
    """Every two members of each list that an axiom of this kind, such as owl:AllDifferent, is about."""
    for axiom in graph.subjects(Rdf.type, kind):
        for word in words:
            for head in graph.objects(axiom, word):
                members = graph.members(head)
                yield from ((a, b) for i, a in enumerate(members) for b in members[i + 1 :])
