"""``tidegate publish``: appends publications to a log, from a file or as they come in, or sends them to a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.broker_option import CaFile, OfBroker, TokenFile, connection, expect_no_place
from tidegate.cli.progress import progress
from tidegate.cli.publication_files import batches, table
from tidegate.cli.publication_lines import standard_input
from tidegate.cli.publish_to_broker import send
from tidegate.cli.registry_argument import config, registry
from tidegate.cli.timezone_option import OwnTimezone
from tidegate.errors import SettingError, TidegateError, shown
from tidegate.time_zones import TimeZone

if TYPE_CHECKING:
    from tidegate.store.log import Appended, Log

__all__ = ["log_of", "publish"]


def publish(
    log: Annotated[
        str | None, typer.Argument(help="The directory of a log, or a CONFIG file (.toml) with one; not with --broker.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(help="Publications: .jsonl, .json, .csv or .parquet; - for JSON Lines from outside."),
    ] = None,
    registered: Annotated[
        str | None,
        typer.Option("--registry", help="Whose subscriptions apply; needed unless LOG is a CONFIG file, or none do."),
    ] = None,
    timezone: OwnTimezone = None,
    broker: OfBroker = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Append publications to a log, or send them to a broker. What is counted at the end is on its disk, not lost.

    Each publication is matched with the subscriptions that the registry has when it is appended. From standard input
    publications are appended as they come. One that is none ends the command; the count says how many were appended.
    The log of a data directory takes each publication once, known by source, id and phase: what it has from the last
    day is counted, and refused if it says something else; then the exit code is 1. A broker may refuse others as well,
    each by itself; what is sent to it and not answered is sent again.

    \b
    Example:
      tidegate publish readings.log readings.csv --registry registry.db
    """
    zone = TimeZone.named(timezone)
    if broker is not None:
        if file is not None or registered is not None:
            expect_no_place(registered if file is None else log, "a log")
        if log is None:
            raise SettingError("a file of publications", "none")
        with connection(broker, token_file, ca, "tidegate publish --broker") as client:
            send(client, Path(log), zone)
        return
    if log is None or file is None:
        raise SettingError("a log and a file of publications, or --broker and a file", shown(log) if log else "neither")
    _append(log, file, registered, zone)


def _append(log: str, file: Path, registered: str | None, zone: TimeZone | None) -> None:
    from tidegate.store.data_directory import log_to_append

    place, whose = _meant(log, registered)
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
    for found, last in standard_input(zone):
        try:
            yield log.append(table(found, marked=True) or found)
        except TidegateError as error:
            error.at = f"{error.at} of those that end with line {last} of standard input"
            raise
