"""Examples made by hand that pin the oracle to what patterns mean. A letter in a drawing is a publication, a number in
it a score; ``!`` marks the moments at which something is told.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.patterns.oracle import COMBINATIONS, World, duration, score, split
from tidegate.language.parse import parse
from tidegate.model import Publication, Subscription

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
HERE, NEAR, FAR = (15.97, 45.81), (15.9705, 45.81), (15.99, 45.81)  # some 39 m and 1550 m from HERE


def at(second):
    return START + timedelta(seconds=second)


def pub(id, second, source="x", location=None, phase=None, **attributes):
    return Publication(id, source, at(second), attributes, location=location, phase=phase)


def sub(where, id="s", **active):
    return Subscription(id, "ann", where, **{name: at(second) for name, second in active.items()})


def world(*wheres, lateness=0, **active):
    made = World(timedelta(seconds=lateness))
    for i, where in enumerate(wheres):
        made.subscribe(sub(where, f"s{i}" if len(wheres) > 1 else "s", **active))
    return made


def short(told):
    """(second, ids): a letter per publication."""
    return [((t.time - START).total_seconds(), "".join(t.publications)) for t in told]


def run(made, *publications):
    """One publication a call."""
    return [t for p in publications for t in short(made.publish([p]))]


# --- topk ---------------------------------------------------------------------------------------------------------


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
    told = made.publish([pub("a", 0, n=1, phase="START"), pub("a", 0, n=2, phase="END")])
    assert [t.score for t in told] == [2.0, 1.0], "END is before START in order"


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


# --- together -----------------------------------------------------------------------------------------------------


def test_together_takes_the_most_recent():
    #     0  1  2     f: t = 'f', g: t = 'g'
    #     a  b  c
    #     f  f  g!    (b, c)
    made = world("together('PT10S', t = 'f', t = 'g')")
    assert run(made, pub("a", 0, t="f"), pub("b", 1, t="f"), pub("c", 2, t="g")) == [(2, "bc")]
    assert run(made, pub("d", 3, t="g")) == [(3, "bd")], "publications are not used up"
    assert run(made, pub("e", 4, t="f")) == [(4, "ed")], "ids stand in the order of the filters"
    assert run(made, pub("h", 5, t="h")) == []


def test_together_ends_exactly_at_the_window():
    made = world("together('PT10S', t = 'f', t = 'g')")
    assert run(made, pub("a", 0, t="f"), pub("b", 10, t="g")) == []
    made = world("together('PT10S', t = 'f', t = 'g')")
    assert run(made, pub("a", 0, t="f"), pub("b", 9.999999, t="g")) == [(9.999999, "ab")]


def test_one_publication_serves_several_filters():
    made = world("together('PT10S', n > 1, n > 2, n > 3)")
    assert run(made, pub("a", 0, n=4)) == [(0, "aaa")]
    assert run(made, pub("b", 1, n=3)) == [(1, "bba")]
    assert run(made, pub("c", 2, n=1)) == []


def test_filter_first_in_together():
    made = world("n > 0 AND together('PT10S', t = 'f', t = 'g')")
    assert run(made, pub("a", 0, t="f", n=1), pub("b", 1, t="f", n=0), pub("c", 2, t="g", n=1)) == [(2, "ac")]


def test_together_all():
    #     0  1  2  3
    #     a  b  c  d
    #     f  f  g! g!
    made = world("together('PT10S', t = 'f', t = 'g', 'all')")
    assert run(made, pub("a", 0, t="f"), pub("b", 1, t="f")) == []
    assert run(made, pub("c", 2, t="g")) == [(2, "bc"), (2, "ac")]
    assert run(made, pub("d", 3, t="g")) == [(3, "bd"), (3, "ad")], "those without d were told before"


def test_together_all_with_itself_in_order():
    #     filter 1 varies slowest, the most recent first, and b is in every combination
    made = world("together('PT10S', TRUE, TRUE, 'all')")
    assert run(made, pub("a", 0), pub("b", 1)) == [(0, "aa"), (1, "bb"), (1, "ba"), (1, "ab")]


def test_together_all_at_one_moment_goes_by_id():
    made = world("together('PT10S', t = 'f', t = 'g', 'all')")
    assert short(made.publish([pub("c", 0, t="f"), pub("b", 0, t="g"), pub("a", 0, t="f")])) == [(0, "ab"), (0, "cb")]


def test_together_all_is_cut():
    made = world("together('PT10H', TRUE, TRUE, 'all')")
    enough = COMBINATIONS // 2
    made.publish([pub(f"p{i:04}", i) for i in range(enough)])
    assert made.cut == 0, "the last had 999"
    told = made.publish([pub("z", enough)])
    assert (len(told), made.cut) == (COMBINATIONS, 1)
    assert [t.publications for t in told[:2]] == [("z", "z"), ("z", f"p{enough - 1:04}")]


def test_metres():
    #     a and c are 39 m apart, b is far: with metres the search goes back to a
    made = world("together('PT10S', 100, t = 'f', t = 'g')")
    told = run(made, pub("a", 0, t="f", location=HERE), pub("b", 1, t="f", location=FAR))
    assert told == []
    (told,) = made.publish([pub("c", 2, t="g", location=NEAR)])
    assert told.publications == ("a", "c")
    assert told.score is None
    assert told.distance == pytest.approx(38.76, abs=0.01)


def test_metres_hold_for_every_pair():
    #     HERE … NEAR … a third 39 m beyond NEAR: neighbours are near, the ends are not
    beyond = (15.971, 45.81)
    made = world(
        "together('PT10S', 50, t = 'f', t = 'g', t = 'h')", "together('PT10S', 100, t = 'f', t = 'g', t = 'h')"
    )
    told = made.publish(
        [pub("a", 0, t="f", location=HERE), pub("b", 1, t="g", location=NEAR), pub("c", 2, t="h", location=beyond)]
    )
    assert [(t.subscription, t.publications) for t in told] == [("s1", ("a", "b", "c"))]
    assert told[0].distance == pytest.approx(77.5, abs=0.1)


def test_metres_without_a_location():
    made = world("together('PT10S', 100, n > 1, n > 2)")
    assert run(made, pub("a", 0, n=3)) == []
    (told,) = made.publish([pub("b", 1, n=3, location=HERE)])
    assert (told.publications, told.distance) == (("b", "b"), 0.0)


# --- absent -------------------------------------------------------------------------------------------------------


def test_absent_and_re_armed():
    #     0  4       14     20     30
    #     a  b       !      c      !
    made = world("absent('PT10S', t = 'f')")
    assert run(made, pub("a", 0, t="f"), pub("b", 4, t="f"), pub("x", 12, t="g")) == []
    assert run(made, pub("x", 15, t="g")) == [(14, "b")]
    assert short(made.advance(at(19))) == [], "once per silence"
    assert run(made, pub("c", 20, t="f")) == []
    assert short(made.advance(at(30))) == [(30, "c")]


def test_absent_exactly_at_the_end():
    made = world("absent('PT10S', TRUE)")
    assert run(made, pub("a", 0), pub("b", 10)) == [(10, "a")], "the silence is told, then b re-arms"
    assert run(made, pub("c", 19.999999)) == []


def test_absent_from_the_beginning():
    made = world("absent('PT10S', t = 'f')")
    assert run(made, pub("x", 5, t="g")) == [], "the clock starts at 5"
    assert made.advance(at(100)) == [("s", at(15), (), None, None)]
    assert short(made.advance(at(200))) == []


def test_absent_counts_from_the_clock_at_which_it_was_made():
    made = world()
    made.publish([pub("x", 5)])
    made.advance(at(7))
    made.subscribe(sub("absent('PT10S', TRUE)"))
    assert short(made.advance(at(100))) == [(17, "")]
    made = world("absent('PT10S', TRUE)")
    made.advance(at(3))
    assert short(made.advance(at(100))) == [(13, "")], "advance starts a clock, too"


def test_absent_counts_from_the_first_of_a_call():
    made = world("absent('PT10S', FALSE)")
    assert short(made.publish([pub("b", 20), pub("a", 5)])) == [(15, "")]


def test_absent_with_lateness_counts_from_the_clock():
    made = world("absent('PT10S', FALSE)", lateness=3)
    made.publish([pub("a", 5)])
    assert short(made.advance(at(14.9))) == []
    assert short(made.advance(at(15))) == [(12, "")]


def test_absent_per_source():
    #     x: a . . . . !      a source counts from its first publication
    #     y: . . b . c . . !
    made = world("absent('PT5S', t = 'f', source)")
    assert short(made.advance(at(0))) == []
    assert run(made, pub("a", 1, "x", t="f"), pub("b", 3, "y", t="f"), pub("c", 5, "y", t="f")) == []
    assert run(made, pub("z", 20, "z", t="g")) == [(6, "a"), (10, "c")]
    assert short(made.advance(at(100))) == []


def test_absent_per_source_at_one_moment_goes_by_the_last_publications():
    made = world("absent('PT5S', TRUE, source)")
    made.publish([pub("a", 1, "y"), pub("b", 1, "x"), pub("c", 1, "y")])
    assert short(made.advance(at(6))) == [(6, "b"), (6, "c")]


def test_filter_first_in_absent():
    made = world("n > 0 AND absent('PT10S', t = 'f')")
    made.publish([pub("a", 0, t="f", n=1), pub("b", 5, t="f", n=0)])
    assert short(made.advance(at(10))) == [(10, "a")]


# --- time ---------------------------------------------------------------------------------------------------------


def test_a_call_is_put_in_order():
    made = world("topk(1, 'PT10S', n)")
    assert short(made.publish([pub("c", 2, n=0), pub("a", 0, n=2), pub("b", 1, n=1)])) == [(0, "a"), (1, "b"), (2, "c")]
    assert made.late == 0


def test_late_publications():
    made = world("topk(9, 'PT10S', n)", "TRUE")
    made.publish([pub("a", 5, n=1)])
    told = made.publish([pub("b", 4, n=1), pub("c", 5, n=1)])
    assert [(t.subscription, *t.publications) for t in told] == [("s1", "b"), ("s0", "c"), ("s1", "c")]
    assert made.late == 1
    made.advance(at(20))
    made.publish([pub("d", 19, n=1)])
    assert made.late == 2


def test_late_publications_of_a_call_are_judged_by_the_clock_before_it():
    made = world("topk(9, 'PT10S', n)", lateness=2)
    made.publish([pub("a", 10, n=1)])
    made.publish([pub("b", 100, n=1), pub("c", 8, n=1), pub("d", 7, n=1)])
    assert made.late == 1


def test_lateness():
    #     appear:  c5 a3 b4 …  with a lateness of 2 they are stepped when the clock is past them
    made = world("topk(1, 'PT10S', n)", lateness=2)
    assert run(made, pub("c", 5, n=1), pub("a", 3, n=3), pub("b", 4, n=2)) == []
    assert run(made, pub("x", 6)) == [(3, "a")], "the clock is at 4: b must wait, another of its time may come"
    assert short(made.advance(at(7))) == [(4, "b")]
    assert short(made.advance(at(7.000001))) == [(5, "c")]
    assert made.late == 0


def test_lateness_and_moments_of_the_clock():
    #     a silence ends when the clock is there, though publications of that moment still wait
    made = world("absent('PT5S', TRUE)", lateness=2)
    assert run(made, pub("a", 1), pub("b", 6), pub("c", 8)) == [(6, "a")]
    assert short(made.advance(at(14.999999))) == [], "c has ended the silence after b"
    assert short(made.advance(at(15))) == [(13, "c")]


def test_out_of_order_equals_sorted():
    made = world("topk(1, 'PT3S', n)", lateness=4)
    stream = [pub("d", 4, n=9), pub("a", 1, n=1), pub("c", 3, n=5), pub("b", 2, n=3)]
    assert run(made, *stream) == []
    assert short(made.advance(at(50))) == [(1, "a"), (4, "b"), (5, "c"), (6, "d")]


def test_subscribing_in_the_middle():
    made = world(lateness=2)
    made.publish([pub("a", 5, n=1)])
    made.subscribe(sub("topk(1, 'PT10S', n)"))
    made.publish([pub("b", 4, n=2)])
    assert short(made.advance(at(50))) == [(4, "b")], "a appeared before, though its time is later"


def test_unsubscribing():
    made = world("absent('PT5S', TRUE)", "topk(1, 'PT5S', n)", "TRUE", lateness=1)
    made.publish([pub("a", 0, n=1)])
    for id in ("s0", "s1", "s2"):
        made.unsubscribe(id)
    assert made.advance(at(50)) == []
    made.subscribe(sub("topk(1, 'PT5S', n)", "s1"))
    assert made.advance(at(51)) == [], "a new one of the same id starts anew"


def test_active_until():
    made = world("topk(1, 'PT10S', n)", "absent('PT10S', TRUE)", active_until=11)
    made.publish([pub("a", 0, n=1), pub("b", 1, n=2), pub("c", 2, n=3)])
    assert made.advance(at(60)) == [("s0", at(10), ("b",), 2.0, None)], "c would be at 11, the silence at 12"
    made = world("together('PT10S', TRUE, n = 1)", active_until=11)
    assert run(made, pub("a", 10, n=1), pub("b", 11, n=1)) == [(10, "aa")]


def test_active_from():
    made = world("absent('PT10S', TRUE)", active_from=5)
    made.publish([pub("a", 0)])
    assert short(made.advance(at(60))) == [(15, "")]
    made = world("topk(1, 'PT10S', n)", active_from=5)
    assert run(made, pub("a", 4, n=1), pub("b", 5, n=2)) == [(5, "b")]


def test_the_clock_does_not_go_back():
    made = world("absent('PT10S', TRUE)")
    made.advance(at(5))
    with pytest.raises(ValueError, match="goes back"):
        made.advance(at(4))
    made.publish([pub("a", 20)])
    assert made.advance(at(10)) == [], "behind the publications, but not behind what advance said"
    assert short(made.advance(at(30))) == [(30, "a")]


def test_order_of_notifications():
    made = World()
    for id, where in (("b", "topk(9, 'PT9S', n)"), ("a", "TRUE"), ("c", "absent('PT1S', TRUE)")):
        made.subscribe(sub(where, id))
    told = made.publish([pub("q", 1, n=1), pub("p", 1, n=1), pub("o", 0, n=1)])
    assert [(t.subscription, *t.publications) for t in told] == [
        *(("a", "o"), ("b", "o")),
        *(("a", "q"), ("a", "p"), ("b", "p"), ("b", "q"), ("c", "o")),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT1S", 1), ("PT0.25S", 0.25), ("P1DT2H3M4S", 93784), ("P2W", 1209600), ("PT90M", 5400)],
)
def test_durations(text, seconds):
    assert duration(text) == seconds * 1_000_000
