"""The oracle's top-k, together, absent and shapes in streams: plain lists, looked at anew every time."""

from __future__ import annotations

import math
from typing import NamedTuple

from tests.oracle import ARITHMETIC, doubled, holds, metres, microseconds, normal_form
from tests.patterns.oracle_pattern import Pattern, Told, duration
from tidegate.language.tree import Attribute, Literal
from tidegate.model import Publication

#: Combinations of one subscription and publication that are told at most.
COMBINATIONS = 1000


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
        value = doubled(node.value if isinstance(node, Literal) else publication.value(node.name))
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
        first, newest = self.subscription.active_from, clock + self.world.lateness
        if not self.by_source:
            self.heard.append(Heard(newest if first is None else max(newest, microseconds(first)), None, ()))

    def step(self, publication) -> list[Told]:
        if holds(self.condition, publication):
            source, time = publication.source if self.by_source else None, microseconds(publication.time)
            if self.by_source or time >= self.heard[-1].time:  # it counts from when it was made, whatever is older
                self.heard.append(Heard(time, source, (publication.id,)))
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
        value = doubled(publication.value(self.attribute))
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
