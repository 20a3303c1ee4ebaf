"""``covering``: any condition in CQL2, also on the past, is forwarded to the master unless one asked before covers it.

The hierarchical routing of Siena (Stevens 2009, §3.2): interests go up towards the root, publications always go up, and
they go down to a child that has an interest in them. What else a node must ask for, if an interest looks at the past
(§4.3), is in ``overlay/routed_conditions.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count

from tidegate.engine import Engine
from tidegate.errors import MessageError, shown
from tidegate.language import DEFAULT_LIMITS, Limits
from tidegate.model import Subscription
from tidegate.overlay.asked_of_master import AskedOfMaster
from tidegate.overlay.messages import (
    LOCAL,
    Announce,
    Deliver,
    Interest,
    Message,
    Publish,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.routed_conditions import LIFE, RoutedCondition, inside, read
from tidegate.overlay.strategy import Sends, Strategy, qualified

__all__ = ["Covering"]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """An interest of a user or a child: the owner, the owner's id and text of it, its number in the engine, and the ids
    of what the master is asked for because of it.
    """

    owner: str
    id: str
    where: str
    number: int
    asked: tuple[str, ...]


class Covering(Strategy):
    """``master`` is the neighbour on the way to the root, and None at the root itself.

    With all links up and all publications arriving in the order of their time, users get what one engine with all
    subscriptions would notify them of, if no two events have the same id. A publication that comes late because a link
    was cut is matched with conditions on single publications only, as by every engine.
    """

    name = "covering"

    def __init__(self, master: str | None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.master, self._limits = master, limits

    def enter(self, node: str, validity: int) -> None:
        self.node = node
        self._engine = Engine(limits=self._limits)
        self._upwards = AskedOfMaster()
        self._held: dict[str, _Held] = {}
        self._ids: dict[int, str] = {}
        self._numbers = count()
        self._neighbours: set[str] = set()
        self._compared = 0

    def meet(self, neighbour: str) -> None:
        self._neighbours.add(neighbour)

    def leave(self, neighbour: str) -> None:
        self._neighbours.remove(neighbour)

    @property
    def compared(self) -> int:
        """Comparisons of publications with interests, and of interests with what the master was asked for."""
        return self._compared + self._upwards.compared

    # --- messages ---------------------------------------------------------------------------------------------------

    def take(self, message: Message, sender: str, now: int) -> Sends:
        match message:
            case Publish():
                return self._publish(message, sender)
            case Interest(id, where):
                self._expect(
                    sender != self.master, "an interest of a user or a child", f"one of the master {shown(sender)}"
                )
                known = qualified(self.node, id) if sender == LOCAL else id
                self._expect_new(known)
                return self._hold(known, message, sender, read(where, self._limits))
            case Unsubscribe(id):
                known = qualified(self.node, id) if sender == LOCAL else id
                held = self._held.get(known)
                self._expect(held is not None and held.owner == sender, "an interest that came from there", shown(id))
                return self._drop(known)
        raise MessageError(f"a message that the strategy {self.name} knows", type(message).__name__, self.node)

    def _expect(self, holds: bool, expected: str, got: str) -> None:
        if not holds:
            raise MessageError(expected, got, self.node)

    def _expect_new(self, id: str) -> None:
        self._expect(id not in self._held and id not in self._upwards, "an interest that is new", shown(id))

    # --- interests --------------------------------------------------------------------------------------------------

    def _hold(self, id: str, message: Interest, owner: str, wish: RoutedCondition) -> Sends:
        asked = [*self._besides(id, wish), (id, wish)] if self.master is not None else []
        number = next(self._numbers)
        self._engine.subscribe(Subscription(str(number), self.node, wish.where))
        self._held[id] = _Held(owner, message.id, message.where, number, tuple(asking for asking, _ in asked))
        self._ids[number] = id
        return self._up(say for asking, of in asked for say in self._upwards.add(asking, of))

    def _drop(self, id: str) -> Sends:
        held = self._held.pop(id)
        del self._ids[held.number]
        self._engine.unsubscribe(str(held.number))
        return self._up(self._upwards.remove(held.asked))

    def _besides(self, id: str, wish: RoutedCondition) -> list[tuple[str, RoutedCondition]]:
        """The conditions that the master must be asked for so that this node can match an interest on the past.

        Inner filters that are inside others are often wider, and go first so that they cover them.
        """
        if wish.outside is None:
            return []
        found = [read(LIFE), *reversed(self.inner(wish))]
        return [(self._issued(of.where if of.grows else f"{of.where} for {id}"), of) for of in found]

    def inner(self, wish: RoutedCondition) -> list[RoutedCondition]:
        """The inner filters whose events this node must receive."""
        return inside(wish, self._limits)

    def _issued(self, text: str) -> str:
        """The id of an interest that the node itself issues: the same for the same text."""
        return f"{self.node}[{blake2b(text.encode(), digest_size=16).hexdigest()}]"

    def _up(self, says: Iterable[Interest | Unsubscribe]) -> Sends:
        """The messages, addressed to the master; none before there is a link to it, since ``told`` has them then."""
        said = list(says)
        if self.master is None or self.master not in self._neighbours:
            return []
        return [(self.master, say) for say in said]

    # --- publications -----------------------------------------------------------------------------------------------

    def _publish(self, message: Publish, sender: str) -> Sends:
        self._compared += len(self._held)
        told = self._engine.publish([message.publication], grouped=True).column("subscription_ids").to_pylist()
        found = [self._held[self._ids[number]] for number in sorted(int(name) for names in told for name in names)]
        children = dict.fromkeys(held.owner for held in found if held.owner not in (LOCAL, sender))
        up = [self.master] if self.master in self._neighbours and self.master != sender else []
        delivered = [(LOCAL, Deliver(held.id, (message,))) for held in found if held.owner == LOCAL]
        return [*((to, message) for to in (*up, *children)), *delivered]

    # --- links ------------------------------------------------------------------------------------------------------

    def told(self, neighbour: str) -> tuple[tuple[Announce, ...], tuple[Subscribe | Interest, ...]]:
        wanted = self._upwards.sent.items() if neighbour == self.master else ()
        return (), tuple(Interest(id, where) for id, where in wanted)

    def agree(self, sync: Sync, sender: str, now: int) -> Sends:
        said = {message.id: message for message in sync.wanted if isinstance(message, Interest)}
        others = len(sync.announced) + len(sync.wanted) - len(said)
        self._expect(not others, "interests only", f"{others} operators and sensors")
        self._expect(not said or sender != self.master, "nothing that a master wants", f"{len(said)} interests")
        before = {id: held.where for id, held in self._held.items() if held.owner == sender}
        new: dict[str, RoutedCondition] = {}
        for id, message in said.items():
            if id not in before:
                self._expect_new(id)
            if before.get(id) != message.where:
                # the child had it before this node heard of it, so this node has not remembered events for it
                new[id] = read(message.where, self._limits).plain
        sends = [send for id in before if id in new for send in self._drop(id)]
        sends += [send for id, wish in new.items() for send in self._hold(id, said[id], sender, wish)]
        return sends + [send for id in before if id not in said for send in self._drop(id)]
