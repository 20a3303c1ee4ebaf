"""Commands as a user gives them, in this process; and small files for them."""

from __future__ import annotations

from pathlib import Path

import orjson
from typer.testing import CliRunner

from tidegate.cli.app import app

#: A pipeline from a log to Parquet, all beside its TOML file.
CONFIG = """
[source]
type = "log"
path = "readings.log"

[subscriptions]
registry = "registry.db"

[[sinks]]
type = "parquet"
path = "notifications"

[run]
checkpoint = "checkpoint"
ahead = "off"
"""
SUBSCRIPTIONS = [
    {"id": "s1", "subscriber": "ann", "where": "no2 > 40"},
    {"id": "s2", "subscriber": "bob", "where": {"op": "=", "args": [{"property": "station"}, "z7"]}},
    {"id": "s3", "subscriber": "ann", "where": "no2 > 90", "active_until": "2027-11-15T08:00:00Z"},
]
PUBLICATIONS = [
    {"id": "p1", "source": "z7", "time": "2026-11-15T08:00:00Z", "no2": 45, "station": "z7"},
    {"id": "p2", "source": "z8", "time": "2026-11-15T09:00:00Z", "no2": 12},
    {"id": "p3", "source": "z9", "time": "2026-11-15T09:30:00Z", "no2": 91.5},
]
#: Of a registry; a list has their ids without the subscribers.
EXPECTED = [("ann/s1", "p1"), ("ann/s1", "p3"), ("ann/s3", "p3"), ("bob/s2", "p1")]


def run(*arguments: object, code: int = 0, input: str | bytes | None = None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def refused(*arguments: object, code: int = 2, input: str | bytes | None = None) -> str:
    message = run(*arguments, code=code, input=input).stderr.splitlines()[-1]
    assert message.startswith("tidegate: expected ")
    assert "; got " in message
    return message


def lines(path: Path, records: list[dict]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


def config(directory: Path, text: str = CONFIG) -> Path:
    path = directory / "pipeline.toml"
    path.write_text(text)
    return path


def pairs(records: list[dict]) -> list[tuple[str, str]]:
    """Who was told of what, of notifications in either form."""
    if records and "subscription_ids" in records[0]:
        return sorted((id, row["publication_id"]) for row in records for id in row["subscription_ids"])
    return sorted((row["subscription_id"], row["publication_ids"][0]) for row in records)
