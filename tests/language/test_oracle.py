"""The independent ``cql2`` package reads the corpus as we do, and every known difference is listed with its reason.

Only the fixed corpus goes there: nested input can bring that package's process down, so fuzz must not.
"""

from __future__ import annotations

from pathlib import Path

import cql2
import pytest

from tidegate.errors import ParseError
from tidegate.language import parse, to_json, to_text

CORPUS = [
    line
    for line in (Path(__file__).parent / "corpus.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def exact(value):
    """JSON with 1, 1.0 and true told apart as JSON does: the first two are the same number, the third is none."""
    if isinstance(value, bool | str) or value is None:
        return type(value).__name__, value
    if isinstance(value, int | float):
        return "number", float(value)
    if isinstance(value, list):
        return [exact(item) for item in value]
    return {key: exact(item) for key, item in value.items()}


def oracle(text: str):
    return cql2.parse_text(text).to_json()


def test_corpus_is_large_and_has_no_line_twice():
    assert len(CORPUS) == len(set(CORPUS)) >= 200


@pytest.mark.parametrize("text", CORPUS)
def test_same_json(text):
    assert exact(to_json(parse(text))) == exact(oracle(text))


@pytest.mark.parametrize("text", CORPUS)
def test_printed_text_means_the_same_to_the_oracle(text):
    printed = to_text(parse(text))
    if "[" not in printed:  # a list of one outside an array operator; cql2 has no way to write it
        printed = printed.replace("S_DWITHIN", "s_dwithin")  # no operator to cql2, which keeps its case
        assert exact(oracle(printed)) == exact(oracle(text))


# Our reading, and why it is not cql2's.
DIFFERENT = [
    # ^ is right associative, as in the standard's grammar and in mathematics; cql2 takes it from the left.
    ("2 ^ 3 ^ 2 = 4", {"op": "=", "args": [{"op": "^", "args": [2, {"op": "^", "args": [3, 2]}]}, 4]}),
    # cql2 makes a list of every text argument of an array operator; ours is a sub-operator and stays a text.
    ("a_equals(b, (1,2), '<')", {"op": "a_equals", "args": [{"property": "b"}, [1, 2], "<"]}),
    # A parenthesised AND within an AND keeps its own node here; cql2 flattens it.
    (
        "a AND (b AND c)",
        {"op": "and", "args": [{"property": "a"}, {"op": "and", "args": [{"property": "b"}, {"property": "c"}]}]},
    ),
    (
        "(a OR b) OR c",
        {"op": "or", "args": [{"op": "or", "args": [{"property": "a"}, {"property": "b"}]}, {"property": "c"}]},
    ),
    # S_DWITHIN is no operator of the standard, so cql2 keeps its case; ours is named like the other S_ operators.
    ("S_DWITHIN(g, h, 500)", {"op": "s_dwithin", "args": [{"property": "g"}, {"property": "h"}, 500]}),
    # cql2 reads an exponent in a coordinate as a function call named POINT.
    ("POINT(-1 -2.5e1) = a", {"op": "=", "args": [{"type": "Point", "coordinates": [-1, -25]}, {"property": "a"}]}),
]


@pytest.mark.parametrize(("text", "ours"), DIFFERENT)
def test_read_differently(text, ours):
    assert exact(to_json(parse(text))) == exact(ours)
    assert exact(oracle(text)) != exact(ours)


# Read here, refused there.
WIDER = [
    ("a IN ()", "the standard's arrays may be empty"),
    ("a_equals(b, ())", "the standard's arrays may be empty"),
    ("f([1])", "square brackets are the standard's later notation, and our way to write a list of one"),
    ("a = .5", "the standard's numbers may start with the point"),
    ("_a = 1", "the standard's names may start with _"),
    (":a = 1", "the standard's names may start with :"),
    ("POINT(1e1 2) = a", "coordinates are numbers, with exponents too"),
]


@pytest.mark.parametrize(("text", "reason"), WIDER)
def test_refused_by_the_oracle_alone(text, reason):
    parse(text)
    with pytest.raises(Exception, match="expected"):
        oracle(text)


# Refused here, read there.
STRICTER = [
    ("a = TIMESTAMP('nonsense')", "times are checked when read"),
    ("date(x) = 1", "DATE takes a text"),
    ("a = b = c", "what it means is anyone's guess; parentheses say it"),
    ("a > 1 = TRUE", "the same"),
    ("a = NOT b", "the same"),
    ("a != 1", "the standard has <> only"),
    ("and = 1", "reserved; in double quotes it is a name"),
    ("null = 1", "NULL is no value"),
    ('"a.b"(x) = 1', "functions have plain names"),
    ('"" = 1', "a name has characters"),
]


@pytest.mark.parametrize(("text", "reason"), STRICTER)
def test_refused_by_us_alone(text, reason):
    oracle(text)
    with pytest.raises(ParseError):
        parse(text)
