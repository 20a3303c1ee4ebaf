"""What users of an overlay get, in obvious loops: the oracle that every strategy is held against.

A script is a tree of nodes and a list of steps, each of which runs until nothing is under way. Knows who is linked to
whom at every step and all readings there ever were, and nothing of nodes, messages under way, covering or kernels.

What is promised for a subscription of a node, while it is there:

- **may**: a reading can be told from the first step on at which it is part of a match whose readings have all reached
  the node and are not expired. A reading is where it was published, and spreads at every step over all links that are
  not cut then. When the subscription came does not matter: it may see what there was before it.
- **must**: a reading is told at the latest at the first step at which it is part of a match whose readings were all
  published while the subscription was there, whose sensors have been announced without a break since the first of
  them was published, of which none is expired, and none of the links between the user and these sensors is cut. What
  happened before that step (cuts, coverers that came and went, other sensors that came and went) does not matter.

A reading has certainly expired when the clock is more than the validity past its time, and has certainly not when it is
less. Where all is announced and subscribed to before the first reading, nothing is cut or removed, and readings lag
the clock by less than validity − window, both bounds are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from tests.oracle import metres
from tidegate.overlay.messages import Announce, Reading, Revoke, Subscribe, Unsubscribe
from tidegate.overlay.operators import Operator, OperatorPart

# --- scripts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tell:
    """A sensor or a user of a node says something."""

    node: str
    message: Announce | Revoke | Subscribe | Unsubscribe | Reading


@dataclass(frozen=True)
class Noise:
    """A node hears what changes nothing: from its own users and sensors, or from a stranger."""

    node: str
    message: object
    sender: str = ""


@dataclass(frozen=True)
class Cut:
    a: str
    b: str


@dataclass(frozen=True)
class Join:
    """A cut link is back."""

    a: str
    b: str


@dataclass(frozen=True)
class Clock:
    now: int


Step = Tell | Noise | Cut | Join | Clock


@dataclass(frozen=True)
class Script:
    """``validity`` and all times in microseconds. The first step sets the clock."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    validity: int
    steps: tuple[Step, ...]

    @property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = dict.fromkeys(self.nodes, ())
        for a, b in self.edges:
            found[a], found[b] = (*found[a], b), (*found[b], a)
        return found

    @property
    def readings(self) -> dict[str, Reading]:
        told = (step.message for step in self.steps if isinstance(step, Tell))
        return {message.id: message for message in told if isinstance(message, Reading)}


# --- matches ------------------------------------------------------------------------------------------------------


def belongs(part: OperatorPart, reading: Reading, sensor: Announce) -> bool:
    if sensor.attribute != part.attribute or part.source not in (None, sensor.source):
        return False
    if part.region is not None:
        if sensor.location is None:
            return False
        (lon, lat), (west, south, east, north) = sensor.location, part.region
        if lon < west or lon > east or lat < south or lat > north:
            return False
    return part.low <= reading.value and reading.value <= part.high


def are_near(a: Announce, b: Announce, near: float | None) -> bool:
    if near is None or a.source == b.source:
        return True
    return a.location is not None and b.location is not None and metres(a.location, b.location) < near


def matches(operator: Operator, readings: list[Reading], sensors: dict[str, Announce]) -> Iterator[tuple[Reading, ...]]:
    """All of them: one reading per part."""

    def choose(chosen: tuple[Reading, ...]) -> Iterator[tuple[Reading, ...]]:
        if len(chosen) == len(operator.parts):
            yield chosen
            return
        for reading in readings:
            if belongs(operator.parts[len(chosen)], reading, sensors[reading.source]) and all(
                abs(reading.time - other.time) < operator.window
                and are_near(sensors[reading.source], sensors[other.source], operator.near)
                for other in chosen
            ):
                yield from choose((*chosen, reading))

    assert operator.main is None, "users want all parts"
    return choose(())


# --- what was when ------------------------------------------------------------------------------------------------


@dataclass
class Moment:
    """How things are once a step has run to its end."""

    now: int
    up: set[tuple[str, str]]
    #: The step at which each sensor that is there was announced.
    since: dict[str, int]
    #: Where each reading can be by now.
    reached: dict[str, set[str]]


@dataclass
class Stay:
    """A subscription from when it was made to when it was removed, and what it gets at which step."""

    node: str
    operator: Operator
    first: int
    last: int
    #: By reading: the step from which on it may have been told, and that at which it must have been.
    may: dict[str, int] = field(default_factory=dict)
    must: dict[str, int] = field(default_factory=dict)


@dataclass
class Past:
    """All of a script: the moments, who published what when, and the subscriptions without what they get."""

    moments: list[Moment] = field(default_factory=list)
    published: dict[str, int] = field(default_factory=dict)
    home: dict[str, str] = field(default_factory=dict)
    sensors: dict[str, Announce] = field(default_factory=dict)
    stays: list[Stay] = field(default_factory=list)


def past(script: Script) -> Past:
    found = Past()
    now, up = 0, {edge for a, b in script.edges for edge in ((a, b), (b, a))}
    since: dict[str, int] = {}
    reached: dict[str, set[str]] = {}
    for i, step in enumerate(script.steps):
        if isinstance(step, Clock):
            assert step.now >= now, f"the clock goes back at step {i}"
            now = step.now
        elif isinstance(step, Cut):
            up = up - {(step.a, step.b), (step.b, step.a)}
        elif isinstance(step, Join):
            up = up | {(step.a, step.b), (step.b, step.a)}
        elif isinstance(step, Tell):
            message = step.message
            if isinstance(message, Announce):
                assert found.sensors.setdefault(message.source, message) == message, "sensors stay as they are"
                assert found.home.setdefault(message.source, step.node) == step.node, "and where they are"
                since[message.source] = i
            elif isinstance(message, Revoke):
                del since[message.source]
            elif isinstance(message, Subscribe):
                found.stays.append(Stay(step.node, message.operator, i, len(script.steps)))
            elif isinstance(message, Unsubscribe):
                (stay,) = (s for s in found.stays if s.operator.id == message.id and s.last == len(script.steps))
                stay.last = i
            else:
                assert message.source in since, f"no such sensor at step {i}"
                assert message.id not in reached, f"the reading is not new at step {i}"
                found.published[message.id], reached[message.id] = i, {step.node}
        reached = {id: spread(places, up) for id, places in reached.items()}
        found.moments.append(Moment(now, up, dict(since), reached))
    return found


def spread(places: set[str], up: set[tuple[str, str]]) -> set[str]:
    """All nodes that are linked to one of these over any number of links."""
    while True:
        wider = places | {b for a, b in up if a in places}
        if wider == places:
            return wider
        places = wider


@cache
def path(a: str, b: str, edges: tuple[tuple[str, str], ...]) -> set[tuple[str, str]]:
    """The links between two nodes of a tree, in both directions: without one of them they are apart."""
    both = {edge for x, y in edges for edge in ((x, y), (y, x))}
    return {(x, y) for x, y in both if b not in spread({a}, both - {(x, y), (y, x)})}


# --- bounds -------------------------------------------------------------------------------------------------------


def expected(script: Script, centre: str | None = None) -> list[Stay]:
    """What each subscription may get and must get.

    With a centre all that is matched needs its links to there, too; and what was matched there is told one by one, as
    far as it is still valid when it arrives.
    """
    found = past(script)
    readings = script.readings
    for stay in found.stays:
        for match in matches(stay.operator, list(readings.values()), found.sensors):
            homes = {found.home[reading.source] for reading in match} | ({centre} if centre else set())
            links = {link for home in homes for link in path(stay.node, home, script.edges)}
            begun = min(found.published[reading.id] for reading in match)
            whole = max(found.published[reading.id] for reading in match)
            first = max(stay.first, whole)
            for i in range(first, stay.last):
                then = found.moments[i]
                if all(then.now - r.time <= script.validity and stay.node in then.reached[r.id] for r in match):
                    note(stay.may, match, i)
                    break
            if centre is not None:
                note_from(centre, stay, match, found.moments, range(first, stay.last), script.validity)
            for i in range(first, stay.last if begun > stay.first else first):
                then = found.moments[i]
                if links <= then.up and all(
                    then.now - r.time < script.validity and then.since.get(r.source, begun) < begun for r in match
                ):
                    note(stay.must, match, i)
                    break
    return found.stays


def note(when: dict[str, int], match: tuple[Reading, ...], i: int) -> None:
    for reading in match:
        when[reading.id] = min(when.get(reading.id, i), i)


def note_from(
    centre: str, stay: Stay, match: tuple[Reading, ...], moments: list[Moment], steps: range, validity: int
) -> None:
    """Once all of a match was at the centre, each of its readings may go on alone."""
    is_whole = False
    for i in steps:
        then = moments[i]
        is_whole |= all(then.now - r.time <= validity and centre in then.reached[r.id] for r in match)
        for r in match:
            if is_whole and then.now - r.time <= validity and stay.node in then.reached[r.id]:
                note(stay.may, (r,), i)


# --- the same once more, in another way -----------------------------------------------------------------------------


def everything(operator: Operator, readings: Iterable[Reading], sensors: dict[str, Announce]) -> set[str]:
    """The readings of all matches there are, as if all was known at one place for ever.

    A reading counts if it can be completed; found from the sets of readings rather than part by part.
    """
    found = set()
    all_readings = list(readings)
    for size in range(1, len(operator.parts) + 1):
        for some in combinations(all_readings, size):
            if max(r.time for r in some) - min(r.time for r in some) >= operator.window:
                continue
            if all(
                are_near(sensors[a.source], sensors[b.source], operator.near) for a in some for b in some
            ) and is_onto(operator.parts, some, sensors):
                found |= {reading.id for reading in some}
    return found


def is_onto(parts: tuple[OperatorPart, ...], some: tuple[Reading, ...], sensors: dict[str, Announce]) -> bool:
    """Whether the parts can be filled with these readings so that each of them is used."""

    def fill(left: tuple[OperatorPart, ...], unused: frozenset[str]) -> bool:
        if not left:
            return not unused
        return any(fill(left[1:], unused - {r.id}) for r in some if belongs(left[0], r, sensors[r.source]))

    return fill(parts, frozenset(r.id for r in some))
