"""Networks with the strategy ``covering``, others that do not cover or ask for less, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tidegate.model import Publication
from tidegate.overlay.asked_of_master import AskedOfMaster
from tidegate.overlay.messages import Deliver, Message, Publish, Refuse, Unsubscribe
from tidegate.overlay.network import Network
from tidegate.overlay.routed_conditions import LIFE, RoutedCondition, read
from tidegate.overlay.strategies.covering import Covering

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

DURING = "kind = 'x' AND T_DURING(start, past(kind = 'y'))"
