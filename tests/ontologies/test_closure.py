"""The closure of ontologies against another program, and contradictions."""

from __future__ import annotations

from pathlib import Path

import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.drawn_publications import ONTOLOGY
from tests.ontologies.statements import HEAD, E, engine, told
from tests.oracle_ontology import closure, related
from tests.parts.profiles import examples
from tidegate.ontologies import current
from tidegate.ontologies.ontology import RELATIONS, Ontology
from tidegate.ontologies.words import VOCABULARY

DATA = Path(__file__).parents[3] / "shared" / "data" / "ontologies"
WINE = "http://www.w3.org/TR/2003/PR-owl-guide-20031209/wine#"

needs_data = pytest.mark.skipif(not DATA.exists(), reason="the shared data is not here")


# --- the closure ----------------------------------------------------------------------------------------------------


@needs_data
def test_the_closure_colours_fifty_wines():
    ontology = tg.load_ontology(DATA / "wine.rdf", prefixes={"vin": WINE})
    found = {c: ontology.terms("related", WINE + "hasColor", WINE + c) for c in ("Red", "White", "Rose")}
    assert {colour: len(wines) for colour, wines in found.items()} == {"Red": 26, "White": 23, "Rose": 1}
    assert ontology.missing == ("http://www.w3.org/TR/2003/PR-owl-guide-20031209/food",)
    reds = engine("related(wine, 'vin:hasColor', 'vin:Red')", "isA(wine, 'vin:RedWine')")
    assert len(told(reds, wine="vin:ChiantiClassico")) == 2
    assert told(reds, wine=WINE + "CorbansPrivateBinSauvignonBlanc") == set()


def agrees(paths, terms, properties):
    """Every relation of every term is what another program says."""
    ontology, known = Ontology(paths), closure(*paths)
    for y in terms:
        questions = [(relation, y) for relation in RELATIONS if relation != "related"]
        for question in questions + [("related", p, y) for p in properties]:
            mine = ontology.terms(*question)
            assert mine == {x for x in terms if related(known, question[0], x, *question[1:])}, question


def terms_of(*paths):
    """Every IRI of the files that is no word of a vocabulary, and those of them that are properties."""
    graph = rdflib.Graph()
    for path in paths:
        graph.parse(path)
    every = {str(term) for triple in graph for term in triple if isinstance(term, rdflib.URIRef)}
    terms = {term for term in every if not term.startswith(tuple(VOCABULARY.values()))}
    used = {str(p) for p in graph.predicates()} | {str(s) for s, o in graph.subject_objects() if "Property" in str(o)}
    return terms, terms & used


@pytest.mark.thorough
@needs_data
@pytest.mark.parametrize(
    "paths", [["wine.rdf"], ["food_converted.rdf"], ["sosa-ssn/sosa.ttl", "sosa-ssn/sosa-common.ttl"]]
)
def test_the_closure_of_real_ontologies_is_what_another_program_says(paths):
    paths = [DATA / path for path in paths]
    agrees(paths, *terms_of(*paths))


def test_the_closure_of_the_examples_is_what_another_program_says():
    agrees([ONTOLOGY], *terms_of(ONTOLOGY))


_COUNTIES = """
:isWestOf a owl:TransitiveProperty ; owl:inverseOf :isEastOf ; rdfs:subPropertyOf :isNear .
:isNear a owl:SymmetricProperty ; rdfs:domain :County ; rdfs:range :County .
:Hamilton :isWestOf :York . :Hall :isWestOf :Hamilton . :York :isNear :Polk . :Seward :isEastOf :York .
:County owl:equivalentClass :Comitat . :York owl:sameAs :NewYork .
"""
_SMALL = {
    "counties": _COUNTIES,
    "keys and chains": """
        :Person owl:hasKey ( :number ) . :ann a :Person ; :number "7" . :anna a :Person ; :number "7" .
        :uncle owl:propertyChainAxiom ( :parent :brother ) . :joe :parent :ann . :ann :brother :ben .""",
    "what takes turns": """
        :number rdfs:domain :Person . :Person owl:hasKey ( :number ) . :ann :number "7" ; :likes :Wine .
        :anna :number "7" . :likes owl:inverseOf :pleases . :fan owl:propertyChainAxiom ( :pleases :number ) .""",
    "at most one": """
        :One owl:maxCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :p . :i a :One ; :p :a , :b . :b :q :c .
        :Q owl:maxQualifiedCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :r ; owl:onClass :D .
        :j a :Q ; :r :d , :e , :f . :d a :D . :e a :D . :e :q :g .""",
    "one of, union, complement": """
        :Colour owl:oneOf ( :Red :White ) . :Any owl:unionOf ( :A :B ) . :A owl:complementOf :B . :a a :A .""",
    "restrictions that imply each other": """
        :A a owl:Class . :B a owl:Class ; rdfs:subClassOf :A . :p a owl:ObjectProperty ; rdfs:subPropertyOf :q .
        :SomeB owl:equivalentClass [ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom :B ] .
        :SomeA owl:equivalentClass [ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom :A ] .
        :AllB owl:equivalentClass [ a owl:Restriction ; owl:onProperty :q ; owl:allValuesFrom :B ] .
        :AllBp owl:equivalentClass [ a owl:Restriction ; owl:onProperty :p ; owl:allValuesFrom :B ] .
        :x a :SomeB . :y a :AllB ; :q :z .""",
    "several intersections and unions": """
        :A owl:intersectionOf ( :B :C ) , ( :D :E ) ; owl:unionOf ( :F ) , ( :G :H ) .
        :x a :D , :E . :y a :B , :C . :v a :F . :w a :H . :z a :A .""",
    "inverse functional": """
        :mail a owl:InverseFunctionalProperty . :ann :mail :m . :anna :mail :m . :ben :mail :n . :ann a :Person .""",
    "the same, everywhere": """
        :a owl:sameAs :b . :b owl:sameAs :c . :x :p :a . :c a :C . :p owl:sameAs :q . :C owl:sameAs :D .""",
}


@pytest.mark.parametrize("name", _SMALL)
def test_the_closure_of_small_ontologies_is_what_another_program_says(name, write):
    path = write(_SMALL[name])
    agrees([path], *terms_of(path))


_classes, _properties, _things = (
    st.sampled_from([f":{kind}{i}" for i in range(n)]) for kind, n in (("C", 4), ("p", 3), ("i", 4))
)
_restriction = st.one_of(
    st.builds("owl:hasValue {}".format, _things),
    st.builds(
        "owl:{} {}".format, st.sampled_from(["someValuesFrom", "allValuesFrom"]), _classes | st.just("owl:Thing")
    ),
    st.builds('owl:maxCardinality "{}"^^xsd:nonNegativeInteger'.format, st.sampled_from([0, 1, 1, 2])),
)
_axioms = st.one_of(
    st.builds("{} a {} .".format, _things, _classes),
    st.builds("{} {} {} .".format, _things, _properties, _things),
    st.builds("{} {} {} .".format, _things, _properties, _things),
    st.builds("{} {} {} .".format, _classes, st.sampled_from(["rdfs:subClassOf", "owl:equivalentClass"]), _classes),
    st.builds("{} owl:{} {} .".format, _things, st.sampled_from(["sameAs", "sameAs", "differentFrom"]), _things),
    st.builds("{} rdfs:subPropertyOf {} .".format, _properties, _properties),
    st.builds("{} owl:{} {} .".format, _properties, st.sampled_from(["inverseOf", "equivalentProperty"]), _properties),
    st.builds(
        "{} a owl:{}Property .".format,
        _properties,
        st.sampled_from(["Transitive", "Symmetric", "Functional", "InverseFunctional", "Asymmetric", "Irreflexive"]),
    ),
    st.builds("{} rdfs:{} {} .".format, _properties, st.sampled_from(["domain", "range"]), _classes),
    st.builds("{} owl:intersectionOf ( {} {} ) .".format, _classes, _classes, _classes),
    st.builds("{} owl:unionOf ( {} {} ) .".format, _classes, _classes, _classes),
    st.builds("{} owl:oneOf ( {} {} ) .".format, _classes, _things, _things),
    st.builds("{} owl:propertyChainAxiom ( {} {} ) .".format, _properties, _properties, _properties),
    st.builds(
        "{} {} [ a owl:Restriction ; owl:onProperty {} ; {} ] .".format,
        _classes, st.sampled_from(["rdfs:subClassOf", "owl:equivalentClass"]), _properties, _restriction,
    ),
    st.builds("[] a owl:AllDisjointClasses ; owl:members ( {} {} ) .".format, _classes, st.just(":Dry")),
    st.builds("{} a :Dry .".format, _things),
)  # fmt: skip
_DECLARED = "".join(f":C{i} a owl:Class . " for i in range(4)) + "".join(
    f":p{i} a owl:ObjectProperty . " for i in range(3)
)


@examples(40)
@given(axioms=st.lists(_axioms, min_size=2, max_size=14))
def test_the_closure_of_any_ontology_is_what_another_program_says(axioms, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "any.ttl"
    path.write_text(HEAD + _DECLARED + "\n".join(axioms))
    refused = any("error" in p.lower() for _, p, _ in closure(path))
    if refused:
        with pytest.raises(tg.OntologyError, match="without contradictions"):
            Ontology([path])
    else:
        terms, properties = terms_of(path)
        agrees([path], terms, properties)


# --- contradictions -------------------------------------------------------------------------------------------------


_IMPOSSIBLE = {
    "eq-diff1": ":a owl:sameAs :b . :a owl:differentFrom :b .",
    "eq-diff2": "[] a owl:AllDifferent ; owl:distinctMembers ( :a :b ) . :a owl:sameAs :b .",
    "cls-nothing2": ":a a owl:Nothing .",
    "cls-com": ":A owl:complementOf :B . :a a :A , :B .",
    "cax-dw": ":A owl:disjointWith :B . :C rdfs:subClassOf :A . :a a :C , :B .",
    "cax-adc": "[] a owl:AllDisjointClasses ; owl:members ( :A :B :C ) . :a a :B , :C .",
    "prp-irp": ":p a owl:IrreflexiveProperty . :a :p :a .",
    "prp-asyp": ":p a owl:AsymmetricProperty . :a :p :b . :b :p :a .",
    "prp-pdw": ":p owl:propertyDisjointWith :q . :a :p :b ; :q :b .",
    "prp-adp": "[] a owl:AllDisjointProperties ; owl:members ( :p :q ) . :a :p :b ; :q :b .",
    "prp-npa1": "[] owl:sourceIndividual :a ; owl:assertionProperty :p ; owl:targetIndividual :b . :a :p :b .",
    "prp-npa2": '[] owl:sourceIndividual :a ; owl:assertionProperty :p ; owl:targetValue "7" . :a :p "7" .',
    "cls-maxc1": ':A owl:onProperty :p ; owl:maxCardinality "0"^^xsd:nonNegativeInteger . :a a :A ; :p :b .',
    "cls-maxqc1": """:A owl:onProperty :p ; owl:onClass :B ; owl:maxQualifiedCardinality "0"^^xsd:nonNegativeInteger .
        :a a :A ; :p :b . :b a :B .""",
}


@pytest.mark.parametrize("rule", _IMPOSSIBLE)
def test_what_contradicts_itself_is_refused_with_the_reason(rule, write):
    before, path = current.get(), write(_IMPOSSIBLE[rule])
    with pytest.raises(tg.OntologyError, match="an ontology without contradictions") as caught:
        tg.load_ontology(write(":x a :X ."), path, prefixes={"e": E})
    assert f"({rule}" in caught.value.got
    assert caught.value.got.startswith("e:")  # what it is about, as a person would write it
    assert caught.value.at == str(path)
    assert current.get() is before
