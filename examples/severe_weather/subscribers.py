"""Who wants to be told of what: Stevens's three people around Hamilton County, and one subscriber in every county."""

from __future__ import annotations

from dataclasses import dataclass

import tidegate as tg
from examples.severe_weather.counties import State
from examples.severe_weather.directions import INVERSE, relations

__all__ = ["PEOPLE", "Person", "following", "in_every_county", "neighbours_of", "next_door", "people"]


@dataclass(frozen=True)
class Person:
    """Someone of Stevens's §7.1, and where they want storms over Hamilton County to come from; ``None``: anywhere."""

    name: str
    town: str
    county: str
    direction: str | None


PEOPLE = (
    Person("Emma", "York", "ne:York", "isWestOf"),
    Person("Harry", "Geneva", "ne:Fillmore", "isNorthOf"),
    Person("Dorothy", "Aurora", "ne:Hamilton", None),
)


def following(county: str, direction: str) -> str:
    """Warnings in the county that start during a warning in a county that lies in that direction of it (Figure 7.5)."""
    there = f"a_contains(counties, ('{county}'), related('ne:{direction}'))"
    return (
        f"a_contains(counties, ('{county}'), 'equivalent') AND T_DURING(start, past(severity = 'warning' AND {there}))"
    )


def people() -> list[tg.Subscription]:
    """Emma, Harry and Dorothy, whose own county it is: she hears of every warning in it as it starts."""
    hers = "phase = 'START' AND a_contains(counties, ('ne:Hamilton'), 'equivalent')"
    return [
        tg.Subscription(
            person.name,
            person.name,
            f"severity = 'warning' AND {following('ne:Hamilton', person.direction) if person.direction else hers}",
        )
        for person in PEOPLE
    ]


def neighbours_of(state: State, direction: str) -> dict[str, list[str]]:
    """Of each county the neighbours that lie in that direction of it."""
    found: dict[str, list[str]] = {term: [] for term in state.counties}
    for a, property, b in relations(state):
        if property == direction:
            found[b].append(a)
        if INVERSE[property] == direction:
            found[a].append(b)
    return found


def in_every_county(state: State) -> list[tg.Subscription]:
    """Emma's wish for each county: warnings west of mine that start during a warning west of that one.

    A county with no neighbour in the west has nothing to wish for, and no subscription.
    """
    made = []
    for term, west in neighbours_of(state, "isWestOf").items():
        storms = " OR ".join(f"({following(other, 'isWestOf')})" for other in west)
        if storms:
            made.append(tg.Subscription(term, state.counties[term].name, f"severity = 'warning' AND ({storms})"))
    return made


def next_door(state: State) -> list[tg.Subscription]:
    """What those without a sense of direction ask for: every warning in a county next to mine."""
    return [
        tg.Subscription(
            term,
            county.name,
            f"severity = 'warning' AND phase = 'START' AND a_contains(counties, ('{term}'), related('ne:isNextTo'))",
        )
        for term, county in state.counties.items()
    ]
