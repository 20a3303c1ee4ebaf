"""The oracle's account of events, and its subscriptions that look at the past."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tests.oracle import Span, compare, condition, doubled, is_number, microseconds, plain, scalar
from tests.patterns.oracle_pattern import Told, duration, is_active, order
from tidegate.language.tree import Call, Literal
from tidegate.model import RESERVED, Publication, Subscription

if TYPE_CHECKING:
    from tests.patterns.oracle import World


class Event:
    """Something with a source, an id, a start and, once it is known, an end. No two are the same."""

    def __init__(self, source: str, id: str, start: int, end: int | None, number: int) -> None:
        self.source, self.id, self.start, self.end = source, id, start, end
        #: Of the first of its publications, in order of appearance.
        self.number = number
        #: The time of the last of its publications, and its place in the history.
        self.last, self.seq = 0, 0

    @property
    def until(self) -> float:
        """A running event ends after everything."""
        return math.inf if self.end is None else self.end


class Seen(NamedTuple):
    """A publication that was not refused, with its own ``start`` and ``end`` and those of its event, where known."""

    publication: Publication
    event: Event
    number: int
    start: int | None
    end: int | None
    interval: tuple[int, int] | None
    time: int


class Events:
    """The events that publications tell of: one account of them for all subscriptions that look at the past.

    With ``history``, what the inner filter of anyone wanted is there for subscriptions that are made later.
    """

    def __init__(self, world: World, keep: int | None, history: bool, most: int | None) -> None:
        self.world, self.keep, self.history, self.most = world, keep, history, most
        self.followers: dict[str, Past] = {}
        self.refused: Counter[str] = Counter()
        self.appeared = 0
        self.forget()

    def forget(self) -> None:
        self.waiting: list[tuple[Publication, int]] = []
        #: Those that began with START; ids of others are not compared.
        self.begun: list[Event] = []
        #: What the history has.
        self.remembered: list[Seen] = []

    def subscribe(self, follower: Past) -> None:
        self.followers[follower.subscription.id] = follower
        if self.history:
            for x in self.remembered:
                follower.step(x)
                x.event.end, x.event.last = x.end, x.time

    def unsubscribe(self, id: str) -> None:
        del self.followers[id]
        if not self.followers and not self.history:
            self.forget()

    def appear(self, publications: list[Publication]) -> None:
        for publication in publications:
            self.appeared += 1
            if self.followers:
                self.waiting.append((publication, self.appeared))

    def run(self) -> list[Told]:
        ready = [(publication, n) for publication, n in self.waiting if self.world.is_ready(publication)]
        self.waiting = [(publication, n) for publication, n in self.waiting if not self.world.is_ready(publication)]
        told = []
        for publication, number in sorted(ready, key=lambda pair: order(pair[0])):
            told += self.step(publication, number)
        return told

    def step(self, publication: Publication, number: int) -> list[Told]:
        time = microseconds(publication.time)
        start, end = (None if when is None else microseconds(when) for when in (publication.start, publication.end))
        phase, known = publication.phase, None
        for event in self.begun:
            is_same = event.source == publication.source and event.id == publication.id
            if is_same and not self.is_forgotten(event, time):
                known = event
        if phase == "END":
            end = first_of(end, time)
        elif phase == "START":
            start = first_of(start, time)
        else:
            start, end = first_of(start, end, time), first_of(end, start, time)
        if reason := refusal(publication, start, end, known):
            self.refused[reason] += 1
            return []
        event = known if phase == "END" else Event(publication.source, publication.id, start, end, number)
        interval = None if phase == "START" else (event.start, end)
        seen = Seen(publication, event, number, start, end, interval, time)
        told = [t for follower in self.followers.values() for t in follower.step(seen)]
        event.end, event.last = end, time
        if phase == "START":
            self.begun.append(event)
        # Lives must not be lost, so the history has all STARTs and ENDs; of others those that someone remembers.
        is_wanted = phase in ("START", "END") or any(event in follower.events() for follower in self.followers.values())
        if self.history and is_wanted:
            self.remembered.append(seen)
            event.seq = len(self.remembered)
        return told

    def is_forgotten(self, event: Event, time: int) -> bool:
        if event.end is None:
            return False
        if self.most is not None and 0 < event.seq <= len(self.remembered) - self.most:
            return True
        return self.is_old(event.last, time)

    def is_gone(self, kept: Kept, time: int) -> bool:
        """A value ages with the publication that brought it, and not with its event."""
        if self.most is not None:
            places = [place for place, x in enumerate(self.remembered, 1) if x.publication is kept.publication]
            if places and places[0] <= len(self.remembered) - self.most:
                return True
        return self.is_old(kept.time, time)

    def is_old(self, then: int, now: int) -> bool:
        return self.keep is not None and now - then > self.keep


def first_of(*times: int | None) -> int:
    return next(time for time in times if time is not None)


def refusal(publication: Publication, start: int | None, end: int | None, known: Event | None) -> str | None:
    """Why a publication cannot be: the first reason in this order, if there are several."""
    phase = publication.phase
    if phase == "END":
        if known is None or known.end is not None:
            return "end without start"
        if end < known.start:
            return "end before start"
        return "other start" if start is not None and start != known.start else None
    if phase is not None and known is not None:
        return "second start"
    if phase == "START" and end is not None:
        return "start with an end"
    return "instant that lasts" if phase == "INSTANT" and start != end else None


class Kept(NamedTuple):
    """What an inner filter remembers: an event, and the publication with which it began to."""

    event: Event
    publication: Publication
    time: int


class Past:
    """A subscription with temporal conditions. Each ``past`` in it, also within another, has a list of its own."""

    def __init__(self, events: Events, subscription: Subscription, node) -> None:
        self.account, self.subscription, self.node = events, subscription, node
        self.since = 0 if events.history else events.appeared
        self.memories: list[tuple[Call, list[Kept]]] = [(call, []) for call in pasts(node)]

    def events(self) -> list[Event]:
        return [kept.event for _, memory in self.memories for kept in memory]

    def step(self, x: Seen) -> list[Told]:
        # Appeared before the subscription was made, or is the END of what did.
        if x.number <= self.since or x.event.number <= self.since:
            return []
        passed = [self.holds(inner(call), x) for call, _ in self.memories]
        told = []
        if is_active(self.subscription, x.publication) and self.holds(self.node, x):
            told = [Told(self.subscription.id, x.publication.time, (x.publication.id,))]
        for (_, memory), has_passed in zip(self.memories, passed, strict=True):
            if has_passed and all(kept.event is not x.event for kept in memory):
                memory.append(Kept(x.event, x.publication, x.time))
        return told

    def memory(self, call: Call) -> list[Kept]:
        return next(memory for other, memory in self.memories if other is call)

    def holds(self, node, x: Seen, wanted: bool = True) -> bool:
        if isinstance(node, Call) and node.op == "not":
            return self.holds(node.args[0], x, not wanted)
        if isinstance(node, Call) and node.op in ("and", "or"):
            parts = [self.holds(arg, x, wanted) for arg in node.args]
            return all(parts) if (node.op == "and") is wanted else any(parts)
        if not (isinstance(node, Call) and any(is_past(arg) for arg in node.args)):
            return condition(node, x.publication) is wanted
        found = self.relation(node, x) if node.op.startswith("t_") else self.comparison(node, x)
        return found is wanted

    def relation(self, node: Call, x: Seen) -> bool | None:
        """Whether what is on the left is so related to some event; None where it is not known."""
        left, call = node.args
        given = [literal.value for literal in call.args[1:]]
        limit = math.inf if given[:1] in ([], [".."]) else duration(given[0])
        tolerance = duration(given[1]) if given[1:] else 0
        if left.name == "event":
            found, relations = x.interval, RELATIONS
        else:
            point = {"start": x.start, "end": x.end}.get(left.name)
            if left.name not in ("start", "end"):
                value = plain(x.publication.value(left.name))
                point = value.first if isinstance(value, Span) else None
            found, relations = (None if point is None else (point, point)), POINT_RELATIONS
        if found is None:
            return None
        related, (s, e) = relations[node.op], found
        for event in (kept.event for kept in self.memory(call)):
            if event is x.event or self.account.is_forgotten(event, x.time):
                continue
            in_reach = s - limit <= event.until + tolerance
            if in_reach and related(s, e, event.start, event.until, tolerance):
                return True
        return False

    def comparison(self, node: Call, x: Seen) -> bool | None:
        """Whether what is on the left compares so to one of the last values; None where it can be compared to none."""
        (left, call), op = node.args, node.op
        if is_past(left):
            (call, left), op = node.args, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
        attribute, _, *count = call.args
        mine = scalar(left, x.publication)
        mine = float(mine) if is_number(mine) else mine
        # A field has values of one type only, so that a value of another is as good as none.
        of_field = {"text": str, "time": Span}.get(RESERVED.get(attribute.name, ""), object)
        if not is_comparable(mine, op) or not isinstance(mine, of_field):
            return None
        for kept in self.memory(call)[-(count[0].value if count else 10_000) :]:
            if kept.event is x.event or self.account.is_gone(kept, x.time):
                continue
            theirs = doubled(kept.publication.value(attribute.name))
            if is_comparable(theirs, op) and compare(op, mine, theirs):
                return True
        return False


def pasts(node) -> list[Call]:
    """Every call of ``past``, also those within others."""
    if not isinstance(node, Call):
        return []
    return [node] * is_past(node) + [call for arg in node.args for call in pasts(arg)]


def is_past(node) -> bool:
    return isinstance(node, Call) and node.op == "past"


def inner(call: Call):
    """The filter: of ``past(filter, …)`` in a relation the first argument, of ``past(attr, filter, …)`` the second.

    A relation's limit is text, and a comparison has a filter where that would be.
    """
    if len(call.args) == 1 or (isinstance(call.args[1], Literal) and isinstance(call.args[1].value, str)):
        return call.args[0]
    return call.args[1]


def is_comparable(value, op: str) -> bool:
    return isinstance(value, float | Span) or (isinstance(value, str) and op in ("=", "<>"))


#: An event from a to b and a remembered one from c to d, with a tolerance t: what is less may be more by less than t.
RELATIONS = {
    "t_after": lambda a, b, c, d, t: d < a + t,
    "t_before": lambda a, b, c, d, t: b < c + t,
    "t_contains": lambda a, b, c, d, t: a < c + t and d < b + t,
    "t_disjoint": lambda a, b, c, d, t: d < a + t or b < c + t,
    "t_during": lambda a, b, c, d, t: c < a + t and b < d + t,
    "t_equals": lambda a, b, c, d, t: abs(a - c) <= t and abs(b - d) <= t,
    "t_finishedBy": lambda a, b, c, d, t: a < c + t and abs(b - d) <= t,
    "t_finishes": lambda a, b, c, d, t: c < a + t and abs(b - d) <= t,
    "t_intersects": lambda a, b, c, d, t: a <= d + t and c <= b + t,
    "t_meets": lambda a, b, c, d, t: abs(b - c) <= t,
    "t_metBy": lambda a, b, c, d, t: abs(a - d) <= t,
    "t_overlappedBy": lambda a, b, c, d, t: c < a + t and a < d + t and d < b + t,
    "t_overlaps": lambda a, b, c, d, t: a < c + t and c < b + t and b < d + t,
    "t_startedBy": lambda a, b, c, d, t: abs(a - c) <= t and d < b + t,
    "t_starts": lambda a, b, c, d, t: abs(a - c) <= t and b < d + t,
}
#: The same of a point, which is both a and b.
POINT_RELATIONS = {
    "t_after": lambda a, b, c, d, t: d < a + t,
    "t_before": lambda a, b, c, d, t: a < c + t,
    "t_disjoint": lambda a, b, c, d, t: d < a + t or a < c + t,
    "t_during": lambda a, b, c, d, t: c <= a + t and a <= d + t,
    "t_equals": lambda a, b, c, d, t: abs(a - c) <= t and abs(a - d) <= t,
    "t_intersects": lambda a, b, c, d, t: c <= a + t and a <= d + t,
}
