"""``tidegate match``: a file of subscriptions against a file of publications; notifications as JSON Lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, BinaryIO

import orjson
import pyarrow as pa
import typer

from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.progress import progress
from tidegate.cli.publication_files import FileBatch, batches
from tidegate.cli.shapes_option import OwnShapes
from tidegate.cli.subscription_files import load
from tidegate.cli.timezone_option import OwnTimezone
from tidegate.engine import Engine
from tidegate.errors import SettingError, TidegateError
from tidegate.index.small_tables import flat_of
from tidegate.time_zones import TimeZone

__all__ = ["match"]


def match(
    subscriptions: Annotated[Path, typer.Argument(help="Subscriptions: .jsonl, .json, .csv, .cql2 or .txt.")],
    publications: Annotated[Path, typer.Argument(help="Publications: .jsonl, .json, .csv or .parquet.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of to the screen.")
    ] = None,
    grouped: Annotated[
        bool, typer.Option("--grouped", help="One line per publication, with subscription ids.")
    ] = False,
    timezone: OwnTimezone = None,
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
) -> None:
    """Match publications with subscriptions and write notifications as JSON Lines.

    A publication has id, source and time (ISO 8601 with its offset from UTC) and, if wanted, start, end, phase,
    location ({"lon": …, "lat": …}, or columns location.lon and location.lat, or longitude and latitude) and
    valid_until. Every other name is an attribute; in JSON attributes may also stand under "attributes".

    \b
    Example:
      tidegate match subscriptions.jsonl readings.csv --output notifications.jsonl
    """
    inputs = [file.resolve() for file in (subscriptions, publications)]
    if output is not None and output.resolve() in inputs:
        raise SettingError("an output that is not an input", str(output))
    engine = load(subscriptions)
    zone = TimeZone.named(timezone)
    source = batches(publications, zone)
    began, seen, sent = perf_counter(), 0, 0
    with _written_to(output) as target, progress(publications.stat().st_size) as show:
        for batch in source:
            found = _matched(engine, batch, zone, grouped)
            _write(found, target)
            seen += len(batch.rows)
            sent += _notifications(found, grouped)
            rate = seen / max(perf_counter() - began, 1e-9)
            show(batch.read, f"{seen:,} publications, {rate:,.0f}/s, {sent:,} notifications")
    seconds = perf_counter() - began
    typer.echo(f"{seen:,} publications, {sent:,} notifications, {seconds:.2f} s", err=True)


def _matched(engine: Engine, batch: FileBatch, zone: TimeZone | None, grouped: bool) -> pa.Table:
    try:
        if isinstance(batch.rows, pa.Table):
            return engine.publish(batch.rows, grouped=grouped, timezone=zone)
        if grouped:
            return engine.publish(batch.rows, grouped=True)
        return flat_of(engine.publish(batch.rows))
    except TidegateError as error:
        raise batch.located(error) from None


def _notifications(found: pa.Table, grouped: bool) -> int:
    return sum(map(len, found.column("subscription_ids").to_pylist())) if grouped else len(found)


def _write(found: pa.Table, target: BinaryIO) -> None:
    for row in found.to_pylist():
        if "subscription_ids" in row:
            row["subscription_ids"].sort()
        target.write(orjson.dumps(row, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE))


@contextmanager
def _written_to(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
    else:
        with output.open("wb") as file:
            yield file
