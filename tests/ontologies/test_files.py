"""Files of ontologies: formats, imports, and what cannot be read."""

from __future__ import annotations

import logging

import pyoxigraph as ox
import pytest

import tidegate as tg
from tests.drawn_publications import ONTOLOGY
from tests.ontologies.statements import engine, names, told
from tidegate.ontologies import closure, current, read
from tidegate.ontologies.ontology import Ontology
from tidegate.ontologies.words import VOCABULARY


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


def individuals(count, more=""):
    return f"{more} " + " ".join(f":i{i} a :C{i % 9} ; :near :i{i * 7 % count} ." for i in range(count))


def test_what_follows_is_bounded_in_triples(write, monkeypatch):
    """Of few terms here, of many in a process of its own."""
    few, many = write(individuals(9)), write(individuals(99))
    assert len(Ontology([few])) > 30
    assert len(Ontology([many])) > 300
    for path, most in ((few, 30), (many, 300)):
        monkeypatch.setattr(closure, "MOST_CLOSED", most)
        with pytest.raises(tg.OntologyError) as error:
            Ontology([path])
        assert f"got more than {most} triples with what follows from them; at {path}" in str(error.value)


def test_our_own_rules_are_bounded_in_steps(write, monkeypatch):
    """Also in those that derive nothing: no two of the keys are the same."""
    order = write(" ".join(f":C{i} rdfs:subClassOf :C{i + 1} ." for i in range(30)))
    keys = write(":C owl:hasKey (:k :l) . " + " ".join(f":i{i} a :C ; :k :a ; :l :b{i} ." for i in range(30)))
    monkeypatch.setattr(closure, "STEPS", 800)
    for path in (order, keys):
        with pytest.raises(tg.OntologyError) as error:
            Ontology([path])
        assert "got more than 800 steps to what follows" in str(error.value)


def test_an_ontology_from_which_everything_follows_is_refused_in_time(write, monkeypatch):
    """Whatever has a type is the same as its type, has therefore all its types, and so on."""
    monkeypatch.setattr(closure, "SECONDS", 1)
    path = write(individuals(400, "owl:sameAs owl:sameAs rdf:type ."))
    with pytest.raises(tg.OntologyError) as error:
        Ontology([path])
    assert "got more than 1 seconds of processor time for what follows" in str(error.value)
