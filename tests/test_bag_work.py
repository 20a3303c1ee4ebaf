"""Bags: exact whatever the sub-operator, and never more work than is stated."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.oracle import bag, like
from tests.parts.profiles import examples
from tidegate.language.tree import Array, Literal
from tidegate.predicates.bag_assignment import is_matched, is_related
from tidegate.predicates.bag_members import member
from tidegate.predicates.like_pattern import like_pattern

NOW = datetime(2026, 11, 15, tzinfo=UTC)
RELATIONS = ("a_equals", "a_contains", "a_containedBy", "a_overlaps")
numbers = st.integers(0, 4).map(float)
texts = st.sampled_from(["", "a", "b", "ab", "ba", "aab", "c"])
patterns = st.sampled_from(["%", "a%", "%b", "_", "_b%", "a_%", "%a_", "", "%a%b", "ab"])
values = numbers | texts | st.booleans()


@examples(400)
@given(
    st.sampled_from(RELATIONS),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    st.lists(values | st.just(float("nan")), max_size=5),
    st.lists(values, max_size=5),
)
def test_a_relation_with_structure(relation, sub, mine, theirs):
    wanted = bag(relation, mine, Array(tuple(map(Literal, theirs))), Literal(sub))
    assert is_related([member(v) for v in mine], [member(v) for v in theirs], relation, sub) is wanted


@examples(300)
@given(st.sampled_from(RELATIONS), st.lists(texts | numbers, max_size=5), st.lists(patterns, max_size=5))
def test_a_relation_of_patterns(relation, mine, theirs):
    wanted = bag(relation, mine, Array(tuple(map(Literal, theirs))), Literal("LIKE"))
    assert is_related([member(v) for v in mine], [member(v) for v in theirs], relation, "LIKE") is wanted


def assignable(choices):
    """Whether each gets one of its choices, no two the same: every way is tried."""
    if not choices:
        return True
    return any(assignable([rest - {choice} for rest in choices[1:]]) for choice in choices[0])


@examples(300)
@given(st.lists(st.sets(st.integers(0, 7), max_size=4), max_size=8))
def test_a_matching(choices):
    assert is_matched([sum(1 << choice for choice in some) for some in choices]) is assignable(choices)


@examples(300)
@given(
    st.text("ab_%\\é", max_size=8),
    st.text("abé\n", max_size=8),
    st.sampled_from([0, 300]),
)
def test_a_pattern_of_like(pattern, text, longer):
    """In a long text, stretches with wildcards are found in another way."""
    assert like_pattern(pattern).fits(text) is like(text, pattern)
    assert like_pattern(f"%{pattern}").fits("a" * longer + text) is like("a" * (longer and 9) + text, f"%{pattern}")


@examples(200)
@given(
    st.sampled_from(RELATIONS),
    st.lists(numbers, max_size=6),
    st.lists(st.lists(numbers, max_size=3), max_size=4),
)
def test_a_relation_of_lists(relation, mine, theirs):
    nodes = Array(tuple(Array(tuple(map(Literal, some))) for some in theirs))
    lists = [("list", tuple(("number", one) for one in some)) for some in theirs]
    assert is_related([member(v) for v in mine], lists, relation, "IN") is bag(relation, mine, nodes, Literal("IN"))


def contains(patterns, sub="LIKE"):
    return {"op": "a_contains", "args": [{"property": "b"}, patterns, sub]}


@pytest.mark.parametrize(
    ("where", "most"),
    [
        (contains([f"%{i}%" for i in range(65)]), "at most 64 members with LIKE; got 65; at $.args[1]"),
        (contains([[i, i + 1] for i in range(257)], "IN"), "at most 256 members with IN; got 257; at $.args[1]"),
        (contains(["a", "%" + "_" * 65 + "%"]), "at most 64 characters with a _ among them"),
        ("a LIKE '%" + "_" * 65 + "%'", "at most 64 characters with a _ among them between two %; got 65"),
    ],
)
def test_a_subscription_beyond_the_limit(where, most):
    with pytest.raises(tg.LimitError) as error:
        tg.Engine([tg.Subscription("s", "ann", where)])
    assert most in str(error.value)


WHERES = {
    "like": contains(["a%", "b%"]),
    "not like": {"op": "not", "args": [contains(["a%", "b%"])]},
    "in": contains([["a1", "a2"], ["b1"]], "IN"),
    "equal": contains(["a1"], "="),
}
BAGS = {
    "small": ["a1", "b1"],
    "many": ["a1", "b1"] * 129,
    "long": ["a1", "b1" + "x" * 16_381],
    "just": ["a1", "b1" + "x" * 16_380],
    "numbers": [1.0] * 300,
}


@pytest.mark.parametrize("copies", [1, 100])
def test_a_bag_beyond_the_limit_is_left_out_and_counted(copies):
    """Neither LIKE nor its negation is told of it; other relations are."""
    engine = tg.Engine([tg.Subscription(name, "ann", where) for name, where in WHERES.items()])
    bags = {f"{name} {i}": bag for i in range(copies) for name, bag in BAGS.items()}
    publications = [tg.Publication(name, "z", NOW, {"b": bag}) for name, bag in bags.items()]
    expected = {
        "small": {"like", "in", "equal"},
        "many": {"in", "equal"},
        "long": {"equal"},
        "just": {"like", "equal"},
        "numbers": set(),
    }
    for count in (1, 2):
        told = {name: set() for name in bags}
        for notification in engine.publish(publications):
            told[notification.publications[0]].add(notification.subscription)
        assert told == {name: expected[name.split()[0]] for name in bags}
        assert engine.oversized == 3 * copies * count
    texts = [name for name in bags if not name.startswith("numbers")]
    table = pa.table({"id": texts, "source": ["z"] * len(texts), "time": [NOW] * len(texts)})
    table = table.append_column("b", pa.array([bags[name] for name in texts]))
    found = engine.publish(table)
    assert found.num_rows == sum(len(expected[name.split()[0]]) for name in texts)
    assert engine.oversized == 6 * copies + 2 * copies
