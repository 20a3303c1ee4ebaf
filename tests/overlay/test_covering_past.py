"""The strategy ``covering`` and the past: inner filters travel as well, and more than the seed says."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.overlay.covering_networks import (
    CHAIN,
    DURING,
    FORK,
    YEARS,
    FirstLevel,
    WithoutLife,
    asked,
    ids,
    network,
    publication,
)
from tidegate.overlay.messages import LOCAL, Interest, Publish, Unsubscribe
from tidegate.overlay.node import Node
from tidegate.overlay.routed_conditions import LIFE, inside, read
from tidegate.overlay.strategies.covering import Covering

THREE = "kind = 'x' AND T_AFTER(start, past(kind = 'y' AND T_AFTER(start, past(kind = 'z'))))"


@pytest.mark.parametrize(("strategy", "told"), [(FirstLevel, ""), (Covering, "b/s")])
def test_inner_filters_of_the_first_level_are_not_enough(strategy, told):
    #   a        z is published here, and b hears of it only if b itself asks for it
    #   └─── b   y and x are published here, and held against past(z) here
    net = network({"a": None, "b": "a"}, strategy)
    net.tell("b", Interest("s", THREE))
    for i, (node, kind) in enumerate([("a", "z"), ("b", "y")]):
        net.tell(node, Publish(publication(kind, i, kind=kind)))
    assert ids(net, "b", publication("x", 2, kind="x")) == told


ENDS = "kind = 'x' AND T_AFTER(start, past(phase = 'END' AND level > 5))"
BEGINS = "kind = 'x' AND T_DURING(start, past(kind = 'storm'))"
ENDED = "kind = 'storm' AND T_AFTER(end, past(kind = 'y'))"


@pytest.mark.parametrize(
    ("where", "start", "end", "told", "lost"),
    [
        # the END satisfies the inner filter, the START does not: without the START the END is refused
        (ENDS, {}, {"level": 9}, ["b/s"], [""]),
        # the START satisfies it, the END does not: without the END the storm never ends
        (BEGINS, {"kind": "storm"}, {}, [""], ["b/s"]),
        # only the END satisfies the interest itself
        (ENDED, {}, {"kind": "storm"}, ["b/s"], [""]),
    ],
)
def test_all_parts_of_events_come_to_whom_looks_at_the_past(where, start, end, told, lost):
    for strategy, expected in [(Covering, told), (WithoutLife, lost)]:
        net = network(FORK, strategy)
        net.tell("b", Interest("s", where))
        net.tell("c", Publish(publication("y", 0, kind="y")))
        net.tell("c", Publish(publication("e", 1, phase="START", **start)))
        found = [ids(net, "a", publication("e", 2, phase="END", **end))]
        if where != ENDED:
            found = [ids(net, "b", publication("x", 3, kind="x"))]
        assert found == expected, strategy


def test_inner_filters_are_asked_for_once_and_until_nobody_needs_them():
    net = network(CHAIN)
    net.tell("c", Interest("s", "kind = 'x' AND T_DURING(start, past(kind = 'storm'))"))
    net.tell("c", Interest("t", "kind = 'y' AND T_AFTER(start, past(kind='storm', 'PT5S'))"))
    assert Counter(asked(net, "c", "b"))["kind = 'storm'"] == Counter(asked(net, "c", "b"))[LIFE] == 1
    net.tell("c", Unsubscribe("s"))
    assert "kind = 'storm'" in asked(net, "c", "b")
    net.tell("c", Unsubscribe("t"))
    assert asked(net, "c", "b") == asked(net, "b", "a") == []


def test_inner_filters_are_hidden_like_others():
    net = network(CHAIN)
    net.tell("c", Interest("all", "TRUE"))
    net.tell("c", Interest("s", THREE))
    assert asked(net, "c", "b") == ["TRUE"]
    net.tell("c", Publish(publication("z", 0, kind="z")))
    net.tell("a", Publish(publication("y", 1, kind="y")))
    assert ids(net, "a", publication("x", 2, kind="x")) == "c/all c/s"


def test_an_interest_that_its_own_inner_filter_covers_stays():
    net = network(CHAIN)
    net.tell("c", Interest("s", "failed AND T_AFTER(start, past(failed, 'PT2S'))"))
    assert sorted(asked(net, "c", "b")) == ["failed", LIFE]


def test_all_levels_of_one_filter_are_one():
    node = Node("c", ["b"], Covering("b"), lambda: 0, YEARS)
    where = "failed"
    for _ in range(3):
        where = f"failed AND T_AFTER(start, past({where}, 'PT2S'))"
    sent = node.handle(Interest("s", where), LOCAL)
    assert [message.where for _, message in sent] == [LIFE, "failed"]
    back = node.handle(Unsubscribe("s"), LOCAL)
    assert back == [("b", Unsubscribe(message.id)) for _, message in sent], "nothing is sent only to be taken back"


def test_what_is_asked_for_late_is_asked_for_without_its_past():
    #   c hides s behind all, and says so when all goes: b has not remembered the storm, but c has
    net = network(CHAIN)
    net.tell("c", Interest("all", "TRUE"))
    net.tell("c", Interest("s", "kind = 'alarm' AND T_DURING(start, past(kind = 'storm'))"))
    net.tell("a", Publish(publication("w", 0, kind="storm", phase="START")))
    net.tell("c", Unsubscribe("all"))
    assert sorted(asked(net, "c", "b")) == ["kind = 'alarm'", "kind = 'storm'", LIFE]
    assert ids(net, "a", publication("p", 1, kind="alarm")) == "c/s"
    net.tell("c", Unsubscribe("s"))
    assert asked(net, "c", "b") == asked(net, "b", "a") == []


SOON = "kind = 'x' AND T_AFTER(start, past(kind = 'y', 'PT9S'))"
EVER = "kind = 'x' AND T_AFTER(start, past(kind = 'y'))"
NEVER = "kind = 'x' AND NOT T_AFTER(start, past(kind = 'y'))"
LESS = "level < past(level, kind = 'y', 1)"


def test_one_on_the_past_is_hidden_by_a_wider_one_that_is_older():
    net = network(CHAIN)
    net.tell("c", Interest("ever", EVER))
    net.tell("c", Publish(publication("y", 0, kind="y")))
    net.tell("c", Interest("soon", SOON))
    assert SOON not in asked(net, "c", "b") + asked(net, "b", "a")
    net.tell("b", Publish(publication("z", 1, kind="y")))
    assert ids(net, "a", publication("p", 3, kind="x")) == "c/ever c/soon"
    net.tell("c", Unsubscribe("ever"))
    assert ids(net, "a", publication("q", 4, kind="x")) == "c/soon"


def test_one_on_the_past_is_not_hidden_by_one_that_is_younger():
    #   wide hides old until it goes; young covers old but, at b and a, has not seen y
    net = network(CHAIN)
    net.tell("c", Interest("wide", "kind = 'x' AND level > 3"))
    net.tell("c", Interest("old", f"level > 3 AND {SOON}"))
    net.tell("a", Publish(publication("y", 0, kind="y")))
    net.tell("c", Interest("young", EVER))
    net.tell("c", Unsubscribe("wide"))
    assert ids(net, "a", publication("p", 1, kind="x", level=5)) == "c/old"


@pytest.mark.parametrize("where", [NEVER, LESS])
def test_one_that_knows_more_may_be_told_less_and_hides_nothing(where):
    #   old knows of y, new does not: for old there was an y, or another level is the last one
    net = network({"a": None, "b": "a"})
    net.tell("b", Interest("old", where))
    net.tell("a", Publish(publication("e", 0, phase="START")))
    net.tell("b", Publish(publication("y", 1, kind="y", level=0)))
    net.tell("b", Interest("new", where))
    assert asked(net, "b", "a").count(where) == 2
    if where == NEVER:
        assert ids(net, "a", publication("p", 2, kind="x")) == "b/new"
    else:
        net.tell("a", Publish(publication("z", 2, kind="y", level=5)))
        net.tell("a", Publish(publication("e", 3, kind="y", level=1, phase="END")))
        assert ids(net, "a", publication("p", 4, level=3)) == "b/new"


def test_which_wishes_grow_with_what_they_remember():
    assert all(read(where).grows for where in ("level > 3", DURING, SOON, EVER, THREE))
    nested = "kind = 'x' AND T_AFTER(start, past(NOT T_AFTER(start, past(kind = 'y'))))"
    assert not any(read(where).grows for where in (NEVER, LESS, nested))


def test_a_filter_inside_that_does_not_grow_is_not_shared():
    inner = "kind = 'z' AND NOT T_AFTER(start, past(kind = 'y'))"
    net = network({"a": None, "b": "a"})
    for id in ("s", "t"):
        net.tell("b", Interest(id, f"kind = '{id}' AND T_AFTER(start, past({inner}))"))
    assert asked(net, "b", "a").count(inner) == 2
    net.tell("b", Unsubscribe("s"))
    assert asked(net, "b", "a").count(inner) == 1


@pytest.mark.parametrize(
    ("where", "first", "left"),
    [
        (THREE, ["kind = 'y' AND T_AFTER(start, past(kind = 'z'))"], "kind = 'x'"),
        ("level < past(level, kind = 'y', 3)", ["kind = 'y'"], "TRUE"),
        ("past(level, kind = 'y') < level + 1", ["kind = 'y'"], "TRUE"),
        ("T_AFTER(end, past(a, '..', 'PT1S')) OR b AND T_DURING(event, past(a))", ["a"], "TRUE"),
        ("NOT (a AND T_AFTER(end, past(b)))", ["b"], "TRUE"),
        ("NOT (a OR T_AFTER(end, past(b)))", ["b"], "NOT a"),
        ("(a OR NOT T_AFTER(end, past(b))) AND c AND d", ["b"], "c AND d"),
        ("a AND (b OR c AND T_AFTER(end, past(d))) AND e = past(e, f OR g)", ["d", "f OR g"], "a AND (b OR c)"),
        ("NOT (T_AFTER(end, past(a)) AND T_AFTER(end, past(b)))", ["a", "b"], "TRUE"),
        ("NOT (T_AFTER(end, past(a)) OR T_AFTER(end, past(b)))", ["a", "b"], "TRUE"),
        ("level > 3", [], "level > 3"),
    ],
)
def test_what_is_inside_and_what_is_left(where, first, left):
    wish = read(where)
    assert (list(wish.inner), wish.plain.where) == (first, left)
    assert [of.where for of in inside(wish)][: len(first)] == first
