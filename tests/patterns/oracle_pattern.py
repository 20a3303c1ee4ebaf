"""What the oracle has for every family of patterns: what is told, its order, and one subscription with a pattern."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tests.oracle import holds, microseconds
from tests.oracle_identity import PHASES, text_hash
from tidegate.model import Publication, Subscription, moment

if TYPE_CHECKING:
    from tests.patterns.oracle import World


class Told(NamedTuple):
    """A notification without its id."""

    subscription: str
    time: datetime
    publications: tuple[str, ...]
    score: float | None = None
    distance: float | None = None


def is_active(subscription: Subscription, publication: Publication) -> bool:
    first, last = subscription.active_from, subscription.active_until
    return (first is None or publication.time >= first) and (last is None or publication.time < last)


def in_order(told: list[Told]) -> list[Told]:
    """By time and subscription; the sort is stable, so what one subscription told at one moment stays as raised."""
    return sorted(told, key=lambda t: (t.time, t.subscription))


def order(publication: Publication) -> tuple[int, str, int, tuple[int, int]]:
    """Of one time and id the phases follow each other; then sources are in a fixed order, which is that of a hash."""
    phase, source = PHASES.index(publication.phase), text_hash(publication.source)
    return microseconds(publication.time), publication.id, phase, source


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
