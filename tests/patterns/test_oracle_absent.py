"""Examples made by hand that pin the oracle to what ``absent`` means."""

from __future__ import annotations

from tests.patterns.by_hand import at, pub, run, short, sub, world


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


def test_absent_counts_from_when_it_was_made():
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


def test_absent_with_lateness_counts_from_what_appeared():
    made = world("absent('PT10S', t = 'f')", lateness=3)
    made.publish([pub("a", 5)])
    made.publish([pub("b", 4, t="f")])
    assert short(made.advance(at(17.9))) == [], "the clock is behind by the lateness"
    assert short(made.advance(at(18))) == [(15, "")], "and b came before the silence began"


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
