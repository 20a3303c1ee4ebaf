"""The IRIs of RDF, RDFS and OWL that the rules use, and how terms are represented.

A term is a text: an IRI stands for itself, blank nodes and literals get IRIs of our own, which no file may contain.
"""

from __future__ import annotations

__all__ = ["OWN", "VOCABULARY", "Owl", "Rdf", "Rdfs", "Triple", "is_named"]

#: Subject, predicate, object.
Triple = tuple[str, str, str]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"

#: Prefixes that are always declared: the vocabularies that ontologies are written in.
VOCABULARY = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD}

#: The IRIs that stand for blank nodes and literals begin so.
OWN = "urn:x-tidegate:"


def is_named(term: str) -> bool:
    """Whether a publication could hold the term: an IRI, and none of the vocabularies themselves."""
    return not term.startswith((OWN, RDF, RDFS, OWL, XSD))


class Rdf:
    """Words of RDF."""

    type = RDF + "type"
    first = RDF + "first"
    rest = RDF + "rest"
    nil = RDF + "nil"


class Rdfs:
    """Words of RDF Schema."""

    sub_class = RDFS + "subClassOf"
    sub_property = RDFS + "subPropertyOf"
    domain = RDFS + "domain"
    range = RDFS + "range"


class Owl:
    """Words of OWL."""

    thing = OWL + "Thing"
    nothing = OWL + "Nothing"
    klass = OWL + "Class"
    restriction = OWL + "Restriction"
    ontology = OWL + "Ontology"
    imports = OWL + "imports"
    version = OWL + "versionIRI"
    properties = tuple(OWL + kind for kind in ("ObjectProperty", "DatatypeProperty"))
    same = OWL + "sameAs"
    different = OWL + "differentFrom"
    all_different = OWL + "AllDifferent"
    members = OWL + "members"
    distinct_members = OWL + "distinctMembers"
    equivalent_class = OWL + "equivalentClass"
    equivalent_property = OWL + "equivalentProperty"
    disjoint = OWL + "disjointWith"
    all_disjoint = OWL + "AllDisjointClasses"
    complement = OWL + "complementOf"
    property_disjoint = OWL + "propertyDisjointWith"
    all_disjoint_properties = OWL + "AllDisjointProperties"
    inverse_functional = OWL + "InverseFunctionalProperty"
    irreflexive = OWL + "IrreflexiveProperty"
    asymmetric = OWL + "AsymmetricProperty"
    on_property = OWL + "onProperty"
    on_class = OWL + "onClass"
    has_value = OWL + "hasValue"
    some = OWL + "someValuesFrom"
    every = OWL + "allValuesFrom"
    most = OWL + "maxCardinality"
    most_of = OWL + "maxQualifiedCardinality"
    intersection = OWL + "intersectionOf"
    union = OWL + "unionOf"
    one_of = OWL + "oneOf"
    chain = OWL + "propertyChainAxiom"
    key = OWL + "hasKey"
    source = OWL + "sourceIndividual"
    assertion = OWL + "assertionProperty"
    target = OWL + "targetIndividual"
    value = OWL + "targetValue"
