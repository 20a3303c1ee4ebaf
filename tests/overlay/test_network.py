"""Every strategy against the oracle: random trees, sensors that come and go, subscriptions that cover each other and
are removed, links that are cut and come back, readings in any order. What crosses the links is looked at as well.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from sys import float_info

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tidegate as tg
from tests.overlay.oracle import Cut, Join, Script, Tell, expected
from tests.overlay.play import (
    InNetwork,
    Nodes,
    centre_of,
    check,
    problems,
    stored,
    strategies_of,
    with_end,
)
from tests.overlay.strategies import (
    ALL,
    CUTS,
    ENGINE,
    IDENTIFIED,
    NOISY,
    PLAIN,
    REMOVALS,
    SECOND,
    SENSORS,
    START,
    scripts,
)
from tests.overlay.test_oracle import HERE, NEXT, ask, clock, on, read, script, sensor
from tidegate.model import moment
from tidegate.overlay.messages import Reading, Revoke, Subscribe, Unsubscribe
from tidegate.overlay.operators import Operator, OperatorPart, operator_of

NAMES = ("centralized", "naive", "operator-placement", "multi-join", "filter-split-forward")
KINDS = {
    "plain": PLAIN,
    "identified": IDENTIFIED,
    "removals": REMOVALS,
    "sensors": SENSORS,
    "cuts": CUTS,
    "all": ALL,
    "noisy": NOISY,
}
EVERYWHERE, MOST = (-inf, -inf, inf, inf), float_info.max
names = pytest.mark.parametrize("name", NAMES)
seeds = st.integers(0, 2**32 - 1)


# --- what users get -----------------------------------------------------------------------------------------------


@names
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=seeds)
def test_what_users_get(name, kind, data, seed):
    problems(name, data.draw(scripts(KINDS[kind])), np.random.default_rng(seed))


@pytest.mark.parametrize("subsumption", ["none", "pairwise"])
@given(data=st.data(), seed=seeds)
def test_what_users_get_with_other_filtering(subsumption, data, seed):
    script = data.draw(scripts(data.draw(st.sampled_from([PLAIN, ALL]))))
    problems("filter-split-forward", script, np.random.default_rng(seed), subsumption)


@names
@given(script=scripts(PLAIN), seed=seeds)
def test_order_of_events(name, script, seed):
    """All sensors speak at once and everybody hears it in another order."""
    rng = np.random.default_rng(seed)
    first = [script.steps[0], *(step for step in script.steps if isinstance(step, Tell) and not is_reading(step))]
    readings = [s for s in script.steps if is_reading(s) and abs(s.message.time - START) < 6 * SECOND]
    rng.shuffle(readings)
    script = replace(script, steps=(*first, *readings))
    nodes = Nodes(script, strategies_of(name, script), lambda count: int(rng.integers(count)))
    for step in first:
        nodes.do(step)
    told: dict[str, list[str]] = {}
    for _, message in nodes.at_once(readings):
        told.setdefault(message.subscription, []).extend(event.id for event in message.events)
    assert {id: sorted(ids) for id, ids in told.items()} == {
        stay.operator.id: sorted(stay.must) for stay in expected(script) if stay.must
    }


def is_reading(step) -> bool:
    return isinstance(step, Tell) and isinstance(step.message, Reading)


# --- the same from the engine ---------------------------------------------------------------------------------------


@names
@given(script=scripts(ENGINE))
def test_as_the_engine_tells(name, script):
    steps, engine, sensors = [], tg.Engine(), {}
    for step in script.steps:
        if isinstance(step, Tell) and isinstance(step.message, Subscribe):
            operator = step.message.operator
            assume(len({part.label for part in map(without_everywhere, operator.parts)}) == len(operator.parts))
            subscription = tg.Subscription(operator.id, "ann", text(operator))
            engine.subscribe(subscription)
            found = operator_of(subscription)
            assert is_same(found, operator), text(operator)
            step = Tell(step.node, Subscribe(found))
        elif isinstance(step, Tell) and not is_reading(step):
            sensors[step.message.source] = step.message
        steps.append(step)
    told: dict[str, set[str]] = {id: set() for id in engine_ids(steps)}
    for reading in sorted(script.readings.values(), key=lambda reading: (reading.time, reading.id)):
        of = sensors[reading.source]
        publication = tg.Publication(
            reading.id, reading.source, moment(reading.time), {of.attribute: reading.value}, location=of.location
        )
        for notification in engine.publish([publication]):
            told[notification.subscription].update(notification.publications)
    assert engine.cut == 0
    changed = replace(script, steps=tuple(steps))
    player = InNetwork(changed, strategies_of(name, changed))
    assert check(changed, player, expected(changed, centre_of(name, changed))) == told


def engine_ids(steps) -> list[str]:
    return [s.message.operator.id for s in steps if isinstance(s, Tell) and isinstance(s.message, Subscribe)]


def text(operator: Operator) -> str:
    """The operator in the language."""
    filters = [" AND ".join(conditions(part)) for part in operator.parts]
    if len(filters) == 1:
        return filters[0]
    window, near = f"'PT{operator.window // SECOND}S'", [] if operator.near is None else [repr(operator.near)]
    return f"together({', '.join([window, *near, *filters])}, 'all')"


def conditions(part: OperatorPart):
    if part.source is not None:
        yield f"source = '{part.source}'"
    if -inf < part.low and part.high < inf:
        yield f"{part.attribute} BETWEEN {part.low} AND {part.high}"
    else:
        yield f"{part.attribute} >= {part.low}" if part.high == inf else f"{part.attribute} <= {part.high}"
    if part.region is not None and part.region[0] > -inf:
        yield f"S_INTERSECTS(location, BBOX({', '.join(map(repr, part.region))}))"


def without_everywhere(part: OperatorPart) -> OperatorPart:
    """The language has neither a region that is everywhere nor infinite numbers."""
    region = None if part.region == EVERYWHERE else part.region
    return replace(part, low=max(part.low, -MOST), high=min(part.high, MOST), region=region)


def is_same(found: Operator, operator: Operator) -> bool:
    """But for what cannot be told apart: one part has no window."""
    parts, wanted = ({without_everywhere(part) for part in one.parts} for one in (found, operator))
    return parts == wanted and (len(parts) == 1 or (found.window, found.near) == (operator.window, operator.near))


# --- what crosses the links -----------------------------------------------------------------------------------------


def load(name: str, script: Script, subsumption: str | None = None) -> int:
    """Subscription messages on all links."""
    nodes = Nodes(script, strategies_of(name, script, subsumption))
    for step in script.steps:
        nodes.do(step)
    return nodes.subscriptions()


@pytest.mark.parametrize("name", ["operator-placement", "filter-split-forward"])
@given(script=scripts(PLAIN))
def test_no_more_subscriptions_than_without_filtering(name, script):
    """Not so of multi-join: where two of three sensors are behind a neighbour it asks for each of them by itself."""
    assert load(name, script) <= load("naive", script)


@given(script=scripts(IDENTIFIED))
def test_sets_filter_at_least_what_pairs_do(script):
    by_set, by_pair, never = (load("filter-split-forward", script, kind) for kind in ("exact", "pairwise", "none"))
    assert by_set <= by_pair <= never == load("naive", script)


@names
@given(script=scripts(CUTS))
def test_traffic_is_counted(name, script):
    nodes, inside = Nodes(script, strategies_of(name, script)), InNetwork(script, strategies_of(name, script))
    for step in script.steps:
        nodes.do(step)
        inside.do(step)
    links = inside.network.links.values()
    assert sum(link.subscriptions for link in links) == nodes.subscriptions()
    assert sum(link.messages for link in links) == len(nodes.crossings)


@names
@given(script=scripts(ALL))
def test_nothing_is_left_of_what_was_removed(name, script):
    ended = with_end(script)
    nodes = Nodes(ended, strategies_of(name, ended))
    for step in ended.steps:
        nodes.do(step)
    assert {name: stored(node) for name, node in nodes.nodes.items()} == dict.fromkeys(nodes.nodes, 0)


# --- examples -------------------------------------------------------------------------------------------------------


def told(name, *steps):
    """Who was told what by the last step; the tree is w – m – e."""
    made = script(*steps)
    nodes = Nodes(made, strategies_of(name, made))
    for step in made.steps:
        delivered = nodes.do(step)
    found: dict[tuple[str, str], list[str]] = {}
    for node, message in delivered:
        found.setdefault((node, message.subscription), []).extend(event.id for event in message.events)
    return {key: " ".join(sorted(ids)) for key, ids in found.items()}


PAIR = (sensor("a", node="w"), sensor("b", node="e"), ask("s", on("a", 0, 9), on("b", 0, 9), node="e"))


@names
def test_told_when_the_last_one_comes(name):
    assert told(name, *PAIR, read("a1", "a", 0, 2.0, "w")) == {}
    assert told(name, *PAIR, read("a1", "a", 0, 2.0, "w"), read("b1", "b", 1, 2.0, "e")) == {("e", "s"): "a1 b1"}
    later = (read("b1", "b", 1, 2.0, "e"), read("a1", "a", 0, 2.0, "w"), read("a2", "a", 0, 2.0, "w"))
    assert told(name, *PAIR, *later) == {("e", "s"): "a2"}


@names
def test_own_sensor_and_user(name):
    assert told(name, sensor("a"), ask("s", on("a")), read("r", "a", 0)) == {("m", "s"): "r"}


@names
def test_what_was_hidden_is_asked_for_again(name):
    narrow = ask("narrow", on("a", 2, 3), on("b", 2, 3), node="e")
    steps = (*PAIR, narrow, read("a1", "a", 0, 2.0, "w"), Tell("e", Unsubscribe("s")), read("b1", "b", 0, 2.0, "e"))
    assert told(name, *steps) == {("e", "narrow"): "a1 b1"}
    assert told(name, *steps, read("a2", "a", 0, 3.0, "w")) == {("e", "narrow"): "a2"}


@names
def test_two_that_hide_a_third(name):
    halves = [ask(f"half{i}", on("a", 4 * i, 4 * i + 4), node="e") for i in range(2)]
    steps = (sensor("a", node="w"), *halves, ask("all", on("a", 1, 7), node="e"), Tell("e", Unsubscribe("half1")))
    assert told(name, *steps, read("r", "a", 0, 6.0, "w")) == {("e", "all"): "r"}
    assert told(name, *steps, read("r", "a", 0, 1.0, "w")) == {("e", "all"): "r", ("e", "half0"): "r"}


@names
def test_a_link_that_comes_back(name):
    apart = (*PAIR, Cut("w", "m"), read("a1", "a", 0, 2.0, "w"), read("b1", "b", 1, 2.0, "e"))
    assert told(name, *apart) == {}
    assert told(name, *apart, clock(11), Join("w", "m")) == {("e", "s"): "a1 b1"}
    assert told(name, *apart, clock(13), Join("w", "m")) == {}


@names
def test_what_was_removed_while_a_link_was_cut(name):
    steps = (*PAIR, Cut("m", "e"), Tell("e", Unsubscribe("s")), Join("m", "e"))
    made = script(*steps, read("a1", "a", 0, 2.0, "w"))
    nodes = Nodes(made, strategies_of(name, made))
    for step in made.steps:
        nodes.do(step)
    assert name == "centralized" or not nodes.readings()


@names
def test_abstract_parts_meet_across_the_tree(name):
    """Both kinds of sensor are at both ends: what is together at none of them is together in the middle."""
    sensors = [sensor(f"{kind}{node}", kind, node=node) for kind in "ab" for node in "we"]
    steps = (
        *sensors,
        ask("s", OperatorPart("a", 0, 9), OperatorPart("b", 0, 9), node="m"),
        read("r", "aw", 0, 1.0, "w"),
    )
    assert told(name, *steps) == {}
    assert told(name, *steps, read("q", "be", 1, 1.0, "e")) == {("m", "s"): "q r"}


@names
@pytest.mark.parametrize("narrow", [{"near": 500}, {"window": 2}])
def test_what_covers_is_as_wide_in_time_and_space(name, narrow):
    sensors = (sensor("a", location=HERE, node="w"), sensor("b", location=NEXT, node="w"))
    steps = (*sensors, ask("narrow", on("a"), on("b"), node="e", **narrow), ask("wide", on("a"), on("b"), node="e"))
    assert told(name, *steps, read("p", "a", 0, 0.0, "w"), read("q", "b", 3, 0.0, "w")) == {("e", "wide"): "p q"}


@names
def test_an_id_used_again_while_a_link_was_cut(name):
    before = (sensor("a", node="w"), ask("s", on("a", 0, 3), node="e"), Cut("m", "e"), Tell("e", Unsubscribe("s")))
    steps = (*before, ask("s", on("a", 5, 9), node="e"), Join("m", "e"))
    assert told(name, *steps, read("r", "a", 0, 6.0, "w")) == {("e", "s"): "r"}
    assert told(name, *steps, read("r", "a", 0, 2.0, "w")) == {}


@names
def test_what_was_asked_or_came_while_a_link_was_cut(name):
    asked, there = ask("s", on("a"), node="e"), sensor("a", node="w")
    for steps in ((there, Cut("w", "m"), asked), (Cut("w", "m"), asked, there), (asked, Cut("w", "m"), there)):
        assert told(name, *steps, read("r", "a", 0, 1.0, "w"), Join("m", "w")) == {("e", "s"): "r"}


@names
def test_one_more_was_asked_while_a_link_was_cut(name):
    """The same reading is owed to one who asked before and to one who asked while the link was cut."""
    there, one, more = sensor("a", node="e"), ask("one", on("a", 5, 9), node="w"), ask("more", on("a", 6, 6), node="w")
    steps = (there, one, Cut("m", "e"), more, read("r", "a", 0, 6.0, "e"), Join("m", "e"))
    assert told(name, *steps) == {("w", "one"): "r", ("w", "more"): "r"}


@names
def test_a_sensor_that_leaves_and_comes_back(name):
    """Nothing is told twice."""
    steps = (*PAIR, read("a1", "a", 0, 1.0, "w"), read("b1", "b", 0, 1.0, "e"), Tell("w", Revoke("a")))
    back = (*steps, read("b2", "b", 0, 1.0, "e"), sensor("a", node="w"), read("b3", "b", 0, 1.0, "e"))
    run(name, script(*back))


@names
def test_a_part_of_an_operator_that_looks_like_another(name):
    """When a sensor leaves, what a node forwards for the whole is for a moment what a neighbour asks for the rest."""
    sensors = (sensor("x", "t", node="n1"), sensor("y", "t", node="n1"))
    asked = ask("s", OperatorPart("t", 6, 9), OperatorPart("t", 5, 6, "x"), node="n3")
    steps = (*sensors, asked, Tell("n1", Revoke("x")), sensor("x", "t", node="n1"))
    readings = (read("p", "y", 0, 7.0, "n1"), read("q", "x", 0, 5.0, "n1"))
    edges = (("n0", "n1"), ("n0", "n2"), ("n2", "n3"))
    run(name, Script(("n0", "n1", "n2", "n3"), edges, 12 * SECOND, (clock(0), *steps, *readings)))


@names
def test_regions_within_each_other(name):
    sensors = (sensor("x", "t", node="w"), sensor("y", "t", HERE, node="m"), sensor("z", "t", NEXT, node="e"))
    regions = [None, (7.0, 46.0, 7.02, 46.0), (7.0, 46.0, 7.01, 46.0), (7.01, 46.0, 7.01, 46.0)]
    asked = ask("s", *(OperatorPart("t", 0, 9, None, region) for region in regions), node="w")
    run(name, script(*sensors, asked, read("p", "z", 0, 1.0, "e"), read("q", "y", 1, 1.0, "m")))


def run(name: str, made: Script) -> None:
    for seed in range(3):
        problems(name, made, np.random.default_rng(seed))
