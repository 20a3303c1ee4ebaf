"""Ontologies: files, the closure against another program, contradictions, relations, and engines that notice."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

import cql2
import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests import oracle
from tests.parts.profiles import examples
from tests.strategies import ONTOLOGY, expressions
from tidegate.language import Call, parse, to_json, to_text
from tidegate.ontologies import current, read
from tidegate.ontologies.ontology import RELATIONS, Ontology
from tidegate.ontologies.words import VOCABULARY
from tidegate.predicates.family import FUNCTIONS
from tidegate.predicates.filter import compile_filter
from tidegate.predicates.ontology import expanded

DATA = Path(__file__).parents[2] / "shared" / "data" / "ontologies"
WINE = "http://www.w3.org/TR/2003/PR-owl-guide-20031209/wine#"
E = "http://e/"
HEAD = f"""
@prefix : <{E}> .
@prefix owl: <{VOCABULARY["owl"]}> .
@prefix rdf: <{VOCABULARY["rdf"]}> .
@prefix rdfs: <{VOCABULARY["rdfs"]}> .
@prefix xsd: <{VOCABULARY["xsd"]}> .
"""
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the shared data is not here")


@pytest.fixture(autouse=True)
def _as_before():
    """Whatever a test loads is gone after it."""
    with current.use(current.get()):
        yield


@pytest.fixture
def write(tmp_path):
    """A Turtle file of these statements."""
    count = iter(range(1_000_000))

    def written(text: str) -> Path:
        path = tmp_path / f"o{next(count)}.ttl"
        path.write_text(HEAD + text)
        return path

    return written


@pytest.fixture
def load(write):
    """Load these statements as the current ontology, with the prefix e."""
    return lambda text: tg.load_ontology(write(text), prefixes={"e": E})


def publication(id="p", **attributes):
    return tg.Publication(id=id, source="z7", time=datetime(2026, 11, 15, 8, tzinfo=UTC), attributes=attributes)


def engine(*wheres):
    return tg.Engine([tg.Subscription(where, "ann", where) for where in wheres])


def told(found, **attributes):
    return {n.subscription for n in found.publish([publication(**attributes)])}


def names(ontology, relation, *about):
    return {t.removeprefix(E) for t in ontology.terms(relation, *(E + name for name in about))}


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "format"),
    [
        (".rdf", ox.RdfFormat.RDF_XML),
        (".OWL", ox.RdfFormat.RDF_XML),
        (".nt", ox.RdfFormat.N_TRIPLES),
        (".jsonld", ox.RdfFormat.JSON_LD),
    ],
)
def test_every_format_says_the_same(ending, format, tmp_path):
    path = tmp_path / f"wine{ending}"
    triples = [quad.triple for quad in ox.parse(path=ONTOLOGY)]
    path.write_bytes(ox.serialize(triples, format=format))
    turtle, other = Ontology([ONTOLOGY]), Ontology([path])
    namespace = "http://example.org/wine#"
    assert (turtle.stated, len(turtle)) == (other.stated, len(other))
    for about in ("RedWine", "Chianti", "Italy", "growsIn"):
        for relation in ("isA", "equivalent", "moreSpecific", "lessSpecific"):
            assert turtle.terms(relation, namespace + about) == other.terms(relation, namespace + about)


def test_the_format_can_be_given(tmp_path):
    path = tmp_path / "wine.txt"
    path.write_bytes(ONTOLOGY.read_bytes())
    assert len(tg.load_ontology(path, format="turtle")) == len(Ontology([ONTOLOGY]))


def test_several_files_are_one_ontology_and_keep_their_blank_nodes_apart(write):
    one = write(":A rdfs:subClassOf _:x . _:x a owl:Restriction ; owl:onProperty :p ; owl:hasValue :v .")
    two = write(":B rdfs:subClassOf _:x . _:x a owl:Restriction ; owl:onProperty :q ; owl:hasValue :w . :i a :A .")
    ontology = Ontology([one, two])
    assert names(ontology, "related", "p", "v") == {"i"}
    assert names(ontology, "related", "q", "w") == set()


def test_what_is_imported_and_not_given_is_named_and_not_fetched(write, caplog):
    path = write("<http://e/> a owl:Ontology ; owl:imports <http://nowhere.invalid/food> . :i a :A .")
    with caplog.at_level(logging.WARNING, "tidegate"):
        assert tg.load_ontology(path).missing == ("http://nowhere.invalid/food",)
    assert "http://nowhere.invalid/food" in caplog.text
    given = write("<http://nowhere.invalid/food#> a owl:Ontology .")
    assert tg.load_ontology(path, given).missing == ()


def test_names_in_any_script(load):
    ontology = load(":Weiß a :Größe . :ワイン a :Größe . <http://e/a'b> a :Größe . <http://e/%20?q=1&r=2> a :Größe .")
    assert names(ontology, "isA", "Größe") == {"Weiß", "ワイン", "a'b", "%20?q=1&r=2"}
    assert told(engine("isA(x, 'e:Größe')"), x="e:ワイン")


def test_relative_names_are_those_of_the_file(tmp_path):
    path = tmp_path / "a.rdf"
    path.write_text(
        f'<rdf:RDF xmlns:rdf="{VOCABULARY["rdf"]}" xmlns:owl="{VOCABULARY["owl"]}"><owl:Class rdf:ID="Wine"/></rdf:RDF>'
    )
    assert Ontology([path]).has(path.as_uri() + "#Wine", ("class",))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.ttl", "<http://a> <http://b>\n .", "line 2"),
        ("a.rdf", "<rdf:RDF", "RDF/XML"),
        ("a.rdf", "no XML at all", "RDF/XML"),
        ("a.nt", "<http://a> <http://b> <http://c> .\n<http://a> b <http://c> .", "line 2"),
        ("a.jsonld", '{"@context": "http://nowhere.invalid/c.jsonld"}', "remote"),
        ("a.json", "[1, 2", "JSON"),
        ("a.ttl", b"\xff\xfe\x00", "a.ttl"),
        ("a.csv", "a,b", ".ttl"),
        ("a", "", ".ttl"),
        ("a.ttl", "<urn:x-tidegate:blank:1> a <http://b> .", "ours"),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_old_one_stays(name, text, said, tmp_path):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = current.get()
    with pytest.raises(tg.OntologyError, match="expected") as caught:
        tg.load_ontology(path)
    assert said in str(caught.value)
    assert name in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert current.get() is before


@pytest.mark.parametrize("source", ["no-such-file.ttl", "."])
def test_a_file_that_is_none(source, tmp_path):
    with pytest.raises(tg.OntologyError) as caught:
        tg.load_ontology(tmp_path / source, format="turtle")
    assert str(tmp_path) in caught.value.at


@pytest.mark.parametrize(
    ("sources", "arguments"),
    [
        ((), {}),
        ((7,), {}),
        ((ONTOLOGY,), {"format": "yaml"}),
        ((ONTOLOGY,), {"prefixes": ["vin"]}),
        ((ONTOLOGY,), {"prefixes": {"vin:": "http://a#"}}),
        ((ONTOLOGY,), {"prefixes": {"http": "http://a#"}}),
        ((ONTOLOGY,), {"prefixes": {"vin": "wine"}}),
        ((ONTOLOGY,), {"prefixes": {"vin": 7}}),
    ],
)
def test_arguments_that_make_no_sense(sources, arguments):
    with pytest.raises(tg.SettingError):
        tg.load_ontology(*sources, **arguments)


def test_too_many_triples(load, monkeypatch):
    monkeypatch.setattr(read, "MOST", 3)
    load(":a :b :c . :d :e :f . :g :h :i . :a :b :c .")
    with pytest.raises(tg.OntologyError, match="at most 3 triples"):
        load(":a :b :c . :d :e :f . :g :h :i . :j :k :l .")


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
    ontology, known = Ontology(paths), oracle.closure(*paths)
    for y in terms:
        questions = [(relation, y) for relation in RELATIONS if relation != "related"]
        for question in questions + [("related", p, y) for p in properties]:
            mine = ontology.terms(*question)
            assert mine == {x for x in terms if oracle.related(known, question[0], x, *question[1:])}, question


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
    refused = any("error" in p.lower() for _, p, _ in oracle.closure(path))
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


# --- names ----------------------------------------------------------------------------------------------------------


def test_a_term_has_many_spellings_and_all_of_them_match(load):
    path = load(":i a :A .").sources[0]
    tg.load_ontology(path, prefixes={"e": E, "again": E, "wide": "http://"})
    for written in ("e:A", "again:A", "http://e/A", "<http://e/A>"):
        found = engine(f"isA(x, '{written}')")
        for value in ("e:i", "again:i", "http://e/i", "wide:e/i"):
            assert told(found, x=value), (written, value)
        for value in ("e:A", "i", "<http://e/i>", "E:i", "e: i", ""):
            assert not told(found, x=value), (written, value)


def test_a_namespace_may_be_a_term_itself(write):
    tg.load_ontology(write("<http://e/> a :A ."), prefixes={"e": E})
    assert told(engine("isA(x, 'e:A')"), x="e:")
    assert told(engine("equivalent(x, 'e:')"), x=E)


def test_an_iri_of_another_scheme_needs_no_prefix(write):
    tg.load_ontology(write("<tag:a> a <tag:B> ."))
    assert told(engine("isA(x, 'tag:B')"), x="tag:a")


_FAULTS = {
    "isA(wine, 'vin:RedWin')": "vin:RedWine",
    "isA(wine, 'vin:redwine')": "vin:RedWine",
    "isA(wine, 'http://example.org/wine#RedWin')": "vin:RedWine",
    "isA(wine, 'RedWine')": "a term with a prefix or in full",
    "isA(wine, 'wein:RedWine')": "a declared prefix: owl, rdf, rdfs, vin, xsd",
    "isA(wine, ':RedWine')": "add '': 'http://example.org/wine#' to prefixes",
    "isA(wine, '<a b>')": "between < and >",
    "isA(wine, 'vin:Red')": "a class of the ontology",
    "isA(wine, '')": "a term",
    "isA(wine, 7)": "a term such as",
    "isA(wine, kind)": "a term such as",
    "isA('vin:FonteVino', 'vin:Wine')": "an attribute",
    "isA(CASEI(wine), 'vin:Wine')": "an attribute",
    "isA(time, 'vin:Wine')": "text",
    "isA(wine)": "2 arguments",
    "related(wine, 'vin:Red', 'vin:hasColor')": "a property of the ontology",
    "related(wine, 'vin:hasColor')": "3 arguments",
    "related(wine, 'vin:hasColor', 7)": "a term such as",
    "moreSpecific(kind, 'vin:Italy')": "a class or property",
    "a_contains(b, ('vin:Red'), 'related')": "related with its property",
    "a_contains(b, ('vin:Red'), related())": "one argument of related",
    "a_contains(b, ('vin:Red'), related('vin:hasColour'))": "vin:hasColor",
    "a_contains(b, (7), 'isA')": "terms such as",
    "a_contains(b, ('vin:Wein'), 'isA')": "vin:Wine",
    "a_contains(b, ('vin:Wine'), 'isB')": "lessSpecific",
    "a_contains(b, ((x, 1)), 'IN')": "constants",
    "related('vin:hasColor') = 1": "",
}


@pytest.mark.parametrize("where", _FAULTS)
def test_mistakes_of_users_are_explained(where):
    with pytest.raises(tg.TypeMismatch) as caught:
        engine(where)
    assert _FAULTS[where] in caught.value.expected
    assert caught.value.code == "type"


def test_without_an_ontology_there_is_no_meaning():
    with current.use(None), pytest.raises(tg.TypeMismatch, match="load_ontology"):
        engine("isA(wine, 'vin:RedWine')")


def test_a_misspelt_function_is_recognised():
    with pytest.raises(tg.UnknownFunction, match="isA"):
        engine("is_a(wine, 'vin:RedWine')")


# --- relations ------------------------------------------------------------------------------------------------------


def test_what_is_more_specific_is_strictly_below(load):
    ontology = load(
        ":A rdfs:subClassOf :B . :B rdfs:subClassOf :C ; owl:equivalentClass :D . :p rdfs:subPropertyOf :q ."
    )
    assert names(ontology, "moreSpecific", "B") == {"A"}
    assert names(ontology, "moreSpecific", "C") == {"A", "B", "D"}
    assert names(ontology, "lessSpecific", "A") == {"B", "C", "D"}
    assert names(ontology, "lessSpecific", "p") == {"q"}
    assert names(ontology, "equivalent", "D") == {"B", "D"}


def test_values_that_the_ontology_does_not_know_are_of_nothing():
    found = engine("NOT isA(wine, 'vin:RedWine')", "isA(wine, 'vin:RedWine')")
    assert told(found, wine="water") == {"NOT isA(wine, 'vin:RedWine')"}
    assert told(found, wine=7) == told(found) == set()


@given(node=expressions([op for op in FUNCTIONS if FUNCTIONS[op].family in ("ontology", "bag")]))
def test_an_expression_means_what_it_is_expanded_to(node):
    plain = expanded(node)
    assert compile_filter(plain) == compile_filter(node)
    assert expanded(plain) is plain
    words = [to_text(Call(op, ())) for op in RELATIONS]
    assert not any(word.removesuffix(")") in to_text(plain) for word in words)


def test_what_asks_nothing_is_expanded_to_itself():
    for where in ("a = 1 AND NOT b LIKE 'isA(%'", "a_contains(b, (('a', 'b'), 'c'), 'IN')", "a_contains(b, (1), '<')"):
        node = parse(where)
        assert expanded(node) is node


@pytest.mark.parametrize(
    "where",
    [
        "isA(wine, 'vin:RedWine')",
        "NOT isA(wine, 'vin:Chianti')",
        "related(wine, 'vin:hasColor', 'vin:Italy')",
        "a_contains(b, ('vin:RedWine'), 'isA')",
        "a_contains(b, ('vin:RedWine', 'vin:Wine'), 'isA')",
        "a_contains(b, ('vin:RedWine', 'vin:Wine'), 'equivalent')",
        "a_contains(b, ('vin:Italy'), related('vin:hasColor'))",
        "a_overlaps(b, ('vin:Italy', 'vin:Red'), related('vin:hasColor'))",
        "a_containedBy(b, ('vin:Italy', 'vin:Red', 'vin:White'), related('vin:hasColor'))",
        "topk(1, 'PT1H', n) AND isA(wine, 'vin:RedWine')",
        "together('PT1M', isA(wine, 'vin:RedWine'), isA(wine, 'vin:Chianti'))",
    ],
)
def test_both_forms_are_plain_cql2(where):
    node = parse(where)
    for form in (node, expanded(node)):
        theirs = cql2.parse_text(to_text(form)).to_json()
        if form.op.startswith("a_") and isinstance(theirs["args"][-1], list) and len(form.args) == 3:
            (theirs["args"][-1],) = theirs["args"][-1]  # it takes every argument of these for a list
        assert theirs == to_json(form)


def test_lists_as_members_of_a_bag():
    found = engine(
        "a_contains(b, (('a', 'b'), ('c')), 'IN')",
        "a_equals(b, ((1, 2), (2, 3)), 'in')",
        "a_containedBy(b, (('a', 1), ('b', TRUE)), 'IN')",
        "a_overlaps(b, ((), ('c', 7)), 'IN')",
        "NOT a_contains(b, ((), ('c', 7)), 'IN')",
    )
    texts, numbers, either, some, never = (s.id for s in found)
    assert told(found, b=["c", "b", "x"]) == {texts, some, never}
    assert told(found, b=["a", "b"]) == {either, never}
    assert told(found, b=[3, 2]) == {numbers, never}
    assert told(found, b=[2, 2]) == {numbers, never}
    assert told(found, b=[1, 1]) == {never}
    assert told(found, b=[True, 1]) == {either, never}
    assert told(found, b=[]) == {either, never}
    assert told(found) == set()


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        ("a_contains(b, (('a', 'b'), ('c', 'd')), 'IN')", "a_contains(b, ('a', 'c'))", True),
        ("a_contains(b, (('a', 'b'), ('c', 'd')), 'IN')", "a_contains(b, (('a'), ('c', 'd'), ('e')), 'IN')", True),
        ("a_contains(b, (('a', 'b'), ('c', 'd')), 'IN')", "a_contains(b, (('b', 'c'), ('c', 'd')), 'IN')", False),
        ("a_contains(b, (('a', 'b'), ('a', 'b')), 'IN')", "a_contains(b, ('a', 'x'))", False),
        ("a_containedBy(b, (('a', 'b'), ('c', 'd')), 'IN')", "a_containedBy(b, ('a', 'c'))", True),
        ("a_containedBy(b, (('a', 'b'), ('c', 'd')), 'IN')", "a_containedBy(b, ('a', 'b'))", False),
        ("a_equals(b, (('a', 'b'), ('c', 'd')), 'IN')", "a_equals(b, (('c'), ('a', 'b')), 'IN')", True),
        ("a_equals(b, (('a', 'b'), ('c', 'd')), 'IN')", "a_contains(b, (('c'), ('a', 'b')), 'IN')", False),
        ("a_overlaps(b, ('a', 'b', 'c'))", "a_contains(b, (('a', 'c'), ('x', 'y')), 'IN')", True),
        ("a_overlaps(b, ('a', 'b', 'c'))", "a_contains(b, (('a', 'x'), ('x', 'y')), 'IN')", False),
        ("a_contains(b, ('vin:Wine'), 'isA')", "a_contains(b, ('vin:RedWine'), 'isA')", True),
        ("a_contains(b, ('vin:Wine', 'vin:Wine'), 'isA')", "a_contains(b, ('vin:RedWine', 'vin:Wine'), 'isA')", True),
        ("isA(x, 'vin:Wine')", "isA(x, 'vin:Chianti')", True),
        ("isA(x, 'vin:Chianti')", "isA(x, 'vin:Wine')", False),
    ],
)
def test_covering_of_lists_and_terms(one, other, covers):
    ((mine,),), ((theirs,),) = (compile_filter(parse(where)).clauses for where in (one, other))
    assert mine.covers(theirs) is covers


# --- engines --------------------------------------------------------------------------------------------------------

_BEFORE = ":i a :A . :j a :B . :A rdfs:subClassOf :Top . :B rdfs:subClassOf :Top ."
_AFTER = ":i a :A . :j a :B . :k a :B . :A rdfs:subClassOf :Top . :B rdfs:subClassOf :Top ."


def test_an_engine_notices_another_ontology_and_touches_only_what_changed(load):
    load(_BEFORE)
    found = engine(
        "isA(x, 'e:A')", "isA(x, 'e:B')", "NOT isA(x, 'e:B')", "isA(x, 'e:Top') AND n = 1", "n = 1", "x = 'e:k'"
    )
    assert told(found, x="e:k", n=1) == {"NOT isA(x, 'e:B')", "n = 1", "x = 'e:k'"}
    before = list(found)
    load(_AFTER)
    assert told(found, x="e:k", n=1) == {"isA(x, 'e:B')", "isA(x, 'e:Top') AND n = 1", "n = 1", "x = 'e:k'"}
    assert found.renewed == 3
    assert list(found) == before
    assert len(found) == 6
    load(_AFTER)
    assert told(found, x="e:i") == {"isA(x, 'e:A')", "NOT isA(x, 'e:B')"}
    assert found.renewed == 0
    found.unsubscribe("isA(x, 'e:B')")
    found.unsubscribe("NOT isA(x, 'e:B')")
    load(_BEFORE)
    assert told(found, x="e:k") == {"x = 'e:k'"}
    assert (found.renewed, len(found)) == (1, 4)


def test_bags_are_renewed_too(load):
    load(_BEFORE)
    found = engine("a_contains(b, ('e:B', 'e:A'), 'isA')", "NOT a_overlaps(b, ('e:B'), 'isA')")
    assert told(found, b=["e:k", "e:i"]) == {"NOT a_overlaps(b, ('e:B'), 'isA')"}
    load(_AFTER)
    assert told(found, b=["e:k", "e:i"]) == {"a_contains(b, ('e:B', 'e:A'), 'isA')"}


def test_patterns_are_renewed_and_begin_anew(load):
    load(_BEFORE)
    where = "together('PT1H', isA(x, 'e:B'), n = 1)"
    found = engine(where, "topk(1, 'PT1H', n) AND isA(x, 'e:B')", "together('PT1H', isA(x, 'e:A'), n = 1)")
    assert len(found.publish([publication("p0", x="e:j", n=9)])) == 1
    load(_AFTER)
    assert found.publish([publication("p1", n=1)]) == []  # p0 is forgotten by who was renewed
    assert found.renewed == 2
    assert {n.subscription for n in found.publish([publication("p2", x="e:k", n=5)])} == {s.id for s in list(found)[:2]}
    found.unsubscribe(where)
    assert found.publish([publication("p3", x="e:k", n=6)]) == []


def test_a_term_that_is_gone_is_of_nothing_and_may_come_back(load, caplog):
    load(_BEFORE)
    found = engine("isA(x, 'e:B')", "NOT isA(x, 'e:B')", "topk(1, 'PT1H', n) AND isA(x, 'e:B')")
    with caplog.at_level(logging.WARNING, "tidegate"):
        load(":i a :A .")
        assert told(found, x="e:j", n=1) == {"NOT isA(x, 'e:B')"}
    assert "e:B" in caplog.text
    load(_BEFORE)
    assert told(found, x="e:j", n=1) == {"isA(x, 'e:B')", "topk(1, 'PT1H', n) AND isA(x, 'e:B')"}


def test_subscribe_and_advance_notice_as_well(load):
    load(_BEFORE)
    found = engine("isA(x, 'e:B')")
    load(_AFTER)
    found.subscribe(tg.Subscription("s", "ann", "isA(x, 'e:A')"))
    assert found.renewed == 1
    load(_BEFORE)
    found.advance(datetime(2026, 11, 15, 9, tzinfo=UTC))
    assert found.renewed == 1
    assert told(found, x="e:k") == set()


def test_other_prefixes_are_another_meaning(write):
    path = write(_BEFORE)
    tg.load_ontology(path, prefixes={"e": E})
    found = engine("isA(x, 'e:B')", f"isA(x, '{E}B')")
    tg.load_ontology(path, prefixes={"f": E})
    assert told(found, x="f:j") == {f"isA(x, '{E}B')"}
    assert told(found, x="e:j") == set()


def test_an_ontology_that_comes_while_one_subscribes(load, monkeypatch):
    load(_BEFORE)
    found = tg.Engine()
    notice = found._notice

    def meanwhile():
        monkeypatch.undo()
        load(_AFTER)
        notice()

    monkeypatch.setattr(found, "_notice", meanwhile)
    found.subscribe(tg.Subscription("s", "ann", "isA(x, 'e:B')"))
    assert told(found, x="e:k") == {"s"}


def test_publishers_see_the_old_or_the_new_and_nothing_between(load):
    load(_BEFORE)
    found = tg.Engine([tg.Subscription(f"s{i}", "ann", f"isA(x, 'e:B') AND m < {i + 1}") for i in range(300)])
    seen, errors, stop = set(), [], threading.Event()

    def publish():
        try:
            while not stop.is_set():
                rows = found.publish([publication("p", x="e:j", m=0), publication("q", x="e:k", m=0)])
                seen.add((sum(n.publications == ("p",) for n in rows), sum(n.publications == ("q",) for n in rows)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
    for text in (_AFTER, _BEFORE, _AFTER, ":k a :B .", _AFTER, _BEFORE):
        load(text)
        for _ in range(3):
            found.publish([publication("r", x="e:j", m=0)])
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen <= {(300, 0), (300, 300), (0, 300)}
    assert len(seen) > 1


# --- snapshots ------------------------------------------------------------------------------------------------------

_KEPT = (
    "isA(x, 'e:B')",
    "NOT isA(x, 'e:B')",
    "a_containedBy(b, ('e:A', 'e:B'), 'isA')",
    "topk(1, 'PT1H', n) AND isA(x, 'e:B')",
)


def test_a_snapshot_keeps_its_meaning_where_there_is_no_ontology(load, tmp_path):
    load(_BEFORE)
    engine(*_KEPT).save(tmp_path / "kept")
    with current.use(None):
        found = tg.Engine.load(tmp_path / "kept")
        assert told(found, x="e:j", n=1) == {_KEPT[0], _KEPT[3]}
        assert told(found, b=["e:i", "e:j"]) == {_KEPT[2]}
        assert told(found, b=["e:j", "e:j"]) == told(found, x="e:j", n=5) - {_KEPT[0]} == set()
        found.save(tmp_path / "again")
    load(_AFTER)
    for name in ("kept", "again"):
        found = tg.Engine.load(tmp_path / name)
        assert told(found, x="e:k", n=1) == {_KEPT[0], _KEPT[3]}
        assert found.renewed == 4


def test_a_snapshot_is_renewed_only_where_the_ontology_is_another(load, tmp_path):
    load(_BEFORE)
    engine(*_KEPT).save(tmp_path / "kept")
    found = tg.Engine.load(tmp_path / "kept")
    assert told(found, x="e:j") == {_KEPT[0]}
    assert found.renewed == 0
    load(_AFTER)
    assert told(found, x="e:k") == {_KEPT[0]}


def test_snapshots_of_two_ontologies_together(load, tmp_path):
    load(_BEFORE)
    engine("n = 1", "isA(x, 'e:B')").save(tmp_path / "one")
    engine("n = 2").save(tmp_path / "none")
    load(_AFTER)
    engine("NOT isA(x, 'e:B')", "isA(x, 'e:A')").save(tmp_path / "two")
    found = tg.Engine.load(*(tmp_path / name for name in ("one", "none", "two")))
    assert told(found, x="e:k", n=2) == {"isA(x, 'e:B')", "n = 2"}
    assert len(found) == 5
    load(":k a :A . :j a :B . ")
    assert told(found, x="e:k") == {"NOT isA(x, 'e:B')", "isA(x, 'e:A')"}


def test_a_broken_snapshot_says_so(load, tmp_path):
    load(_BEFORE)
    engine(*_KEPT).save(tmp_path / "kept")
    (tmp_path / "kept" / "asked.json").write_text("[[1]]")
    with pytest.raises(tg.SnapshotError, match="ask an ontology"):
        tg.Engine.load(tmp_path / "kept")


# --- cost -----------------------------------------------------------------------------------------------------------


def test_a_relation_is_in_the_index_what_an_in_is(load):
    load("".join(f":i{i} a :A . " for i in range(50)))
    asked = engine("isA(x, 'e:A')")
    texts = ", ".join(f"'{value}'" for i in range(50) for value in (f"e:i{i}", f"{E}i{i}"))
    plain = tg.Engine([tg.Subscription("s", "ann", f"x IN ({texts})")])
    assert asked.index_bytes == plain.index_bytes
    (mine,), (theirs,) = (
        compile_filter(parse("isA(x, 'e:A')")).clauses,
        compile_filter(parse(f"x IN ({texts})")).clauses,
    )
    assert mine == theirs
    again = compile_filter(parse("isA(y, 'e:A')")).clauses[0][0]
    assert again.ranges is compile_filter(parse("isA(x, 'e:A')")).clauses[0][0].ranges  # shared, not built again
