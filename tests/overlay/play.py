"""Plays a script on nodes and holds what comes out against the oracle, step by step.

The nodes are linked by queues of their own, not by ``overlay.network``, so that every message can be looked at and
links can be slow: messages on one link stay in order, those on different links overtake each other as ``pick`` says.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from tests.overlay.oracle import Clock, Cut, Join, Noise, Script, Stay, Step, Tell, expected, past, path
from tidegate.covering.subsumption import subsumption_named
from tidegate.overlay.messages import LOCAL, Announce, Deliver, Reading, Revoke, Subscribe, Unsubscribe
from tidegate.overlay.network import Network
from tidegate.overlay.node import Node
from tidegate.overlay.strategies import STRATEGIES
from tidegate.overlay.strategy import Strategy

#: So many messages after one step are an endless loop.
ENDLESS = 20_000
Told = list[tuple[str, Deliver]]


class Player(Protocol):
    """Whatever can do the steps of a script."""

    def do(self, step: Step) -> Told: ...


# --- what plays -----------------------------------------------------------------------------------------------------


def centre_of(name: str, script: Script) -> str | None:
    """Any node will do for the centre: let it be the last, which has one neighbour and so is no centre at all."""
    return script.nodes[-1] if name == "centralized" else None


def strategies_of(name: str, script: Script, subsumption: str | None = None) -> Callable[[str], Strategy]:
    """What makes the strategy of each node."""
    centre = centre_of(name, script)

    def towards(node: str) -> str | None:
        return next((b for a, b in path(node, centre, script.edges) if a == node and is_nearer(b, node)), None)

    def is_nearer(b: str, node: str) -> bool:
        return len(path(b, centre, script.edges)) < len(path(node, centre, script.edges))

    def make(node: str) -> Strategy:
        if centre is not None:
            return STRATEGIES[name](towards(node))
        return STRATEGIES[name]() if subsumption is None else STRATEGIES[name](subsumption_named(subsumption))

    return make


class InNetwork:
    """The network of the simulations."""

    def __init__(self, script: Script, strategy: Callable[[str], Strategy]) -> None:
        self.network = Network(script.neighbours, strategy, script.validity)

    def do(self, step: Step) -> Told:
        told: list[tuple[str, object]] = []
        if isinstance(step, Clock):
            self.network.clock = step.now
        elif isinstance(step, Cut):
            self.network.cut(step.a, step.b)
        elif isinstance(step, Join):
            told = self.network.join(step.a, step.b)
        elif isinstance(step, Noise):
            if step.sender == LOCAL:
                told = self.network.tell(step.node, step.message)
            else:
                self.network.nodes[step.node].handle(step.message, step.sender)
        else:
            told = self.network.tell(step.node, step.message)
        return [(node, message) for node, message in told if isinstance(message, Deliver)]


@dataclass(frozen=True)
class Crossing:
    """A message that went over a link, at which step."""

    step: int
    sender: str
    receiver: str
    message: object


@dataclass
class Nodes:
    """Nodes with a queue for each direction of each link."""

    script: Script
    strategy: Callable[[str], Strategy]
    pick: Callable[[int], int] = lambda count: 0
    now: int = 0
    done: int = 0
    crossings: list[Crossing] = field(default_factory=list)
    up: set[frozenset[str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        neighbours = self.script.neighbours
        self.nodes = {
            name: Node(name, neighbours[name], self.strategy(name), lambda: self.now, self.script.validity)
            for name in self.script.nodes
        }
        self.up = {frozenset(edge) for edge in self.script.edges}
        self.queues: dict[tuple[str, str], deque[object]] = {}
        self.told: Told = []

    def do(self, step: Step) -> Told:
        self.told = []
        self.start(step)
        self._run()
        self.done += 1
        return self.told

    def start(self, step: Step) -> None:
        if isinstance(step, Clock):
            self.now = step.now
        elif isinstance(step, Cut):
            self.up.discard(frozenset((step.a, step.b)))
            self.nodes[step.a].cut(step.b)
            self.nodes[step.b].cut(step.a)
        elif isinstance(step, Join):
            self.up.add(frozenset((step.a, step.b)))
            self._take(step.a, self.nodes[step.a].joined(step.b))
            self._take(step.b, self.nodes[step.b].joined(step.a))
        elif isinstance(step, Noise):
            self._take(step.node, self.nodes[step.node].handle(step.message, step.sender))
        else:
            self._take(step.node, self.nodes[step.node].handle(step.message, LOCAL))

    def at_once(self, steps: Iterable[Step]) -> Told:
        """All of these before anybody hears of them elsewhere."""
        self.told = []
        for step in steps:
            self.start(step)
            self.done += 1
        self._run()
        return self.told

    def _take(self, sender: str, messages: list[tuple[str, object]]) -> None:
        for receiver, message in messages:
            if receiver == LOCAL:
                if isinstance(message, Deliver):
                    self.told.append((sender, message))
            elif receiver in self.nodes:
                assert frozenset((sender, receiver)) in self.up, f"{sender} sends {message} to {receiver} over no link"
                self.queues.setdefault((sender, receiver), deque()).append(message)

    def _run(self) -> None:
        for _ in range(ENDLESS):
            waiting = sorted(link for link, queue in self.queues.items() if queue)
            if not waiting:
                return
            sender, receiver = waiting[self.pick(len(waiting))]
            message = self.queues[sender, receiver].popleft()
            self.crossings.append(Crossing(self.done, sender, receiver, message))
            self._take(receiver, self.nodes[receiver].handle(message, sender))
        raise AssertionError(f"still under way after {ENDLESS} messages: {message}")

    # --- what crossed -----------------------------------------------------------------------------------------------

    def readings(self) -> Counter[tuple[str, str, str]]:
        """How often each reading went over each link: sender, receiver, id."""
        return Counter((c.sender, c.receiver, c.message.id) for c in self.crossings if isinstance(c.message, Reading))

    def subscriptions(self) -> int:
        return sum(isinstance(c.message, Subscribe) for c in self.crossings)


# --- against the oracle -------------------------------------------------------------------------------------------


def check(script: Script, player: Player, stays: list[Stay]) -> dict[str, set[str]]:
    """Plays all of it; what everybody was told at the end, by the subscriptions that are still there."""
    told: dict[int, set[str]] = {stay.first: set() for stay in stays}
    for i, step in enumerate(script.steps):
        delivered = player.do(step)
        active = {stay.operator.id: stay for stay in stays if stay.first <= i < stay.last}
        for node, message in delivered:
            assert message.subscription in active, f"step {i}: {message} to a subscription that is not there"
            stay = active[message.subscription]
            assert node == stay.node, f"step {i}: {message} at {node}"
            note(script, i, stay, message, told[stay.first])
        for stay in active.values():
            due = {id for id, when in stay.must.items() if when <= i} - told[stay.first]
            assert not due, f"step {i}: {stay.operator} at {stay.node} still misses {sorted(due)}"
    return {stay.operator.id: told[stay.first] for stay in stays if stay.last == len(script.steps)}


def note(script: Script, i: int, stay: Stay, message: Deliver, told: set[str]) -> None:
    for event in message.events:
        assert isinstance(event, Reading), f"step {i}: {event} is no reading"
        assert event.id not in told, f"step {i}: {event.id} told twice to {stay.operator}"
        assert stay.may.get(event.id, i + 1) <= i, f"step {i}: {event.id} is in no match of {stay.operator}"
        true = script.readings[event.id]
        facts, wanted = (event.source, event.value, event.time), (true.source, true.value, true.time)
        assert facts == wanted, f"step {i}: {event} was {true}"
        told.add(event.id)


# --- all that holds for any script ----------------------------------------------------------------------------------

#: Strategies that send a reading to a neighbour once, whoever wants it there.
PER_NEIGHBOUR = ("multi-join", "filter-split-forward")


def problems(name: str, script: Script, rng: np.random.Generator, subsumption: str | None = None) -> None:
    """Raises AssertionError if anything is wrong with a strategy on a script."""
    ended = with_end(script)
    strategy, stays = strategies_of(name, ended, subsumption), expected(ended, centre_of(name, ended))
    in_order, overtaking = Nodes(ended, strategy), Nodes(ended, strategy, lambda count: int(rng.integers(count)))
    for player in (in_order, overtaking, InNetwork(ended, strategy)):
        check(ended, player, stays)
    for nodes in (in_order, overtaking):
        if name in PER_NEIGHBOUR:
            assert_once(nodes)
        if name != "centralized":
            assert_away(nodes)
            assert_still(name, nodes, len(script.steps))
            assert_known(nodes)


def with_end(script: Script) -> Script:
    """All links back, then all subscriptions removed, then one more reading of each sensor that is there."""
    cut: dict[frozenset[str], Join] = {}
    users: dict[str, str] = {}
    sensors: dict[str, str] = {}
    now = 0
    for step in script.steps:
        if isinstance(step, Clock):
            now = step.now
        elif isinstance(step, Cut):
            cut[frozenset((step.a, step.b))] = Join(step.a, step.b)
        elif isinstance(step, Join):
            cut.pop(frozenset((step.a, step.b)))
        elif isinstance(step, Tell):
            match step.message:
                case Announce(source):
                    sensors[source] = step.node
                case Revoke(source):
                    sensors.pop(source)
                case Subscribe(operator):
                    users[operator.id] = step.node
                case Unsubscribe(id):
                    users.pop(id)
    ends: list[Step] = [*cut.values(), *(Tell(node, Unsubscribe(id)) for id, node in users.items())]
    ends += [Tell(node, Reading(f"end-{source}", source, 3.0, now)) for source, node in sensors.items()]
    return replace(script, steps=(*script.steps, *ends))


def assert_once(nodes: Nodes) -> None:
    """No reading goes over a link a second time, unless to say that it is in another result set, too, or the link came
    back in between.
    """
    crossed: set[tuple[str, str, str, str]] = set()
    renewed: set[tuple[str, str, str]] = set()
    joins = {i: step for i, step in enumerate(nodes.script.steps) if isinstance(step, Join)}
    last = -1
    for crossing in nodes.crossings:
        for i in range(last + 1, crossing.step + 1):
            if i in joins:
                link = {joins[i].a, joins[i].b}
                crossed = {one for one in crossed if {one[0], one[1]} != link}
        last = crossing.step
        if isinstance(crossing.message, Unsubscribe):  # what has the id later may be another one
            renewed.add((crossing.receiver, crossing.sender, crossing.message.id))
        if isinstance(crossing.message, Reading):
            for result in crossing.message.results or ("",):
                link = crossing.sender, crossing.receiver
                key = *link, crossing.message.id, result
                is_new = key not in crossed or (*link, result) in renewed
                assert is_new, f"step {last}: {key[2]} goes from {key[0]} to {key[1]} a second time"
                crossed.add(key)


def assert_away(nodes: Nodes) -> None:
    """Every link that a reading crosses leads away from its sensor."""
    told = (step for step in nodes.script.steps if isinstance(step, Tell))
    homes = {step.message.id: step.node for step in told if isinstance(step.message, Reading)}
    for a, b, id in nodes.readings():
        assert (a, b) in path(homes[id], b, nodes.script.edges), f"{id} of {homes[id]} goes back from {a} to {b}"


def assert_still(name: str, nodes: Nodes, after: int) -> None:
    """Nothing crosses for readings that nobody wants. A join that was covered may let more pass once it is not."""
    for crossing in nodes.crossings:
        step = nodes.script.steps[crossing.step]
        if crossing.step >= after and isinstance(step, Tell) and not may_follow(name, step):
            assert not isinstance(crossing.message, Reading), f"step {crossing.step}: {crossing} for nobody"


def may_follow(name: str, step: Tell) -> bool:
    return name == "multi-join" and isinstance(step.message, Unsubscribe)


def assert_known(nodes: Nodes) -> None:
    """In the end everybody knows of the sensors that are there, and of no others."""
    there = set(past(nodes.script).moments[-1].since)
    for name, node in nodes.nodes.items():
        known = {announced.source for _, announced in node.strategy.announced}
        assert known == there, f"{name} keeps {sorted(known)} where there are {sorted(there)}"


def stored(node: Node) -> int:
    """How many operators a node has anything of: wanted, forwarded, hidden or looked for among readings."""
    strategy = node.strategy
    forwarded = [store for one in strategy.forwarded.values() for store in (one._sent, *one._hidden.values())]
    return sum(map(len, [*strategy.wanted.values(), *forwarded, strategy.correlator._operators]))
