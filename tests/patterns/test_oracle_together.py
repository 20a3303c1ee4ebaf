"""Examples made by hand that pin the oracle to what ``together`` means."""

from __future__ import annotations

import pytest

from tests.patterns.by_hand import FAR, HERE, NEAR, pub, run, short, world
from tests.patterns.oracle_families import COMBINATIONS


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
