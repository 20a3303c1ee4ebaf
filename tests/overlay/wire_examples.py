"""Messages to be sent as bytes, how they are compared, and how they are refused."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from math import inf, nan

from tests.parts.refusal import assert_refused
from tests.test_stored_bodies import seen
from tidegate.errors import MessageError
from tidegate.model import Publication
from tidegate.overlay.messages import Reading, Subscribe
from tidegate.overlay.operators import Operator, OperatorPart

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
PUBLICATION = Publication(
    "p1", "z7", NOON, {"no2": 41.5, "wave": [1.0, nan, -inf]}, phase="START", location=(7.25, 46), valid_until=NOON
)
OPERATOR = Operator(
    "s1",
    (OperatorPart("ambient", -5.5, inf, "z7"), OperatorPart("wind", -inf, 3, region=(-inf, 46.0, 7.5, inf))),
    300_000_000,
    near=250.0,
    main=1,
)
READING = Reading("r1", "z7", 12.5, 1_190_000_000_000_000)
NAMED = replace(READING, id='é"', value=-0.0, time=-1, results=("s1[z7,a]", "s2"))


def by_value(message):
    """A message as something to compare: numbers by their bits, publications as expressions see them."""
    if isinstance(message, Publication):
        held = {field.name: getattr(message, field.name) for field in fields(message)}
        attributes = {name: seen(value) for name, value in held.pop("attributes").items()}
        return {name: seen(value) for name, value in held.items()}, attributes
    if is_dataclass(message):
        return type(message), *(by_value(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, tuple):
        return tuple(map(by_value, message))
    return float(message).hex() if isinstance(message, int | float) else message


def refused(act, *parts):
    assert_refused(act, MessageError, *parts)


LONG = "x" * 1025


def part(**other):
    return OperatorPart(**{"attribute": "a", "low": 0.0, "high": 1.0} | other)


def subscribe(*parts, **other):
    return Subscribe(Operator(**{"id": "s", "parts": parts or (part(),), "window": 5} | other))
