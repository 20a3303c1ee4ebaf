"""One broker of an overlay: a state machine that takes a message and says what to send to whom.

Jurca et al., §IV-B and V: announcements flood, operators follow them backwards, readings follow operators backwards.
``Node`` checks messages, keeps a ``Journal`` per neighbour and knows which links are up; its ``Strategy`` decides what
is forwarded and where it is split. A node knows its neighbours by name, and nothing of sockets, of simulators or of any
clock but the one it is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tidegate.errors import MessageError, SettingError, TidegateError, shown
from tidegate.overlay.journal import Journal, key_of
from tidegate.overlay.messages import LOCAL, Deliver, Message, Publish, Reading, Refuse, Sync
from tidegate.overlay.strategy import Sends, Strategy
from tidegate.overlay.wire import checked

__all__ = ["Node"]


class Node:
    """A broker by name, with its neighbours and a strategy of its own.

    ``clock`` gives microseconds since 1970, and ``validity`` says for how many of them a reading is held; readings of
    one match must reach a node within that time, so it is longer than any window plus the time messages take.
    """

    def __init__(
        self, name: str, neighbours: Iterable[str], strategy: Strategy, clock: Callable[[], int], validity: int
    ) -> None:
        self.name, self.strategy = name, strategy
        if not (isinstance(validity, int) and 0 < validity < 2**62):
            raise SettingError("a validity in microseconds above 0", shown(validity), name)
        self._clock, self._validity = clock, validity
        self._up: dict[str, bool] = {}
        self._journals: dict[str, Journal] = {LOCAL: Journal()}
        self._early: dict[str, list[Message]] = {}
        self.handled = 0
        self.refused: Counter[str] = Counter()
        strategy.enter(name, validity)
        for neighbour in neighbours:
            self._meet(neighbour)

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {list(self._up)}, {self.strategy.name})"

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The names of all neighbours, also of those whose link is cut."""
        return tuple(self._up)

    @property
    def now(self) -> int:
        """Microseconds since 1970."""
        return self._clock()

    # --- messages ---------------------------------------------------------------------------------------------------

    def handle(self, message: object, sender: str) -> Sends:
        """Take a message; the messages to send because of it, with their receivers.

        A message that cannot be taken changes nothing, and its sender gets a ``Refuse`` with the reason.
        """
        self.handled += 1
        try:
            if sender != LOCAL and not (isinstance(sender, str) and sender in self._up):
                raise MessageError("a message from a neighbour", f"one from {shown(sender)}, who is none", self.name)
            return self._passing(self._taken(checked(message), sender))
        except TidegateError as error:
            self.refused[error.code] += 1
            return [] if isinstance(message, Refuse) else [(sender, Refuse(str(error), error.code))]

    def _passing(self, sends: Sends) -> Sends:
        """Those of the messages whose link is up."""
        return [(to, what) for to, what in sends if to == LOCAL or self._up.get(to)]

    def _taken(self, message: Message, sender: str) -> Sends:
        if sender in self._early or (isinstance(message, Sync) and not self._up.get(sender, True)):
            self._early.setdefault(sender, []).append(message)  # the other side joined the link first
            return []
        if isinstance(message, Reading | Publish):
            return self._said(self._event(message, sender))
        if isinstance(message, Refuse):
            self.refused["by " + (sender or "users")] += 1
            return []
        if isinstance(message, Sync):
            return self._synced(message, sender)
        if isinstance(message, Deliver):
            raise MessageError("a message for a node", "a delivery, which is for users", self.name)
        return self._said(self.strategy.take(message, sender, self.now))

    def _event(self, message: Reading | Publish, sender: str) -> Sends:
        heard, key, now = self._journals[sender], key_of(message), self.now
        if heard.has_heard(key):
            raise MessageError("each event once", f"a repeated one, {shown(key)}", self.name)
        sends = self.strategy.take(message, sender, now)
        heard.hear(key, message, now - self._validity)
        return sends

    def _said(self, sends: Sends) -> Sends:
        """The messages without the events that were sent before.

        Events are noted in the journal of their receiver while they are valid, in case its link is cut.
        """
        oldest = self.now - self._validity
        return [
            (to, what)
            for to, what in sends
            if not isinstance(what, Reading | Publish) or (to in self._up and self._journals[to].say(what, oldest))
        ]

    # --- links ------------------------------------------------------------------------------------------------------

    def cut(self, neighbour: str) -> None:
        """The link is down. What came over it is kept, and what should go over it is sent when it comes back."""
        if neighbour not in self._up:
            raise SettingError(f"a neighbour of {self.name}", shown(neighbour))
        self._up[neighbour] = False

    def joined(self, neighbour: str) -> Sends:
        """The link is up, for the first time or again: a ``Sync`` with all that the neighbour should know."""
        if neighbour not in self._up:
            self._meet(neighbour)
        self._up[neighbour] = True
        sends: Sends = [(neighbour, Sync(*self.strategy.told(neighbour), self._journals[neighbour].heard))]
        for message in self._early.pop(neighbour, []):
            sends += self.handle(message, neighbour)
        return sends

    def left(self, neighbour: str) -> Sends:
        """The link has gone for good: forget the sensors behind it and what the neighbour wanted."""
        self.cut(neighbour)
        sends = self._said(self.strategy.agree(Sync(), neighbour, self.now))
        self.strategy.leave(neighbour)
        del self._up[neighbour], self._journals[neighbour]
        self._early.pop(neighbour, None)
        return self._passing(sends)

    def _meet(self, neighbour: str) -> None:
        if neighbour in (LOCAL, self.name):
            raise SettingError("another node as neighbour", shown(neighbour), self.name)
        self._up[neighbour] = True
        self._journals[neighbour] = Journal()
        self.strategy.meet(neighbour)

    def _synced(self, message: Sync, sender: str) -> Sends:
        if sender == LOCAL:
            raise MessageError("a message of a user or sensor", "one that nodes exchange", self.name)
        missing = self._journals[sender].missing(set(message.held), self.now - self._validity)
        sends = self._said(self.strategy.agree(message, sender, self.now))
        return [*((sender, event) for event in missing), *sends]
