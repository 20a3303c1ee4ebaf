"""Examples made by hand that pin the oracle to what subscriptions in an overlay mean, and a second, blunter oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.oracle import Clock, Cut, Join, Script, Tell, everything, expected, path
from tests.overlay.strategies import ALL, CUTS, PLAIN, SECOND, START, scripts
from tests.parts.profiles import examples
from tidegate.overlay.messages import Announce, Reading, Revoke, Subscribe, Unsubscribe
from tidegate.overlay.operators import Operator, OperatorPart

HERE, NEXT, FAR = (7.0, 46.0), (7.01, 46.0), (7.1, 46.0)  # some 770 m and 7.7 km from HERE


def sensor(source, attribute=None, location=None, node="m"):
    return Tell(node, Announce(source, attribute or source, location))


def ask(id, *parts, window=5, near=None, node="m"):
    return Tell(node, Subscribe(Operator(id, parts, window * SECOND, near)))


def on(source, low=-1e9, high=1e9):
    return OperatorPart(source, low, high, source)


def read(id, source, second, value=0.0, node="m"):
    return Tell(node, Reading(id, source, value, START + second * SECOND))


def clock(second):
    return Clock(START + second * SECOND)


def script(*steps, validity=12):
    """West, middle, east: w – m – e."""
    return Script(("w", "m", "e"), (("w", "m"), ("m", "e")), validity * SECOND, (clock(0), *steps))


def shown(*steps, **options):
    """What must and what may be told, of all subscriptions: (id, readings that must, that may)."""
    return [
        (stay.operator.id, " ".join(sorted(stay.must)), " ".join(sorted(stay.may)))
        for stay in expected(script(*steps), **options)
    ]


def exact(*steps):
    found = shown(*steps)
    assert all(must == may for _, must, may in found)
    return {id: must for id, must, _ in found}


# --- matches ------------------------------------------------------------------------------------------------------


def test_table_one_of_jurca_et_al():
    #          a        b        c
    #  s1    50–80    10–30
    #  s2             20–40     2–20
    #  s3    55–75    15–35     5–15
    parts = {"s1": [(50, 80), (10, 30), None], "s2": [None, (20, 40), (2, 20)], "s3": [(55, 75), (15, 35), (5, 15)]}
    asked = [
        ask(id, *(on(x, r[0] + 1, r[1] - 1) for x, r in zip("abc", ranges, strict=True) if r))
        for id, ranges in parts.items()
    ]
    steps = [sensor("a"), sensor("b"), sensor("c"), *asked]
    steps += [read("a1", "a", 0, 52), read("a2", "a", 1, 60), read("b1", "b", 1, 12), read("b2", "b", 2, 25)]
    assert exact(*steps) == {"s1": "a1 a2 b1 b2", "s2": "", "s3": ""}
    steps += [read("c1", "c", 3, 18), read("c2", "c", 4, 10)]
    assert exact(*steps) == {"s1": "a1 a2 b1 b2", "s2": "b2 c1 c2", "s3": "a2 b2 c2"}
    steps += [read("b3", "b", 6, 35), read("a3", "a", 8, 90)]  # b3 is none of s1's, and 4 s from c1's only partner
    assert exact(*steps) == {"s1": "a1 a2 b1 b2", "s2": "b2 b3 c1 c2", "s3": "a2 b2 c2"}


def test_window_is_open():
    #  0        4  5
    #  a        b  B        less than 5 s
    steps = [sensor("a"), sensor("b"), ask("s", on("a"), on("b")), read("a", "a", 0), read("B", "b", 5)]
    assert exact(*steps) == {"s": ""}
    assert exact(*steps, read("b", "b", 4)) == {"s": "a b"}


def test_all_within_one_window():
    #  0  3  6       each pair of neighbours is near enough, the ends are not
    steps = [*map(sensor, "abc"), ask("s", *map(on, "abc")), read("a", "a", 0), read("b", "b", 3), read("c", "c", 6)]
    assert exact(*steps) == {"s": ""}


def test_one_part_is_every_reading_in_range():
    steps = [sensor("a"), ask("s", on("a", 2, 4), window=1), *(read(f"r{v}", "a", 0, v) for v in range(7))]
    assert exact(*steps) == {"s": "r2 r3 r4"}


def test_near_is_pairwise_and_needs_a_place():
    sensors = [sensor("a", location=HERE), sensor("b", location=NEXT), sensor("c", location=FAR), sensor("d", "t")]
    readings = [read(x, x, 0) for x in "abcd"]
    asked = [ask(f"{x}{y}", on(x), on(y), near=1000) for x, y in ("ab", "ac")]
    asked.append(ask("ad", on("a"), OperatorPart("t", -1, 1), near=1000))
    assert exact(*sensors, *asked, *readings) == {"ab": "a b", "ac": "", "ad": ""}
    # a sensor without a place is near itself; one reading may fill two parts, or two of its readings do
    twice = ask("dd", OperatorPart("t", 0, 3, "d"), OperatorPart("t", 3, 9), near=1000)
    assert exact(*sensors, twice, read("x", "d", 0, 1), read("y", "d", 1, 5)) == {"dd": "x y"}
    assert exact(*sensors, twice, read("x", "d", 0, 3)) == {"dd": "x"}


@pytest.mark.parametrize(("place", "found"), [(HERE, "r"), (NEXT, "r"), (FAR, ""), (None, "")])
def test_edges_belong_to_a_region(place, found):
    asked = ask("s", OperatorPart("t", -1, 1, None, (7.0, 46.0, 7.01, 46.0)))
    assert exact(sensor("x", "t", place), asked, read("r", "x", 0)) == {"s": found}


def test_abstract_parts_take_any_sensor_of_a_kind():
    steps = [
        sensor("x", "a", HERE),
        sensor("y", "a", FAR),
        sensor("z", "b", NEXT),
        ask("s", OperatorPart("a", 0, 9), OperatorPart("b", 0, 9)),
    ]
    steps += [read("x", "x", 0), read("y", "y", 1), read("z", "z", 2), read("late", "x", 7)]
    assert exact(*steps) == {"s": "x y z"}


def test_when_it_must_be_told():
    steps = [sensor("a"), sensor("b"), ask("s", on("a"), on("b")), read("a1", "a", 0), read("b1", "b", 0)]
    (stay,) = expected(script(*steps, read("b2", "b", 1), read("a2", "a", 1)))
    assert stay.must == stay.may == {"a1": 5, "b1": 5, "b2": 6, "a2": 7}


# --- who comes when -----------------------------------------------------------------------------------------------


def test_what_came_before_a_subscription_is_left_open():
    pair = [sensor("a"), sensor("b"), read("a1", "a", 0), ask("s", on("a"), on("b")), read("b1", "b", 0)]
    assert shown(*pair) == [("s", "", "a1 b1")]
    assert shown(*pair, read("a2", "a", 1)) == [("s", "a2 b1", "a1 a2 b1")]


def test_what_has_expired_is_gone():
    start = [sensor("a"), sensor("b"), read("a", "a", 0), read("b", "b", 1)]
    asked = ask("s", on("a"), on("b"))
    assert shown(*start, clock(12), asked) == [("s", "", "a b")]  # the very moment is left open
    assert shown(*start, clock(13), asked) == [("s", "", "")]


def test_nothing_after_removal_and_all_to_the_others():
    steps = [
        sensor("a"),
        sensor("b"),
        ask("wide", on("a", 0, 9), on("b", 0, 9)),
        ask("narrow", on("a", 2, 3), on("b", 2, 3)),
    ]
    steps += [read("a", "a", 0, 2), Tell("m", Unsubscribe("wide")), read("b", "b", 1, 3)]
    assert exact(*steps) == {"wide": "", "narrow": "a b"}


def test_an_id_can_be_used_again():
    steps = [sensor("a"), ask("s", on("a", 0, 3)), read("r", "a", 0, 1), Tell("m", Unsubscribe("s"))]
    steps += [ask("s", on("a", 5, 9)), read("q", "a", 0, 1), read("t", "a", 0, 6)]
    assert shown(*steps) == [("s", "r", "r"), ("s", "t", "t")]


def test_a_sensor_that_comes_late_or_leaves():
    asked = ask("s", on("a"), on("b"))
    assert shown(asked, sensor("a"), read("a1", "a", 0), sensor("b"), read("b1", "b", 0)) == [("s", "", "a1 b1")]
    assert shown(asked, sensor("a"), sensor("b"), read("a1", "a", 0), read("b1", "b", 0)) == [("s", "a1 b1", "a1 b1")]
    gone = [asked, sensor("a"), sensor("b"), read("a1", "a", 0), Tell("m", Revoke("a"))]
    assert shown(*gone, read("b1", "b", 0)) == [("s", "", "a1 b1")]
    assert shown(*gone, sensor("a"), read("b1", "b", 0)) == [("s", "", "a1 b1")]


# --- cut links ----------------------------------------------------------------------------------------------------


def across(*steps):
    return [sensor("a", node="w"), sensor("b", node="e"), ask("s", on("a"), on("b"), node="e"), *steps]


def test_nothing_crosses_a_cut_link():
    steps = across(Cut("w", "m"), read("a", "a", 0, node="w"), read("b", "b", 1, node="e"))
    assert shown(*steps) == [("s", "", "")]
    assert shown(*steps, Join("m", "w")) == [("s", "a b", "a b")]
    assert shown(*steps, clock(11), Join("m", "w")) == [("s", "a b", "a b")]
    assert shown(*steps, clock(12), Join("m", "w")) == [("s", "", "a b")]
    assert shown(*steps, clock(13), Join("m", "w")) == [("s", "", "")]


def test_hop_by_hop():
    """The reading crosses w – m before that link is cut, m – e after it is back: never are both there."""
    steps = across(
        Cut("m", "e"), read("a", "a", 0, node="w"), Cut("w", "m"), read("b", "b", 1, node="e"), Join("m", "e")
    )
    assert shown(*steps) == [("s", "", "a b")]
    assert shown(*steps, Join("w", "m")) == [("s", "a b", "a b")]


def test_a_cut_elsewhere_does_not_matter_but_to_the_centre():
    steps = [sensor("a", node="m"), ask("s", on("a"), node="e"), Cut("w", "m"), read("a", "a", 0)]
    assert shown(*steps) == shown(*steps, centre="m") == [("s", "a", "a")]
    assert shown(*steps, centre="w") == [("s", "", "a")]


def test_what_was_matched_at_the_centre_goes_on_alone():
    sensors = [sensor("a", node="w"), sensor("b", node="w"), ask("s", on("a"), on("b"), node="e")]
    steps = [
        *sensors,
        Cut("m", "e"),
        read("a", "a", 0, node="w"),
        read("b", "b", 2, node="w"),
        clock(13),
        Join("m", "e"),
    ]
    assert shown(*steps) == [("s", "", "")]
    assert shown(*steps, centre="m") == [("s", "", "b")]


def test_path():
    edges = (("w", "m"), ("m", "e"), ("m", "n"))
    assert path("w", "e", edges) == {("w", "m"), ("m", "w"), ("m", "e"), ("e", "m")}
    assert path("w", "w", edges) == set()


# --- laws of the oracle itself --------------------------------------------------------------------------------------


@examples(60)
@given(scripts(replace(PLAIN, length=6)))
def test_both_bounds_are_what_a_blunter_oracle_finds(script):
    told = [step.message for step in script.steps if isinstance(step, Tell)]
    sensors = {message.source: message for message in told if isinstance(message, Announce)}
    for stay in expected(script):
        assert set(stay.must) == set(stay.may) == everything(stay.operator, script.readings.values(), sensors)
        assert stay.must == stay.may


@examples(60)
@given(st.sampled_from([CUTS, ALL]).flatmap(scripts))
def test_what_must_be_may_be(script):
    for direct, central in zip(expected(script), expected(script, script.nodes[0]), strict=True):
        assert all(direct.may[id] <= when for id, when in direct.must.items())
        assert all(direct.must[id] <= when for id, when in central.must.items())
        assert all(central.may[id] <= when for id, when in direct.may.items())
