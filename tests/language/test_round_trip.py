"""Laws of reading and writing, over the corpus and over random trees."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given

from tests.language.strategies import trees
from tests.language.test_oracle import CORPUS
from tests.parts.profiles import examples
from tidegate.language import (
    Array,
    Attribute,
    Call,
    Geometry,
    Literal,
    from_json,
    parse,
    position_of,
    to_json,
    to_text,
    walk,
)
from tidegate.language.parse import grammar
from tidegate.language.words import RESERVED, is_name

SPELLINGS = [
    ("a AND b AND c", "a AND b AND c"),
    ("a AND (b AND c)", "a AND (b AND c)"),
    ("((a OR b)) and ((c))", "(a OR b) AND c"),
    ("not (a in (1))", "a NOT IN (1)"),
    ("NOT (a IS NULL)", "a IS NOT NULL"),
    ("NOT (a LIKE 'x' AND b)", "NOT (a LIKE 'x' AND b)"),
    ("NOT ((a)) between 1 and 2", "a NOT BETWEEN 1 AND 2"),
    ("(a = 1) = TRUE", "(a = 1) = TRUE"),
    ("(a + b) + c - (d - e) = 1", "a + b + c - (d - e) = 1"),
    ("-a ^ 2 = 1", "(-1 * a) ^ 2 = 1"),
    ("-2 ^ -b ^ c = 1", "-2 ^ ((-1 * b) ^ c) = 1"),
    ("(2 ^ 3) ^ 2 = 1", "(2 ^ 3) ^ 2 = 1"),
    ("a - -1 = +1", "a - -1 = 1"),
    ("s_within(g, bbox(1.0,2,3,4e0))", "S_WITHIN(g, BBOX(1, 2, 3, 4))"),
    ("t_finishedby(a, interval('..','..'))", "T_FINISHEDBY(a, INTERVAL('..', '..'))"),
    ("A_CONTAINEDBY(a, (1))", "a_containedBy(a, (1))"),
    ("f([1], (2), [3, 4], [])", "f([1], 2, (3, 4), ())"),
    ("a_equals(([1]), ((2)))", "a_equals(([1]), (2))"),
    ('"and" = "b c" + "D"', '"and" = "b c" + D'),
    ("\"a\"\"b\" = 'it''s'", "\"a\"\"b\" = 'it''s'"),
    ("a = 1e22 OR a = 0.10 OR a = 40.0 OR a = -1e-7", "a = 1e+22 OR a = 0.1 OR a = 40 OR a = -1e-07"),
    ("point z(1 2 3) = multipoint(1 2, 3 4)", "POINT(1 2 3) = MULTIPOINT(1 2, 3 4)"),
]


@pytest.mark.parametrize(("text", "printed"), SPELLINGS)
def test_printed_with_the_fewest_parentheses(text, printed):
    assert to_text(parse(text)) == printed
    assert parse(printed) == parse(text)


@pytest.mark.parametrize("text", CORPUS)
def test_text_and_json_round_trip(text):
    tree = parse(text)
    assert parse(to_text(tree)) == tree
    assert from_json(to_json(tree)) == tree
    assert from_json(json.loads(json.dumps(to_json(tree)))) == tree


def check_laws(tree):
    assert parse(to_text(tree)) == tree
    value = to_json(tree)
    assert from_json(value) == tree
    assert to_json(from_json(value)) == value
    assert to_text(from_json(value)) == to_text(tree)


@examples(150)
@given(trees)
def test_any_tree_round_trips(tree):
    check_laws(tree)


def test_truth_is_not_one():
    assert parse("a = TRUE") != parse("a = 1")
    assert Literal(True) != Literal(1)
    assert len({Literal(True), Literal(1), Literal(1.0)}) == 2


def test_numbers():
    texts = ("40", "40.0", "9007199254740993", "10000000000000000000000", "007", "-0")
    values = [parse(text).value for text in texts]
    assert values == [40, 40.0, 9007199254740993, 10**22, 7, 0]
    assert [type(value) for value in values] == [int, float, int, float, int, int]


def test_whole_numbers_of_64_bits_are_exact_and_larger_ones_doubles():
    edges = [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**64 - 1]
    for number in edges:
        assert to_text(parse(f"a = {number}")) == f"a = {number}"
        check_laws(parse(f"a = {number}"))
    for number in (2**64, -(2**63) - 1, -(2**64) + 1):
        (value,) = {parse(f"a = {number}").args[1].value, from_json(to_json(parse(f"a = {number}"))).args[1].value}
        assert (type(value), value) == (float, float(number))


def test_a_sign_folds_into_numbers_only():
    assert parse("- -(1.5)") == Literal(1.5)
    for text, operand in (("-TRUE", Literal(True)), ("-'x'", Literal("x")), ("-a", Attribute("a"))):
        assert parse(text) == Call("*", (Literal(-1), operand))


def test_the_deepest_tree_of_wide_levels_is_read():
    text = "a NOT BETWEEN 1 AND (" * 32 + "b" + ")" * 32
    assert parse(to_text(parse(text))) == parse(text)
    text = "a BETWEEN f(b, " * 32 + "c" + ") AND 1" * 32
    assert parse(to_text(parse(text))) == parse(text)


def test_places_in_text():
    text = "no2 > 40 AND  f('x', (1, 2)) = -a"
    spots = [(type(node).__name__, text[node.at :].split()[0]) for node in walk(parse(text))]
    assert spots == [
        ("Call", "no2"),
        ("Call", "no2"),
        ("Attribute", "no2"),
        ("Literal", "40"),
        ("Call", "f('x',"),
        ("Call", "f('x',"),
        ("Literal", "'x',"),
        ("Array", "(1,"),
        ("Literal", "1,"),
        ("Literal", "2))"),
        ("Call", "-a"),
        ("Literal", "-a"),
        ("Attribute", "a"),
    ]


def test_places_in_json():
    tree = from_json(to_json(parse("a = 1 AND f(b, (2, GEOMETRYCOLLECTION(POINT(1 2))))")))
    assert [position_of(node, tree) for node in walk(tree)] == [
        *("$", "$.args[0]", "$.args[0].args[0]", "$.args[0].args[1]", "$.args[1]", "$.args[1].args[0]"),
        *("$.args[1].args[1]", "$.args[1].args[1][0]", "$.args[1].args[1][1]"),
    ]
    point = tree.args[1].args[1].items[1].coordinates[0]
    assert isinstance(point, Geometry)
    assert position_of(point, tree) == "$.args[1].args[1][1].geometries[0]"
    assert position_of(Literal(1), tree) is None
    assert position_of(Literal(1, 7), tree) == 7


def test_a_group_is_a_list_only_for_array_operators():
    one = Array((Literal(1),))
    assert parse("a_equals((1), (1))").args == (one, one)
    assert parse("a IN (1)").args[1] == one
    assert parse("shape(x, (1))").args == (Attribute("x"), Literal(1))
    assert parse("a_equals(b, (1) + 1)").args[1] == Call("+", (Literal(1), Literal(1)))


def test_the_grammar_and_the_tables_agree_on_names():
    pattern = next(terminal.pattern for terminal in grammar().terminals if terminal.name == "NAME")
    name = re.compile(pattern.to_regexp())
    for code in [*range(0x3100), *range(0xD7F0, 0xD800), *range(0xE000, 0x10010), *range(0xEFFF0, 0xF0010), 0x10FFFF]:
        for text in (chr(code), "x" + chr(code), "or" + chr(code)):
            assert bool(name.fullmatch(text)) is is_name(text), ascii(text)
    for word in RESERVED:
        assert not name.fullmatch(word.upper())
