"""What is given and refused: one error that says what was expected and where, and nothing has changed."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

import tidegate as tg
from tests.parts.refusal import assert_refused

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
HUGE = "x" * 10_000_000
DEEP = "(" * 5000 + "x = 1" + ")" * 5000


class Broken(tzinfo):
    def utcoffset(self, when):
        raise RuntimeError("no such zone")


class Silent(tzinfo):
    def utcoffset(self, when):
        return None


def pub(**fields):
    return tg.Publication(**{"id": "p", "source": "z", "time": NOW} | fields)


def with_value(value):
    return lambda: pub(attributes={"no2": value})


def nested(depth):
    where = {"op": "=", "args": [{"property": "x"}, 1]}
    for _ in range(depth):
        where = {"op": "not", "args": [where]}
    return where


def state(engine):
    probe = [pub(id=f"p{i}", attributes={"no2": value}) for i, value in enumerate([39, 41, "x", None])]
    return list(engine), len(engine), engine.publish(probe)


def refused(engine, act, error, *parts):
    """The call raises that error with these parts in its message, and the engine is as it was."""
    before = state(engine)
    assert_refused(act, error, *parts)
    assert state(engine) == before
    engine.subscribe(tg.Subscription("new", "ann", "no2 IS NULL"))
    assert {n.subscription for n in engine.publish([pub()])} == {"any", "new"}
