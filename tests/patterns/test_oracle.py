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


# --- past ---------------------------------------------------------------------------------------------------------
# In the drawings [──] is an event, [─▶ one that is running, ! what is told of. ``told`` gives the ids of those.


def event(id, time, start=None, end=None, phase=None, source="x", **attributes):
    when = {name: None if second is None else at(second) for name, second in (("start", start), ("end", end))}
    return Publication(id, source, at(time), attributes, phase=phase, **when)


def begin(id, time, start=None, **more):
    return event(id, time, start, phase="START", **more)


def end(id, time, end=None, start=None, **more):
    return event(id, time, start, end, phase="END", **more)


def past_world(*wheres, **settings):
    made = World(**{name: value if name == "most" else timedelta(seconds=value) for name, value in settings.items()})
    for i, where in enumerate(wheres):
        made.subscribe(sub(where, f"s{i}"))
    return made


def ids(made, *publications):
    """What is told, a call per publication, as ``subscription:id``; of the only subscription just the id."""
    alone = len(made.events.followers) == 1
    return " ".join(
        t.publications[0] if alone else f"{t.subscription}:{t.publications[0]}"
        for p in publications
        for t in made.publish([p])
    )


def told_of(where, *publications, **settings):
    return ids(past_world(where, **settings), *publications)


def test_a_point_during_an_event():
    #       2         5
    #     Y [─────────]
    #    a  b    c    d  e       the bounds are inside
    y = event("Y", 0, 2, 5, n=9)
    points = [event(id, second) for id, second in (("a", 1.999999), ("b", 2), ("c", 3), ("d", 5), ("e", 5.000001))]
    assert told_of("T_DURING(time, past(n = 9))", y, *points) == "b c d"
    assert told_of("T_INTERSECTS(start, past(n = 9))", y, *points) == "b c d"
    assert told_of("T_DISJOINT(end, past(n = 9))", y, *points) == "a e"
    assert told_of("T_AFTER(time, past(n = 9))", y, *points) == "e"
    assert told_of("T_BEFORE(time, past(n = 9))", y, *points) == "a"
    assert told_of("T_EQUALS(time, past(n = 9))", y, *points) == ""
    assert told_of("T_EQUALS(time, past(n = 9))", event("Y", 0, 3, n=9), *points) == "c"


def test_all_of_allens_relations():
    #     2         6
    #   Y [─────────]        and one event for each of them
    named = {
        "T_BEFORE": (0, 1), "T_MEETS": (0, 2), "T_OVERLAPS": (0, 4), "T_STARTS": (2, 4), "T_DURING": (3, 5),
        "T_FINISHES": (4, 6), "T_EQUALS": (2, 6), "T_FINISHEDBY": (0, 6), "T_CONTAINS": (0, 8),
        "T_STARTEDBY": (2, 8), "T_OVERLAPPEDBY": (4, 8), "T_METBY": (6, 8), "T_AFTER": (7, 8),
    }  # fmt: skip
    y, some = event("Y", 0, 2, 6, n=9), [event(name, 9, *when) for name, when in named.items()]
    for name in named:
        assert told_of(f"{name}(event, past(n = 9))", y, *some) == name
    assert told_of("T_DISJOINT(event, past(n = 9))", y, *some) == "T_BEFORE T_AFTER"
    assert told_of("NOT T_INTERSECTS(event, past(n = 9))", y, *some) == "Y T_BEFORE T_AFTER", (
        "at Y there is nothing yet"
    )
    assert told_of("T_INTERSECTS(event, past(n = 9))", y, *some) == " ".join(list(named)[1:-1])


def test_a_running_event_ends_after_everything():
    #     1
    #   Y [───────────▶
    #        a     b      END of Y at 6, told at 6
    made = past_world("T_DURING(time, past(n = 9))", "T_AFTER(time, past(n = 9))", "T_OVERLAPS(event, past(n = 9))")
    assert ids(made, begin("Y", 1, n=9), event("a", 3), event("b", 1000)) == "s0:a s0:b"
    assert ids(made, event("c", 1000, 0, 5)) == "s0:c s2:c", "it overlaps what has not ended"
    assert ids(made, end("Y", 1001, 6), event("d", 1001), event("e", 1001, 0, 5)) == "s1:d s1:e s2:e"


def test_what_does_not_need_the_end_of_a_running_event():
    made = past_world(
        "T_STARTS(event, past(n = 9))", "T_FINISHES(event, past(n = 9))", "T_EQUALS(event, past(n = 9))",
        "T_MEETS(event, past(n = 9))", "T_METBY(event, past(n = 9))", "T_DISJOINT(event, past(n = 9))",
    )  # fmt: skip
    assert ids(made, begin("Y", 2, n=9), event("a", 5, 2, 4), event("b", 5, 0, 2), event("c", 5, 0, 1)) == (
        "s0:a s3:b s5:c"
    )


def test_a_publication_never_meets_its_own_event():
    assert told_of("T_EQUALS(event, past(TRUE))", event("a", 1), event("b", 2)) == ""
    assert told_of("T_DURING(time, past(TRUE))", begin("a", 1), end("a", 2)) == ""
    #     START and END are of one event; another of the same times is another
    assert told_of("T_EQUALS(event, past(TRUE))", begin("a", 1), end("a", 2), event("b", 2, 1, 2)) == "b"


def test_whole_events_of_one_id_are_two():
    assert told_of("T_EQUALS(event, past(TRUE))", event("a", 1, 0, 1), event("a", 2, 0, 1)) == "a"
    assert told_of("T_EQUALS(event, past(TRUE))", event("a", 1, phase="INSTANT"), event("a", 1)) == "a"


def test_defaults_of_whole_events():
    #     start or end or time, whichever is there
    where = "T_EQUALS(event, past(n = 9))"
    assert told_of(where, event("Y", 7, 3, n=9), event("a", 7, None, 3), event("b", 3), event("c", 3, 3, 7)) == "a"
    made = past_world(where)
    assert ids(made, event("Y", 7, None, None, n=9), event("a", 8, 7), event("b", 8)) == "a"


def test_start_and_end_of_parts():
    made = past_world("T_DURING(start, past(n = 9))", "T_DURING(end, past(n = 9))", "T_INTERSECTS(event, past(n = 9))")
    assert ids(made, event("Y", 0, 0, 9, n=9), begin("a", 2)) == "s0:a", "a START has no end and is no interval yet"
    assert ids(made, end("a", 3)) == "s1:a s2:a", "an END has no start of its own"
    assert ids(made, begin("b", 4), end("b", 5, start=4)) == "s0:b s0:b s1:b s2:b", "unless it brings it"


def test_the_interval_of_an_end_begins_with_its_start():
    #     2      5
    #   Y [──────]        a starts at 2, and ends at 5 or later
    where = "T_EQUALS(event, past(n = 9))"
    assert told_of(where, event("Y", 0, 2, 5, n=9), begin("a", 2), end("a", 5)) == "a"
    assert told_of(where, event("Y", 0, 2, 5, n=9), begin("a", 1, 2), end("a", 6, 5, start=2)) == "a"
    assert told_of(where, event("Y", 0, 2, 5, n=9), begin("a", 2), end("a", 6)) == ""


def test_an_attribute_as_a_point():
    where = "T_DURING(when, past(n = 9))"
    y = event("Y", 0, 2, 5, n=9)
    assert told_of(where, y, pub("a", 9, when=at(3)), pub("b", 9, when=at(6)), pub("c", 9), pub("d", 9, when=3)) == "a"
    assert told_of(f"NOT {where}", y, pub("a", 9, when=at(3)), pub("b", 9, when=at(6)), pub("c", 9)) == "b"
    assert told_of(f"NOT {where}", pub("d", 9, when=3), pub("e", 9, when="x")) == ""


def test_what_is_remembered_passed_the_filter():
    assert told_of("T_AFTER(time, past(n > 1))", pub("a", 0, n=1), pub("b", 1, n=2), pub("c", 2), pub("d", 3)) == "c d"


def test_nothing_is_past_at_first():
    assert told_of("T_AFTER(time, past(TRUE))", pub("a", 0), pub("b", 0), pub("c", 1)) == "c"
    assert told_of("NOT T_AFTER(time, past(TRUE))", pub("a", 0), pub("b", 0), pub("c", 1)) == "a b"


def test_the_order_of_one_moment():
    #     b comes before c of the same time by id, and a START before an END of the same id
    made = past_world("T_EQUALS(time, past(TRUE))")
    assert [t.publications for t in made.publish([pub("c", 1), pub("b", 1)])] == [("c",)]
    made = past_world("T_DURING(time, past(n = 9))")
    assert [t.publications for t in made.publish([end("a", 1, n=9), begin("a", 1), pub("b", 1)])] == [("b",)]
    assert made.refused == {}


def test_order_of_appearance_between_batches():
    assert told_of("T_EQUALS(time, past(TRUE))", pub("b", 1), pub("a", 1)) == "a"


def test_an_end_gives_its_end_though_it_passes_nothing():
    #     START passes n = 9, END has no n
    where = "T_AFTER(time, past(n = 9))"
    assert told_of(where, begin("Y", 1, n=9), pub("a", 2), end("Y", 3), pub("b", 4)) == "b"


def test_an_event_may_be_remembered_from_its_end_on():
    #     only the END passes: until then nobody knows it
    where = "T_DURING(time, past(n = 9))"
    assert told_of(where, begin("Y", 1), pub("a", 2), end("Y", 5, 8, n=9), pub("b", 6), pub("c", 9)) == "b"
    assert told_of("T_METBY(event, past(n = 9))", begin("Y", 1), end("Y", 5, n=9), event("a", 6, 5, 6)) == "a"


def test_limits():
    #     0    2             Y ended at 2
    #   Y [────]   5 6 7     with a limit of 4 seconds
    where = "T_AFTER(time, past(n = 9, 'PT4S'))"
    some = [pub("a", 2), pub("b", 2.000001), pub("c", 6), pub("d", 6.000001)]
    assert told_of(where, event("Y", 0, 0, 2, n=9), *some) == "b c"
    assert told_of("T_AFTER(time, past(n = 9, '..'))", event("Y", 0, 0, 2, n=9), *some) == "b c d"


def test_a_limit_counts_from_the_start_of_an_interval():
    where = "T_AFTER(event, past(n = 9, 'PT4S'))"
    y = event("Y", 0, 0, 2, n=9)
    assert told_of(where, y, event("a", 9, 6, 90), event("b", 9, 6.000001, 90), event("c", 9, 3)) == "a c"


def test_a_limit_bounds_every_relation():
    where = "T_BEFORE(time, past(n = 9, 'PT1S'))"
    assert told_of(where, event("Y", 0, 5, 7, n=9), pub("a", 1)) == "a", "its end is not too long ago"
    assert told_of("T_CONTAINS(event, past(n = 9, 'PT1S'))", event("Y", 0, 5, 7, n=9), event("a", 9, 4, 8)) == "a"
    assert told_of("T_DISJOINT(time, past(n = 9, 'PT1S'))", event("Y", 0, n=9), pub("a", 1), pub("b", 2)) == "a"
    assert told_of("NOT T_DISJOINT(time, past(n = 9, 'PT1S'))", event("Y", 0, n=9), pub("a", 1), pub("b", 2)) == "Y b"


def test_running_events_are_in_any_limit():
    assert told_of("T_DURING(time, past(n = 9, 'PT1S'))", begin("Y", 0, n=9), pub("a", 500)) == "a"


def test_tolerances_of_points():
    #     2      5           half a second on either side
    #   Y [──────]
    y = event("Y", 0, 2, 5, n=9)
    some = [pub("a", 1.4), pub("b", 1.5), pub("c", 5.5), pub("d", 5.500001)]
    assert told_of("T_DURING(time, past(n = 9, '..', 'PT0.5S'))", y, *some) == "b c"
    assert told_of("T_AFTER(time, past(n = 9, '..', 'PT0.5S'))", y, pub("e", 4.5), pub("f", 4.500001)) == "f"
    assert told_of("T_BEFORE(time, past(n = 9, '..', 'PT0.5S'))", y, pub("e", 2.499999), pub("f", 2.5)) == "e"
    #     both near to the end and in reach: more than during and apart exclude each other
    assert told_of("T_DISJOINT(time, past(n = 9, '..', 'PT0.5S'))", y, pub("e", 2.4), pub("f", 3), pub("g", 5)) == "e g"


def test_tolerances_of_equality():
    where = "T_EQUALS({}, past(n = 9, '..', 'PT1S'))"
    y = event("Y", 0, 3, n=9)
    assert told_of(where.format("time"), y, pub("a", 1.9), pub("b", 2), pub("c", 4), pub("d", 4.1)) == "b c"
    y = event("Y", 0, 3, 5, n=9)
    assert told_of(where.format("time"), y, pub("a", 4)) == "a", "no more than a second from either end"
    assert told_of(where.format("event"), y, event("a", 9, 2, 6), event("b", 9, 4, 4), event("c", 9, 3, 7)) == "a b"


def test_tolerances_of_intervals():
    y, where = event("Y", 0, 2, 6, n=9), "T_{}(event, past(n = 9, '..', 'PT1S'))"
    assert told_of(where.format("MEETS"), y, event("a", 9, 0, 1), event("b", 9, 0, 3), event("c", 9, 0, 4)) == "a b"
    assert told_of(where.format("DURING"), y, event("a", 9, 1.5, 6.5), event("b", 9, 1, 6)) == "a"
    assert told_of(where.format("STARTS"), y, event("a", 9, 1, 6.5), event("b", 9, 1, 7)) == "a"
    assert told_of(where.format("OVERLAPS"), y, event("a", 9, 2.9, 6.9), event("b", 9, 3, 4)) == "a"


#: Against an event from 4 to 8 with a tolerance of one second: what is so related, just so, and what just is not.
TOLERATED = {
    "AFTER": ([(7.1, 9)], [(7, 9)]),
    "BEFORE": ([(1, 4.9)], [(1, 5)]),
    "CONTAINS": ([(4.9, 7.1)], [(5, 7.1), (4.9, 7)]),
    "DISJOINT": ([(7.1, 9), (1, 4.9)], [(5, 7)]),
    "DURING": ([(3.1, 8.9)], [(3, 8.9), (3.1, 9)]),
    "EQUALS": ([(3, 9), (5, 7)], [(2.9, 8), (4, 9.1)]),
    "FINISHEDBY": ([(4.9, 9), (4.9, 7)], [(5, 8), (4, 9.1), (4, 6.9)]),
    "FINISHES": ([(3.1, 9), (3.1, 7)], [(3, 8), (5, 9.1)]),
    "INTERSECTS": ([(9, 10), (1, 3)], [(9.1, 10), (1, 2.9)]),
    "MEETS": ([(1, 3), (1, 5)], [(1, 2.9), (1, 5.1)]),
    "METBY": ([(7, 9), (9, 10)], [(6.9, 9), (9.1, 10)]),
    "OVERLAPPEDBY": ([(3.1, 7.1), (8.9, 9)], [(3, 8), (9, 10), (4, 7)]),
    "OVERLAPS": ([(4.9, 8.9), (1, 3.1)], [(5, 6), (1, 3), (2, 9)]),
    "STARTEDBY": ([(3, 7.1), (5, 7.1)], [(2.9, 9), (4, 7)]),
    "STARTS": ([(3, 8.9), (5, 6)], [(2.9, 5), (4, 9)]),
}
TOLERATED_POINTS = {
    "AFTER": ([7.1], [7]),
    "BEFORE": ([4.9], [5]),
    "DISJOINT": ([7.1, 4.9], [5, 7]),
    "DURING": ([3, 9], [2.9, 9.1]),
    "EQUALS": ([], [3, 4, 5, 8]),
    "INTERSECTS": ([3, 9], [2.9, 9.1]),
}


@pytest.mark.parametrize("relation", TOLERATED)
def test_every_relation_has_a_tolerance(relation):
    y, where = event("Y", 0, 4, 8, n=9), f"T_{relation}({{}}, past(n = 9, '..', 'PT1S'))"
    so, not_so = ([event(f"{when}", 20, *when) for when in some] for some in TOLERATED[relation])
    assert told_of(where.format("event"), y, *so, *not_so) == " ".join(p.id for p in so)
    if relation in TOLERATED_POINTS:
        so, not_so = ([pub(f"{when}", 20, when=at(when)) for when in some] for some in TOLERATED_POINTS[relation])
        assert told_of(where.format("when"), y, *so, *not_so) == " ".join(p.id for p in so)


def test_a_tolerance_widens_the_limit():
    where = "T_AFTER(time, past(n = 9, 'PT4S', 'PT1S'))"
    assert told_of(where, event("Y", 0, 0, 2, n=9), pub("a", 7), pub("b", 7.000001)) == "a"


def test_a_zero_length_event_starts_and_finishes_at_once():
    y = event("Y", 0, 3, n=9)
    made = past_world("T_MEETS(event, past(n = 9))", "T_METBY(event, past(n = 9))", "T_EQUALS(event, past(n = 9))",
                      "T_STARTS(event, past(n = 9))", "T_STARTEDBY(event, past(n = 9))")  # fmt: skip
    assert ids(made, y, event("a", 9, 3)) == "s0:a s1:a s2:a"
    assert ids(made, event("b", 9, 3, 4), event("c", 9, 2, 3)) == "s1:b s4:b s0:c"


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


def test_a_subscription_does_not_see_what_was_before_it():
    made = past_world("T_AFTER(time, past(TRUE))")
    made.publish([pub("a", 0), begin("b", 0)])
    made.subscribe(sub("T_AFTER(time, past(TRUE))", "late"))
    assert ids(made, pub("c", 1)) == "s0:c"
    assert ids(made, end("b", 2)) == "s0:b", "its START is unknown to the later one"
    assert ids(made, pub("d", 3)) == "late:d s0:d"
    assert made.refused == {}


def test_before_the_first_subscription_nothing_is_known():
    made = World()
    made.publish([begin("a", 0)])
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    assert ids(made, end("a", 1), pub("b", 2)) == ""
    assert made.refused == {"end without start": 1}


def test_when_the_last_subscription_goes_all_is_forgotten():
    made = past_world("T_AFTER(time, past(TRUE))")
    made.publish([begin("a", 0)])
    made.unsubscribe("s0")
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    assert ids(made, begin("a", 1), pub("b", 2), end("a", 3), pub("c", 4)) == "a c", "a at its END, which is after b"
    assert made.refused == {}


def test_one_of_two_subscriptions_may_go():
    made = past_world("T_AFTER(time, past(TRUE))", "T_DURING(time, past(TRUE))")
    made.publish([begin("a", 0)])
    made.unsubscribe("s0")
    assert ids(made, pub("b", 1)) == "b"


def test_refused():
    made = past_world("TRUE OR T_AFTER(time, past(TRUE))")
    assert ids(made, end("a", 0)) == ""
    assert ids(made, begin("a", 1), begin("a", 2), event("a", 2, phase="INSTANT")) == "a"
    assert ids(made, end("a", 3, 0), end("a", 3, start=0), event("b", 3, 3, 4, phase="START")) == ""
    assert ids(made, event("c", 3, 3, 4, phase="INSTANT"), end("a", 4), end("a", 5), begin("a", 6)) == "a"
    assert made.refused == {
        "end without start": 2, "second start": 3, "end before start": 1, "other start": 1, "start with an end": 1,
        "instant that lasts": 1,
    }  # fmt: skip


def test_refused_are_not_remembered():
    where = "T_EQUALS(time, past(n = 9))"
    assert told_of(where, end("a", 1, n=9), pub("b", 1)) == ""
    assert told_of(where, event("a", 1, 1, 2, phase="INSTANT", n=9), pub("b", 1), pub("c", 2)) == ""
    where = "T_DURING(time, past(n = 9))"
    assert told_of(where, event("a", 1, 1, 2, phase="START", n=9), pub("b", 1), begin("a", 1), pub("c", 1)) == ""
    assert told_of(where, begin("a", 1), begin("a", 2, n=9), pub("b", 3)) == ""


def test_a_refused_end_leaves_its_event_running():
    where = "T_DURING(time, past(n = 9))"
    assert told_of(where, begin("a", 5, n=9), end("a", 6, 4), pub("b", 7), end("a", 8), pub("c", 9)) == "b"


def test_ids_of_whole_events_are_not_compared():
    made = past_world("T_AFTER(time, past(TRUE))")
    assert ids(made, event("a", 0), event("a", 1, phase="INSTANT"), begin("a", 2), end("a", 3)) == "a a a"
    assert made.refused == {}
    assert ids(made, begin("b", 4), event("b", 5), event("b", 6, phase="INSTANT"), end("b", 7)) == "b b b"
    assert made.refused == {"second start": 1}, "an INSTANT is compared with those that start and end"


def test_activity_bounds_what_is_told_of_and_not_what_is_remembered():
    made = World()
    made.subscribe(sub("T_AFTER(time, past(TRUE))", active_from=5, active_until=7))
    assert ids(made, *(pub(str(i), i) for i in range(3, 9))) == "5 6"


def test_late_publications_are_not_seen():
    made = past_world("T_AFTER(time, past(TRUE))")
    assert ids(made, pub("a", 5), pub("b", 4), pub("c", 5)) == "", "or c would be after b"
    assert made.late == 1


def test_lateness_restores_the_order():
    made = past_world("T_AFTER(time, past(n = 9))", lateness=3)
    assert ids(made, pub("b", 5), pub("a", 4, n=9), pub("c", 8.5)) == "b"
    assert [t.publications for t in made.advance(at(20))] == [("c",)]


def test_lateness_and_a_later_subscription():
    #     b and a wait; the subscription is made; what appeared before it is not for it
    made = past_world("T_AFTER(time, past(TRUE))", lateness=3)
    made.publish([pub("b", 5), pub("a", 4)])
    made.subscribe(sub("T_AFTER(time, past(TRUE))", "late"))
    made.publish([pub("c", 6)])
    assert [(t.subscription, *t.publications) for t in made.advance(at(20))] == [("s0", "b"), ("s0", "c")]


def test_forgetting_by_age():
    #     with 5 seconds
    where = "T_AFTER(time, past(n = 9))"
    some = [event("Y", 10, 0, 1, n=9), pub("a", 15), pub("b", 15.000001)]
    assert told_of(where, *some, keep=5) == "a", "counted from the time of its publication, not from its end"
    some = [begin("Y", 0, n=9), pub("a", 50), end("Y", 60), pub("b", 65), pub("c", 66)]
    assert told_of("T_INTERSECTS(time, past(n = 9)) OR T_AFTER(time, past(n = 9))", *some, keep=5) == "a b"


def test_a_forgotten_id_may_start_again():
    made = past_world("T_AFTER(time, past(TRUE))", keep=5)
    ids(made, begin("a", 0), end("a", 1), begin("a", 6), begin("a", 6.5))
    assert made.refused == {"second start": 1}, "five seconds are not over at 6"
    ids(made, begin("a", 99))
    assert made.refused == {"second start": 2}, "it is running"
    ids(made, end("a", 100), end("a", 200))
    assert made.refused == {"second start": 2, "end without start": 1}


def test_values_age_with_their_publication():
    some = [begin("Y", 0, n=9), end("Y", 4, n=1), pub("a", 5, n=9), pub("b", 5.1, n=9, t="b")]
    assert told_of("n = past(n, t IS NULL AND phase = 'START')", *some, keep=5) == "a"


def test_history_shows_later_subscriptions_what_it_remembers():
    made = World(history=True)
    made.subscribe(sub("T_AFTER(time, past(n = 9))"))
    made.publish([pub("a", 0, n=9), pub("b", 1, n=8), begin("c", 2), end("c", 3, n=9), pub("d", 4, n=7)])
    made.subscribe(sub("n = past(n, TRUE)", "late"))
    assert ids(made, pub("e", 5, n=8), pub("f", 5, n=7), pub("g", 5, n=9)) == "s:e s:f late:g s:g"


def test_history_has_all_starts_and_ends():
    made = World(history=True)
    made.subscribe(sub("T_AFTER(time, past(n = 9))"))
    made.publish([begin("c", 2, n=5), end("c", 3, n=9), begin("d", 4, n=5)])
    made.subscribe(sub("T_CONTAINS(event, past(n = 5))", "late"))
    assert ids(made, event("e", 5, 1, 6)) == "late:e s:e", "c has ended, d has not"


def test_history_shows_things_as_they_were():
    #     a was during Y, which was running then; that Y had ended before a was told later
    made = World(history=True)
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    made.publish([begin("Y", 1, n=9), pub("a", 2, n=8), end("Y", 3, 1.5)])
    made.subscribe(sub("T_AFTER(time, past(n = 8 AND T_DURING(time, past(n = 9))))", "late"))
    made.subscribe(sub("T_DURING(time, past(n = 9))", "last"))
    assert ids(made, pub("b", 4)) == "late:b s:b", "and Y has its end again"


def test_history_counts():
    made = World(history=True, most=2)
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    assert ids(made, pub("a", 0), pub("b", 5), pub("c", 5), pub("d", 5), pub("e", 5)) == "b c"
