"""Ways to match readings: an engine, ``tg.match``, ``tidegate match`` and ``tidegate run``, all told in one form."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate as tg
from tests.cli.commands import run

Told = list[tuple[Any, ...]]

_PIPELINE = """
[source]
type = "files"
path = "in"
{zone}
[subscriptions]
registry = "registry.db"
file = "subscriptions.jsonl"

[[sinks]]
type = "parquet"
path = "notifications"
grouped = false

[run]
checkpoint = "checkpoint"
lateness = 0
"""


def told(found: list[tg.Notification] | pa.Table) -> Told:
    """Notifications in order, whatever form they have."""
    if isinstance(found, pa.Table):
        return _in_order(found.to_pylist())
    return _in_order([dict(zip(_NAMES, notification, strict=True)) for notification in found])


def _in_order(rows: list[dict[str, Any]]) -> Told:
    return sorted(
        (r["time"], r["subscription_id"], r["notification_id"], r["subscriber"], *r["publication_ids"]) for r in rows
    )


_NAMES = ("notification_id", "subscription_id", "subscriber", "time", "publication_ids", "score", "distance")


def by_engine(subscriptions: list[tg.Subscription], given: Any, **options: Any) -> Told:
    with tg.Engine(subscriptions) as engine:
        return told(engine.publish(given, **options))


def by_command(subscriptions: list[tg.Subscription], file: Path, zone: str | None) -> Told:
    """``tidegate match``, which matches 8,192 publications at a time; so for fewer, or without patterns."""
    out = file.with_name("told.jsonl")
    run("match", _written(subscriptions, file.parent), file, "-o", out, *(("--timezone", zone) if zone else ()))
    schema = pa.schema(
        [
            *[(name, pa.string()) for name in _NAMES[:3]],
            ("time", pa.string()),
            ("publication_ids", pa.list_(pa.string())),
        ]
    )
    rows = [{name: row[name] for name in _NAMES[:5]} for row in map(orjson.loads, out.read_text().splitlines())]
    found = pa.Table.from_pylist(rows, schema)
    times = found.column("time").cast(pa.timestamp("us", "UTC"))
    return told(found.set_column(3, "time", times))


def by_match(spark: Any, subscriptions: list[tg.Subscription], frame: Any, zone: str | None = None) -> Told:
    return told(tg.match(frame, subscriptions, timezone=zone).toArrow())


def by_run(subscriptions: list[tg.Subscription], file: Path, zone: str | None, folder: Path) -> Told:
    """``tidegate run``, over a folder with that file."""
    (folder / "in").mkdir(parents=True)
    shutil.copy(file, folder / "in")
    _written(subscriptions, folder)
    config = folder / "pipeline.toml"
    config.write_text(_PIPELINE.format(zone=f'timezone = "{zone}"\n' if zone else ""))
    run("run", config, "--available-now")
    return told(pq.read_table(folder / "notifications"))


def _written(subscriptions: list[tg.Subscription], folder: Path) -> Path:
    path = folder / "subscriptions.jsonl"
    records = ({"id": s.id, "subscriber": s.subscriber, "where": s.where} for s in subscriptions)
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path
