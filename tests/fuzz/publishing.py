"""Publications, however they come in: the same values, as an object or in a table, tell the same subscriptions."""

from __future__ import annotations

from functools import cache
from math import isnan

import tidegate as tg
from tests import drawn_publications as _loads_the_ontology
from tests.fuzz.entry_point import Clock, WrongAnswer

__all__ = ["MOST_PUBLICATION", "agreed", "engine", "told"]

MOST_PUBLICATION = 0.01
_LOADED = _loads_the_ontology.ONTOLOGY

WHERES = [
    "n > 1 AND n < 40",
    "n IS NULL",
    "NOT (o3 > 40)",
    "o3 + n > 40",
    "kind = 'rain'",
    "kind LIKE '%ai%'",
    "CASEI(kind) IN ('RAIN', 'ABC')",
    "flag",
    "time >= DATE('2026-11-15')",
    "seen < TIMESTAMP('2026-11-15T08:00:00Z')",
    "T_DURING(event, INTERVAL('2026-11-15', '2026-11-16'))",
    "S_INTERSECTS(location, BBOX(6, 45, 8, 47))",
    "S_INTERSECTS(spot, POLYGON((6 45, 8 45, 8 47, 6 47, 6 45)))",
    "a_contains(tags, ('a', 'b'))",
    "a_overlaps(levels, (1, 2), '<')",
    "a_containedBy(tags, ('a%', '%b'), 'LIKE')",
    "NOT a_equals(tags, ('a', 'b'), '<>')",
    "shape(wave, (1, 2, 3, 2, 1)) < 1",
    "isA(wine, 'vin:RedWine')",
    "phase IS NULL AND source <> 'z'",
    "TRUE",
]


@cache
def engine() -> tg.Engine:
    """An engine with a subscription of every family; filters only, so that it keeps nothing of an input."""
    return tg.Engine([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(WHERES)])


def told(publications, clock: Clock) -> set[tuple[str, str]]:
    """Who was told of which publication; a single one within its time."""
    if len(publications) == 1:
        with clock.within(MOST_PUBLICATION, "publishing"):
            found = engine().publish(publications)
    else:
        found = engine().publish(publications)
    return {(n.publications[0], n.subscription) for n in found}


def agreed(one, other, what: str) -> None:
    if one != other:
        raise WrongAnswer(f"{what}: {sorted(one ^ other)[:5]}")


def same(one, other) -> bool:
    """Whether two values are equal, NaN to NaN."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and isnan(one):
        return isnan(other)
    return one == other
