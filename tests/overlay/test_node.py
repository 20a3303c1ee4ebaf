"""What a node refuses, and links that are made, cut and given up."""

import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.overlay import (
    LOCAL,
    Announce,
    Deliver,
    Interest,
    Network,
    Node,
    Publish,
    Reading,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
    encode,
    operator_of,
)
from tidegate.overlay.strategies import Centralized, Covering, FilterSplitForward, MultiJoin, Naive, OperatorPlacement

SECOND = 1_000_000
LOCALS = [Naive, OperatorPlacement, MultiJoin, FilterSplitForward]


def wish(id, where="together('PT5S', source = 'x' AND a > 1, source = 'y' AND b > 1)"):
    return Subscribe(operator_of(tg.Subscription(id=id, subscriber="ann", where=where)))


@pytest.fixture
def node():
    found = Node("n", ["left", "right"], FilterSplitForward(), lambda: 0, 20 * SECOND)
    assert found.handle(Announce("x", "a"), "left") == [("right", Announce("x", "a"))]
    assert found.handle(Announce("y", "b"), LOCAL) == [(to, Announce("y", "b")) for to in ("left", "right")]
    (asked,) = found.handle(wish("s"), LOCAL)
    assert asked[0] == "left"
    assert found.handle(Reading("r0", "x", 2.0, 0), "left") == []
    return found


REFUSED = {
    "no message": ("hello", "left", "expected an object of class Announce"),
    "nothing": (None, "left", "expected an object of class Announce"),
    "bytes": (encode(Revoke("x")), "left", "expected an object of class Announce"),
    "a stranger": (Revoke("x"), "far", "expected a message from a neighbour; got one from 'far'"),
    "a sender that is no name": (Revoke("x"), ["left"], "from a neighbour"),
    "a wrong value": (Reading("r1", "x", float("nan"), 0), "left", "finite"),
    "a wrong type": (Reading("r1", "x", "2", 0), "left", "number"),
    "an empty name": (Revoke(""), "left", "source"),
    "a repeated reading": (Reading("r0", "x", 2.0, 0), "left", "expected each event once"),
    "a reading of nobody": (Reading("r1", "z", 2.0, 0), "left", "expected a reading of a sensor that is there"),
    "a reading from elsewhere": (
        Reading("r1", "x", 2.0, 0),
        "right",
        "expected a reading of a sensor that is there",
    ),
    "a sensor twice": (Announce("x", "a"), "right", "expected a sensor that is new"),
    "a sensor that is not there": (Revoke("y"), "left", "expected a sensor that is there"),
    "a subscription twice": (wish("s"), LOCAL, "expected an operator that is new"),
    "no such subscription": (Unsubscribe("t"), LOCAL, "expected an operator that came from there"),
    "another's subscription": (Unsubscribe("n/s"), "left", "expected an operator that came from there"),
    "a window that is too long": (
        wish("t", "together('PT20S', a > 1, b > 1)"),
        LOCAL,
        "expected an operator whose window is shorter than",
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


def test_of_a_sync_only_what_cannot_be_is_refused(node):
    long = wish("long", "together('PT30S', source = 'y' AND b > 1, source = 'v' AND c > 1)")
    short = wish("short", "source = 'y' AND b > 1")
    sync = Sync((Announce("x", "a"), Announce("y", "b")), (long, short, Interest("t", "a > 1")))
    refused = [answer.reason for to, answer in node.handle(sync, "left") if isinstance(answer, Refuse) and to == "left"]
    assert [reason.split("got ")[1] for reason in refused] == ["'long'; at n", "'t'; at n", "'y'; at n"]
    reading = Reading("r9", "y", 2.0, SECOND)
    assert ("left", reading) in node.handle(reading, LOCAL)


def test_a_refusal_is_counted_and_not_answered(node):
    assert node.handle(Refuse("no"), "left") == []
    assert node.handle(Refuse(5), "left") == []
    assert node.refused == {"by left": 1, "message": 1}


@pytest.mark.parametrize("validity", [0, -1, 1.5, 10**19])
def test_readings_must_be_valid_for_a_while(validity):
    with pytest.raises(SettingError, match="expected a validity in microseconds above 0"):
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
    network.tell("one", Announce("x", "a"))
    network.tell("new", Announce("y", "b"))
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
    network.tell("one", Announce("x", "a"))
    network.tell("three", wish("s", "source = 'x' AND a > 1"))
    assert told(network.tell("one", Reading("r0", "x", 2.0, 0))) == [("s", ["r0"])]
    network.part("two", "three")
    assert network.nodes["two"].neighbours == ("one",)
    assert network.tell("one", Reading("r1", "x", 2.0, SECOND)) == []
    assert network.links["one", "two"].readings == 1
    assert network.nodes["three"].strategy.announced.get("x") is None
    # Made anew, it is as if it had always been there.
    assert told(network.join("two", "three")) == [("s", ["r1"])]
    assert told(network.tell("one", Reading("r2", "x", 2.0, 2 * SECOND))) == [("s", ["r2"])]
    assert not any(node.refused for node in network.nodes.values())


@pytest.mark.parametrize("strategy", LOCALS)
def test_a_link_that_was_cut_for_longer_than_readings_are_valid_brings_none_of_them(strategy):
    network = Network({"one": ["two"], "two": ["one"]}, lambda _: strategy(), 20 * SECOND)
    network.tell("one", Announce("x", "a"))
    network.tell("two", wish("s", "source = 'x' AND a > 1"))
    network.cut("one", "two")
    network.tell("one", Reading("r0", "x", 2.0, 0))
    network.clock = 10 * SECOND
    network.tell("one", Reading("r1", "x", 2.0, 10 * SECOND))
    network.clock = 25 * SECOND
    assert told(network.join("one", "two")) == [("s", ["r1"])]


@pytest.mark.parametrize("strategy", [*LOCALS, lambda: Centralized("b"), lambda: Covering("b")])
def test_a_node_goes_on_after_a_neighbour_has_left(strategy):
    node = Node("a", ["b", "c"], strategy(), lambda: 0, 20 * SECOND)
    messages = [Announce("x", "a"), wish("s", "source = 'x' AND a > 1"), Interest("t", "a > 1")]
    messages += [Publish(tg.Publication(id="p", source="x", time=tg.model.moment(0), attributes={"a": 2.0}))]
    assert node.left("b") == []
    for message in messages:
        assert not any(to == "b" for to, _ in node.handle(message, LOCAL))
    for number in range(3):
        node.joined("b")
        node.left("b")
        node.handle(Reading(f"r{number}", "x", 2.0, 0), LOCAL)
    assert node.neighbours == ("c",)
    if not isinstance(node.strategy, Covering):
        assert len(node.strategy.correlator._once) == 3


def test_a_link_to_the_centre_that_is_made_anew_brings_what_is_wanted():
    towards = {"a": "b", "b": "c", "c": None}
    tree = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
    network = Network(tree, lambda name: Centralized(towards[name]), 20 * SECOND)
    network.tell("a", Announce("x", "a"))
    network.tell("a", wish("s", "source = 'x' AND a > 1"))
    network.part("b", "c")
    assert network.tell("a", Reading("r0", "x", 2.0, 0)) == []
    network.join("b", "c")
    assert told(network.tell("a", Reading("r1", "x", 2.0, 1))) == [("s", ["r1"])]


@pytest.mark.parametrize("strategy", LOCALS)
def test_one_side_may_know_of_a_link_before_the_other(strategy):
    one, two = (Node(name, [other], strategy(), lambda: 0, 20 * SECOND) for name, other in (("1", "2"), ("2", "1")))
    for _, message in one.handle(Announce("x", "a"), LOCAL):
        two.handle(message, "1")
    for _, message in two.handle(wish("s", "source = 'x' AND a > 1"), LOCAL):
        one.handle(message, "2")
    one.cut("2")
    two.cut("1")
    assert one.handle(Reading("r0", "x", 2.0, 0), LOCAL) == []
    (sync,) = (message for _, message in two.joined("1"))
    assert one.handle(sync, "2") == []
    sends = one.joined("2")
    assert [type(message) for _, message in sends] == [Sync, Reading]
    heard = [send for _, message in sends for send in two.handle(message, "1")]
    assert [d.subscription for _, d in heard if isinstance(d, Deliver)] == ["s"]


def test_names_may_look_alike():
    hub = {"hub": ["n", "n/1", "u[1", "s"], "n": ["hub"], "n/1": ["hub"], "u[1": ["hub"], "s": ["hub"]}
    network = Network(hub, lambda _: FilterSplitForward(), 20 * SECOND)
    network.tell("s", Announce("x", "a"))
    for node, id, low in (("n", "1/q", 0), ("n/1", "q", 5), ("u[1", "s1", 10), ("u[1", "s2", 15)):
        network.tell(node, wish(id, f"source = 'x' AND a BETWEEN {low} AND {low + 1}"))
    for value, id in ((0.5, "1/q"), (5.5, "q"), (10.5, "s1"), (15.5, "s2")):
        assert told(network.tell("s", Reading(f"r{value}", "x", value, 0))) == [(id, [f"r{value}"])]


@pytest.mark.parametrize("strategy", LOCALS)
def test_two_sensors_may_count_alike(strategy):
    tree = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
    network = Network(tree, lambda _: strategy(), 20 * SECOND)
    network.tell("a", Announce("x", "a"))
    network.tell("c", Announce("y", "b"))
    network.tell("b", wish("s"))
    network.tell("a", Reading("1", "x", 2.0, 0))
    assert told(network.tell("c", Reading("1", "y", 2.0, 0))) == [("s", ["1", "1"])]


def test_what_is_no_longer_valid_takes_no_room():
    network = Network({"a": ["b"], "b": ["a"]}, lambda _: FilterSplitForward(), 20 * SECOND)
    network.tell("a", Announce("x", "a"))
    network.tell("b", wish("s", "source = 'x' AND a > 1"))
    network.tell("a", Reading("future", "x", 2.0, 10**9 * SECOND))
    network.clock = 10**8 * SECOND  # once, and back
    network.tell("a", Reading("now", "x", 2.0, 10**8 * SECOND))
    for second in range(5_000):
        network.clock = second * SECOND
        network.tell("a", Reading(f"r{second}", "x", 2.0, second * SECOND))
    for node in network.nodes.values():
        assert len(node.strategy.correlator) < 100
        assert all(len(journal.heard) < 2_000 for journal in node._journals.values())
    for number in range(500):
        network.tell("a", Announce(f"z{number}", "a"))
        network.tell("b", wish("t", f"source = 'z{number}' AND a > 1"))
        network.tell("a", Reading("r", f"z{number}", 2.0, network.clock))
        network.tell("b", Unsubscribe("t"))
        network.tell("a", Revoke(f"z{number}"))
    for node in network.nodes.values():
        assert len(node.strategy.correlator._row) < 200
        assert all(len(forwarded._boxes) < 5 for forwarded in node.strategy.forwarded.values())


def test_a_sensor_may_move():
    network = Network({"one": ["two"], "two": ["one"]}, lambda _: FilterSplitForward(), 20 * SECOND)
    network.tell("two", wish("s", "source = 'x' AND a > 1"))
    for number, node in enumerate(("one", "two", "one")):
        network.tell(node, Announce("x", "a"))
        assert told(network.tell(node, Reading(f"r{number}", "x", 2.0, number))) == [("s", [f"r{number}"])]
        network.tell(node, Revoke("x"))
    assert not any(node.refused for node in network.nodes.values())


def test_the_centre_may_be_cut_off():
    towards = {"one": "two", "two": None, "three": "two"}
    tree = {"one": ["two"], "two": ["one", "three"], "three": ["two"]}
    network = Network(tree, lambda name: Centralized(towards[name]), 20 * SECOND)
    network.tell("one", Announce("x", "a"))
    network.cut("one", "two")
    network.tell("three", wish("s", "source = 'x' AND a > 1"))
    assert network.tell("one", Reading("r0", "x", 2.0, 0)) == []
    assert told(network.join("one", "two")) == [("s", ["r0"])]


def test_links_go_both_ways():
    with pytest.raises(SettingError, match="expected links in both directions; got 'one' → 'two' only"):
        Network({"one": ["two"], "two": []}, lambda _: Naive(), SECOND)
