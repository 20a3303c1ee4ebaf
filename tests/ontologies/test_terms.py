"""Names of terms, and relations between them in expressions."""

from __future__ import annotations

import cql2
import pytest
from hypothesis import given

import tidegate as tg
from tests.ontologies.statements import E, engine, names, told
from tests.strategies import expressions
from tidegate.language import Call, parse, to_json, to_text
from tidegate.ontologies import current
from tidegate.ontologies.ontology import RELATIONS
from tidegate.predicates.family import FUNCTIONS
from tidegate.predicates.filter import compile_filter
from tidegate.predicates.ontology import expanded

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
