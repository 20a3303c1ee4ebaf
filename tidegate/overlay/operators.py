"""``Operator``: what a node is asked for, as ranges of readings that must come together.

Jurca et al., §IV-A: a *part* is a simple filter, on one sensor (identified) or on one kind of reading in a region
(abstract); an *operator* is a set of parts whose readings lie within a window and maybe within a distance. A user's
subscription is an operator (``operator_of``), and so is what a node forwards of it. Knows the language, and nothing of
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, nextafter

import orjson

from tidegate.errors import SubscriptionError, shown
from tidegate.language import DEFAULT_LIMITS, Limits, from_json, parse
from tidegate.model import Subscription
from tidegate.patterns import Pattern
from tidegate.predicates import Filter, Within
from tidegate.predicates.exact_numbers import double_ranges, number_of
from tidegate.subscriptions import compile_where

__all__ = ["Operator", "OperatorPart", "Region", "operator_of"]

#: West, south, east, north; the edges belong to it.
Region = tuple[float, float, float, float]

_ANYWHERE = (-inf, inf)


@dataclass(frozen=True, slots=True)
class OperatorPart:
    """Readings of one sensor, or of one kind in a region, with values from ``low`` to ``high``, both included."""

    attribute: str
    low: float
    high: float
    source: str | None = None
    region: Region | None = None

    def __post_init__(self) -> None:
        if not self.attribute or not isinstance(self.attribute, str):
            raise SubscriptionError("the name of an attribute", shown(self.attribute))
        if self.source is not None and (not isinstance(self.source, str) or not self.source):
            raise SubscriptionError("the name of a source", shown(self.source))
        if not self.low <= self.high:
            raise SubscriptionError("a range with something in it", f"{shown(self.low)} … {shown(self.high)}")
        if self.region is not None and not (self.region[0] <= self.region[2] and self.region[1] <= self.region[3]):
            raise SubscriptionError("a region from west to east and from south to north", shown(self.region))

    @property
    def label(self) -> str:
        """What the part is called within its operator: the sensor, or the kind of reading and the region."""
        if self.source is not None:
            return self.source
        return f"{self.attribute}@{'*' if self.region is None else ','.join(map(repr, self.region))}"

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """The part as a box: its values and, unless it is one sensor anywhere, the places of its sensors."""
        if self.region is None:
            return (
                ((self.low, self.high),) if self.source is not None else ((self.low, self.high), _ANYWHERE, _ANYWHERE)
            )
        west, south, east, north = self.region
        return (self.low, self.high), (west, east), (south, north)

    def addresses(self, source: str, attribute: str, location: tuple[float, float] | None) -> bool:
        """Whether readings of a sensor can belong to this part."""
        if attribute != self.attribute or (self.source is not None and source != self.source):
            return False
        if self.region is None:
            return True
        if location is None:
            return False
        west, south, east, north = self.region
        return west <= location[0] <= east and south <= location[1] <= north

    def holds(self, value: float) -> bool:
        """Whether the value of a reading of such a sensor is in the range."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Operator:
    """Parts that must have readings together.

    ``window`` is δt in microseconds: the times of all readings differ by less. ``near`` is δl in metres: their sensors
    are pairwise nearer than that. With ``main`` only readings of that part are wanted and the others decide which
    (the binary joins of Chandramouli and Yang); without it those of all parts are.
    """

    id: str
    parts: tuple[OperatorPart, ...]
    window: int
    near: float | None = None
    main: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise SubscriptionError("a non-empty string as id of an operator", shown(self.id))
        if not self.parts:
            raise SubscriptionError("at least one part in an operator", "none", self.id)
        if len({part.label for part in self.parts}) < len(self.parts):
            raise SubscriptionError("parts that differ in sensor or in kind and region", "two of the same", self.id)
        if not isinstance(self.window, int) or self.window <= 0:
            raise SubscriptionError("a window above 0", shown(self.window), self.id)
        if self.near is not None and not (self.near > 0 and isfinite(self.near)):
            raise SubscriptionError("a distance in metres above 0", shown(self.near), self.id)
        if self.main is not None and not 0 <= self.main < len(self.parts):
            raise SubscriptionError("one of the parts as main part", shown(self.main), self.id)

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """What two operators must share to be compared: the same sensors, or the same kinds of reading."""
        return (*((part.source, part.attribute, len(part.intervals)) for part in self.parts), self.main)

    @cached_property
    def box(self) -> tuple[tuple[float, float], ...]:
        """All that can match as a box: the intervals of the parts, and how far apart readings may be in time and space.

        Boxes of one signature have the same dimensions. Each point in the union of several of them matches at least one
        of their operators, so the union can cover another operator.
        """
        sides = tuple(side for part in self.parts for side in part.intervals)
        if len(self.parts) == 1:
            return sides
        return (*sides, (0.0, float(self.window - 1)), (0.0, inf if self.near is None else nextafter(self.near, -inf)))

    def only(self, parts: Iterable[int], main: int | None = None) -> Operator:
        """The operator on some of its parts; ``main`` is a position among all of them."""
        chosen = tuple(parts)
        if len(chosen) == len(self.parts) and main == self.main:
            return self
        labels = ",".join(self.parts[i].label for i in chosen)
        if main is None:
            name = f"{self.id.split('[')[0]}[{labels}]"
            return Operator(name, tuple(self.parts[i] for i in chosen), self.window, self.near)
        chosen = (main, *(i for i in chosen if i != main))
        name = f"{self.id.split('[')[0]}[{'>'.join(self.parts[i].label for i in chosen)}]"
        return Operator(name, tuple(self.parts[i] for i in chosen), self.window, self.near, 0)

    def __str__(self) -> str:
        shown = [f"{part.low:g} ≤ {part.label} ≤ {part.high:g}" for part in self.parts]
        return f"{self.id}: " + " ∧ ".join(shown)


# --- from the language ----------------------------------------------------------------------------------------------


def operator_of(subscription: Subscription, limits: Limits = DEFAULT_LIMITS) -> Operator:
    """What a subscription with ``together``, or with a condition on one attribute, asks of an overlay.

    Each filter is a conjunction of one range of one attribute, and maybe of ``source = '…'`` and a box around
    ``location``. Everything else is refused, because whether operators cover another is computed on boxes.
    """
    where = subscription.where
    tree = parse(where, limits) if isinstance(where, str) else from_json(where, limits)
    found = compile_where(tree, where, limits)
    if isinstance(found, Filter):
        return Operator(subscription.id, (_part(found, subscription.id),), 1)
    if found.family != "together":
        raise SubscriptionError("together, or a range of one attribute", found.family, subscription.id)
    window, near = _numbers(found)
    parts = [_part(inner.filter, subscription.id) for inner in found.filters]
    parts.sort(key=lambda part: (part.source or "", part.attribute, part.region or ()))
    return Operator(subscription.id, tuple(parts), window, near)


def _numbers(pattern: Pattern) -> tuple[int, float | None]:
    window, near = pattern.numbers
    return int(window), float(near) if orjson.loads(pattern.form)["near"] else None


def _part(filter: Filter, at: str) -> OperatorPart:
    if len(filter.clauses) != 1:
        raise SubscriptionError("one range of one attribute per filter, without OR", "several alternatives", at)
    source: str | None = None
    ranges: dict[str, tuple[float, float]] = {}
    region = {"lon": (-inf, inf), "lat": (-inf, inf)}
    for predicate in filter.clauses[0]:
        if (
            not isinstance(predicate, Within)
            or len(predicate.ranges) != 1
            or not isinstance(predicate.column.operand, str)
        ):
            raise SubscriptionError("one range of one attribute per filter", "a condition of another kind", at)
        reading, name = predicate.column.reading, predicate.column.operand
        low, high = predicate.ranges[0]
        if reading == "text" and name == "source" and high == low + "\0":
            source = low
        elif reading in ("number", "long"):
            if reading == "long":  # readings of sensors are doubles
                ((low, high),) = double_ranges(((number_of(low), number_of(high)),)) or ((inf, -inf),)
            least, most = ranges.get(name, _ANYWHERE)
            ranges[name] = (max(least, low), min(most, nextafter(high, -inf)))
        elif reading in region and name == "location":
            region[reading] = (low, nextafter(high, -inf))
        else:
            raise SubscriptionError(
                "a range of numbers, a source or a box around the location", f"{reading} of {name}", at
            )
    if len(ranges) != 1:
        raise SubscriptionError("one range of one attribute per filter", f"{len(ranges)} attributes", at)
    ((attribute, (low, high)),) = ranges.items()
    (west, east), (south, north) = region["lon"], region["lat"]
    box = None if (west, south, east, north) == (-inf, -inf, inf, inf) else (west, south, east, north)
    return OperatorPart(attribute, low, high, source, box)
