"""``CorrelationRouting``: what all strategies of Table II of Jurca et al. have in common.

Algorithms 1 (announcements flood), 4 (operators are filtered, split and forwarded) and 5 (readings are forwarded if
they are part of a match) of §V, with what the paper leaves open: operators and sensors that go, sensors that come
late. The classes in ``overlay/strategies`` set the three things in which they differ: which ``Subsumption`` hides an
operator, how ``routes`` splits it, and whether readings are shared (``shares``). A ``Node`` calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.covering.subsumption import Subsumption
from tidegate.errors import MessageError, shown
from tidegate.overlay.announcements import Announcements
from tidegate.overlay.asked_of_neighbour import AskedOfNeighbour
from tidegate.overlay.correlator import NOBODY, Correlator, Key
from tidegate.overlay.journal import FEW
from tidegate.overlay.messages import (
    LOCAL,
    Announce,
    Deliver,
    Interest,
    Message,
    Reading,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.operators import Operator
from tidegate.overlay.strategy import Sends, Strategy, qualified

__all__ = ["CorrelationRouting", "RoutedOperator", "Routes", "along_paths", "for_results"]

_SHORT = "an operator whose window is shorter than the time for which readings are held"

#: By neighbour: the operators that are forwarded to it in place of one operator.
Routes = dict[str, tuple[Operator, ...]]


@dataclass(slots=True, eq=False)
class RoutedOperator:
    """An operator as it came, and the operators that are forwarded for it, by neighbour."""

    operator: Operator
    routes: Routes = field(default_factory=dict)


class CorrelationRouting(Strategy):
    """The stores of Figure 2 and the algorithms on them.

    ``announced`` are the known sensors, ``wanted`` the operators by the neighbour or user (``LOCAL``) that wants them,
    ``forwarded`` what each neighbour was asked for, and ``correlator`` holds readings and matches them.
    """

    shares = True
    """Whether a reading crosses a link once for all operators behind it, or once for each."""
    returns = False
    """Whether a reading may go back to the neighbour it came from."""

    def __init__(self, subsumption: Subsumption) -> None:
        self.subsumption = subsumption

    def enter(self, node: str, validity: int) -> None:
        self.node = node
        self.announced = Announcements()
        self.wanted: dict[str, dict[str, RoutedOperator]] = {}
        self.forwarded: dict[str, AskedOfNeighbour] = {}
        self.correlator = Correlator(self.announced, validity, self.returns)
        self._owner: dict[str, int] = {}
        # Ids of the operators of users at this node. _own: by the id in the network, the user's id and how often it was
        # used before. _mine: by the user's id, the id in the network. _left: by the user's id of an operator that was
        # unsubscribed, how often it has been used, and when it was unsubscribed last.
        self._own: dict[str, tuple[str, int]] = {}
        self._mine: dict[str, str] = {}
        self._left: dict[str, tuple[int, int]] = {}
        # What was delivered to users: operator, source and id of the reading, with its time.
        self._news: dict[tuple[str, str, str], int] = {}
        self._many = FEW
        self._validity = validity
        self.meet(LOCAL)

    def meet(self, neighbour: str) -> None:
        self.announced.meet(neighbour)
        self.wanted[neighbour] = {}
        self.forwarded[neighbour] = AskedOfNeighbour(self.subsumption)
        self._owner[neighbour] = self.correlator.add_owner(
            self.shares and neighbour != LOCAL, holds=neighbour != LOCAL and not self.returns
        )

    def leave(self, neighbour: str) -> None:
        for wanted in self.wanted.values():
            for entry in wanted.values():
                entry.routes.pop(neighbour, None)
        self.correlator.remove_owner(self._owner.pop(neighbour))
        self.announced.leave(neighbour)
        del self.wanted[neighbour], self.forwarded[neighbour]

    @property
    def compared(self) -> int:
        return self.correlator.compared + self.subsumption.compared

    @property
    def undecided(self) -> int:
        return self.subsumption.undecided

    # --- what strategies decide -------------------------------------------------------------------------------------

    def routes(self, operator: Operator, owner: str) -> Routes:
        """The operators that are forwarded for an operator, by neighbour."""
        return along_paths(operator, owner, self.announced)

    def asks(self, operator: Operator) -> Sequence[Operator]:
        """The operators with which the correlator matches readings in place of an operator of a neighbour."""
        return (operator,)

    def _is_named_again(self, operator: Operator) -> bool:
        """Whether a neighbour that has a reading already must be told that it is a result of a new operator, too."""
        return False

    def listeners(self, sender: str) -> Iterable[str]:
        """The neighbours to which an announcement from ``sender`` is passed on."""
        return [name for name in self._owner if name not in (LOCAL, sender)]

    # --- messages ---------------------------------------------------------------------------------------------------

    def take(self, message: Message, sender: str, now: int) -> Sends:
        match message:
            case Reading():
                self._expect(self._is_from(message, sender), "a reading of a sensor that is there", message.source)
                return self._reading(message, sender, now)
            case Subscribe(operator):
                self._expect(self._known(operator.id, sender) is None, "an operator that is new", operator.id)
                self._expect(self._is_short(operator), _SHORT, operator.id)
                return self._subscribe(self._named(operator, now) if sender == LOCAL else operator, sender, now)
            case Unsubscribe(id):
                known = self._known(id, sender)
                self._expect(known is not None, "an operator that came from there", id)
                return self._unsubscribe(known or id, sender, now)
            case Announce():
                self._expect(self.announced.get(message.source) is None, "a sensor that is new", message.source)
                return self._announce(message, sender)
            case Revoke(source):
                self._expect(source in self.announced[sender], "a sensor that is there", source)
                return self._revoke(source, sender)
        raise MessageError(f"a message that the strategy {self.name} knows", type(message).__name__, self.node)

    def _expect(self, holds: bool, expected: str, got: str) -> None:
        if not holds:
            raise MessageError(expected, shown(got), self.node)

    def _is_short(self, operator: Operator) -> bool:
        """Whether readings are held for longer than the operator's window: if not, matches would be lost silently."""
        return len(operator.parts) == 1 or operator.window < self._validity

    def _is_from(self, reading: Reading, sender: str) -> bool:
        return reading.source in self.announced[sender]

    def _known(self, id: str, sender: str) -> str | None:
        """The id in the network of an operator that ``sender`` wants; None if it wants no such operator."""
        if sender == LOCAL:
            return self._mine.get(id)
        return id if id in self.wanted[sender] else None

    def _named(self, operator: Operator, now: int) -> Operator:
        """A user's operator as other nodes know it: by an id that is new in the whole network.

        If the user has used the id before, the name gets a number (``~1``): results for the operator that had the id
        before may still be under way.
        """
        self._left = {id: left for id, left in self._left.items() if left[1] >= now - self._validity}
        times, _ = self._left.pop(operator.id, (0, 0))
        name = qualified(self.node, operator.id) + (f"~{times}" if times else "")
        self._mine[operator.id], self._own[name] = name, (operator.id, times)
        return replace(operator, id=name)

    # --- sensors: Algorithm 1 ---------------------------------------------------------------------------------------

    def _announce(self, message: Announce, sender: str) -> Sends:
        self.announced.add(sender, message)
        return [*((to, message) for to in self.listeners(sender)), *self._replaced(message, sender)]

    def _revoke(self, source: str, sender: str) -> Sends:
        gone = self.announced.remove(source)
        self.correlator.forget(source)
        return [*((to, Revoke(source)) for to in self.listeners(sender)), *self._replaced(gone, sender)]

    def _replaced(self, changed: Announce, sender: str) -> Sends:
        """Route anew the operators that a sensor which came or went concerns."""
        self.correlator.changed()
        where = changed.source, changed.attribute, changed.location
        return [
            send
            for owner, wanted in self.wanted.items()
            if owner != sender or sender == LOCAL
            for entry in wanted.values()
            if any(part.addresses(*where) for part in entry.operator.parts)
            for send in self._placed(entry, owner)
        ]

    # --- operators: Algorithms 3 and 4 ------------------------------------------------------------------------------

    def _subscribe(self, operator: Operator, sender: str, now: int) -> Sends:
        entry = self.wanted[sender][operator.id] = RoutedOperator(operator)
        asked = self._asked(operator, sender)
        keys = [(sender, operator.id, k) for k in range(len(asked))]
        for key, join in zip(keys, asked, strict=True):
            self.correlator.add(key, self._owner[sender], join)
        held = [found for key in keys for found in self.correlator.ask(key, now, self._is_named_again(operator))]
        return [*self._placed(entry, sender), *self._results(held, now)]

    def _unsubscribe(self, id: str, sender: str, now: int) -> Sends:
        gone = self.wanted[sender].pop(id)
        for k in range(len(self._asked(gone.operator, sender))):
            self.correlator.remove((sender, id, k))
        if sender == LOCAL:
            own, times = self._own.pop(id)
            self._left[own] = times + 1, now
            del self._mine[own]
        return self._forwarded([], [(to, op) for to, ops in gone.routes.items() for op in ops])

    def _asked(self, operator: Operator, owner: str) -> Sequence[Operator]:
        return (operator,) if owner == LOCAL else self.asks(operator)

    def _placed(self, entry: RoutedOperator, owner: str) -> Sends:
        """Route an operator: forward what is new since it was routed last, and take back what is no longer needed."""
        before, entry.routes = entry.routes, self.routes(entry.operator, owner)
        known = {(to, op.id) for to, ops in before.items() for op in ops}
        kept = {(to, op.id) for to, ops in entry.routes.items() for op in ops}
        new = [(to, op) for to, ops in entry.routes.items() for op in ops if (to, op.id) not in known]
        old = [(to, op) for to, ops in before.items() for op in ops if (to, op.id) not in kept]
        return self._forwarded(new, old)

    def _forwarded(self, new: Sequence[tuple[str, Operator]], old: Sequence[tuple[str, Operator]]) -> Sends:
        """Subscribe to new operators that nothing covers, and unsubscribe old ones.

        Before an old operator is unsubscribed those that only it covered are subscribed, so that nothing is lost.
        """
        sends: Sends = [(to, Subscribe(op)) for to, op in new if self.forwarded[to].add(op)]
        for to, op in old:
            sent, shown = self.forwarded[to].remove(op)
            sends += [(to, Subscribe(other)) for other in shown]
            sends += [(to, Unsubscribe(op.id))] if sent else []
        return sends

    # --- readings: Algorithm 5 --------------------------------------------------------------------------------------

    def _origin(self, sender: str) -> int:
        """The number of the owner that must not get a reading, since it came from there.

        It is NOBODY for sensors at this node, since users at the same node want their readings.
        """
        return NOBODY if sender == LOCAL or self.returns else self._owner[sender]

    def _reading(self, reading: Reading, sender: str, now: int) -> Sends:
        if reading in self.correlator:  # a copy for one more result set: all who want the reading got it before
            return []
        return self._results(self.correlator.take(for_results(reading, ()), self._origin(sender), now), now)

    def _results(self, wanted: Sequence[tuple[Key, Reading]], now: int) -> Sends:
        """The messages that bring readings to those who want them.

        Users get ``Deliver``. A neighbour gets the reading once where readings are shared, else with the ids of the
        operators in whose result sets it is.
        """
        sends: Sends = []
        delivered: dict[str, list[Reading]] = {}
        named: dict[tuple[str, str, str], tuple[Reading, list[str]]] = {}
        for (owner, id, _), reading in wanted:
            if owner == LOCAL:
                if self._is_news(id, reading, now):
                    delivered.setdefault(id, []).append(reading)
            elif self.shares:
                sends.append((owner, reading))
            else:
                named.setdefault((owner, reading.source, reading.id), (reading, []))[1].append(id)
        sends += [(owner, for_results(reading, tuple(ids))) for (owner, *_), (reading, ids) in named.items()]
        return sends + [(LOCAL, Deliver(self._own[id][0], tuple(readings))) for id, readings in delivered.items()]

    def _is_news(self, id: str, reading: Reading, now: int) -> bool:
        """Whether a user's operator gets this reading for the first time.

        A reading can come again if its sensor had gone in between, because then the correlator has forgotten it.
        """
        key = id, reading.source, reading.id
        if key in self._news:
            return False
        self._news[key] = reading.time
        if len(self._news) > self._many:
            self._news = {key: time for key, time in self._news.items() if time >= now - self._validity}
            self._many = max(2 * len(self._news), FEW)
        return True

    # --- links ------------------------------------------------------------------------------------------------------

    def told(self, neighbour: str) -> tuple[tuple[Announce, ...], tuple[Subscribe | Interest, ...]]:
        sensors = [
            announced
            for direction, announced in self.announced
            if direction != neighbour and neighbour in self.listeners(direction)
        ]
        return tuple(sensors), tuple(Subscribe(operator) for operator in self.forwarded[neighbour].sent)

    def agree(self, sync: Sync, sender: str, now: int) -> Sends:
        wanted: dict[str, Operator] = {}
        sends: Sends = []
        for message in sync.wanted:
            if isinstance(message, Interest):
                sends.append((sender, _refused("an operator", message.id, self.node)))
            elif self._is_short(message.operator):
                wanted[message.operator.id] = message.operator
            else:
                sends.append((sender, _refused(_SHORT, message.operator.id, self.node)))
        said = {announced.source: announced for announced in sync.announced}
        for source, known in list(self.announced[sender].items()):
            if said.get(source) != known:
                sends += self._revoke(source, sender)
        for announced in sync.announced:
            if self.announced.get(announced.source) is None:
                sends += self._announce(announced, sender)
            elif self.announced.direction(announced.source) != sender:
                sends.append((sender, _refused("a sensor that is new", announced.source, self.node)))
        for id, operator in wanted.items():
            if id in self.wanted[sender] and self.wanted[sender][id].operator != operator:
                sends += self._unsubscribe(id, sender, now)
            if id not in self.wanted[sender]:
                sends += self._subscribe(operator, sender, now)
        for id in [id for id in self.wanted[sender] if id not in wanted]:
            sends += self._unsubscribe(id, sender, now)
        return sends


def _refused(expected: str, got: str, at: str) -> Refuse:
    return Refuse(str(MessageError(expected, shown(got), at)))


def for_results(reading: Reading, results: tuple[str, ...]) -> Reading:
    """A reading as part of some result sets. (``dataclasses.replace`` takes four times as long.)"""
    if reading.results == results:
        return reading
    return Reading(reading.id, reading.source, reading.value, reading.time, results)


def along_paths(operator: Operator, owner: str, announced: Announcements) -> Routes:
    """Split an operator along the reverse paths of announcements (Algorithm 3).

    Parts whose sensors are all behind one neighbour stay together as one operator, since a match needs all of them. A
    part with sensors in several directions is forwarded alone in each of them: a reading from one direction may match
    with one from another.
    """
    where = [announced.directions(part) - ({owner} if owner != LOCAL else set()) for part in operator.parts]
    if owner == LOCAL and not all(where):
        return {}
    routes: dict[str, tuple[Operator, ...]] = {}
    for neighbour in sorted(set().union(*where) - {LOCAL}):
        here = [i for i, directions in enumerate(where) if neighbour in directions]
        alone = [i for i in here if len(where[i]) == 1]
        split = [operator.only(alone)] if alone else []
        routes[neighbour] = (*split, *(operator.only([i]) for i in here if len(where[i]) > 1))
    return routes
