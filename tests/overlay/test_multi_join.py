"""``MultiJoin``: where its binary joins are decided, what travels from there on, and what it is asked for."""

from __future__ import annotations

import pytest

from tidegate.errors import SettingError
from tidegate.overlay import Announce, Network, Operator, OperatorPart, Reading, Subscribe
from tidegate.overlay.strategies import FilterSplitForward, MultiJoin

MINUTE = 60_000_000
LINE = {f"n{i}": [f"n{j}" for j in (i - 1, i + 1) if 0 <= j <= 6] for i in range(7)}


def parts(names, low=0.0, high=10.0):
    return tuple(OperatorPart(name, low, high, name) for name in names)


def crossings(network):
    """By link, in the order of the line: how many readings crossed it towards the user."""
    return [network.links[f"n{i}", f"n{i + 1}"].readings for i in range(6)]


def told(network, *readings):
    return [
        (node, delivery.subscription, sorted(event.id for event in delivery.events))
        for node, reading in readings
        for node, delivery in network.tell(node, reading)
    ]


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [(lambda: MultiJoin(), 3), (lambda: MultiJoin("all"), 4), (FilterSplitForward, 0)],
    ids=["ring", "all", "filter-split-forward"],
)
def test_what_matches_in_pairs_goes_all_the_way(strategy, wanted):
    """Jurca et al., §III-B. Four of five parts have readings; with the fifth the user is told of all."""
    network = Network(LINE, strategy=lambda node: strategy(), validity=10 * MINUTE)
    for name in "abcde":
        network.tell("n0", Announce(name, name))
    network.tell("n6", Subscribe(Operator("s", parts("abcde"), MINUTE)))
    assert told(network, *(("n0", Reading(f"r{name}", name, 5.0, 0)) for name in "abcd")) == []
    assert crossings(network) == [wanted] * 6
    assert told(network, ("n0", Reading("re", "e", 5.0, 0))) == [("n6", "s", ["ra", "rb", "rc", "rd", "re"])]
    assert crossings(network) == [5] * 6


@pytest.mark.parametrize("pairing", ["ring", "all"])
def test_joins_are_decided_where_their_streams_meet(pairing):
    """a and b are at n0, c is at n2 and d at n3: b > c is decided at n2, c > d and d > a at n3."""
    network = Network(LINE, strategy=lambda node: MultiJoin(pairing), validity=10 * MINUTE)
    for node, name in ("n0", "a"), ("n0", "b"), ("n2", "c"), ("n3", "d"):
        network.tell(node, Announce(name, name))
    network.tell("n6", Subscribe(Operator("s", parts("abcd"), MINUTE)))
    assert told(network, ("n0", Reading("rb", "b", 5.0, 0)), ("n2", Reading("rc", "c", 5.0, 0))) == []
    ahead = crossings(network)
    assert ahead[3:] == ([1, 1, 1] if pairing == "ring" else [2, 2, 2])  # b > c holds, c > d does not
    found = told(network, ("n3", Reading("rd", "d", 5.0, 0)), ("n0", Reading("ra", "a", 5.0, 0)))
    assert found == [("n6", "s", ["ra", "rb", "rc", "rd"])]
    assert crossings(network)[3:] == [4, 4, 4]


def test_a_covered_join_is_decided_where_it_is_covered():
    network = Network(LINE, strategy=lambda node: MultiJoin(), validity=10 * MINUTE)
    for name in "abc":
        network.tell("n0", Announce(name, name))
    network.tell("n6", Subscribe(Operator("wide", parts("abc"), MINUTE)))
    network.tell("n3", Subscribe(Operator("narrow", parts("abc", 4.0, 6.0), MINUTE)))
    assert network.links["n3", "n2"].subscriptions == 1
    readings = [("n0", Reading(f"r{name}", name, 5.0, 0)) for name in "abc"]
    both = ["ra", "rb", "rc"]
    assert sorted(told(network, *readings)) == [("n3", "narrow", both), ("n6", "wide", both)]
    assert crossings(network) == [3] * 6


def test_a_reading_that_is_a_result_once_more_is_no_other_reading():
    network = Network(LINE, strategy=lambda node: MultiJoin("all"), validity=10 * MINUTE)
    for name in "abc":
        network.tell("n0", Announce(name, name))
    network.tell("n6", Subscribe(Operator("first", parts("abc", 0.0, 5.0), MINUTE)))
    network.tell("n6", Subscribe(Operator("second", parts("abc", 5.0, 9.0), MINUTE)))
    told(network, ("n0", Reading("ra", "a", 5.0, 0)), ("n0", Reading("rb", "b", 4.0, 1)))
    link = network.links["n0", "n1"]
    assert (link.readings, link.messages) == (2, 2 + 3)  # and three announcements
    told(network, ("n0", Reading("rc", "c", 6.0, 2)))
    assert (link.readings, link.messages) == (3, 3 + 3 + 1)  # a is a result for the second, too


def test_an_unknown_pairing_is_refused():
    with pytest.raises(SettingError, match="expected one of ring, all; got 'pairs'"):
        MultiJoin("pairs")
