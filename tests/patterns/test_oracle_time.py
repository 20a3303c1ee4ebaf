"""Examples made by hand that pin the oracle to what time does to patterns: order, lateness, activity, the clock."""

from __future__ import annotations

import pytest

from tests.patterns.by_hand import at, pub, run, short, sub, world
from tests.patterns.oracle import World
from tests.patterns.oracle_pattern import duration


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
