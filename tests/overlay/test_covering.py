"""The strategy ``covering`` by hand: what travels and what need not, ids and refusals, links that break."""

from __future__ import annotations

import pytest

from tests.overlay.covering_networks import CHAIN, DURING, FORK, YEARS, asked, heard, ids, network, publication, refusal
from tidegate.overlay.messages import (
    LOCAL,
    Announce,
    Deliver,
    Interest,
    Publish,
    Reading,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.node import Node
from tidegate.overlay.operators import Operator, OperatorPart
from tidegate.overlay.routed_conditions import LIFE
from tidegate.overlay.strategies.covering import Covering
from tidegate.patterns.pattern import FAMILIES

# --- by hand --------------------------------------------------------------------------------------------------------


def test_an_interest_brings_down_what_it_asks_for_and_nothing_else():
    #   a ── b ── d        ann at d
    #   └─── c             cleo at c
    net = network({"a": None, "b": "a", "c": "a", "d": "b"})
    net.tell("d", Interest("ann", "price < 80"))
    net.tell("c", Interest("cleo", "price < 20"))
    assert ids(net, "a", publication("p", 0, price=50)) == "d/ann"
    assert ids(net, "c", publication("q", 1, price=10)) == "c/cleo d/ann"
    assert ids(net, "d", publication("r", 2, price=90)) == ""
    down = {link: net.links[link].readings for link in [("a", "b"), ("a", "c"), ("b", "d")]}
    assert down == {("a", "b"): 2, ("a", "c"): 0, ("b", "d"): 2}  # q is not sent back to c; r goes up only
    up = {link: net.links[link].readings for link in [("b", "a"), ("c", "a"), ("d", "b")]}
    assert up == {("b", "a"): 1, ("c", "a"): 1, ("d", "b"): 1}


def test_a_covered_interest_does_not_travel_until_it_is_covered_no_more():
    net = network(CHAIN)
    net.tell("c", Interest("wide", "price < 80"))
    net.tell("c", Interest("narrow", "price < 20"))
    net.tell("b", Interest("other", "price < 30 AND kind = 'x'"))
    assert net.links["c", "b"].messages == net.links["b", "a"].messages == 1
    assert net.tell("c", Unsubscribe("wide")) == []
    assert asked(net, "c", "b") == ["price < 20"]
    assert sorted(asked(net, "b", "a")) == ["price < 20", "price < 30 AND kind = 'x'"]
    assert ids(net, "a", publication("p", 0, price=10)) == "c/narrow"
    assert ids(net, "a", publication("q", 1, price=25, kind="x")) == "b/other"
    assert net.links["b", "c"].readings == 1


def test_what_was_hidden_is_asked_for_before_the_rest_is_taken_back():
    node = Node("c", ["b"], Covering("b"), lambda: 0, YEARS)
    node.handle(Interest("wide", "price < 80"), LOCAL)
    node.handle(Interest("narrow", "price < 20"), LOCAL)
    assert node.handle(Unsubscribe("wide"), LOCAL) == [
        ("b", Interest("c/narrow", "price < 20")),
        ("b", Unsubscribe("c/wide")),
    ]


def test_a_publication_goes_to_a_child_once():
    strategy = Covering("a")
    strategy.enter("b", YEARS)
    for neighbour in ("a", "c"):
        strategy.meet(neighbour)
    strategy.take(Interest("c/s", "kind = 'x'"), "c", 0)
    strategy.take(Interest("c/t", "level > 3"), "c", 0)
    one = Publish(publication("p", 0, kind="x", level=5))
    assert strategy.take(one, "a", 0) == [("c", one)]
    assert strategy.take(one, "c", 0) == [("a", one)]
    assert strategy.take(one, LOCAL, 0) == [("a", one), ("c", one)]


def test_of_equal_interests_one_travels():
    net = network(CHAIN)
    for user in ("ann", "bob", "cleo"):
        net.tell("c", Interest(user, "kind = 'x'"))
    assert net.links["c", "b"].messages == 1
    net.tell("c", Unsubscribe("ann"))
    assert ids(net, "a", publication("p", 0, kind="x")) == "c/bob c/cleo"
    assert net.links["c", "b"].messages == 3  # bob's, and ann's is taken back


def test_an_alarm_in_a_storm_that_was_seen_elsewhere():
    #   a ── b    the alarm's node
    #   └─── c    the storm's
    net = network(FORK)
    net.tell("b", Interest("s", "kind = 'alarm' AND T_DURING(start, past(kind = 'storm'))"))
    assert sorted(asked(net, "b", "a")) == sorted(
        [LIFE, "kind = 'storm'", "kind = 'alarm' AND T_DURING(start, past(kind = 'storm'))"]
    )
    assert ids(net, "b", publication("1", 1, kind="alarm")) == ""
    net.tell("c", Publish(publication("w", 2, kind="storm", phase="START")))
    assert ids(net, "b", publication("2", 3, kind="alarm")) == "b/s"
    assert ids(net, "a", publication("3", 4, kind="alarm")) == "b/s"
    net.tell("a", Publish(publication("w", 5, phase="END")))
    assert ids(net, "b", publication("4", 6, kind="alarm")) == ""
    before = net.links["a", "b"].readings
    assert ids(net, "c", publication("5", 7, kind="alarm")) == ""
    assert net.links["a", "b"].readings == before, "a knows as well that the storm is over"


# --- ids and refusals -----------------------------------------------------------------------------------------------


def test_users_at_different_nodes_may_use_the_same_id():
    net = network(FORK)
    for node, kind in [("a", "x"), ("b", "x"), ("c", "y")]:
        net.tell(node, Interest("s", f"kind = '{kind}'"))
    assert ids(net, "a", publication("p", 0, kind="x")) == "a/s b/s"
    net.tell("b", Unsubscribe("s"))
    assert ids(net, "a", publication("q", 1, kind="y")) == "c/s"


def test_ids_may_look_like_those_of_the_node():
    node = Node("c", ["b"], Covering("b"), lambda: 0, YEARS)
    sent = node.handle(Interest("s", DURING), LOCAL)
    issued = [message.id for _, message in sent if isinstance(message, Interest)]
    assert [id[:2] for id in issued] == ["c[", "c[", "c/"]
    assert node.handle(Interest("a[b]%5B", "TRUE"), LOCAL) == [("b", Interest("c/a%5Bb]%255B", "TRUE"))]
    twin = Node("c", ["b"], Covering("b"), lambda: 0, YEARS)
    assert twin.handle(Interest("s", DURING), LOCAL) == sent, "ids come from the text"


def test_long_ids_are_as_good_as_short_ones():
    net = network(CHAIN)
    long = "i" * 1024
    net.tell("c", Interest(long, "kind = 'x'"))
    assert ids(net, "a", publication("p", 0, kind="x")) == f"c/{long}"


@pytest.mark.parametrize("family", [family for family in FAMILIES.values() if family.name != "past"])
def test_other_patterns_are_refused(family):
    node = Node("c", ["b"], Covering("b"), lambda: 0, YEARS)
    refused = refusal(node.handle(Interest("s", family.example), LOCAL))
    assert refused.code == "message"
    assert refused.reason.endswith(f"got the pattern {family.name}")


@pytest.mark.parametrize(
    "message",
    [
        Announce("s", "level"),
        Revoke("s"),
        Subscribe(Operator("o", (OperatorPart("level", 0.0, 1.0, "s"),), 1)),
        Reading("r", "s", 1.0, 0),
        Unsubscribe("unknown"),
        Interest("s", "kind = "),
        Interest("s", "kind > 3 AND kind = 'x' AND 3 = 'x'"),
        Interest("known", "kind = 'x'"),
        Interest("s", "kind = 'x' AND T_DURING(start, past(3))"),
    ],
)
def test_refusals_change_nothing(message):
    node = Node("c", ["b", "d"], Covering("b"), lambda: 0, YEARS)
    node.handle(Interest("known", "TRUE"), LOCAL)
    before = node.strategy.told("b"), node.strategy.compared
    refusal(node.handle(message, LOCAL))
    assert (node.strategy.told("b"), node.strategy.compared) == before
    assert node.handle(Publish(publication("p", 0)), "b") == [
        (LOCAL, Deliver("known", (Publish(publication("p", 0)),)))
    ]


def test_who_may_say_what():
    net = network(CHAIN)
    node = net.nodes["b"]
    assert "master" in refusal(node.handle(Interest("s", "TRUE"), "a")).reason
    node.handle(Interest("c/s", "TRUE"), "c")
    assert "came from there" in refusal(node.handle(Unsubscribe("c/s"), "a")).reason
    assert "came from there" in refusal(node.handle(Unsubscribe("c/s"), LOCAL)).reason
    assert "is new" in refusal(node.handle(Interest("c/s", "TRUE"), "c")).reason
    alone = Node("b", ["a", "c"], Covering("a"), lambda: 0, YEARS)
    issued = [message.id for _, message in alone.handle(Interest("t", DURING), LOCAL)]
    assert "is new" in refusal(alone.handle(Interest(issued[0], "kind = 'z'"), "c")).reason, "it is b's own"


# --- links ----------------------------------------------------------------------------------------------------------


def test_a_link_that_comes_back_tells_what_changed():
    net = network(CHAIN)
    for id in ("stays", "goes", "changes"):
        net.tell("c", Interest(id, f"kind = '{id}'"))
    net.cut("b", "c")
    net.tell("c", Unsubscribe("goes"))
    net.tell("c", Unsubscribe("changes"))
    net.tell("c", Interest("changes", "kind = 'changed'"))
    net.tell("c", Interest("comes", "kind = 'comes'"))
    assert len(asked(net, "b", "a")) == 3
    net.join("b", "c")
    wanted = ["kind = 'changed'", "kind = 'comes'", "kind = 'stays'"]
    assert sorted(asked(net, "c", "b")) == sorted(asked(net, "b", "a")) == wanted
    assert ids(net, "a", publication("p", 0, kind="changes")) == ids(net, "a", publication("q", 1, kind="goes")) == ""
    assert net.links["b", "c"].readings == 0
    assert ids(net, "a", publication("r", 2, kind="changed")) == "c/changes"


def test_what_was_published_meanwhile_comes_when_the_link_does():
    net = network(FORK)
    net.tell("b", Interest("s", "level > 3"))
    net.cut("a", "b")
    assert ids(net, "c", publication("p", 0, level=5)) == ""
    net.tell("b", Publish(publication("q", 1, level=1)))
    assert heard(net.join("a", "b")) == [("b", "s", "p", None)]
    assert net.links["b", "a"].readings == 1, "q went up"


def test_what_a_master_hears_of_late_it_takes_without_its_past():
    net = network(CHAIN)
    net.cut("a", "b")
    net.tell("c", Interest("s", "kind = 'alarm' AND T_DURING(start, past(kind = 'storm'))"))
    net.tell("c", Publish(publication("w", 0, kind="storm", phase="START")))
    net.tell("a", Publish(publication("p", 1)))  # so that w comes too late for the past at a
    net.join("a", "b")
    assert ids(net, "a", publication("q", 2, kind="alarm")) == "c/s"
    net.tell("c", Unsubscribe("s"))
    assert asked(net, "b", "a") == []


def test_a_master_that_is_not_there_yet_is_told_later():
    node = Node("c", [], Covering("b"), lambda: 0, YEARS)
    assert node.handle(Interest("s", "kind = 'x'"), LOCAL) == []
    assert node.handle(Publish(publication("p", 0)), LOCAL) == []
    assert node.joined("b") == [("b", Sync((), (Interest("c/s", "kind = 'x'"),)))]
    assert node.joined("d") == [("d", Sync())]


@pytest.mark.parametrize(
    ("sync", "sender"),
    [
        (Sync((), (Interest("a/s", "TRUE"),)), "a"),
        (Sync((Announce("s", "level"),)), "c"),
        (
            Sync((), (Interest("c/t", "TRUE"), Subscribe(Operator("o", (OperatorPart("level", 0.0, 1.0, "s"),), 1)))),
            "c",
        ),
        (Sync((), (Interest("c/t", "TRUE"), Interest("c/u", "kind = "))), "c"),
        (Sync((), (Interest("c/t", "TRUE"), Interest("d/s", "TRUE"))), "c"),
    ],
)
def test_a_sync_is_taken_whole_or_not_at_all(sync, sender):
    node = Node("b", ["a", "c", "d"], Covering("a"), lambda: 0, YEARS)
    node.handle(Interest("c/s", "kind = 'x'"), "c")
    node.handle(Interest("d/s", "kind = 'y'"), "d")
    before = node.strategy.told("a")
    refusal(node.handle(sync, sender))
    assert node.strategy.told("a") == before
    one = Publish(publication("p", 0, kind="x"))
    assert node.handle(one, "a") == [("c", one)]


def test_what_was_compared():
    strategy = Covering("b")
    node = Node("c", ["b"], strategy, lambda: 0, YEARS)
    node.handle(Interest("s", "kind = 'x'"), LOCAL)
    node.handle(Interest("t", "kind = 'y'"), LOCAL)
    assert (strategy.compared, strategy.undecided) == (2, 0)
    for i in range(3):
        node.handle(Publish(publication(f"p{i}", i)), LOCAL)
    assert strategy.compared == 2 + 3 * 2
