"""Runs the engine over warnings, and says of each notification why it was sent and what came of it.

The engine decides who is told. Reasons are looked up here afterwards, and there must be one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import tidegate as tg
from examples.severe_weather.counties import State
from examples.severe_weather.county_warnings import CountyWarning, publications
from examples.severe_weather.subscribers import PEOPLE, neighbours_of

__all__ = ["Reason", "Told", "reasons_of_counties", "reasons_of_people", "tell"]


@dataclass(frozen=True)
class Reason:
    """An earlier warning, the county it was in, and the county of the new one that it led to."""

    warning: CountyWarning
    before: str
    county: str


@dataclass(frozen=True)
class Told:
    """A notification: to whom (a subscription's id), when, of which warning, because of which."""

    who: str
    time: datetime
    warning: CountyWarning
    reasons: tuple[Reason, ...]

    def own(self, warnings: Iterable[CountyWarning]) -> timedelta | None:
        """How long after it the subscriber's own county was warned (or was again); none if it was not."""
        later = [w.start for w in warnings if self.who in w.counties and w.start >= self.warning.start]
        return min(later) - self.warning.start if later else None


Why = Callable[[str, CountyWarning], list[Reason]]


def tell(
    subscriptions: list[tg.Subscription], warnings: list[CountyWarning], state: State, why: Why | None = None
) -> list[Told]:
    """What the engine sends when the warnings are published in order of time, in the order in which it is sent."""
    by_id = {warning.id: warning for warning in warnings}
    made = []
    for notification in tg.Engine(subscriptions).publish(publications(warnings, state)):
        warning = by_id[notification.publications[0]]
        reasons = tuple(why(notification.subscription, warning)) if why else ()
        made.append(Told(notification.subscription, warning.start, warning, reasons))
    return sorted(made, key=lambda told: (told.time, told.warning.id, told.who))


def reasons_of_counties(state: State, warnings: list[CountyWarning]) -> Why:
    """Why the subscriber of a county is told: earlier warnings two steps to the west."""
    west = neighbours_of(state, "isWestOf")

    def why(who: str, warning: CountyWarning) -> list[Reason]:
        return _expected(
            who, warning, _running(warnings, warning, west, [c for c in warning.counties if c in west[who]])
        )

    return why


def reasons_of_people(state: State, warnings: list[CountyWarning]) -> Why:
    """Why Emma and Harry are told; Dorothy needs no reason."""
    directions = {person.name: person.direction for person in PEOPLE}

    def why(who: str, warning: CountyWarning) -> list[Reason]:
        direction = directions[who]
        if direction is None:
            return []
        return _expected(who, warning, _running(warnings, warning, neighbours_of(state, direction), ["ne:Hamilton"]))

    return why


def _running(
    warnings: list[CountyWarning], warning: CountyWarning, sides: dict[str, list[str]], counties: list[str]
) -> list[Reason]:
    return [
        Reason(earlier, before, county)
        for earlier in warnings[: warnings.index(warning)]  # in the order in which they are published
        if earlier.start <= warning.start <= earlier.end
        for county in counties
        for before in sides[county]
        if before in earlier.counties
    ]


def _expected(who: str, warning: CountyWarning, reasons: list[Reason]) -> list[Reason]:
    if not reasons:
        raise ValueError(
            f"expected a reason why {who} is told of {warning.id}; got none; at the engine's notifications"
        )
    return reasons
