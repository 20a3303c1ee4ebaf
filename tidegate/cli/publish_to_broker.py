"""What ``tidegate publish --broker`` does: sends a file, or lines as they come, and says what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import typer

from tidegate.cli.progress import progress
from tidegate.cli.publication_files import FileBatch, batches, publication
from tidegate.cli.publication_lines import standard_input
from tidegate.cli.text_records import JSON, objects
from tidegate.errors import PublicationError, TidegateError
from tidegate.model import Publication
from tidegate.time_zones import TimeZone

if TYPE_CHECKING:
    from tidegate.client.plain_broker import Broker

__all__ = ["send"]

#: Refusals that are told one by one.
_TOLD = 20
_SIZE = 1_000


class _Part(NamedTuple):
    """Some publications, the place of each for people, and how many bytes have been read."""

    rows: pa.Table | list[Publication]
    places: list[str]
    read: int


def send(client: Broker, file: Path, zone: TimeZone | None) -> None:
    """Send all publications of a file; - is standard input. If any is refused the exit code is 1."""
    began, accepted, duplicates, refused = perf_counter(), 0, 0, 0
    is_stream = str(file) == "-"
    try:
        with progress(0 if is_stream else file.stat().st_size) as show:
            for part in _standard_input(zone) if is_stream else _parts(file, zone):
                for answer in client.publish_in_batches(part.rows):
                    accepted, duplicates = accepted + answer.accepted, duplicates + answer.duplicates
                    for one in answer.refused:
                        refused += 1
                        if refused <= _TOLD:
                            typer.echo(f"tidegate: {one.detail}; at {part.places[one.index]}", err=True)
                show(part.read, f"{accepted + duplicates + refused:,} publications")
    finally:
        told = f"{accepted:,} publications accepted in {perf_counter() - began:.2f} s"
        if duplicates:
            told += f", {duplicates:,} were there already"
        if refused:
            told += f", {refused:,} refused"
        typer.echo(told, err=True)
    if refused:
        raise typer.Exit(1)


def _parts(file: Path, zone: TimeZone | None) -> Iterator[_Part]:
    if file.suffix.lower() in JSON and file.is_file():
        yield from _of_json(file, zone)
        return
    for batch in batches(file, zone):
        places = [f"{batch.file}, {batch.unit} {number}" for number in batch.numbers]
        yield _Part(_with_instants(batch, zone), places, batch.read)


def _of_json(file: Path, zone: TimeZone | None) -> Iterator[_Part]:
    """As objects: a column of a table may say less of its numbers than JSON does."""
    found, places, read = list[Publication](), list[str](), 0
    for place, record, read in objects(file, PublicationError):
        if isinstance(record, TidegateError):
            raise record
        found.append(publication(record, str(place), zone))
        places.append(str(place))
        if len(found) == _SIZE:
            yield _Part(found, places, read)
            found, places = [], []
    if found:
        yield _Part(found, places, read)


def _standard_input(zone: TimeZone | None) -> Iterator[_Part]:
    for found, last in standard_input(zone):
        yield _Part(found, [f"the lines up to {last} of standard input"] * len(found), 0)


def _with_instants(batch: FileBatch, zone: TimeZone | None) -> pa.Table | list[Publication]:
    """The rows, with times without a zone as the instants that they are in ``zone``."""
    rows = batch.rows
    if zone is None or not isinstance(rows, pa.Table):
        return rows
    if not any(pa.types.is_timestamp(kind) and kind.tz is None for kind in rows.schema.types):
        return rows
    from tidegate.index.table_columns import columns_of

    try:
        found, untimely = columns_of(rows, zone)
        for rule in untimely:
            raise rule.error(0)
    except TidegateError as error:
        raise batch.located(error) from None
    return pa.table(dict(found))
