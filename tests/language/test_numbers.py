"""Long lists of numbers: one node, however they come, and otherwise what the array of their literals is."""

from __future__ import annotations

import copy
import pickle
import time
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.strategies import numbers
from tidegate.errors import LimitError, ParseError
from tidegate.language import (
    Array,
    Call,
    Limits,
    Literal,
    Numbers,
    from_json,
    parse,
    position_of,
    to_json,
    to_text,
    walk,
)
from tidegate.language.tree import LONG, listed

A = {"property": "a"}
NAN, INFINITE = float("nan"), float("inf")
#: As long as it must be, with the numbers that are read in ways of their own.
MANY = [1, -2.5, 2**53, 2**53 + 1, -(10**30), 1e-310, 0, *range(LONG - 7)]
#: 2^63 - 1 is no double, -2^63 and 2^62 are.
WHOLE = [2**63 - 1, -(2**63), 2**62, -(2**53) - 1, *range(LONG - 4)]
KINDS = [np.float64, np.dtype(">f8"), np.int8, np.int64, np.uint16, np.uint64]


def long(values):
    return {"op": "f", "args": [A, values]}


def read(values):
    return from_json(long(values)).args[1]


def refused(value, limits=None):
    with pytest.raises(ParseError) as caught:
        from_json(value) if limits is None else from_json(value, limits)
    return str(caught.value)


# --- reading --------------------------------------------------------------------------------------------------------


@given(st.lists(numbers | st.integers(-(10**400), 10**400), max_size=2 * LONG))
def test_both_readers_make_the_node_that_its_literals_say(values):
    wanted = [from_json([value]).items[0] for value in values if abs(value) <= 1.7976931348623157e308]
    values = [value for value in values if abs(value) <= 1.7976931348623157e308]
    found = read(values)
    assert type(found) is (Numbers if len(values) >= LONG else Array)
    assert list(found.items) == wanted
    assert found == listed(wanted)
    text = f"f(a, [{', '.join(map(repr, values))}])"
    assert parse(text, Limits(tokens=10**6)).args[1] == found


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("length", [0, 1, LONG - 1, LONG, 3 * LONG])
def test_an_array_is_its_list(kind, length):
    values = np.arange(length).astype(kind)
    assert read(values) == read(values.tolist())
    assert type(read(values)) is (Numbers if length >= LONG else Array)
    assert from_json({"op": "in", "args": [A, values]}) == from_json({"op": "in", "args": [A, values.tolist()]})
    assert read(np.repeat(values, 2)[::2]) == read(values)


@pytest.mark.parametrize("odd", [True, "1", None, A, [1.0], 1j], ids=str)
def test_a_list_with_anything_else_is_no_list_of_numbers(odd):
    if odd is None or isinstance(odd, complex):
        assert f"at $.args[1][{LONG}]" in refused(long([1.0] * LONG + [odd]))
    else:
        assert type(read([1.0] * LONG + [odd])) is Array


def test_a_list_is_long_from_32_on():
    assert LONG == 32
    assert [type(read([1.5] * n)) for n in (31, 32)] == [Array, Numbers]


def test_in_text_too():
    many = ", ".join(["1"] * (LONG - 1))
    assert type(parse(f"f(a, ({many}, -1.5))").args[1]) is Numbers
    for other in ("TRUE", "'1'", "a", "1 + 1", "-a"):
        assert type(parse(f"f(a, ({many}, 1, {other}))").args[1]) is Array
    assert type(parse(f"f(a, ({many}))").args[1]) is Array
    assert type(parse(f"a IN ({many}, 2)").args[1]) is Numbers


def test_integers_of_64_bits_stay_what_they_are_and_larger_ones_are_doubles():
    assert read(MANY).values.tolist() == [float(value) for value in MANY]
    assert read(MANY).tolist() == [*MANY[:4], -1e30, *MANY[5:]]
    assert read(MANY) != read([float(value) for value in MANY])
    assert read(np.array(WHOLE)).tolist() == read(WHOLE).tolist() == WHOLE
    assert read(MANY).items == (*read(MANY[: LONG - 1]).items, Literal(MANY[-1]))


# --- the node -------------------------------------------------------------------------------------------------------


def test_nodes_compare_by_their_numbers():
    node, other = read(MANY), Numbers(MANY, at=7)
    assert node == other
    assert hash(node) == hash(other)
    assert node != Numbers(MANY[:-1])
    assert node != Numbers([*MANY[:-1], 0.5])
    assert node != Array(node.items)
    assert len({node, other, Numbers(MANY[1:])}) == 2


def test_a_zero_has_no_sign():
    node = read([-0.0] * LONG)
    assert node == read([0.0] * LONG) == read([0] * LONG)
    assert not np.signbit(node.values).any()
    assert Array((Literal(-0.0),)) == Array((Literal(0.0),))  # as it always was
    assert to_text(Call("f", (node,))) == f"f(({', '.join(['0'] * LONG)}))"


def test_the_numbers_are_the_nodes_own():
    given_values = np.arange(40.0)
    node = read(given_values)
    given_values[0] = 9
    assert node.values[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        node.values[0] = 9
    with pytest.raises(FrozenInstanceError):
        node.values = given_values


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))])
def test_copies_are_equal_and_as_read_only(way):
    tree = parse(f"f(a, ({', '.join(map(str, MANY))}))")
    again = way(tree)
    assert again == tree
    assert again.args[1].at == tree.args[1].at
    assert not again.args[1].values.flags.writeable
    assert way(tree.args[1]).items == tree.args[1].items


def test_walking_does_not_open_it():
    assert len(list(walk(from_json(long(MANY))))) == 3


# --- writing --------------------------------------------------------------------------------------------------------


@given(st.lists(numbers, min_size=LONG, max_size=2 * LONG))
def test_text_and_json_are_stable(values):
    tree = from_json(long(values))
    text, json = to_text(tree), to_json(tree)
    assert all(type(value) in (int, float) for value in json["args"][1])
    assert parse(text, Limits(tokens=10**6)) == tree == from_json(json)
    assert to_text(from_json(json)) == text
    assert to_json(parse(text, Limits(tokens=10**6))) == json


def test_it_is_printed_as_its_literals_are():
    for op in ("f", "a_equals", "in"):
        node = Call(op, (from_json(A), read(MANY)))
        assert to_text(node) == to_text(Call(op, (node.args[0], Array(node.args[1].items))))
    assert to_text(Numbers([1.5])) == "[1.5]"


# --- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "got"),
    [(NAN, "nan"), (-INFINITE, "-inf"), (10**400, "an integer of more than 77 digits")],
)
@pytest.mark.parametrize("at", [0, LONG, LONG + 3])
def test_a_number_that_is_not_finite_has_its_place(bad, got, at):
    values = [*[1.5] * at, bad, *[2.5] * (LONG + 3 - at)]
    assert refused(long(values)) == f"expected a finite number; got {got}; at $.args[1][{at}]"
    assert refused(values) == f"expected a finite number; got {got}; at $[{at}]"
    if isinstance(bad, float):
        assert refused(long(np.array(values))) == f"expected a finite number; got {got}; at $.args[1][{at}]"
        assert refused(np.array(values)) == f"expected a finite number; got {got}; at $[{at}]"
        assert refused(long(np.array(values[at:][:3]))) == f"expected a finite number; got {got}; at $.args[1][0]"


ARRAYS = {
    "matrix": (np.ones((40, 40)), "an array of float64 with 2 dimensions"),
    "scalar": (np.array(1.0), "an array of float64 with 0 dimensions"),
    "truths": (np.ones(40, bool), "an array of bool with 1 dimension"),
    "texts": (np.array(["a"]), "an array of <U1 with 1 dimension"),
    "objects": (np.array([1.0, None]), "an array of object with 1 dimension"),
    "complex": (np.ones(40, complex), "an array of complex128 with 1 dimension"),
    "float32": (np.ones(40, np.float32), "an array of float32 with 1 dimension"),
    "masked": (np.ma.masked_array([1.0, 2.0], [True, False]), "a MaskedArray of float64 with 1 dimension"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_other_arrays_are_refused(name):
    value, got = ARRAYS[name]
    wanted = "a list, or an array of float64 or integers with 1 dimension"
    assert refused(long(value)) == f"expected {wanted}; got {got}; at $.args[1]"
    assert refused({"op": "f", "args": value}) == f"expected a list of arguments; got {got}; at $.args"
    assert refused({"bbox": value}) == f"expected a list of numbers; got {got}; at $.bbox"


def test_a_member_is_pointed_at():
    tree = from_json({"op": "not", "args": [{"op": "in", "args": [A, MANY]}]})
    many = tree.args[0].args[1]
    assert position_of(many, tree) == "$.args[0].args[1]"
    assert position_of(many.items[5], tree) == "$.args[0].args[1][5]"
    assert position_of(Literal(1.0), tree) is None
    text = f"f(a, ({', '.join(map(str, MANY))}))"
    assert position_of(parse(text).args[1].items[5], parse(text)) == text.index("(1")


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [list, np.array])
def test_a_series_counts_as_one_node_and_has_a_limit_of_its_own(make):
    limits = Limits(nodes=3, series=40)
    assert type(from_json(long(make([1.5] * 40)), limits).args[1]) is Numbers
    told = "expected at most 40 numbers in a list (limit series); got 41; at $.args[1]"
    assert refused(long(make([1.5] * 41)), limits) == told
    assert "limit nodes" in refused(long(make([1.5] * 31)), limits)
    assert "limit nodes" in refused(long([*[1.5] * 41, "x"]), limits)
    deep = Limits(depth=1)
    assert "limit depth" in refused(long(make([1.5] * 40)), deep)
    assert "limit depth" in refused(long(make([1.5])), deep)


def test_limits_in_text():
    def text(count):
        return f"f(a, ({', '.join(['1'] * count)}))"

    assert type(parse(text(40), Limits(nodes=3, series=40)).args[1]) is Numbers
    for limits, told in (
        (Limits(series=40), "at most 40 numbers in a list (limit series); got 41; at line 1, column 6"),
        (Limits(depth=1), "at most 1 levels of nesting (limit depth)"),
        (Limits(tokens=50), "(limit tokens)"),
    ):
        with pytest.raises(LimitError) as caught:
            parse(text(41), limits)
        assert told in str(caught.value)


@pytest.mark.parametrize("values", [[1.5] * 10**6, [7] * 10**6, np.ones(10**6)], ids=["floats", "integers", "array"])
def test_a_million_numbers_are_refused_at_once(values):
    start = time.perf_counter()
    assert "limit series" in refused(long(values))
    assert time.perf_counter() - start < 1


def test_a_mistake_beside_long_lists_is_found_soon():
    value = {"op": "and", "args": [*(long([1.5] * 60_000) for _ in range(20)), long([NAN])]}
    start = time.perf_counter()
    assert refused(value).endswith("at $.args[20].args[1][0]")
    assert time.perf_counter() - start < 2
