"""What patterns mean, in obvious loops: the oracle that the engine's patterns are held against.

Every subscription keeps all it ever saw in plain lists, and looks at them anew at every arrival and at every moment at
which a window or a silence can end. Imports nothing of the patterns, the predicates, the index or the kernels, nor do
the modules of its families.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from tests.oracle import holds, microseconds
from tests.patterns.oracle_families import Absent, Shape, Together, TopK
from tests.patterns.oracle_past import Events, Past, pasts
from tests.patterns.oracle_pattern import Pattern, Told, in_order, is_active
from tidegate.language.parse import parse
from tidegate.language.tree import Call, Literal
from tidegate.model import Publication, Subscription

PATTERNS = ("topk", "together", "absent")
#: Shapes in streams are compared; this is the same seen from the other side.
MIRRORED = {"<=": "<=", "<": "<", ">=": "<=", ">": "<"}


class World:
    """Subscriptions, publications and a clock, as ``tidegate.Engine`` has them.

    ``keep`` and ``most`` say what ``past`` forgets. With ``history`` a subscription sees what was remembered before it.
    """

    def __init__(
        self, lateness: timedelta = timedelta(0), keep: timedelta | None = None,
        history: bool = False, most: int | None = None,
    ) -> None:  # fmt: skip
        self.lateness = lateness // timedelta(microseconds=1)
        self.clock: int | None = None
        self.now: int | None = None
        self.patterns: dict[str, Pattern] = {}
        self.plain: dict[str, tuple[Subscription, object]] = {}
        self.late = self.unscored = self.cut = 0
        self.events = Events(self, None if keep is None else keep // timedelta(microseconds=1), history, most)

    @property
    def refused(self) -> Counter[str]:
        return self.events.refused

    def restart(self) -> None:
        """An engine with the same subscriptions and history takes over. All that it does not know is the time."""
        self.clock = self.now = None

    def subscribe(self, subscription: Subscription) -> None:
        where = subscription.where
        node = parse(where) if isinstance(where, str) else Literal(where)
        if pasts(node):
            self.events.subscribe(Past(self.events, subscription, node))
            return
        conditions, pattern = split(node)
        if pattern is None:
            self.plain[subscription.id] = subscription, conditions
            return
        made = {"topk": TopK, "together": Together, "absent": Absent, "shape": Shape}[pattern.op]
        self.patterns[subscription.id] = follower = made(self, subscription, conditions, pattern.args)
        if self.clock is not None:
            follower.begin(self.clock)

    def unsubscribe(self, id: str) -> None:
        if id in self.events.followers:
            self.events.unsubscribe(id)
        elif self.plain.pop(id, None) is None:
            del self.patterns[id]

    def publish(self, publications: list[Publication]) -> list[Told]:
        told = [
            Told(subscription.id, publication.time, (publication.id,))
            for subscription, conditions in self.plain.values()
            for publication in publications
            if is_active(subscription, publication) and all(holds(c, publication) for c in conditions)
        ]
        if not publications:
            return told
        times = [microseconds(p.time) for p in publications]
        seen = []
        for publication, time in zip(publications, times, strict=True):
            if self.clock is not None and time < self.clock:
                self.late += 1
            else:
                seen.append(publication)
        for pattern in self.patterns.values():
            pattern.waiting.extend(seen)
        self.events.appear(seen)
        # The first value of the clock is that of the first publication in order of time, however many come with it.
        self._set_clock(max(times) - self.lateness, first=min(times) - self.lateness)
        return in_order(told + self._run())

    def advance(self, now: datetime) -> list[Told]:
        at = microseconds(now)
        if self.now is not None and at < self.now:
            raise ValueError("the clock goes back")
        self.now = at
        self._set_clock(at - self.lateness, first=at - self.lateness)
        return in_order(self._run())

    def is_ready(self, publication: Publication) -> bool:
        """With lateness another publication of the clock's own moment may still come and belong before this one."""
        return self.lateness == 0 or microseconds(publication.time) < self.clock

    def _set_clock(self, to: int, first: int) -> None:
        if self.clock is None:
            for pattern in self.patterns.values():
                pattern.begin(first)
        self.clock = to if self.clock is None else max(self.clock, to)

    def _run(self) -> list[Told]:
        """Everything up to the clock. Patterns know nothing of each other, so one after the other will do."""
        told = []
        for pattern in self.patterns.values():
            told += pattern.run(self.clock)
        return told + self.events.run()


def split(node) -> tuple[list, Call | None]:
    """The conditions beside the pattern, which decide what it sees, and the pattern if there is one.

    A shape in a stream is given as its own arguments, its tolerance and whether that is out of reach.
    """
    if isinstance(node, Call) and node.op in PATTERNS:
        return [], node
    if isinstance(node, Call) and node.op in MIRRORED and any(is_stream(arg) for arg in node.args):
        inner, bound = node.args if is_stream(node.args[0]) else node.args[::-1]
        return [], Call("shape", (*inner.args[:2], *inner.args[3:], bound, Literal(MIRRORED[node.op] == "<")))
    if not (isinstance(node, Call) and node.op == "and"):
        return [node], None
    conditions, pattern = [], None
    for arg in node.args:
        beside, found = split(arg)
        conditions += beside
        pattern = found or pattern
    return conditions, pattern


def is_stream(node) -> bool:
    return isinstance(node, Call) and node.op == "shape" and node.args[2:3] == (Literal("stream"),)
