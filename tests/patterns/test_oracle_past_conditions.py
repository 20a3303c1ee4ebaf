"""Examples made by hand that pin the oracle to what is negated, joined, compared and nested with ``past``."""

from __future__ import annotations

from tests.patterns.by_hand import at, pub
from tests.patterns.past_by_hand import begin, end, event, ids, past_world, told_of


def test_negation_needs_the_left():
    made = past_world("NOT T_DURING(end, past(n = 9))", "NOT T_METBY(event, past(n = 9))")
    assert ids(made, begin("a", 1)) == "", "a START has neither"
    assert ids(made, end("a", 2)) == "s0:a s1:a"


def test_negation_of_joined_conditions():
    where = "NOT (T_AFTER(time, past(n = 9)) AND t = 'a')"
    some = [pub("Y", 0, n=9), pub("a", 1, t="a"), pub("b", 2, t="b"), pub("c", 3)]
    assert told_of(where, *some) == "Y b", "c cannot be decided, but Y can"
    assert told_of("T_AFTER(time, past(n = 9)) OR t = 'b'", pub("x", 0, t="b"), *some) == "x a b c"
    assert told_of("T_AFTER(time, past(n = 9)) AND NOT T_AFTER(time, past(n = 9, 'PT2S'))", *some) == "c"


def test_some_is_not_the_same_one():
    #     two conditions may be satisfied by two events
    where = "T_METBY(event, past(n = 9)) AND T_MEETS(event, past(n = 9))"
    assert told_of(where, event("Y", 0, 0, 2, n=9), event("Z", 0, 4, 6, n=9), event("a", 9, 2, 4)) == "a"


def test_filters_compare_with_remembered_values():
    some = [pub(id, i, n=n) for i, (id, n) in enumerate({"a": 5, "b": 3, "c": 6, "d": 5}.items())]
    for op, wanted in {"<": "b d", "<=": "b d", ">": "c d", ">=": "c d", "=": "d", "<>": "b c d"}.items():
        assert told_of(f"n {op} past(n, TRUE)", *some) == wanted, op
    assert told_of("past(n, TRUE) > n", *some) == "b d"
    assert told_of("past(n, TRUE) <= n", *some) == "c d"


def test_filters_of_the_last_few():
    some = [pub(id, i, n=n) for i, (id, n) in enumerate({"a": 5, "b": 3, "c": 4, "d": 4.5}.items())]
    assert told_of("n < past(n, TRUE, 1)", *some) == "b"
    assert told_of("n < past(n, TRUE, 2)", *some) == "b c"
    assert told_of("n < past(n, TRUE, 3)", *some) == "b c d"
    assert told_of("n < past(n, n >= 4, 1)", *some) == "b c", "the last that passed"


def test_filters_count_what_has_no_value():
    some = [pub("a", 0, n=5), pub("b", 1), pub("c", 2, n=1)]
    assert told_of("n < past(n, TRUE, 1)", *some) == ""
    assert told_of("n < past(n, TRUE, 2)", *some) == "c"
    assert told_of("NOT n < past(n, TRUE, 1)", *some) == "a c", "b has nothing to compare"


def test_filters_skip_but_count_ones_own_event():
    some = [pub("Y", 0, n=5), begin("a", 1, n=4), end("a", 2, n=3)]
    assert told_of("n < past(n, TRUE, 1)", *some) == "a", "the START; at the END the last one is its own"
    assert told_of("n < past(n, TRUE, 2)", *some) == "a a"


def test_filters_have_the_value_with_which_it_was_remembered():
    some = [begin("a", 0, n=4), end("a", 1, n=9), pub("b", 2, n=4), pub("c", 3, n=9)]
    assert told_of("n = past(n, t IS NULL)", *some) == "b"
    assert told_of("n = past(n, n = 9)", *some) == "c"


def test_filters_with_arithmetic_on_the_left():
    some = [pub("a", 0, n=2, m=10), pub("b", 1, n=4, m=1), pub("c", 2, n=6, m=0), pub("d", 3, n=3)]
    assert told_of("n * 2 + m = past(m, TRUE)", *some) == ""
    assert told_of("n * 2 + m < past(m, TRUE)", *some) == "b"
    assert told_of("NOT n / m > past(m, TRUE)", *some) == "a b", "c and d have no quotient"


def test_filters_compare_like_with_like():
    some = [pub("a", 0, v=1), pub("b", 1, v="x"), pub("c", 2, v=at(0)), pub("d", 3, v="x"), pub("e", 4, v=1.0)]
    assert told_of("v = past(v, TRUE)", *some) == "d e"
    assert told_of("v <> past(v, TRUE)", *some, pub("f", 5, v="y"), pub("g", 6, v=at(1))) == "f g"
    assert told_of("v >= past(v, TRUE)", *some, pub("g", 6, v=at(1))) == "e g", "texts are equal or not, and no more"
    assert told_of("v = past(v, TRUE)", pub("a", 0, v=True), pub("b", 1, v=True), pub("c", 1, v=1)) == ""


def test_filters_of_fields():
    some = [pub("a", 0, "x"), pub("b", 1, "y"), pub("c", 2, "x", to="y")]
    assert told_of("source = past(source, TRUE)", *some) == "c"
    assert told_of("to = past(source, TRUE, 1)", *some) == "c"
    assert told_of("time > past(time, source = 'y')", *some) == "c"


def test_nesting():
    #     who comes after a 2 that came after a 1
    where = "T_AFTER(time, past(n = 2 AND T_AFTER(time, past(n = 1))))"
    stream = {"a": 2, "b": 0, "c": 1, "d": 0, "e": 2, "f": 0}
    assert told_of(where, *(pub(id, i, n=n) for i, (id, n) in enumerate(stream.items()))) == "f"


def test_nested_negation_is_asked_when_it_passes():
    #     a 2 before which there was no 1: what comes later does not change it
    where = "T_AFTER(time, past(n = 2 AND NOT T_AFTER(time, past(n = 1))))"
    stream = {"a": 2, "b": 1, "c": 2, "d": 0}
    assert told_of(where, *(pub(id, i, n=n) for i, (id, n) in enumerate(stream.items()))) == "b c d"
    assert told_of(where, *(pub(id, i, n=n) for i, (id, n) in enumerate({"a": 1, "b": 2, "c": 0}.items()))) == ""


def test_nested_filters():
    #     after a record low
    where = "T_AFTER(time, past(NOT n >= past(n, TRUE)))"
    stream = {"a": 5, "b": 6, "c": 4, "d": 7}
    assert told_of(where, *(pub(id, i, n=n) for i, (id, n) in enumerate(stream.items()))) == "b c d"
    assert (
        told_of("n < past(n, T_AFTER(time, past(n = 5)))", pub("a", 0, n=5), pub("b", 1, n=3), pub("c", 2, n=1)) == "c"
    )
