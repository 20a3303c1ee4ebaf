"""Covering among subscriptions that ask about the past: whatever the covered one is told, the covering one is told."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.oracle import World
from tests.patterns.oracle_past import POINT_RELATIONS, RELATIONS, is_past
from tests.patterns.strategies import BESIDE, INNER, at, lasting, looking_back, thrown, unruly
from tidegate.covering import covers, covers_past
from tidegate.language import DEFAULT_LIMITS, parse
from tidegate.language.render import to_text
from tidegate.language.tree import Attribute, Call, Literal, walk
from tidegate.patterns import Pattern
from tidegate.subscriptions import compile_subscription, compile_where


@lru_cache(maxsize=65_536)
def what(text):
    return compile_where(parse(text), text)


# --- examples -------------------------------------------------------------------------------------------------------

DEEP = "T_DURING(start, past(T_AFTER(start, past({}))))"
DEEP_NOT = "T_DURING(start, past(NOT T_AFTER(start, past({}))))"
COVERED = [
    # the rule of the thesis: the same operator and limits, and inner filters that cover
    ("T_DURING(start, past(n > 1))", "T_DURING(start, past(n > 2))"),
    ("T_AFTER(end, past(n > 1, 'PT5S'))", "T_AFTER(end, past(n > 2, 'PT5S'))"),
    ("T_AFTER(end, past(n > 1, 'PT5S')) AND m > 1", "T_AFTER(end, past(n > 1, 'PT5S')) AND m > 2"),
    ("price < past(price, n > 1, 200)", "price < past(price, n > 1, 200)"),
    # limits and tolerances
    ("T_AFTER(end, past(n > 1, 'PT6S'))", "T_AFTER(end, past(n > 1, 'PT5S'))"),
    ("T_AFTER(end, past(n > 1))", "T_AFTER(end, past(n > 1, 'PT5S', 'PT0S'))"),
    ("T_AFTER(end, past(n > 1, '..', 'PT2S'))", "T_AFTER(end, past(n > 1, 'PT5S', 'PT1S'))"),
    ("T_AFTER(end, past(n > 1, 'PT4S', 'PT2S'))", "T_AFTER(end, past(n > 1, 'PT5S', 'PT1S'))"),
    ("T_MEETS(event, past(TRUE, '..', 'PT1S'))", "T_MEETS(event, past(TRUE))"),
    ("n < past(n, m > 1, 20)", "n < past(n, m > 1, 10)"),
    ("n < past(n, m > 1)", "n < past(n, m > 1, 9999)"),
    # relations that follow from others
    ("T_INTERSECTS(start, past(n > 1))", "T_DURING(start, past(n > 1))"),
    ("T_DURING(start, past(n > 1))", "T_INTERSECTS(start, past(n > 1))"),
    ("T_DURING(start, past(n > 1))", "T_EQUALS(start, past(n > 1))"),
    ("T_DISJOINT(event, past(n > 1))", "T_BEFORE(event, past(n > 1))"),
    ("T_DISJOINT(event, past(n > 1, 'PT6S'))", "T_AFTER(event, past(n > 1, 'PT5S'))"),
    ("T_INTERSECTS(event, past(n > 1))", "T_CONTAINS(event, past(n > 1))"),
    # comparisons that follow from others, also mirrored
    ("n <= past(n, m > 1)", "n < past(n, m > 1)"),
    ("n >= past(n, m > 1)", "past(n, m > 1) < n"),
    ("n + 1 <> past(n, m > 1)", "n + 1 > past(n, m > 1)"),
    ("n + 1 <= past(n, m > 1)", "n + 1 = past(n, m > 1)"),
    # inner filters that are equal in other words
    ("n < past(n, m > 1 OR m = 1)", "n < past(n, m >= 1)"),
    ("n < past(n, T_DURING(start, past(m > 1 OR m = 1)), 5)", "n < past(n, T_DURING(start, past(m >= 1)), 4)"),
    # negation
    ("NOT T_DURING(start, past(n > 2))", "NOT T_DURING(start, past(n > 1))"),
    ("NOT T_AFTER(start, past(TRUE, 'PT5S'))", "NOT T_DISJOINT(start, past(TRUE, 'PT6S'))"),
    ("NOT n < past(n, m > 1, 10)", "NOT n <= past(n, m > 1, 20)"),
    # AND, OR and nesting
    ("T_DURING(start, past(n > 1)) OR m = 1", "T_DURING(start, past(n > 2)) AND m = 5"),
    ("T_DURING(start, past(n > 1)) OR m = 1", "m = 1 AND (t = 'a' OR T_DURING(start, past(n > 2)))"),
    ("T_DURING(start, past(n > 1)) AND m > 1", "T_DURING(start, past(n > 2)) AND T_BEFORE(end, past(TRUE)) AND m > 2"),
    ("(m < 5 OR T_DURING(time, past(TRUE))) AND (m >= 5 OR x)", "T_DURING(time, past(y)) AND x AND m IS NOT NULL"),
    ("(m < 5 AND T_DURING(time, past(TRUE))) OR (m >= 5 AND NOT x)", "T_DURING(time, past(y)) AND NOT x AND m > 1"),
    (DEEP.format("n > 1"), DEEP.format("n > 2")),
    (DEEP.format("n > 1, 'PT5S'"), DEEP.format("n > 2, 'PT4S'")),
    ("T_DURING(start, past(n > 1))", "T_DURING(start, past(n > 2 AND T_AFTER(start, past(TRUE))))"),
    (DEEP_NOT.format("n > 2"), DEEP_NOT.format("n > 1")),
    (f"NOT {DEEP_NOT.format('m')}", f"NOT {DEEP_NOT.format('m AND k')}"),
    # what can never hold
    ("T_DURING(start, past(n > 1))", "n > 1 AND n < 1 AND T_DURING(start, past(m > 1))"),
    ("T_DURING(start, past(n > 1))", "T_AFTER(time, past(m > 1 AND m < 1))"),
    ("T_DURING(start, past(n > 1))", "n = past(n, T_AFTER(time, past(FALSE)))"),
    ("FALSE", "T_AFTER(time, past(m > 1 AND m < 1)) OR x AND NOT x AND T_AFTER(time, past(y))"),
    # filters
    ("n > 1", "n > 2 AND T_DURING(start, past(m))"),
    ("n > 1", "n > 2 AND T_DURING(start, past(m)) OR n = 2 AND NOT k = past(k, TRUE)"),
    ("TRUE", "T_DURING(start, past(m))"),
    ("T_DURING(start, past(m))", "n > 1 AND n < 1"),
    # other patterns
    ("topk(3, 'PT5S', n)", "topk(3, 'PT5S', n)"),
]
NOT_COVERED = [
    ("T_DURING(start, past(n > 2))", "T_DURING(start, past(n > 1))"),
    ("T_DURING(start, past(n > 1))", "T_DURING(end, past(n > 1))"),
    ("T_DURING(start, past(n > 1))", "T_DURING(event, past(n > 1))"),
    ("T_DURING(start, past(n > 1)) AND m > 1", "T_DURING(start, past(n > 1))"),
    ("T_DURING(start, past(n > 1))", "m > 1 OR T_DURING(start, past(n > 1))"),
    ("T_DURING(start, past(n > 1)) AND T_AFTER(start, past(n > 1))", "T_DURING(start, past(n > 1))"),
    ("T_AFTER(end, past(n > 1, 'PT5S'))", "T_AFTER(end, past(n > 1, 'PT6S'))"),
    ("T_AFTER(end, past(n > 1, 'PT5S'))", "T_AFTER(end, past(n > 1))"),
    ("T_AFTER(end, past(n > 1))", "T_AFTER(end, past(n > 1, '..', 'PT1S'))"),
    ("T_AFTER(event, past(n > 1))", "T_DISJOINT(event, past(n > 1))"),
    ("T_INTERSECTS(event, past(n > 1))", "T_AFTER(event, past(n > 1))"),
    # a wider inner filter remembers others, which push out those that the narrower one still has
    ("n < past(n, m > 1, 10)", "n < past(n, m > 2, 10)"),
    ("n < past(n, m > 1, 20)", "n < past(n, m > 2, 10)"),
    ("n < past(n, m > 2, 10)", "n < past(n, m > 1, 10)"),
    ("n < past(n, m > 1, 10)", "n < past(n, m > 1, 20)"),
    ("n < past(n, m > 1)", "n < past(k, m > 1)"),
    ("n < past(n, m > 1)", "k < past(n, m > 1)"),
    ("n < past(n, m > 1)", "n <= past(n, m > 1)"),
    ("n <= past(n, m > 1)", "n >= past(n, m > 1)"),
    ("n > past(n, m > 1)", "n < past(n, m > 1)"),
    ("n + 1 <> past(n, m > 1)", "n + 1 = past(n, m > 1)"),
    # n may be a text
    ("n <= past(n, m > 1)", "n = past(n, m > 1)"),
    ("NOT n < past(n, m > 1)", "NOT n <> past(n, m > 1)"),
    # negation turns everything round
    ("NOT T_DURING(start, past(n > 1))", "NOT T_DURING(start, past(n > 2))"),
    ("NOT T_AFTER(start, past(TRUE, 'PT6S'))", "NOT T_AFTER(start, past(TRUE, 'PT5S'))"),
    ("NOT n < past(n, m > 1, 20)", "NOT n < past(n, m > 1, 10)"),
    ("NOT n <= past(n, m > 1)", "NOT n < past(n, m > 1)"),
    ("T_DURING(start, past(n > 1))", "NOT T_DURING(start, past(n > 1))"),
    ("NOT T_DURING(start, past(n > 1))", "T_DURING(start, past(n > 1))"),
    (DEEP.format("n > 2"), DEEP.format("n > 1")),
    (DEEP_NOT.format("n > 1"), DEEP_NOT.format("n > 2")),
    # refused and late publications are told to filters only
    ("n > 1 OR T_DURING(start, past(m))", "n > 1"),
    ("n > 1", "T_DURING(start, past(m)) AND n > 2 OR NOT T_DURING(start, past(m))"),
    ("FALSE", "NOT T_DURING(start, past(FALSE))"),
    ("n > 1", "n > 1 AND topk(3, 'PT5S', n)"),
    ("topk(3, 'PT5S', n)", "topk(2, 'PT5S', n)"),
    ("topk(3, 'PT5S', n)", "T_DURING(start, past(m))"),
    ("T_DURING(start, past(m))", "topk(3, 'PT5S', n)"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), COVERED)
def test_covered(a, b):
    assert covers(what(a), what(b))


@pytest.mark.parametrize(("a", "b"), NOT_COVERED)
def test_not_covered(a, b):
    assert not covers(what(a), what(b))


@pytest.mark.parametrize(
    ("first", "last", "covered"), [(3, 8, True), (2, 9, True), (2, 8, True), (1, 8, False), (2, 10, False)]
)
def test_the_time_of_activity_must_contain_the_others(first, last, covered):
    def bound(first, last):
        where = "T_DURING(start, past(n > 1))"
        return compile_subscription(
            tg.Subscription("s", "ann", where, first and at(first), last and at(last)), DEFAULT_LIMITS
        )

    narrow, wide = bound(first, last), bound(2, 9)
    assert covers(wide, narrow) is covered
    assert covers(bound(None, None), narrow)
    assert not covers(narrow, bound(None, None))
    assert not covers(narrow, replace(narrow, ends=None))


def test_many_levels_and_many_clauses_take_no_time():
    """What is found of two conditions is found once, though it is asked for from both sides at every level."""
    one, other, third = "m >= 1", "m > 1 OR m = 1", "m > 1"
    for _ in range(25):
        one, other, third = (f"n < past(n, {condition})" for condition in (one, other, third))
    assert covers(what(one), what(other))
    assert not covers(what(one), what(third))
    clauses = " AND ".join(f"(n = {i} OR T_AFTER(time, past(m = {i})))" for i in range(7))
    assert covers(what(clauses), what(f"{clauses} AND k = 1"))


# --- relations, all against all -------------------------------------------------------------------------------------

_SECONDS = range(7)
_MORE = [(None, 0), (0, 0), (2, 0), (2, 1), (1, 2), (None, 1)]


def _answers(relations, op, limit, tolerance, points):
    """For each x, which events Y answer the question."""
    reach = float("inf") if limit is None else limit
    spans = [(c, d) for c in _SECONDS for d in (*_SECONDS, float("inf")) if c <= d]
    return [
        (s, e, c, d)
        for s, e in ((s, e) for s in _SECONDS for e in _SECONDS if (s == e if points else s <= e))
        for c, d in spans
        if s - reach <= d + tolerance and relations[op](s, e, c, d, tolerance)
    ]


def _asks(op, left, limit, tolerance):
    """Seconds that are so many microseconds: the oracle's grid and the engine's are the same."""
    span = ["'..'" if limit is None else f"'PT0.{limit:06}S'", f"'PT0.{tolerance:06}S'"]
    return what(f"T_{op[2:].upper()}({left}, past(TRUE, {', '.join(span)}))")


@pytest.mark.parametrize("points", [True, False])
def test_relations_cover_exactly_where_every_answer_is_an_answer(points):
    """Where b has answers at all, and its limit is not 0: then one half of T_DISJOINT has none."""
    relations, left = (POINT_RELATIONS, "start") if points else (RELATIONS, "event")
    asked = [(op, *more) for op in relations for more in _MORE]
    answers = [frozenset(_answers(relations, *ask, points)) for ask in asked]
    patterns = [_asks(ask[0], left, *ask[1:]) for ask in asked]
    missed = found = 0
    for (a, mine), (b, theirs) in product(zip(patterns, answers, strict=True), repeat=2):
        if covers_past(a, b):
            assert theirs <= mine, (a.form, a.numbers, b.form, b.numbers)
            found += 1
        elif b.numbers[0] != 0:
            missed += theirs <= mine and bool(theirs)
    assert found > len(asked)
    assert missed == 0


# --- whatever is asked ----------------------------------------------------------------------------------------------


def looks_back(node):
    return any(is_past(part) for part in walk(node))


def changed(dice, node):
    """The same question, asked a little differently here and there."""
    if not looks_back(node):
        other = parse(dice(dice([INNER, BESIDE])))
        same = Call("not", (Call("not", (node,)),))
        return dice([node] * 8 + [other, Call("or", (node, other)), Call("and", (node, other)), same])
    if node.op in ("and", "or", "not"):
        args = tuple(changed(dice, arg) for arg in node.args)
        if node.op == "not" or dice([True] * 5 + [False]):
            return Call(node.op, args)
        return dice(
            [args[0], args[1], Call("or", args), Call("and", args), Call(node.op, (*args, parse(dice(BESIDE))))]
        )
    past = next(arg for arg in node.args if is_past(arg))
    left = next(arg for arg in node.args if not is_past(arg))
    op = node.op
    if op.startswith("t_"):
        relations = [f"t_{r}" for r in ("after", "before", "disjoint", "during", "equals", "intersects")]
        if left == Attribute("event"):
            relations += ["t_contains", "t_overlaps", "t_meets", "t_starts", "t_finishedBy"]
        else:
            left = dice([left] * 8 + [Attribute(name) for name in ("start", "end", "time", "when")])
        op = dice([op] * 8 + relations)
        given = [arg.value for arg in past.args[1:]]
        limit, tolerance = [*given, *["..", "PT0S"][len(given) :]]
        limit, tolerance = dice([limit] * 4 + ["..", "PT3S", "PT8S"]), dice([tolerance] * 4 + ["PT0S", "PT1S", "PT3S"])
        asked = Call("past", (changed(dice, past.args[0]), Literal(limit), Literal(tolerance)))
    else:
        if "source" not in to_text(node):  # which is a text, and is equal to others or not
            op = dice([op] * 8 + ["=", "<>", "<", "<=", ">", ">="])
        count = past.args[2].value if past.args[2:] else 10_000
        count = dice([count] * 3 + [1, 2, 3, 5])
        value = past.args[0]
        if value in (Attribute("n"), Attribute("m")):
            value, left = dice([value] * 8 + [Attribute("n"), Attribute("m")]), dice([left] * 8 + [value])
        asked = Call("past", (value, changed(dice, past.args[1]), Literal(count)))
    atom = Call(op, tuple(asked if is_past(arg) else left for arg in node.args))
    return Call("not", (atom,)) if dice([True, *[False] * 15]) else atom


def asked(dice, depth, copies):
    """Subscriptions that ask nearly the same, and two plain ones."""
    first = parse(looking_back(dice, depth))
    wheres = [to_text(first)]
    for _ in range(copies):
        node = changed(dice, first)
        wheres.append(to_text(changed(dice, node) if dice([True, False]) else node))
    wheres += [dice(BESIDE), dice(INNER)]
    bounds = [None, None, None, None, 2, 5]
    return [
        tg.Subscription(
            f"s{i}", "ann", where, *(when and at(when + k * 6) for k, when in enumerate([dice(bounds)] * 2))
        )
        for i, where in enumerate(wheres)
    ]


def pairs(subscriptions):
    """Who covers whom."""
    found = [compile_subscription(s, DEFAULT_LIMITS) for s in subscriptions]
    return [
        (a.id, b.id)
        for (a, mine), (b, theirs) in product(zip(subscriptions, found, strict=True), repeat=2)
        if a is not b and isinstance(theirs, Pattern) and covers(mine, theirs)
    ]


def told_of_each(target, subscriptions, stream):
    """Who is told of each publication, one publication a time."""
    for subscription in subscriptions:
        target.subscribe(subscription)
    return [{told.subscription for told in target.publish([publication])} for publication in stream]


def assert_sound(dice, target, depth=3, copies=6, length=40):
    subscriptions = asked(dice, depth, copies)
    covering = pairs(subscriptions)
    stream = unruly(dice, length, length, dice([0, 1]))
    if dice([True, True, True, False]):
        stream = lasting(dice, length, length, dice([0, 0, 1]), mixed=dice([True, False]))
    for publication, told in zip(stream, told_of_each(target, subscriptions, stream), strict=True):
        for a, b in covering:
            if b in told and a not in told:
                wheres = {s.id: s for s in subscriptions}
                raise AssertionError(f"{wheres[a]} covers not {wheres[b]}: {publication} of {stream}")
    return len(covering)


@examples(70)
@given(st.integers(0, 2**40))
def test_what_the_covered_is_told_the_covering_is_told(seed):
    assert_sound(thrown(seed), World())


@examples(15)
@given(st.integers(0, 2**40))
def test_in_the_engine_too(seed):
    assert_sound(thrown(seed), tg.Engine())


@examples(20)
@given(st.integers(0, 2**40))
def test_where_much_is_forgotten_too(seed):
    dice = thrown(seed)
    assert_sound(dice, World(keep=at(dice([2, 4, 9])) - at(0)))


def test_covering_is_found_often():
    dice = thrown(1)
    assert sum(len(pairs(asked(dice, 3, 6))) > 0 for _ in range(40)) > 24


@examples(60)
@given(st.integers(0, 2**40))
def test_a_pattern_covers_itself_and_what_it_is_part_of(seed):
    dice = thrown(seed)
    where, more = looking_back(dice), looking_back(dice)
    assert covers(what(where), what(where))
    assert covers(what(f"({where}) OR ({more})"), what(where))
    assert covers(what(where), what(f"({where}) AND ({more})"))
    assert covers(what(where), what(f"({where}) AND n = 1"))
    assert covers(what(f"T_AFTER(start, past({where}))"), what(f"T_AFTER(start, past(({where}) AND n = 1))"))


@examples(20)
@given(st.integers(0, 2**40))
def test_what_the_covered_is_told_in_long_streams(seed):
    dice = thrown(seed)
    assert_sound(dice, World(), dice([1, 2, 3, 4]), 8, 60)
