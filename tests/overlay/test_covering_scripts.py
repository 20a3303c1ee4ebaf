"""The strategy ``covering`` over drawn scripts: what users are told is what one engine would tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.covering_networks import Told, Uncovered, at, heard, network, nothing_was_refused, strategy_of
from tests.parts.profiles import examples
from tidegate.engine import Engine
from tidegate.model import Publication, Subscription
from tidegate.overlay.messages import Interest, Message, Publish, Unsubscribe
from tidegate.overlay.routed_conditions import LIFE, inside, read
from tidegate.overlay.strategies.covering import Covering

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
