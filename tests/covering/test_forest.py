"""The covering forest keeps its promises whatever is inserted and removed, and no way down it is long."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.covering.strategies import SOME, conditions, disjunctions, filter_of
from tests.parts.profiles import examples
from tidegate.covering import Forest, covers
from tidegate.covering.forest import DEEPEST
from tidegate.errors import SubscriptionError, UnknownSubscription


def test_a_forest_as_in_figure_23():
    forest: Forest[str] = Forest()
    for text in (
        "no2 > 40",  # inserted before what covers it
        "temperature < 0",
        "no2 > 20",
        "no2 > 40 AND station = 'z7'",
        "temperature < -10",
        "no2 > 40 AND co > 5",
        "name = 'cat'",
    ):
        forest.insert(text, filter_of(text))
    # no2 > 20                     temperature < 0        name = 'cat'
    #   no2 > 40                     temperature < -10
    #     … station = 'z7'
    #     … co > 5
    assert set(forest.roots()) == {"no2 > 20", "temperature < 0", "name = 'cat'"}
    assert forest.children("no2 > 20") == ["no2 > 40"]
    assert set(forest.children("no2 > 40")) == {"no2 > 40 AND station = 'z7'", "no2 > 40 AND co > 5"}
    assert forest.parent("temperature < -10") == "temperature < 0"
    assert forest.parent("no2 > 20") is None
    assert forest.depth == 3

    forest.remove("no2 > 40")
    assert len(forest.children("no2 > 20")) == 2
    forest.remove("no2 > 20")
    assert {"no2 > 40 AND station = 'z7'", "no2 > 40 AND co > 5"} < set(forest.roots())
    assert "no2 > 20" not in forest
    assert len(forest) == 5


def test_of_equal_filters_the_later_is_a_child_of_the_earlier():
    forest: Forest[str] = Forest()
    forest.insert("first", filter_of("x > 5 AND y = 1"))
    forest.insert("second", filter_of("y = 1 AND x > 5"))
    forest.insert("third", filter_of("NOT x <= 5 AND y = 1"))
    forest.insert("narrow", filter_of("x > 6 AND y = 1"))
    assert forest.roots() == ["first"]
    assert forest.children("first") == ["second", "third", "narrow"]
    forest.remove("first")
    assert forest.roots() == ["second"]
    assert forest.children("second") == ["third", "narrow"]
    assert forest.parent("narrow") == "second"
    forest.remove("third")
    forest.remove("second")
    assert list(forest) == ["narrow"]


def test_orphans_of_a_root_find_another_parent():
    forest: Forest[str] = Forest()
    for text in ("x > 0", "y > 0", "x > 1 AND y > 1", "x > 2 AND y > 1"):
        forest.insert(text, filter_of(text))
    before = forest.parent("x > 1 AND y > 1")
    forest.remove(before)
    (other,) = forest.roots()
    assert forest.parent("x > 1 AND y > 1") == other
    assert forest.parent("x > 2 AND y > 1") == "x > 1 AND y > 1"


def test_what_matches_nothing_is_below_something():
    forest: Forest[str] = Forest()
    for text in ("FALSE", "x > 5", "x > 5 AND x = 'a'", "TRUE"):
        forest.insert(text, filter_of(text))
    assert forest.roots() == ["TRUE"]
    assert forest.parent("FALSE") == "x > 5"
    assert forest.parent("x > 5 AND x = 'a'") == "FALSE"


def test_keys():
    forest: Forest[str] = Forest()
    forest.insert("a", filter_of("x > 1"))
    with pytest.raises(SubscriptionError, match="expected a key that is not in the forest; got 'a', which is"):
        forest.insert("a", filter_of("x > 2"))
    for ask in (forest.remove, forest.parent, forest.children):
        with pytest.raises(UnknownSubscription, match="expected a key that is in the forest; got 'b'"):
            ask("b")
    assert list(forest) == ["a"]
    assert "b" not in forest


# --- against a naive model ------------------------------------------------------------------------------------------


def _check(forest, filters, covering=covers):
    order = list(forest)
    assert sorted(order) == sorted(filters)
    assert len(forest) == len(filters)
    place = {key: i for i, key in enumerate(order)}
    for key in order:
        parent = forest.parent(key)
        assert (parent is None) is (key in forest.roots())
        if parent is not None:
            assert place[parent] < place[key]
            assert key in forest.children(parent)
            assert covering(filters[parent], filters[key])
    for a in forest.roots():
        assert not any(covers(filters[b], filters[a]) for b in forest.roots() if a != b)
    assert forest.depth <= DEEPEST


def _steps(texts):
    return st.lists(st.tuples(st.booleans() | st.just(True), texts, st.integers(0, 99)), min_size=1, max_size=14)


def _run(steps, covering=covers):
    forest: Forest[int] = Forest()
    filters = {}
    for number, (inserting, text, which) in enumerate(steps):
        if inserting or not filters:
            filters[number] = filter_of(text)
            forest.insert(number, filters[number])
        else:
            key = sorted(filters)[which % len(filters)]
            del filters[key]
            forest.remove(key)
        _check(forest, filters, covering)
    return forest, filters


@examples(40)
@given(_steps(disjunctions))
def test_promises_hold_for_comparisons(steps):
    _run(steps)


@examples(40)
@given(_steps(conditions))
def test_promises_hold_for_all_families(steps):
    # that a grandparent covers may be true and yet not be found: there, publications decide
    _run(steps, lambda a, b: covers(a, b) or all(a.holds(p) for p in SOME if b.holds(p)))


@pytest.mark.parametrize("deepest", [3, 4, 7])
@examples(40)
@given(steps=_steps(st.integers(0, 30).map("x > {}".format)))
def test_promises_hold_where_chains_are_cut(deepest, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.covering.forest.DEEPEST", deepest)
        forest, filters = _run(steps)
        assert forest.depth <= deepest
        assert len(forest.roots()) == min(1, len(filters))


@pytest.mark.parametrize("order", ["up", "down", "shuffled"])
def test_a_chain(order):
    forest: Forest[int] = Forest()
    numbers = list(range(1_000))
    if order != "up":
        random.Random(7).shuffle(numbers) if order == "shuffled" else numbers.reverse()
    for i in numbers:
        forest.insert(i, filter_of(f"x > {i}"))
    assert forest.roots() == [0]
    assert forest.depth <= DEEPEST
    for i in range(0, 1_000, 2):
        forest.remove(i)
    assert forest.roots() == [1]
    assert sorted(forest) == list(range(1, 1_000, 2))
    assert forest.depth <= DEEPEST


@pytest.mark.thorough
def test_ten_thousand_subscriptions_of_cupus():
    draw = random.Random(6)
    gases, operators = ["co", "o3", "no2", "particles"], ["=", "<", "<=", ">", ">="]
    texts = [f"{draw.choice(gases)} {draw.choice(operators)} {draw.uniform(0, 100):.3f}" for _ in range(10_000)]
    forest: Forest[int] = Forest()
    for i, text in enumerate(texts):
        forest.insert(i, filter_of(text))
    assert len(forest.roots()) == 8
    assert forest.depth <= DEEPEST
    for i in range(0, 10_000, 2):
        forest.remove(i)
    assert sorted(forest) == list(range(1, 10_000, 2))
    assert len(forest.roots()) == 8


@pytest.mark.thorough
def test_a_chain_of_three_thousand():
    forest: Forest[int] = Forest()
    for i in range(3_000):
        forest.insert(i, filter_of(f"x > {i}"))
    assert forest.depth <= DEEPEST
    for i in range(3_000):
        assert forest.roots() == [i]
        forest.remove(i)
    assert len(forest) == 0
