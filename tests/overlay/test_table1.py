"""Table I of Jurca et al. on a network as in Figure 3, message by message.

n1, n2 and n3 have the sensors a, b and c; users are at n6.

    n1 (a) ─┐
            n2 (b) ── n4 ── n5 ── n6 (s1, s2, s3)
    n3 (c) ─┘
"""

from collections import deque

import pytest

import tidegate as tg
from tidegate.overlay.messages import LOCAL, Announce, Reading, Subscribe, Unsubscribe
from tidegate.overlay.node import Node
from tidegate.overlay.operators import operator_of
from tidegate.overlay.strategies import FilterSplitForward, OperatorPlacement

TREE = {"n1": ("n2",), "n2": ("n1", "n3", "n4"), "n3": ("n2",), "n4": ("n2", "n5"), "n5": ("n4", "n6"), "n6": ("n5",)}
SENSORS = {"a": "n1", "b": "n2", "c": "n3"}
TABLE_I = {
    "s1": "together('PT5M', source = 'a' AND a > 50 AND a < 80, source = 'b' AND b > 10 AND b < 30)",
    "s2": "together('PT5M', source = 'b' AND b > 20 AND b < 40, source = 'c' AND c > 2 AND c < 20)",
    "s3": "together('PT5M', source = 'a' AND a > 55 AND a < 75, source = 'b' AND b > 15 AND b < 35,"
    " source = 'c' AND c > 5 AND c < 15)",
}
MINUTE = 60_000_000


def subscribe(id):
    return Subscribe(operator_of(tg.Subscription(id=id, subscriber="ann", where=TABLE_I[id])))


class Walk:
    """Six nodes; ``tell`` gives every message that passes a link, as text."""

    def __init__(self, strategy):
        self.nodes = {name: Node(name, others, strategy(), lambda: 0, 10 * MINUTE) for name, others in TREE.items()}
        for sensor, node in SENSORS.items():
            self.tell(node, Announce(sensor, sensor))

    def tell(self, node, message):
        steps, under_way = [], deque((node, *send) for send in self.nodes[node].handle(message, LOCAL))
        while under_way:
            sender, to, sent = under_way.popleft()
            if to == LOCAL:
                steps.append(f"{sender} tells {sent.subscription}: {' '.join(e.id for e in sent.events)}")
                continue
            match sent:
                case Subscribe(operator):
                    steps.append(f"{sender} → {to}: {operator.id}")
                case Unsubscribe(id):
                    steps.append(f"{sender} → {to}: no {id}")
                case Reading():
                    steps.append(f"{sender} → {to}: {sent.id}")
            under_way.extend((to, *send) for send in self.nodes[to].handle(sent, sender))
        return steps


@pytest.fixture
def walk():
    return Walk(FilterSplitForward)


def test_the_first_subscription_is_split_where_the_paths_of_its_sensors_part(walk):
    assert walk.tell("n6", subscribe("s1")) == [
        "n6 → n5: n6/s1",
        "n5 → n4: n6/s1",
        "n4 → n2: n6/s1",
        "n2 → n1: n6/s1[a]",
    ]


def test_the_third_goes_no_further_than_n2_towards_the_sensors(walk):
    walk.tell("n6", subscribe("s1"))
    assert walk.tell("n6", subscribe("s2")) == [
        "n6 → n5: n6/s2",
        "n5 → n4: n6/s2",
        "n4 → n2: n6/s2",
        "n2 → n3: n6/s2[c]",
    ]
    assert walk.tell("n6", subscribe("s3")) == ["n6 → n5: n6/s3", "n5 → n4: n6/s3", "n4 → n2: n6/s3"]
    n2 = walk.nodes["n2"].strategy
    assert [op.id for op in n2.forwarded["n1"].sent] == ["n6/s1[a]"]
    assert [op.id for op in n2.forwarded["n1"].hidden] == ["n6/s3[a]"]
    assert [op.id for op in n2.forwarded["n3"].hidden] == ["n6/s3[c]"]
    assert list(n2.wanted["n4"]) == ["n6/s1", "n6/s2", "n6/s3"]
    for sensor_node in ("n1", "n3"):
        assert not any("s3" in id for id in walk.nodes[sensor_node].strategy.wanted["n2"])


def test_its_readings_come_over_the_operators_of_the_others(walk):
    for id in TABLE_I:
        walk.tell("n6", subscribe(id))
    assert walk.tell("n1", Reading("a1", "a", 60.0, 0)) == ["n1 → n2: a1"]
    assert walk.tell("n2", Reading("b1", "b", 25.0, 1)) == [
        *("n2 → n4: a1", "n2 → n4: b1", "n4 → n5: a1", "n4 → n5: b1", "n5 → n6: a1", "n5 → n6: b1"),
        "n6 tells s1: a1 b1",
    ]
    told = walk.tell("n3", Reading("c1", "c", 10.0, 2))
    assert told[:-2] == ["n3 → n2: c1", "n2 → n4: c1", "n4 → n5: c1", "n5 → n6: c1"]
    assert told[-2:] == ["n6 tells s2: b1 c1", "n6 tells s3: a1 b1 c1"]


def test_when_the_first_goes_what_it_hid_is_asked_for_before_it_is_taken_back(walk):
    for id in TABLE_I:
        walk.tell("n6", subscribe(id))
    assert walk.tell("n6", Unsubscribe("s1")) == [
        "n6 → n5: no n6/s1",
        "n5 → n4: no n6/s1",
        "n4 → n2: no n6/s1",
        "n2 → n1: n6/s3[a]",
        "n2 → n1: no n6/s1[a]",
    ]
    walk.tell("n1", Reading("a1", "a", 60.0, 0))
    walk.tell("n2", Reading("b1", "b", 25.0, 1))
    assert walk.tell("n3", Reading("c1", "c", 10.0, 2))[-2:] == ["n6 tells s2: b1 c1", "n6 tells s3: a1 b1 c1"]


def test_a_window_that_is_too_long_matches_nothing(walk):
    walk.tell("n6", subscribe("s1"))
    walk.tell("n1", Reading("a1", "a", 60.0, 0))
    assert walk.tell("n2", Reading("b1", "b", 25.0, 5 * MINUTE)) == []
    assert "n6 tells s1: a1 b2" in " | ".join(walk.tell("n2", Reading("b2", "b", 25.0, 5 * MINUTE - 1)))


@pytest.mark.parametrize(
    ("strategy", "further"), [(FilterSplitForward, []), (OperatorPlacement, ["n2 → n7: n6/s3[b]"])]
)
def test_only_a_set_covers_the_middle_part(strategy, further, monkeypatch):
    """With b at a node n7 behind n2: 15 … 35 is in neither of 10 … 30 and 20 … 40, but in both together."""
    monkeypatch.setitem(TREE, "n7", ("n2",))
    monkeypatch.setitem(TREE, "n2", ("n1", "n3", "n4", "n7"))
    monkeypatch.setitem(SENSORS, "b", "n7")
    walk = Walk(strategy)
    for id in ("s1", "s2"):
        walk.tell("n6", subscribe(id))
    assert walk.tell("n6", subscribe("s3")) == ["n6 → n5: n6/s3", "n5 → n4: n6/s3", "n4 → n2: n6/s3", *further]
