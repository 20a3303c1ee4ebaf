"""Trees, sensors, operators and whole scripts, drawn so that they meet: few sensors, small whole numbers, so that
ranges are nested, overlap and tile each other, and times on a grid of seconds, so that ties and exact windows happen.

One writer makes scripts both for hypothesis, which makes failing ones small, and for endless fuzzing from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeVar

import numpy as np
from hypothesis import strategies as st

from tests.overlay.oracle import Clock, Cut, Join, Noise, Script, Step, Tell
from tidegate.overlay.messages import Announce, Reading, Revoke, Subscribe, Unsubscribe
from tidegate.overlay.operators import Operator, OperatorPart, Region

T = TypeVar("T")
SECOND = 1_000_000
START = 1_793_000_000 * SECOND
WINDOWS = (1, 2, 3, 3, 5, 5)
VALIDITY = 12
#: Readings lag the clock by less than this, so that all that a match needs is still valid when its last reading comes.
LAG = VALIDITY - max(WINDOWS)
ATTRIBUTES = ("a", "b", "c")
#: A grid of some 770 m by 1110 m; regions begin and end on it, so that sensors lie on their edges.
LONGITUDES, LATITUDES = (7.0, 7.01, 7.02), (46.0, 46.01)
#: Just the same place, the next to the east, the next to the north, across, everywhere.
DISTANCES = (100.0, 1000.0, 1200.0, 1450.0, 5000.0)
HIGHEST = 6


class Choices(Protocol):
    """Where a writer gets its decisions from."""

    def number(self, low: int, high: int) -> int: ...


class Drawn:
    """From hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


class Rolled:
    """From a generator of random numbers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def number(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high, endpoint=True))


@dataclass(frozen=True)
class Kind:
    """What a script may have in it besides sensors that appear, then subscriptions, then readings in any order."""

    #: Sensors and subscriptions come at any time.
    late: bool = False
    removals: bool = False
    withdrawals: bool = False
    cuts: bool = False
    noise: bool = False
    #: Operators without a named sensor.
    abstract: bool = True
    near: bool = True
    #: Sensors may have no location.
    placeless: bool = True
    nodes: int = 8
    sensors: int = 6
    subscriptions: int = 6
    #: Steps after the first subscriptions.
    length: int = 30


PLAIN = Kind()
IDENTIFIED = Kind(abstract=False, near=False)
ENGINE = Kind(placeless=False)
REMOVALS = Kind(late=True, removals=True)
SENSORS = Kind(late=True, removals=True, withdrawals=True)
CUTS = Kind(cuts=True)
ALL = Kind(late=True, removals=True, withdrawals=True, cuts=True)
NOISY = Kind(late=True, removals=True, withdrawals=True, cuts=True, noise=True)


@dataclass
class Writer:
    """Writes a script, and knows as much of it as it needs to write no nonsense."""

    choices: Choices
    kind: Kind
    nodes: list[str] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    sensors: list[tuple[str, Announce]] = field(default_factory=list)
    present: set[str] = field(default_factory=set)
    subscribed: dict[str, tuple[str, Operator]] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    cut: list[tuple[str, str]] = field(default_factory=list)
    told: list[Tell] = field(default_factory=list)
    now: int = START
    steps: list[Step] = field(default_factory=list)
    readings: int = 0
    doings: list[Callable[[], None]] = field(default_factory=list)

    def number(self, low: int, high: int) -> int:
        return self.choices.number(low, high)

    def one(self, of: Sequence[T]) -> T:
        return of[self.number(0, len(of) - 1)]

    def is_rare(self, one_in: int) -> bool:
        return self.number(1, one_in) == one_in

    # --- the whole ------------------------------------------------------------------------------------------------

    def write(self) -> Script:
        self.tree()
        self.place_sensors()
        self.steps.append(Clock(self.now))
        for node, sensor in self.sensors:
            if not (self.kind.late and self.is_rare(3)):
                self.tell(node, sensor)
        for _ in range(self.number(1, self.kind.subscriptions)):
            self.subscribe()
        self.mixture()
        if self.cut and not self.is_rare(4):
            for link in self.cut[:]:
                self.join(link)
        return Script(tuple(self.nodes), tuple(self.edges), VALIDITY * SECOND, tuple(self.steps))

    def tree(self) -> None:
        self.nodes = [f"n{i}" for i in range(self.number(1, self.kind.nodes))]
        self.edges = [(self.nodes[self.number(0, i - 1)], self.nodes[i]) for i in range(1, len(self.nodes))]

    def place_sensors(self) -> None:
        for i in range(self.number(1, self.kind.sensors)):
            location = None
            if not (self.kind.placeless and self.is_rare(8)):
                location = (self.one(LONGITUDES), self.one(LATITUDES))
            beside = self.sensors[-1][0] if self.sensors and self.is_rare(2) else self.one(self.nodes)
            self.sensors.append((beside, Announce(f"x{i}", self.one(ATTRIBUTES), location)))

    def mixture(self) -> None:
        kind = self.kind
        doings: list[Callable[[], None]] = [self.read] * 4 + [self.answer] * 3 + [self.report, self.wait]
        doings += [self.subscribe, self.appear] * kind.late
        doings += [self.unsubscribe] * kind.removals + [self.revoke] * kind.withdrawals
        doings += [self.cut_link, self.join_link] * kind.cuts + [self.disturb] * kind.noise
        self.doings = [doing for doing in doings if doing != self.answer]
        for _ in range(self.number(1, kind.length)):
            self.one(doings)()

    # --- steps ----------------------------------------------------------------------------------------------------

    def tell(self, node: str, message: Announce | Revoke | Subscribe | Unsubscribe | Reading) -> None:
        step = Tell(node, message)
        self.steps.append(step)
        self.told.append(step)
        if isinstance(message, Announce):
            self.present.add(message.source)

    def appear(self) -> None:
        absent = [(node, sensor) for node, sensor in self.sensors if sensor.source not in self.present]
        if absent:
            self.tell(*self.one(absent))

    def revoke(self) -> None:
        present = [(node, sensor) for node, sensor in self.sensors if sensor.source in self.present]
        if present:
            node, sensor = self.one(present)
            self.present.remove(sensor.source)
            self.tell(node, Revoke(sensor.source))

    def subscribe(self) -> None:
        node, id = self.one(self.nodes), f"s{len(self.operators)}"
        if self.subscribed and self.is_rare(2):  # beside another, which may cover it
            node, _ = self.subscribed[self.one(sorted(self.subscribed))]
        if self.removed and self.is_rare(3):  # the same user again, with something else
            id = self.one(sorted(self.removed))
            node = self.removed.pop(id)
        operator = self.operator(id)
        self.operators.append(operator)
        self.subscribed[id] = node, operator
        self.tell(node, Subscribe(operator))

    def unsubscribe(self) -> None:
        if self.subscribed:
            id = self.one(sorted(self.subscribed))
            node, _ = self.subscribed.pop(id)
            self.removed[id] = node
            self.tell(node, Unsubscribe(id))

    def read(self) -> None:
        present = [(node, sensor) for node, sensor in self.sensors if sensor.source in self.present]
        if present:
            node, sensor = self.one(present)
            self.publish(node, sensor, self.one((0, 0, 0, 1, 1, 2, 3, LAG - 1, -1)))

    def report(self) -> None:
        """Every sensor says something."""
        for node, sensor in self.sensors:
            if sensor.source in self.present:
                self.publish(node, sensor, self.one((0, 0, 1)))

    def answer(self) -> None:
        """One subscription gets most of what it wants, one thing after the other, maybe with something in between."""
        if not self.subscribed:
            return
        _, operator = self.subscribed[self.one(sorted(self.subscribed))]
        parts = list(operator.parts)
        while parts:
            part = self.one(parts)
            parts.remove(part)
            able = [(n, s) for n, s in self.sensors if s.source in self.present and self._is_asked(part, s)]
            if able:
                self.publish(*self.one(able), self.one((0, 0, 0, 1)), part)
            if self.is_rare(6):
                self.one(self.doings)()

    def _is_asked(self, part: OperatorPart, sensor: Announce) -> bool:
        return part.addresses(sensor.source, sensor.attribute, sensor.location)

    def publish(self, node: str, sensor: Announce, lag: int, part: OperatorPart | None = None) -> None:
        """What is asked for, or anything."""
        value = float(self.number(0, HIGHEST))
        if part is None and self.is_rare(2):
            wanted = [part for _, operator in self.subscribed.values() for part in operator.parts]
            asked = [part for part in wanted if self._is_asked(part, sensor)]
            part = self.one(asked) if asked else None
        if part is not None:
            value = float(self.number(int(max(part.low, 0)), int(min(part.high, HIGHEST))))
        id = f"r{self.readings}"
        self.readings += 1
        self.tell(node, Reading(id, sensor.source, value, self.now - lag * SECOND))

    def wait(self) -> None:
        self.now += self.one((1, 1, 1, 2, 2, 3, 4, VALIDITY - 1, VALIDITY)) * SECOND
        self.steps.append(Clock(self.now))

    def cut_link(self) -> None:
        whole = [edge for edge in self.edges if edge not in self.cut]
        if whole:
            self.cut.append(self.one(whole))
            self.steps.append(Cut(*self.cut[-1]))

    def join_link(self) -> None:
        if self.cut:
            self.join(self.one(self.cut))

    def join(self, link: tuple[str, str]) -> None:
        self.cut.remove(link)
        a, b = link if self.is_rare(2) else link[::-1]
        self.steps.append(Join(a, b))

    def disturb(self) -> None:
        """What is told twice, makes no sense or comes from nobody we know."""
        node, now = self.one(self.nodes), self.now
        nonsense: list[tuple[str, object, str]] = [
            (node, Unsubscribe("nobody"), ""),
            (node, Revoke("nothing"), ""),
            (node, Reading("odd", "nothing", 1.0, now), ""),
            (node, Reading("strange", "x0", 1.0, now), "stranger"),
            (node, Announce("z9", "a", (7.0, 46.0)), "stranger"),
            (node, "what?", ""),
        ]
        repeated = [
            (step.node, step.message, "")
            for step in self.told
            if isinstance(step.message, Reading)
            or (isinstance(step.message, Announce) and step.message.source in self.present)
            or (isinstance(step.message, Subscribe) and self._is_there(step.message.operator))
        ]
        chosen = self.one(repeated) if repeated and not self.is_rare(3) else self.one(nonsense)
        self.steps.append(Noise(*chosen))

    def _is_there(self, operator: Operator) -> bool:
        return operator.id in self.subscribed and self.subscribed[operator.id][1] == operator

    # --- operators ------------------------------------------------------------------------------------------------

    def operator(self, id: str) -> Operator:
        if self.operators and self.is_rare(2):
            return self.variation(self.one(self.operators), id)
        parts: dict[str, OperatorPart] = {}
        is_abstract = self.kind.abstract and self.is_rare(2)
        for _ in range(self.one((1, 2, 2, 2, 3, 3, 4))):
            is_other = self.kind.abstract and self.is_rare(8)
            part = self.abstract() if is_abstract is not is_other else self.identified()
            parts.setdefault(part.label, part)
        near = self.one(DISTANCES) if self.kind.near and self.is_rare(5) else None
        in_order = sorted(parts.values(), key=lambda part: (part.source or "", part.attribute, part.region or ()))
        return Operator(id, tuple(in_order), self.one(WINDOWS) * SECOND, near)

    def variation(self, other: Operator, id: str) -> Operator:
        """The same parts with other ranges, so that one covers the other, or two the third; or fewer parts."""
        window, near, parts = other.window, other.near, list(other.parts)
        if self.is_rare(3):
            window = self.one(WINDOWS) * SECOND
        if self.kind.near and self.is_rare(4):
            near = self.one((None, *DISTANCES))
        if (window, near) != (other.window, other.near) and self.is_rare(2):
            return Operator(id, other.parts, window, near)
        if len(parts) > 1 and self.is_rare(4):
            parts.remove(self.one(parts))
        changed = []
        for part in parts:
            low, high = part.low, part.high
            if self.is_rare(2):
                low, high = self.range()
            region = part.region
            if region is not None and self.is_rare(4):
                region = self.region()
            changed.append(OperatorPart(part.attribute, low, high, part.source, region))
        if len({part.label for part in changed}) < len(changed):
            changed = parts
        return Operator(id, tuple(changed), window, near)

    def identified(self) -> OperatorPart:
        _, sensor = self.one(self.sensors)
        attribute = self.one(ATTRIBUTES) if self.is_rare(16) else sensor.attribute
        region = self.region() if self.kind.abstract and self.is_rare(10) else None
        return OperatorPart(attribute, *self.range(), sensor.source, region)

    def abstract(self) -> OperatorPart:
        _, sensor = self.one(self.sensors)
        return OperatorPart(sensor.attribute, *self.range(), None, None if self.is_rare(3) else self.region())

    def range(self) -> tuple[float, float]:
        low = self.one((0, 0, 1, 1, 2, 3, 4, 5, HIGHEST))
        high = self.number(low, HIGHEST)
        if self.is_rare(12):
            return (-inf, float(high)) if self.is_rare(2) else (float(low), inf)
        return float(low), float(high)

    def region(self) -> Region:
        if self.is_rare(20):  # anywhere, but not nowhere
            return -inf, -inf, inf, inf
        west, south = self.number(0, len(LONGITUDES) - 1), self.number(0, len(LATITUDES) - 1)
        east, north = self.number(west, len(LONGITUDES) - 1), self.number(south, len(LATITUDES) - 1)
        return LONGITUDES[west], LATITUDES[south], LONGITUDES[east], LATITUDES[north]


@st.composite
def scripts(draw, kind: Kind = PLAIN) -> Script:
    return Writer(Drawn(draw), kind).write()


def rolled(rng: np.random.Generator, kind: Kind) -> Script:
    return Writer(Rolled(rng), kind).write()
