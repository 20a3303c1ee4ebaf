"""``AskedOfMaster``: what a node has asked of its master, and what it need not ask because something asked covers it.

The strategy ``Covering`` keeps one, and sends the messages that it returns. It knows conditions by id; it does not know
which user or child wants them, nor whether the link to the master is up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from tidegate.covering import Forest, covers
from tidegate.overlay.messages import Interest, Unsubscribe
from tidegate.overlay.routed_conditions import RoutedCondition
from tidegate.predicates import Filter

__all__ = ["AskedOfMaster"]

Says = Iterator[Interest | Unsubscribe]


class AskedOfMaster:
    """Conditions by id: those in ``sent`` were asked of the master, the others are *hidden* by one that covers them.

    Two conditions of one id are the same, and uses of it are counted. Conditions on single publications are in a
    ``Forest``, and at least its roots are asked for. A condition on the past is hidden by such a condition, or by one
    on the past that was asked for before it and so remembers no less (``RoutedCondition.grows``). If a hidden
    condition on the past loses what hid it, it is asked for without its past: the master hears of it only then, and
    has not remembered the events that it looks for.
    """

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}
        self.compared = 0
        self._uses: dict[str, int] = {}
        self._forest: Forest[str] = Forest()
        self._plain: dict[str, RoutedCondition] = {}
        self._patterns: dict[str, tuple[int, RoutedCondition]] = {}
        self._hidden: dict[str, tuple[str, int, RoutedCondition]] = {}
        self._numbers = count()

    def __contains__(self, id: str) -> bool:
        return id in self._uses

    def add(self, id: str, wish: RoutedCondition) -> Says:
        """Count one more use of a condition; the messages to send to the master."""
        self._uses[id] = self._uses.get(id, 0) + 1
        if self._uses[id] > 1:
            return
        if isinstance(wish.means, Filter):
            yield from self._place(id, wish)
            return
        number = next(self._numbers)
        if not self._hide(id, number, wish):
            self._patterns[id] = number, wish
            yield self._ask(id, wish)

    def remove(self, ids: Iterable[str]) -> Says:
        """Count one use less of each; the messages to send to the master.

        Those that were not sent are taken out first. Otherwise taking out what hid them would send them, and they would
        be taken back at once.
        """
        unused = []
        for id in ids:
            self._uses[id] -= 1
            if not self._uses[id]:
                del self._uses[id]
                unused.append(id)
        for id in sorted(unused, key=lambda id: id in self.sent):
            yield from self._take_out(id)

    def _ask(self, id: str, wish: RoutedCondition) -> Interest:
        self.sent[id] = wish.where
        return Interest(id, wish.where)

    def _place(self, id: str, wish: RoutedCondition) -> Says:
        """Put a condition on single publications into the forest; ask for it if it is a root.

        Older roots that it covers have been asked for, and are not taken back.
        """
        self.compared += 1
        self._plain[id] = wish
        assert isinstance(wish.means, Filter)
        self._forest.insert(id, wish.means)
        if self._forest.parent(id) is None:
            yield self._ask(id, wish)

    def _hide(self, id: str, number: int, wish: RoutedCondition) -> bool:
        """Hide a condition on the past behind one that was sent and covers it; whether there is one."""
        plain = [(root, self._plain[root]) for root in self._forest.roots()]
        older = [(other, of) for other, (before, of) in self._patterns.items() if before < number and of.grows]
        for other, of in (*plain, *older):
            self.compared += 1
            if covers(of.means, wish.means):
                self._hidden[id] = other, number, wish
                return True
        return False

    def _take_out(self, id: str) -> Says:
        """Ask for what only this condition had hidden, and then take it back; in this order nothing is lost between."""
        if self._hidden.pop(id, None) is not None:
            return
        if self._patterns.pop(id, None) is None:
            below = self._forest.children(id) if self._forest.parent(id) is None else []
            self._forest.remove(id)
            del self._plain[id]
            for other in below:
                if self._forest.parent(other) is None and other not in self.sent:
                    yield self._ask(other, self._plain[other])
        if self.sent.pop(id, None) is None:
            return
        for other, (by, number, wish) in list(self._hidden.items()):
            if by == id and not self._hide(other, number, wish):
                del self._hidden[other]
                yield from self._place(other, wish.plain)
        yield Unsubscribe(id)
