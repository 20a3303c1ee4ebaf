"""What patterns mean, in obvious loops: the oracle that the engine's patterns are held against.

Every subscription keeps all it ever saw in plain lists, and looks at them anew at every arrival and at every moment at
which a window or a silence can end. Imports nothing of the patterns, the predicates, the index or the kernels.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from datetime import datetime, timedelta
from typing import NamedTuple

from tests.oracle import ARITHMETIC, Span, compare, condition, holds, metres, microseconds, normal_form, plain, scalar
from tidegate.language.parse import parse
from tidegate.language.tree import Attribute, Call, Literal
from tidegate.model import RESERVED, Publication, Subscription, moment

PATTERNS = ("topk", "together", "absent")
#: Shapes in streams are compared; this is the same seen from the other side.
MIRRORED = {"<=": "<=", "<": "<", ">=": "<=", ">": "<"}
#: Combinations of one subscription and publication that are told at most.
COMBINATIONS = 1000
#: Of one time and id these follow each other.
PHASES = (None, "START", "INSTANT", "END")


class Told(NamedTuple):
    """A notification without its id."""

    subscription: str
    time: datetime
    publications: tuple[str, ...]
    score: float | None = None
    distance: float | None = None


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


def is_active(subscription: Subscription, publication: Publication) -> bool:
    first, last = subscription.active_from, subscription.active_until
    return (first is None or publication.time >= first) and (last is None or publication.time < last)


def in_order(told: list[Told]) -> list[Told]:
    """By time and subscription; the sort is stable, so what one subscription told at one moment stays as raised."""
    return sorted(told, key=lambda t: (t.time, t.subscription))


def order(publication: Publication) -> tuple[int, str, int]:
    return microseconds(publication.time), publication.id, PHASES.index(publication.phase)


def duration(text: str) -> int:
    """Microseconds of an ISO duration of weeks, days, hours, minutes and seconds."""
    match = re.fullmatch(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text)
    assert match, text
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round((((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60e6 + seconds * 1e6)


class Pattern(ABC):
    """One subscription: what waits for it, and what it has to say.

    ``begin`` hears the clock at which the subscription was made, or the first value that it takes. ``expire`` says what
    ends at moments up to and including the one given, ``step`` what one more publication brings.
    """

    def __init__(self, world: World, subscription: Subscription, conditions: list, args: tuple) -> None:
        self.world, self.subscription, self.conditions = world, subscription, conditions
        #: Publications that appeared after the subscription was made, and that the clock has not passed yet.
        self.waiting: list[Publication] = []
        self.read(*args)

    def run(self, clock: int) -> list[Told]:
        ready = [publication for publication in self.waiting if self.world.is_ready(publication)]
        self.waiting = [publication for publication in self.waiting if not self.world.is_ready(publication)]
        told = []
        for publication in sorted(ready, key=order):
            told += self.expire(microseconds(publication.time))
            if is_active(self.subscription, publication) and all(holds(c, publication) for c in self.conditions):
                told += self.step(publication)
        told += self.expire(clock)
        until = self.subscription.active_until
        return [t for t in told if until is None or t.time < until]

    def told(self, time: int, *rest) -> Told:
        return Told(self.subscription.id, moment(time), *rest)

    def begin(self, clock: int) -> None:
        """The clock begins to run; most do not care."""
        return

    @abstractmethod
    def read(self, *args) -> None:
        """Take the arguments of the call."""

    @abstractmethod
    def expire(self, upto: int) -> list[Told]:
        """Let the clock run to a moment."""

    @abstractmethod
    def step(self, publication: Publication) -> list[Told]:
        """See one publication."""


# --- topk ---------------------------------------------------------------------------------------------------------


class Scored(NamedTuple):
    publication: Publication
    time: int
    score: float | None
    number: int


class TopK(Pattern):
    """The k lowest scores in a window; a publication is told once, when it first is among them."""

    def read(self, k, window, score) -> None:
        self.k, self.score = k.value, score
        self.counted = not isinstance(window.value, str)
        self.window = window.value if self.counted else duration(window.value)
        self.seen: list[Scored] = []
        self.known: set[int] = set()
        self.moment = -math.inf

    def step(self, publication) -> list[Told]:
        found = score(self.score, publication)
        self.world.unscored += found is None
        time = microseconds(publication.time)
        self.seen.append(Scored(publication, time, found, len(self.seen)))
        return self.look(time)

    def expire(self, upto) -> list[Told]:
        if self.counted:
            return []
        told = []
        # Whoever was in the window when it was last looked at may have to leave it by now.
        for time in sorted({s.time + self.window for s in self.inside(self.moment)}):
            if time <= upto:
                told += self.look(time)
        self.moment = max(self.moment, upto)
        return told

    def look(self, at: int) -> list[Told]:
        """Those among the k best at that moment who never were before, the best first."""
        self.moment = at
        ranked = [s for s in self.inside(at) if s.score is not None]
        ranked.sort(key=lambda s: s.number, reverse=True)
        ranked.sort(key=lambda s: s.score)
        new = [s for s in ranked[: self.k] if s.number not in self.known]
        self.known.update(s.number for s in new)
        return [self.told(at, (s.publication.id,), s.score) for s in new]

    def inside(self, at) -> list[Scored]:
        """What the window holds. Publications came in order of time, so the first that is too old ends the search."""
        if self.counted:
            return self.seen[-self.window :]
        found = []
        for scored in reversed(self.seen):
            if not at - scored.time < self.window:
                break
            found.append(scored)
        return found


def score(node, publication) -> float | None:
    """A finite number, or None where any step on the way to it has none."""
    if isinstance(node, Literal | Attribute):
        value = plain(node.value if isinstance(node, Literal) else publication.value(node.name))
        return value if isinstance(value, float) else None
    try:
        if node.op != "distance":
            left, right = (score(arg, publication) for arg in node.args)
            result = None if left is None or right is None else ARITHMETIC[node.op](left, right)
        elif isinstance(node.args[0], Attribute):
            spot = publication.value(node.args[0].name)
            result = metres(spot, node.args[1].coordinates) if isinstance(spot, tuple) else None
        else:
            result = euclidean(*([score(item, publication) for item in array.items] for array in node.args))
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return result if result is not None and math.isfinite(result) else None


def euclidean(a: list[float | None], b: list[float | None]) -> float | None:
    if None in a or None in b:
        return None
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (x - y) * (x - y)
    return math.sqrt(total)


# --- together -----------------------------------------------------------------------------------------------------


class Together(Pattern):
    """For each filter a publication, all within a window of time and perhaps of metres from each other.

    The bound on the search for the first combination is not here: no test comes near it.
    """

    def read(self, window, *rest) -> None:
        self.window = duration(window.value)
        self.every = isinstance(rest[-1], Literal) and rest[-1].value == "all"
        rest = rest[:-1] if self.every else rest
        self.metres = None
        if isinstance(rest[0], Literal) and not isinstance(rest[0].value, bool):
            self.metres, rest = rest[0].value, rest[1:]
        self.filters = rest
        #: In the order they were stepped. Which of them is which is a matter of their place here, not of their id.
        self.seen: list[Publication] = []

    def expire(self, upto) -> list[Told]:
        return []

    def step(self, publication) -> list[Told]:
        self.seen.append(publication)
        time, last = microseconds(publication.time), len(self.seen) - 1
        recent = []
        for place in range(last, -1, -1):
            if not time - microseconds(self.seen[place].time) < self.window:
                break
            if self.metres is None or self.seen[place].location is not None:
                recent.append(place)
        candidates = [[place for place in recent if holds(f, self.seen[place])] for f in self.filters]
        most = COMBINATIONS if self.every else 1
        found = self.combinations(candidates, last, (), most + self.every)
        self.world.cut += len(found) > most
        return [
            self.told(time, tuple(self.seen[place].id for place in places), None, self.extent(places))
            for places in found[:most]
        ]

    def combinations(self, candidates, last, chosen, most) -> list[tuple[int, ...]]:
        """The first so many ways to go on from what was chosen that contain the last publication."""
        if len(chosen) == len(candidates):
            return [chosen]
        here, later = candidates[len(chosen)], candidates[len(chosen) + 1 :]
        if last not in chosen and not any(last in some for some in later):
            here = [last] if last in here else []
        found = []
        for place in here:
            if len(found) < most and all(self.is_near(place, other) for other in chosen):
                found += self.combinations(candidates, last, (*chosen, place), most - len(found))
        return found

    def is_near(self, a: int, b: int) -> bool:
        return self.metres is None or self.apart(a, b) < self.metres

    def apart(self, a: int, b: int) -> float:
        return 0.0 if a == b else metres(self.seen[a].location, self.seen[b].location)

    def extent(self, places) -> float | None:
        return None if self.metres is None else max(self.apart(a, b) for a in places for b in places)


# --- absent -------------------------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """What ended a silence and began the next: a publication, or that the subscription was made."""

    time: int
    source: str | None
    publications: tuple[str, ...]


class Absent(Pattern):
    """No publication that satisfies the filter for the length of a window, as a whole or from one source."""

    def read(self, window, condition, source=None) -> None:
        self.window, self.condition, self.by_source = duration(window.value), condition, source is not None
        self.heard: list[Heard] = []
        self.moment = -math.inf

    def begin(self, clock) -> None:
        first = self.subscription.active_from
        if not self.by_source:
            self.heard.append(Heard(clock if first is None else max(clock, microseconds(first)), None, ()))

    def step(self, publication) -> list[Told]:
        if holds(self.condition, publication):
            source = publication.source if self.by_source else None
            self.heard.append(Heard(microseconds(publication.time), source, (publication.id,)))
        return []

    def expire(self, upto) -> list[Told]:
        """The silences that end after the moment of the last look: nothing of their source was heard since."""
        ended, since = [], set()
        for heard in reversed(self.heard):
            end = heard.time + self.window
            if end <= self.moment:
                break
            if end <= upto and heard.source not in since:
                ended.append(self.told(end, heard.publications))
            since.add(heard.source)
        self.moment = max(self.moment, upto)
        return ended[::-1]


# --- shape --------------------------------------------------------------------------------------------------------


class Best(NamedTuple):
    """The nearest window of an excursion that is not over."""

    distance: float
    id: str


class Shape(Pattern):
    """Of each source, windows of so many readings that look like the series; told when they cease to."""

    def read(self, attribute, series, *rest) -> None:
        *count, bound, strict = (literal.value for literal in rest)
        written = [float(item.value) for item in series.items]
        if count:
            written = rendered(written, count[0])
        self.series, self.attribute = normal_form(written), attribute.name
        self.bound, self.strict = float(bound), strict
        self.readings: dict[str, list[float]] = {}
        self.excursions: dict[str, Best] = {}

    def expire(self, upto) -> list[Told]:
        return []

    def step(self, publication) -> list[Told]:
        value = plain(publication.value(self.attribute))
        if not isinstance(value, float) or not math.isfinite(value):
            return []
        source = publication.source
        readings = self.readings.setdefault(source, [])
        readings.append(value)
        if len(readings) < len(self.series):
            return []
        window = normal_form(readings[-len(self.series) :])
        far = math.inf if window is None else euclidean(window, self.series)
        if far < self.bound or (far == self.bound and not self.strict):
            best = self.excursions.get(source)
            if best is None or far < best.distance:
                self.excursions[source] = Best(far, publication.id)
            return []
        best = self.excursions.pop(source, None)
        return [] if best is None else [self.told(microseconds(publication.time), (best.id,), None, best.distance)]


def rendered(points: list[float], count: int) -> list[float]:
    """Straight lines between points at equal distances, as so many numbers."""
    found = []
    for j in range(count):
        at = j * (len(points) - 1) / (count - 1)
        left = min(int(at), len(points) - 2)
        found.append((points[left + 1] - points[left]) * (at - left) + points[left])
    return found


# --- past ---------------------------------------------------------------------------------------------------------


class Event:
    """Something with an id, a start and, once it is known, an end. No two are the same, whatever their ids."""

    def __init__(self, id: str, start: int, end: int | None, number: int) -> None:
        self.id, self.start, self.end = id, start, end
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
            if event.id == publication.id and not self.is_forgotten(event, time):
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
        event = known if phase == "END" else Event(publication.id, start, end, number)
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
        # A field has values of one type only, so that a value of another is as good as none.
        of_field = {"text": str, "time": Span}.get(RESERVED.get(attribute.name, ""), object)
        if not is_comparable(mine, op) or not isinstance(mine, of_field):
            return None
        for kept in self.memory(call)[-(count[0].value if count else 10_000) :]:
            if kept.event is x.event or self.account.is_gone(kept, x.time):
                continue
            theirs = plain(kept.publication.value(attribute.name))
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
