"""Examples made by hand that pin the oracle to what ``topk`` means."""

from __future__ import annotations

import pytest

from tests.patterns.by_hand import HERE, NEAR, at, pub, run, short, world
from tests.patterns.oracle import split
from tests.patterns.oracle_families import score
from tidegate.language.parse import parse


def test_notified_on_arrival():
    #     0   1   2   3
    #     a5  b7  c6  d4    the best two
    #     !   !   !   !
    made = world("topk(2, 'PT1M', n)")
    assert run(made, pub("a", 0, n=5), pub("b", 1, n=7), pub("c", 2, n=6), pub("d", 3, n=4)) == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
        (3, "d"),
    ]
    assert run(made, pub("e", 4, n=5.5)) == []


def test_a_notification_has_its_score():
    told = world("topk(1, 'PT1M', n * 2 - m)").publish([pub("a", 0, n=5, m=3)])
    assert told == [("s", at(0), ("a",), 7.0, None)]


def test_notified_on_expiry_by_the_clock_alone():
    #     0   1   2  …  10
    #     a1  b3  c2    a leaves: c is the best
    #     !             !
    made = world("topk(1, 'PT10S', n)")
    assert run(made, pub("a", 0, n=1), pub("b", 1, n=3), pub("c", 2, n=2)) == [(0, "a")]
    assert short(made.advance(at(9.999999))) == []
    assert made.advance(at(30)) == [("s", at(10), ("c",), 2.0, None)]


def test_every_moment_of_expiry_is_looked_at():
    #     a1 b2 c3 d4   each is the best for one second, though the clock jumps
    made = world("topk(1, 'PT10S', n)")
    run(made, *(pub(id, i, n=i) for i, id in enumerate("abcd")))
    assert short(made.advance(at(60))) == [(10, "b"), (11, "c"), (12, "d")]


def test_expiry_exactly_at_t_comes_before_the_publication_of_t():
    #     0   1       10
    #     a1  b3      a leaves, b is told, then c2 comes and is told too
    made = world("topk(1, 'PT10S', n)")
    run(made, pub("a", 0, n=1), pub("b", 1, n=3))
    assert run(made, pub("c", 10, n=2)) == [(10, "b"), (10, "c")]


def test_all_that_expire_at_a_moment_expire_before_anyone_looks():
    #     0       1   2         10
    #     a1 b2   c4  d3   both leave: the best two are d and c, best first
    made = world("topk(2, 'PT10S', n)")
    run(made, pub("a", 0, n=1), pub("b", 0, n=2), pub("c", 1, n=4), pub("d", 2, n=3))
    assert short(made.advance(at(10))) == [(10, "d"), (10, "c")]
    made = world("topk(1, 'PT10S', n)")
    run(made, pub("a", 0, n=1), pub("b", 0, n=2), pub("c", 1, n=4))
    assert short(made.advance(at(10))) == [(10, "c")], "b is no longer there when a leaves"


def test_pushed_out_and_coming_back_is_not_told_again():
    #     0   1   2         10
    #     a0  b5  c1        a leaves
    #     !   !   !         the best two: ab, then ac, then cb again
    made = world("topk(2, 'PT10S', n)")
    assert run(made, pub("a", 0, n=0), pub("b", 1, n=5), pub("c", 2, n=1)) == [(0, "a"), (1, "b"), (2, "c")]
    assert short(made.advance(at(10))) == []
    assert run(made, pub("d", 10, n=4)) == [(10, "d")]
    #     the same by count
    #     [a0] a!  [a0 b5] b!  [a0 b5 c1] c!  [b5 c1 d9]  [c1 d9 e9] e!
    made = world("topk(2, 3, n)")
    scores = {"a": 0, "b": 5, "c": 1, "d": 9, "e": 9}
    assert run(made, *(pub(id, i, n=n) for i, (id, n) in enumerate(scores.items()))) == [
        *((0, "a"), (1, "b"), (2, "c")),
        (4, "e"),
    ]


def test_count_windows_tell_of_those_who_move_up():
    #     [a5] a!  [a5 b1] b!  [b1 c3]  [c3 d4] c!
    made = world("topk(1, 2, n)")
    scores = {"a": 5, "b": 1, "c": 3, "d": 4}
    assert run(made, *(pub(id, i, n=n) for i, (id, n) in enumerate(scores.items()))) == [(0, "a"), (1, "b"), (3, "c")]


def test_ties_go_to_the_later():
    made = world("topk(1, 'PT10S', n)")
    assert run(made, pub("b", 0, n=1), pub("a", 1, n=1)) == [(0, "b"), (1, "a")], "later in time"
    made = world("topk(1, 'PT10S', n)")
    assert short(made.publish([pub("b", 0, n=1), pub("a", 0, n=1)])) == [(0, "a"), (0, "b")], "then by id"
    assert run(made, pub("aa", 0, n=1)) == [(0, "aa")], "stepped after b, though before it in order"
    made = world("topk(1, 'PT10S', n)")
    told = made.publish(
        [pub("a", 0, n=1, phase="END"), pub("a", 0, n=2, phase="START"), pub("a", 0, n=1.5, phase="INSTANT")]
    )
    assert [t.score for t in told] == [2.0, 1.5, 1.0], "START, then INSTANT, then END"


def test_count_windows():
    #     a1 b2 c3 d0 e5 f6 g7 in a window of 3
    #     [a] a!  [ab]  [abc]  [bcd] d!  [cde]  [def]  [efg] e!
    made = world("topk(1, 3, n)")
    scores = {"a": 1, "b": 2, "c": 3, "d": 0, "e": 5, "f": 6, "g": 7}
    assert run(made, *(pub(id, i, n=n) for i, (id, n) in enumerate(scores.items()))) == [(0, "a"), (3, "d"), (6, "e")]
    assert short(made.advance(at(10_000))) == [], "the clock has no say in it"


def test_count_windows_count_what_has_no_score():
    #     a1 b2 then one without a score: a leaves, b is told with its time
    made = world("topk(1, 2, n)")
    assert run(made, pub("a", 0, n=1), pub("b", 1, n=2), pub("c", 2)) == [(0, "a"), (2, "b")]
    assert made.unscored == 1


def test_count_windows_do_not_count_what_the_filter_left_out():
    made = world("t = 'x' AND topk(1, 2, n)")
    assert run(made, pub("a", 0, n=1, t="x"), pub("b", 1, n=2, t="x"), pub("c", 2, n=0, t="y")) == [(0, "a")]


def test_filter_first():
    made = world("n > 2 AND topk(1, 'PT10S', n)", "topk(1, 'PT10S', n) AND n > 2", "topk(1, 'PT10S', n)")
    told = [t for p in (pub("a", 0, n=1), pub("b", 1, n=3)) for t in made.publish([p])]
    assert [(t.subscription, *t.publications) for t in told] == [("s2", "a"), ("s0", "b"), ("s1", "b")]


@pytest.mark.parametrize(
    ("expression", "attributes", "wanted"),
    [
        ("n / m", {"n": 1, "m": 0}, None),
        ("n % m", {"n": 1, "m": 0}, None),
        ("n div m", {"n": 1, "m": 0}, None),
        ("n div m", {"n": -7, "m": 2}, -3.0),
        ("n % m", {"n": -7, "m": 2}, -1.0),
        ("n ^ 0.5", {"n": -1}, None),
        ("n ^ n", {"n": 1000}, None),
        ("n * n", {"n": 1e200}, None),
        ("1 / (n * n)", {"n": 1e200}, None),
        ("n + m", {"n": 1}, None),
        ("n", {"n": "text"}, None),
        ("n", {"n": True}, None),
        ("-n", {"n": 3}, -3.0),
        ("distance((n, m), (1, -2))", {"n": 4, "m": 2}, 5.0),
        ("distance((n, m), (1, 2))", {"n": 4}, None),
        ("distance(spot, POINT(15.97 45.81))", {"spot": HERE}, 0.0),
        ("distance(spot, POINT(15.97 45.81))", {"spot": 5}, None),
        ("distance(location, POINT(15.97 45.81))", {}, None),
        ("1 + distance((n, m), (1, 2)) * 2", {"n": 1, "m": 4}, 5.0),
    ],
)
def test_scores(expression, attributes, wanted):
    conditions, pattern = split(parse(f"topk(1, 1, {expression})"))
    assert conditions == []
    assert score(pattern.args[2], pub("a", 0, **attributes)) == wanted


def test_distance_on_the_ground():
    _, pattern = split(parse("topk(1, 1, distance(location, POINT(15.97 45.81)))"))
    assert score(pattern.args[2], pub("a", 0, location=NEAR)) == pytest.approx(38.76, abs=0.01)


def test_unscored_counts_subscriptions_and_publications():
    made = world("topk(1, 'PT1S', n)", "topk(1, 'PT1S', n / m)", "t = 'x' AND topk(1, 'PT1S', n)")
    made.publish([pub("a", 0), pub("b", 0, n=1), pub("c", 0, n=1, m=0)])
    assert made.unscored == 4
