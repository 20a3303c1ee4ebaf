"""The strategy ``covering``: what users are told is what one engine would tell, and nothing travels that need not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate.engine import Engine
from tidegate.model import Publication, Subscription
from tidegate.overlay.asked_of_master import AskedOfMaster
from tidegate.overlay.conditions import LIFE, RoutedCondition, inside, read
from tidegate.overlay.messages import (
    LOCAL,
    Announce,
    Deliver,
    Interest,
    Message,
    Publish,
    Reading,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.network import Network
from tidegate.overlay.node import Node
from tidegate.overlay.operators import Operator, OperatorPart
from tidegate.overlay.strategies.covering import Covering
from tidegate.patterns.pattern import FAMILIES

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
YEARS = 10**15
Told = tuple[str, str, str, str | None]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def publication(id: str, seconds: float, **values: object) -> Publication:
    fields = {name: values.pop(name) for name in ("phase", "start", "end") if name in values}
    return Publication(id, "s", at(seconds), values, **fields)


# --- networks that do not cover, or ask for less --------------------------------------------------------------------


class Everything(AskedOfMaster):
    """Every interest goes up, each once."""

    def add(self, id: str, wish: RoutedCondition):
        self._uses[id] = self._uses.get(id, 0) + 1
        if self._uses[id] == 1:
            yield self._ask(id, wish)

    def _take_out(self, id: str):
        del self.sent[id]
        yield Unsubscribe(id)


class Uncovered(Covering):
    def enter(self, node: str, validity: int) -> None:
        super().enter(node, validity)
        self._upwards = Everything()


class FirstLevel(Covering):
    """As the seed has it: inner filters of the first level only."""

    def inner(self, wish: RoutedCondition) -> list[RoutedCondition]:
        return [read(text) for text in wish.inner]


class WithoutLife(Covering):
    """As the seed has it: the parts of events travel where filters want them, and nowhere else."""

    def _besides(self, id: str, wish: RoutedCondition) -> list[tuple[str, RoutedCondition]]:
        return [(asked, of) for asked, of in super()._besides(id, wish) if of.where != LIFE]


def network(masters: Mapping[str, str | None], strategy: type[Covering] = Covering) -> Network:
    """Nodes by name, each with the next one on the way to the root."""
    near: dict[str, list[str]] = {name: [] for name in masters}
    for name, master in masters.items():
        if master is not None:
            near[name].append(master)
            near[master].append(name)
    return Network(near, lambda name: strategy(masters[name]), YEARS)


def nothing_was_refused(net: Network) -> bool:
    return not any(node.refused for node in net.nodes.values())


def heard(told: list[tuple[str, Message]]) -> list[Told]:
    """Who was told of what: node, subscription, publication and its phase. Nothing was refused."""
    found = []
    for node, message in told:
        assert isinstance(message, Deliver), message
        for event in message.events:
            assert isinstance(event, Publish)
            found.append((node, message.subscription, event.publication.id, event.publication.phase))
    return sorted(found, key=str)


def ids(net: Network, node: str, one: Publication) -> str:
    """Who is told, as node/subscription."""
    return " ".join(f"{node}/{id}" for node, id, _, _ in heard(net.tell(node, Publish(one))))


def asked(net: Network, a: str, b: str) -> list[str]:
    """What a node has told its master."""
    return [message.where for message in net.nodes[a].strategy.told(b)[1]]


def strategy_of(net: Network, node: str) -> Covering:
    found = net.nodes[node].strategy
    assert isinstance(found, Covering)
    return found


def refusal(told) -> Refuse:
    ((_, message),) = told
    assert isinstance(message, Refuse)
    return message


CHAIN = {"a": None, "b": "a", "c": "b"}
FORK = {"a": None, "b": "a", "c": "a"}


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


# --- the past: more than the seed says ------------------------------------------------------------------------------

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


DURING = "kind = 'x' AND T_DURING(start, past(kind = 'y'))"
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


# --- scripts --------------------------------------------------------------------------------------------------------

PLAIN = (
    "kind = 'x'",
    "level > 3",
    "level > 5",
    "level BETWEEN 2 AND 6",
    "kind = 'y' OR level > 7",
    "kind LIKE 'x%'",
    "kind IN ('x', 'z') AND level < 5",
    "phase = 'END'",
    "TRUE",
)
INNER = ("kind = 'y'", "level > 5", "kind = 'x' OR level < 2", "phase = 'END' AND level > 3", "phase = 'START'")
QUESTIONS = (
    "T_DURING(start, past({}))",
    "T_DURING(time, past({}))",
    "T_AFTER(start, past({}))",
    "T_AFTER(start, past({}, 'PT3S'))",
    "T_AFTER(end, past({}, 'PT3S'))",
    "T_OVERLAPPEDBY(event, past({}))",
    "level < past(level, {}, 2)",
    "past(level, {}) = level",
    "NOT T_AFTER(start, past({}, 'PT3S'))",
    "NOT level >= past(level, {}, 1)",
)
BESIDE = ("{}", "kind = 'x' AND {}", "level > 3 AND {}", "kind = 'z' OR {}", "phase = 'END' AND {}")

questions = st.builds(str.format, st.sampled_from(QUESTIONS), st.sampled_from(INNER))
looking_back = st.builds(str.format, st.sampled_from(BESIDE), questions)
nested = st.builds(str.format, st.sampled_from(BESIDE), st.builds(str.format, st.sampled_from(QUESTIONS), looking_back))
plain = st.sampled_from(PLAIN)
wheres = st.one_of(plain.filter(lambda where: where != "TRUE"), looking_back, nested)


@dataclass(frozen=True)
class Ask:
    node: int
    where: str


@dataclass(frozen=True)
class Drop:
    which: int


@dataclass(frozen=True)
class Say:
    """``phase`` END ends the running event ``which``, if there is one."""

    node: int
    later: int
    kind: str
    level: int | None
    phase: str | None
    before: int | None
    which: int


@dataclass(frozen=True)
class Turn:
    """Cut a link, or put it back."""

    which: int


nodes = st.integers(0, 5)
asks = st.builds(Ask, nodes, wheres)
says = st.builds(
    Say,
    nodes,
    st.integers(0, 2),
    st.sampled_from("xxyz"),
    st.none() | st.integers(0, 9),
    st.sampled_from((None, None, "START", "END", "END", "INSTANT")),
    st.none() | st.integers(0, 3),
    st.integers(0, 9),
)


@st.composite
def trees(draw) -> dict[str, str | None]:
    """A tree of one to six nodes, with any of them as its root."""
    n = draw(st.integers(1, 6))
    edges = [(i, draw(st.integers(0, i - 1))) for i in range(1, n)]
    masters: dict[str, str | None] = {f"n{draw(st.integers(0, n - 1))}": None}
    while len(masters) < n:
        for a, b in edges:
            for one, other in ((f"n{a}", f"n{b}"), (f"n{b}", f"n{a}")):
                if other in masters and one not in masters:
                    masters[one] = other
    return masters


def below(masters: Mapping[str, str | None], top: str) -> set[str]:
    """A node and all whose way to the root leads over it."""
    found = {top}
    while more := {node for node, master in masters.items() if master in found} - found:
        found |= more
    return found


class World:
    """A network, and one engine with the same subscriptions."""

    def __init__(self, masters: dict[str, str | None], strategy: type[Covering] = Covering) -> None:
        self.masters, self.net, self.engine = masters, network(masters, strategy), Engine()
        self.names = sorted(masters)
        self.asked: dict[str, tuple[str, str]] = {}
        self.clock, self.made = 0, 0
        self.running: list[str] = []
        self.cut: set[tuple[str, str]] = set()
        self.last: tuple[str, Publication]

    def node(self, number: int) -> str:
        return self.names[number % len(self.names)]

    def do(self, step: Ask | Drop | Say | Turn) -> tuple[list[Told], list[Told]]:
        """What the network tells, and what one engine tells."""
        match step:
            case Ask(number, where):
                self.made += 1
                id = f"s{self.made}"
                self.asked[id] = self.node(number), where
                self.engine.subscribe(Subscription(id, "u", where))
                return heard(self.net.tell(self.node(number), Interest(id, where))), []
            case Drop(which):
                if not self.asked:
                    return [], []
                id = sorted(self.asked)[which % len(self.asked)]
                node, _ = self.asked.pop(id)
                self.engine.unsubscribe(id)
                return heard(self.net.tell(node, Unsubscribe(id))), []
            case Turn(which):
                links = [(node, master) for node, master in sorted(self.masters.items()) if master is not None]
                return (heard(self.turn(*links[which % len(links)])) if links else []), []
            case Say():
                one = self._said(step)
                self.last = self.node(step.node), one
                found = [
                    (self.asked[n.subscription][0], n.subscription, one.id, one.phase)
                    for n in self.engine.publish([one])
                ]
                return heard(self.net.tell(self.node(step.node), Publish(one))), sorted(found, key=str)

    def turn(self, a: str, b: str) -> list[tuple[str, Message]]:
        self.cut ^= {(a, b)}
        if (a, b) not in self.cut:
            return self.net.join(a, b)
        self.net.cut(a, b)
        return []

    def join(self) -> list[Told]:
        """Put all links back."""
        return [told for link in sorted(self.cut) for told in heard(self.turn(*link))]

    def _said(self, step: Say) -> Publication:
        self.clock += step.later
        self.made += 1
        id, phase, now = f"p{self.made}", step.phase, at(self.clock)
        values = {"kind": step.kind} if step.level is None else {"kind": step.kind, "level": step.level}
        if phase == "START":
            self.running.append(id)
        if phase == "END" and self.running:
            id = self.running.pop(step.which % len(self.running))
        if phase == "END" and step.before == 0:
            values = {}
        start = end = None
        if step.before is not None and phase in (None, "START"):
            start = at(self.clock - step.before)
        if step.before is not None and phase is None:
            end = at(self.clock + step.which % 3)
        return Publication(id, "s", now, values, start=start, end=end, phase=phase)


@examples(50)
@given(
    trees(),
    st.lists(asks, min_size=1, max_size=3),
    st.lists(st.one_of(asks, says, says, says, says, st.builds(Drop, st.integers(0, 9))), max_size=20),
)
def test_users_are_told_what_one_engine_tells(masters, first, then):
    world = World(masters)
    for i, step in enumerate((*first, *then)):
        told, wanted = world.do(step)
        assert told == wanted, (i, step)
    while world.asked:
        world.do(Drop(0))
    assert nothing_was_refused(world.net)
    for node, master in masters.items():
        strategy = strategy_of(world.net, node)
        assert (strategy.told(master or ""), len(strategy._engine), strategy._ids) == (((), ()), 0, {})


@examples(20)
@given(trees(), st.lists(asks, min_size=1, max_size=6), st.lists(says, max_size=6))
def test_without_covering_no_less_is_told_and_no_less_travels(masters, first, then):
    covering, naive = World(masters), World(masters, Uncovered)
    for step in (*first, *then):
        assert covering.do(step) == naive.do(step)
    for link, traffic in covering.net.links.items():
        assert traffic.subscriptions <= naive.net.links[link].subscriptions


plain_steps = st.one_of(st.builds(Ask, nodes, plain), says, says, st.builds(Drop, st.integers(0, 9)))


@examples(20)
@given(trees(), st.lists(st.builds(Ask, nodes, plain), min_size=2, max_size=5), st.lists(plain_steps, max_size=12))
def test_publications_go_up_and_where_somebody_wants_them(masters, first, then):
    world, naive = World(masters), World(masters, Uncovered)
    for step in (*first, *then):
        before = {link: traffic.readings for link, traffic in world.net.links.items()}
        told, wanted = world.do(step)
        naive.do(step)
        assert told == wanted
        if isinstance(step, Say):
            node, wanting = world.last[0], {node for node, _, _, _ in wanted}
            crossed = {link: traffic.readings - before[link] for link, traffic in world.net.links.items()}
            for a, b in masters.items():
                if b is not None:
                    is_below = node in below(masters, a)
                    assert crossed[a, b] == is_below
                    assert crossed[b, a] == (not is_below and not wanting.isdisjoint(below(masters, a)))
    for link, traffic in world.net.links.items():
        assert traffic.subscriptions <= naive.net.links[link].subscriptions


@examples(20)
@given(trees(), st.lists(st.one_of(asks, asks, says, says), max_size=12))
def test_for_the_past_no_more_goes_down_than_filters_inside_ask_for(masters, script):
    world = World(masters)
    for step in script:
        before = {link: traffic.readings for link, traffic in world.net.links.items()}
        world.do(step)
        for node, master in masters.items():
            if (
                master is not None
                and isinstance(step, Say)
                and world.net.links[master, node].readings > before[master, node]
            ):
                wishes = [read(where) for at, where in world.asked.values() if at in below(masters, node)]
                needed = [of.plain for wish in wishes for of in (wish, *inside(wish))]
                needed += [read(LIFE) for wish in wishes if wish.inner]
                assert any(of.means.holds(world.last[1]) for of in needed)


turns = st.builds(Turn, st.integers(0, 9))


@examples(20)
@given(
    trees(),
    st.lists(st.one_of(asks, asks, turns, st.builds(Drop, st.integers(0, 9))), max_size=12),
    st.lists(says, max_size=8),
)
def test_interests_find_their_way_when_links_come_back(masters, first, then):
    world = World(masters)
    for step in first:
        assert world.do(step) == ([], [])
    assert world.join() == []
    for step in then:
        told, wanted = world.do(step)
        assert told == wanted
    for node, master in masters.items():
        if master is not None:
            held = strategy_of(world.net, master)._held
            known = {id: held.where for id, held in held.items() if held.owner == node}
            assert known == {message.id: message.where for message in strategy_of(world.net, node).told(master)[1]}


@examples(20)
@given(
    trees(),
    st.lists(st.builds(Ask, nodes, plain), max_size=5),
    st.lists(st.one_of(says, says, turns), max_size=12),
)
def test_all_is_told_once_all_links_are_back(masters, first, then):
    world = World(masters)
    told: Counter[Told] = Counter()
    wanted: Counter[Told] = Counter()
    for step in (*first, *then):
        now, of_one = world.do(step)
        told.update(now)
        wanted.update(of_one)
        assert told <= wanted
    told.update(world.join())
    assert told == wanted
    assert nothing_was_refused(world.net)
