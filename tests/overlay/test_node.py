"""What a node refuses, and links that are made, cut and given up."""

import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.overlay import (
    LOCAL,
    Advertise,
    Deliver,
    Interest,
    Network,
    Node,
    Publish,
    Reading,
    Refuse,
    Subscribe,
    Sync,
    Unsubscribe,
    Withdraw,
    encode,
    operator_of,
)
from tidegate.overlay.strategies import Centralized, FilterSplitForward, MultiJoin, Naive, OperatorPlacement

SECOND = 1_000_000
LOCALS = [Naive, OperatorPlacement, MultiJoin, FilterSplitForward]


def wish(id, where="together('PT5S', source = 'x' AND a > 1, source = 'y' AND b > 1)"):
    return Subscribe(operator_of(tg.Subscription(id=id, subscriber="ann", where=where)))


@pytest.fixture
def node():
    found = Node("n", ["left", "right"], FilterSplitForward(), lambda: 0, 20 * SECOND)
    assert found.handle(Advertise("x", "a"), "left") == [("right", Advertise("x", "a"))]
    assert found.handle(Advertise("y", "b"), LOCAL) == [(to, Advertise("y", "b")) for to in ("left", "right")]
    (asked,) = found.handle(wish("s"), LOCAL)
    assert asked[0] == "left"
    assert found.handle(Reading("r0", "x", 2.0, 0), "left") == []
    return found


REFUSED = {
    "no message": ("hello", "left", "expected an object of class Advertise"),
    "nothing": (None, "left", "expected an object of class Advertise"),
    "bytes": (encode(Withdraw("x")), "left", "expected an object of class Advertise"),
    "a stranger": (Withdraw("x"), "far", "expected a message from a neighbour; got one from 'far'"),
    "a sender that is no name": (Withdraw("x"), ["left"], "from a neighbour"),
    "a wrong value": (Reading("r1", "x", float("nan"), 0), "left", "finite"),
    "a wrong type": (Reading("r1", "x", "2", 0), "left", "number"),
    "an empty name": (Withdraw(""), "left", "source"),
    "a repeated reading": (Reading("r0", "x", 2.0, 0), "left", "expected each event once"),
    "a reading of nobody": (Reading("r1", "z", 2.0, 0), "left", "expected a reading of a sensor that is there"),
    "a reading from elsewhere": (Reading("r1", "x", 2.0, 0), "right", "expected a reading of a sensor that is there"),
    "a sensor twice": (Advertise("x", "a"), "right", "expected a sensor that is new"),
    "a sensor that is not there": (Withdraw("y"), "left", "expected a sensor that is there"),
    "a subscription twice": (wish("s"), LOCAL, "expected an operator that is new"),
    "no such subscription": (Unsubscribe("t"), LOCAL, "expected an operator that came from there"),
    "another's subscription": (Unsubscribe("n/s"), "left", "expected an operator that came from there"),
    "a window that is too long": (
        wish("t", "together('PT20S', a > 1, b > 1)"),
        LOCAL,
        "expected a window shorter than",
    ),
    "a delivery": (Deliver("s", ()), "left", "expected a message for a node"),
    "a user's sync": (Sync(), LOCAL, "expected a message of a user or sensor"),
    "another strategy's": (
        Interest("t", "a > 1"),
        LOCAL,
        "expected a message that the strategy filter-split-forward knows",
    ),
    "a publication": (
        Publish(tg.Publication(id="p", source="x", time=tg.model.moment(0), attributes={"a": 2.0})),
        "left",
        "expected a message that the strategy filter-split-forward knows",
    ),
    "a sync with what cannot be": (Sync(wanted=(wish("t", "together('PT30S', a > 1, b > 1)"),)), "left", "window"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_is_refused_with_the_reason_and_changes_nothing(node, name):
    message, sender, reason = REFUSED[name]
    ((to, answer),) = node.handle(message, sender)
    assert to == sender
    assert isinstance(answer, Refuse)
    assert reason in answer.reason
    assert sum(node.refused.values()) == 1
    # It goes on as if nothing had been: the match that had begun is completed.
    assert node.handle(Reading("r9", "y", 2.0, SECOND), LOCAL) == [
        (LOCAL, Deliver("s", (Reading("r0", "x", 2.0, 0), Reading("r9", "y", 2.0, SECOND))))
    ]


def test_a_refusal_is_counted_and_not_answered(node):
    assert node.handle(Refuse("no"), "left") == []
    assert node.handle(Refuse(5), "left") == []
    assert node.refused == {"by left": 1, "message": 1}


@pytest.mark.parametrize("validity", [0, -1])
def test_readings_must_be_valid_for_a_while(validity):
    with pytest.raises(SettingError, match="expected a validity above 0"):
        Node("n", [], Naive(), lambda: 0, validity)


@pytest.mark.parametrize("neighbour", ["n", LOCAL])
def test_a_node_is_not_its_own_neighbour(neighbour):
    with pytest.raises(SettingError, match="expected another node as neighbour"):
        Node("n", [neighbour], Naive(), lambda: 0, SECOND)


def test_links_that_are_not_there_cannot_be_cut(node):
    for change in (node.cut, node.left):
        with pytest.raises(SettingError, match="expected a neighbour of n; got 'far'"):
            change("far")


def told(sends):
    return [(d.subscription, [r.id for r in d.events]) for _, d in sends]


@pytest.mark.parametrize("strategy", LOCALS)
def test_a_node_that_comes_later_is_told_everything_and_tells_everything(strategy):
    network = Network({"one": ["two"], "two": ["one"], "new": []}, lambda _: strategy(), 20 * SECOND)
    network.tell("one", Advertise("x", "a"))
    network.tell("new", Advertise("y", "b"))
    network.tell("two", wish("s"))
    network.tell("one", Reading("r0", "x", 2.0, 0))
    network.tell("new", Reading("r1", "y", 2.0, 0))
    assert told(network.join("two", "new")) == [("s", ["r0", "r1"])]
    assert told(network.tell("new", Reading("r2", "y", 3.0, SECOND))) == [("s", ["r2"])]
    assert not any(node.refused for node in network.nodes.values())


@pytest.mark.parametrize("strategy", LOCALS)
def test_with_a_link_that_is_given_up_goes_what_was_behind_it(strategy):
    tree = {"one": ["two"], "two": ["one", "three"], "three": ["two"]}
    network = Network(tree, lambda _: strategy(), 20 * SECOND)
    network.tell("one", Advertise("x", "a"))
    network.tell("three", wish("s", "source = 'x' AND a > 1"))
    assert told(network.tell("one", Reading("r0", "x", 2.0, 0))) == [("s", ["r0"])]
    network.part("two", "three")
    assert network.nodes["two"].neighbours == ("one",)
    assert network.tell("one", Reading("r1", "x", 2.0, SECOND)) == []
    assert network.links["one", "two"].readings == 1
    assert network.nodes["three"].strategy.advertised.get("x") is None
    # Made anew, it is as if it had always been there.
    assert told(network.join("two", "three")) == [("s", ["r1"])]
    assert told(network.tell("one", Reading("r2", "x", 2.0, 2 * SECOND))) == [("s", ["r2"])]
    assert not any(node.refused for node in network.nodes.values())


@pytest.mark.parametrize("strategy", LOCALS)
def test_a_link_that_was_cut_for_longer_than_readings_are_valid_brings_none_of_them(strategy):
    network = Network({"one": ["two"], "two": ["one"]}, lambda _: strategy(), 20 * SECOND)
    network.tell("one", Advertise("x", "a"))
    network.tell("two", wish("s", "source = 'x' AND a > 1"))
    network.cut("one", "two")
    network.tell("one", Reading("r0", "x", 2.0, 0))
    network.clock = 10 * SECOND
    network.tell("one", Reading("r1", "x", 2.0, 10 * SECOND))
    network.clock = 25 * SECOND
    assert told(network.join("one", "two")) == [("s", ["r1"])]


def test_a_sensor_may_move():
    network = Network({"one": ["two"], "two": ["one"]}, lambda _: FilterSplitForward(), 20 * SECOND)
    network.tell("two", wish("s", "source = 'x' AND a > 1"))
    for number, node in enumerate(("one", "two", "one")):
        network.tell(node, Advertise("x", "a"))
        assert told(network.tell(node, Reading(f"r{number}", "x", 2.0, number))) == [("s", [f"r{number}"])]
        network.tell(node, Withdraw("x"))
    assert not any(node.refused for node in network.nodes.values())


def test_the_centre_may_be_cut_off():
    towards = {"one": "two", "two": None, "three": "two"}
    tree = {"one": ["two"], "two": ["one", "three"], "three": ["two"]}
    network = Network(tree, lambda name: Centralized(towards[name]), 20 * SECOND)
    network.tell("one", Advertise("x", "a"))
    network.cut("one", "two")
    network.tell("three", wish("s", "source = 'x' AND a > 1"))
    assert network.tell("one", Reading("r0", "x", 2.0, 0)) == []
    assert told(network.join("one", "two")) == [("s", ["r0"])]


def test_links_go_both_ways():
    with pytest.raises(SettingError, match="expected links in both directions; got 'one' → 'two' only"):
        Network({"one": ["two"], "two": []}, lambda _: Naive(), SECOND)
