"""``tidegate rehearse``: what subscriptions would have sent over a history, per day or hour, with a chart."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from rich.console import Console

from tidegate.cli.input_files import gathered, written
from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.progress import progress
from tidegate.cli.rehearsal_report import RehearsalReport
from tidegate.cli.shapes_option import OwnShapes
from tidegate.cli.spark_command import interruptible, spark_session
from tidegate.cli.subscription_files import read
from tidegate.cli.timezone_option import OwnTimezone
from tidegate.engine import Engine
from tidegate.errors import ParseError, SettingError, shown
from tidegate.extras import require
from tidegate.language import instant
from tidegate.model import Subscription, moment
from tidegate.time_zones import TimeZone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.pipeline.rehearsal import Extent, Outcome

__all__ = ["rehearse"]


class By(StrEnum):
    """What is counted together."""

    day = "day"
    hour = "hour"


_LENGTHS = {By.day: timedelta(days=1), By.hour: timedelta(hours=1)}


def rehearse(
    events: Annotated[
        list[str], typer.Argument(help="The history: files or folders of .parquet, .jsonl, .json or .csv.")
    ],
    where: Annotated[
        list[str] | None, typer.Option("--where", "-w", help="An expression to rehearse; may be given several times.")
    ] = None,
    subscriptions: Annotated[
        Path | None, typer.Option("--subscriptions", "-s", help="Or a file of subscriptions, as `match` takes it.")
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", help="Only from this date or timestamp on (2026-10-01, in UTC).")
    ] = None,
    end: Annotated[str | None, typer.Option("--until", help="Only before this date or timestamp.")] = None,
    by: Annotated[By, typer.Option(help="What is counted together.")] = By.day,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write all notifications there, a folder of Parquet.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    shards: Annotated[
        int | None, typer.Option(help="Pieces that patterns are shared among; as many as cores by default.", min=1)
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of Spark's Java, such as 4g.")] = None,
    timezone: OwnTimezone = None,
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
) -> None:
    """Say what subscriptions would have sent over a history: how many notifications, and on which days.

    The history runs through the same code as a pipeline, on Spark: Parquet may be larger than memory, other files, and
    with --timezone all files, are read into Parquet first. Its order does not matter, and nothing is late: patterns see
    publications in order of time. --from and --until leave out the publications before and after, so that patterns
    begin with nothing.

    \b
    Example:
      tidegate rehearse history/ --where "no2 > 40 AND topk(3, 'PT1H', no2)" --from 2026-10-01 --until 2026-11-01
    """
    began = perf_counter()
    wanted = _subscriptions(where or [], subscriptions)
    bounds = _instant(begin, "--from"), _instant(end, "--until")
    if bounds[0] and bounds[1] and bounds[0] >= bounds[1]:
        raise SettingError("--from before --until", f"{begin} and {end}")
    if out is not None and out.exists():
        raise SettingError("an output that does not exist yet", shown(str(out)), "--out")
    zone = TimeZone.named(timezone)
    files = gathered(events, rewritten=zone is not None)
    require("spark", "tidegate rehearse")
    # the options are checked before Spark starts, the history when it is read
    from tidegate.pipeline.session import session

    with TemporaryDirectory(prefix="tidegate-rehearse-") as storage, _aside(out) as target:
        paths = [*files.parquet, *written(files, Path(storage, "history"), zone)]
        with spark_session(lambda: session(memory=memory)) as spark, _sharing(spark, shards):
            seen, outcome = interruptible(spark, lambda: _rehearsed(spark, paths, wanted, bounds, by, storage, target))
    report = RehearsalReport(wanted, files, seen, outcome, _LENGTHS[by], perf_counter() - began)
    if json:
        typer.echo(report.record())
    else:
        report.report(Console(highlight=False, soft_wrap=True))
    if out is not None:
        typer.echo(f"notifications written to {out}", err=True)


def _rehearsed(
    spark: SparkSession,
    paths: Sequence[str],
    wanted: Sequence[Subscription],
    bounds: tuple[datetime | None, datetime | None],
    by: By,
    storage: str,
    out: Path | None,
) -> tuple[Extent, Outcome]:
    from tidegate.pipeline.rehearsal import extent, history, rehearsed, watched

    found = history(spark, paths, *bounds)
    with progress(1000) as show, watched(spark, lambda n, of: show(1000 * n // max(of, 1), f"{n:,} of {of:,} tasks")):
        seen = extent(found)
        target = None if out is None else str(out)
        return seen, rehearsed(found, wanted, _LENGTHS[by], f"{storage}/matching", target)


# --- options --------------------------------------------------------------------------------------------------------


def _subscriptions(where: list[str], file: Path | None) -> list[Subscription]:
    if bool(where) == (file is not None):
        raise SettingError("either --where or --subscriptions", "both" if where else "neither")
    if file is not None:
        found = read(file)
        if not found:
            raise SettingError("subscriptions", "an empty file", str(file))
    else:
        found = [Subscription(str(number), "you", text) for number, text in enumerate(where, 1)]
    Engine(found)  # raises mistakes in expressions before Spark is started
    return found


def _instant(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        return moment(instant(text)[0])
    except ParseError as error:
        raise SettingError("a date, or a timestamp with its offset from UTC", error.got, option) from None


@contextmanager
def _aside(out: Path | None) -> Iterator[Path | None]:
    """A temporary path beside ``out``, renamed to ``out`` if all goes well and removed if not."""
    if out is None:
        yield None
        return
    if not out.absolute().parent.is_dir():
        raise SettingError("an output in a folder that exists", shown(str(out)), "--out")
    aside = out.absolute().with_name(f".{out.name}-{uuid4().hex[:8]}")
    try:
        yield aside
        os.replace(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _sharing(spark: SparkSession, shards: int | None) -> Iterator[None]:
    """Set how many shards patterns are shared among while the context lasts."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    if shards is not None:
        spark.conf.set(name, str(shards))
    yield
    with suppress(Exception):  # Spark may be gone already
        spark.conf.set(name, str(before))
