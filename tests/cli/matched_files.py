"""Subscriptions and publications for commands that need no pipeline, and who is told of what."""

from __future__ import annotations

import orjson

from tests.cli.commands import run

SUBSCRIPTIONS = [
    {"id": "s1", "subscriber": "ann", "where": "no2 > 40"},
    {"id": "s2", "subscriber": "bob", "where": {"op": "=", "args": [{"property": "station"}, "z7"]}},
    {
        "id": "s3",
        "subscriber": "cy",
        "where": "S_DWITHIN(location, POINT(7 46), 900)",
        "active_from": "2026-11-15T08:30:00Z",
    },
]
PUBLICATIONS = [
    {"id": "p1", "source": "z7", "time": "2026-11-15T08:00:00Z", "no2": 45, "station": "z7"},
    {"id": "p2", "source": "z8", "time": "2026-11-15T10:00:00+01:00", "no2": 12, "location": {"lon": 7, "lat": 46}},
    {"id": "p3", "source": "z9", "time": "2026-11-15T09:30:00Z", "no2": 41.5},
]
EXPECTED = [("s1", "p1"), ("s2", "p1"), ("s3", "p2"), ("s1", "p3")]


def refused(*arguments: object, input: str | bytes | None = None) -> str:
    message = run(*arguments, code=2, input=input).stderr
    assert message.startswith("tidegate: expected ")
    assert "; got " in message
    return message


def pairs(text: str) -> list[tuple[str, str]]:
    rows = [orjson.loads(line) for line in text.splitlines()]
    return [(row["subscription_id"], *row["publication_ids"]) for row in rows]
