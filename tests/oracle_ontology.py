"""What relations of an ontology mean, from all that follows from it by another program than ours."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import owlrl
import rdflib

ONTOLOGY = ("isA", "equivalent", "moreSpecific", "lessSpecific", "related")
PREFIX, NAMESPACE = "vin:", "http://example.org/wine#"
RDF, RDFS, OWL = (str(namespace) for namespace in (rdflib.RDF, rdflib.RDFS, rdflib.OWL))


@cache
def facts() -> set:
    """What follows from the ontology of the examples, by another program than ours."""
    return closure(Path(__file__).parent / "ontologies" / "wine.ttl")


def closure(*paths) -> set:
    graph = rdflib.Graph()
    for path in paths:
        graph.parse(path)
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    return {(str(s), str(p), str(o)) for s, p, o in graph}


def ontology(relation: str, x: str, *about: str) -> bool:
    """Whether a text stands for a term that has the relation."""
    x, *about = (iri(text) for text in (x, *about))
    return related(facts(), relation, x, *about)


def iri(text: str) -> str:
    text = text.removeprefix("<").removesuffix(">")
    return NAMESPACE + text.removeprefix(PREFIX) if text.startswith(PREFIX) else text


def related(known: set, relation: str, x: str, *about: str) -> bool:
    y = about[-1]
    if relation == "isA":
        return (x, RDF + "type", y) in known
    if relation == "related":
        return (x, about[0], y) in known
    if relation == "equivalent":
        words = (OWL + "sameAs", OWL + "equivalentClass", OWL + "equivalentProperty")
        return x == y or any((x, word, y) in known or (y, word, x) in known for word in words)
    if relation == "lessSpecific":
        x, y = y, x
    words = (RDFS + "subClassOf", RDFS + "subPropertyOf")
    return any((x, word, y) in known and (y, word, x) not in known for word in words)
