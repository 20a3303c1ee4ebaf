"""``tidegate publish``: appends publications to a log, from a file or as they come in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, cast

import orjson
import typer

from tidegate.cli.progress import progress
from tidegate.cli.publication_files import batches, publication, table
from tidegate.cli.registry_argument import config, registry
from tidegate.cli.text_records import text
from tidegate.cli.timezone_option import OwnTimezone
from tidegate.errors import PublicationError, SettingError, TidegateError, shown
from tidegate.model import Publication
from tidegate.time_zones import TimeZone

if TYPE_CHECKING:
    from tidegate.store.log import Appended, Log

__all__ = ["log_of", "publish"]

_STDIN = "standard input"
#: Bytes that one read takes from standard input at most; a read waits only if there are none.
_CHUNK = 1 << 20


def publish(
    log: Annotated[str, typer.Argument(help="The directory of a log, or a CONFIG file (.toml) with one.")],
    file: Annotated[
        Path, typer.Argument(help="Publications: .jsonl, .json, .csv or .parquet; - for JSON Lines from outside.")
    ],
    registered: Annotated[
        str | None,
        typer.Option("--registry", help="Whose subscriptions apply; needed unless LOG is a CONFIG file, or none do."),
    ] = None,
    timezone: OwnTimezone = None,
) -> None:
    """Append publications to a log. What is counted at the end is on the disk and will not be lost.

    Each publication is matched with the subscriptions that the registry has when it is appended. From standard input
    publications are appended as they come. One that is none ends the command; the count says how many were appended.
    The log of a data directory takes each publication once, known by source, id and phase: what it has from the last
    day is counted, and refused if it says something else; then the exit code is 1.

    \b
    Example:
      tidegate publish readings.log readings.csv --registry registry.db
    """
    from tidegate.store.data_directory import log_to_append

    place, whose = _meant(log, registered)
    zone = TimeZone.named(timezone)
    with ExitStack() as stack:
        source = stack.enter_context(registry(whose)) if whose is not None else None
        target = log_to_append(place, version=lambda: source.version if source is not None else 0)
        stack.enter_context(target)
        began, appended, duplicates, conflicts = perf_counter(), 0, 0, 0
        try:
            for found in _standard_input(target, zone) if str(file) == "-" else _file(target, file, zone):
                appended, duplicates = appended + found.accepted, duplicates + found.duplicates
                conflicts += len(found.conflicts)
        finally:
            told = f"{appended:,} publications appended in {perf_counter() - began:.2f} s"
            if duplicates:
                told += f", {duplicates:,} were there already"
            if conflicts:
                told += f", {conflicts:,} refused: the log has others with the same source, id and phase"
            typer.echo(f"{told}; the log ends at row {target.end:,}", err=True)
    if conflicts:
        raise typer.Exit(1)


def log_of(place: str) -> str:
    """The directory of the log that is named: itself, or as the source of a CONFIG file."""
    from tidegate.runs.source_sections import LogInput

    found = config(place)
    if found is None:
        return place
    if not isinstance(found.source, LogInput):
        raise SettingError('a CONFIG file whose source is a log (type = "log")', shown(place))
    found.made()
    return found.source.path


def _meant(log: str, registered: str | None) -> tuple[str, str | None]:
    directory = log_of(log)
    if config(log) is None:
        return directory, registered
    if registered is not None:
        raise SettingError("the registry of the CONFIG file", f"--registry {registered}")
    return directory, log


def _file(log: Log, file: Path, zone: TimeZone | None) -> Iterator[Appended]:
    found = batches(file, zone)
    with progress(file.stat().st_size) as show:
        done = 0
        for batch in found:
            try:
                appended = log.append(batch.rows, timezone=zone)
            except TidegateError as error:
                raise batch.located(error) from None
            done += len(batch.rows)
            show(batch.read, f"{done:,} publications")
            yield appended


def _standard_input(log: Log, zone: TimeZone | None) -> Iterator[Appended]:
    """Append lines of standard input as they come: all that one read brings are appended together."""
    stream = cast(BufferedReader, sys.stdin.buffer)
    rest, number, more = b"", 0, True
    while more:
        chunk = stream.read1(_CHUNK)
        more = bool(chunk)
        *whole, rest = (rest + chunk).split(b"\n") if more else (rest, b"")
        found = []
        for line in whole:
            number += 1
            if line.strip():
                found.append(_publication(line, f"{_STDIN}, line {number}", zone))
        if found:
            try:
                yield log.append(table(found, marked=True) or found)
            except TidegateError as error:
                error.at = f"{error.at} of those that end with line {number} of {_STDIN}"
                raise


def _publication(line: bytes, place: str, zone: TimeZone | None) -> Publication:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as wrong:
        got = shown(text(line, place, PublicationError))
        raise PublicationError("a JSON object on each line", f"{got}, where {wrong.msg}", place) from None
    if not isinstance(record, dict):
        raise PublicationError("a JSON object on each line", shown(record), place)
    return publication(record, place, zone)
