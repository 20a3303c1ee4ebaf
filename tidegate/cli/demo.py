"""``tidegate demo``: writes the valley of ``tidegate.demo`` to a log, matches it on Spark, and shows notifications."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from tidegate.cli.kernel_compilation import compile_kernels
from tidegate.cli.signals import asked_to_stop
from tidegate.cli.spark_command import spark_session
from tidegate.demo import BEGIN, PER_TABLE, STATIONS, subscriptions, tables
from tidegate.engine import Engine
from tidegate.errors import SettingError
from tidegate.extras import require
from tidegate.language import Attribute, parse, walk
from tidegate.model import RESERVED, Publication, Subscription, moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.runs.status import Status
    from tidegate.store.registry import Registry

__all__ = ["demo"]

#: Seconds that an hour of the valley takes on the screen, and notifications shown of a batch.
_HOUR, _SHOWN = 0.25, 3
_SECONDS, _READINGS = 12.0, 50_000
#: The pipeline that is written beside the files.
_CONFIG = """# Make the registry and the log first:
#   tidegate subscribe valley.toml subscriptions.jsonl
#   tidegate publish valley.toml publications.jsonl

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
"""
#: Publications per second without a terminal.
_RATE = 50_000.0
_SCREEN = 16
_LOOK, _PATIENCE = 0.1, 2.0


def demo(
    seed: Annotated[int, typer.Option(help="Another seed, another weather.")] = 7,
    seconds: Annotated[float | None, typer.Option(help="How long to run; 12 on a terminal.")] = None,
    readings: Annotated[int | None, typer.Option(help="How many publications; 50,000 without a terminal.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the files of the demo to this directory instead.")] = None,
) -> None:
    """Watch an alpine sensor network: forty stations, a hundred subscriptions, notifications as they happen.

    Publications go to a log and from there through Spark, all in a directory that is removed at the end. With
    --readings the summary is the same each time for the same seed, apart from what it says of time. Ctrl-C ends it
    early.

    \b
    Example:
      tidegate demo --seed 3 --seconds 5
    """
    if seconds is not None and readings is not None:
        raise SettingError("--seconds or --readings", "both")
    if seed < 0:
        raise SettingError("a seed of 0 or more", f"{seed}")
    if seconds is not None and not 0 < seconds <= 86_400:
        raise SettingError("seconds above 0, up to a day", f"{seconds}")
    if readings is not None and readings < 1:
        raise SettingError("1 reading or more", f"{readings}")
    console = Console()
    if write is not None:
        _write(write, seed, readings or 10_000)
        return
    if seconds is None and readings is None:
        seconds, readings = (_SECONDS, None) if console.is_terminal else (None, _READINGS)
    _run(console, seed, seconds, readings)


# --- running --------------------------------------------------------------------------------------------------------


class _Valley:
    """Makes the publications of the valley again, so that they can be shown: a notification has only their ids."""

    def __init__(self, seed: int) -> None:
        self._hours = enumerate(tables(np.random.default_rng(seed)))
        self._kept: deque[tuple[int, pa.Table]] = deque(maxlen=24)

    def publication(self, id: str, time: datetime) -> Publication | None:
        """The publication with this id, of which there was a notification at a time; None if its hour is long past."""
        wanted = (time - BEGIN) // timedelta(hours=1)
        while not self._kept or self._kept[-1][0] < wanted:
            self._kept.append(next(self._hours))
        for hour, table in reversed(self._kept):  # patterns may notify of it hours later
            if hour <= wanted and (row := pc.index(table.column("id"), id).as_py()) >= 0:
                return _publication(table.slice(row, 1))
        return None


class _ConsoleTotals:
    """Counts the notifications so far and chooses which to show as lines.

    The thread in which Spark runs batches calls ``add``; the thread that draws the screen reads.
    """

    def __init__(self, watching: list[Subscription], seed: int) -> None:
        self.watching = {s.registered_id: s for s in watching}
        self.names = {s.registered_id: _names(s) for s in watching}
        self.notifications = 0
        self.per_subscription: Counter[str] = Counter()
        self.first: dict[str, Publication] = {}
        self.lines: SimpleQueue[str] = SimpleQueue()
        self._shown: Counter[str] = Counter()
        self._valley = _Valley(seed)

    def add(self, batch: int, found: pa.Table) -> None:
        """Count the notifications of a batch; put lines of the subscriptions that were shown least into ``lines``."""
        rows: dict[str, tuple[datetime, str]] = {}  # the first of each subscription: batches come in order of time
        times, ids = found.column("time").to_pylist(), found.column("subscription_id").to_pylist()
        for time, id, about in zip(times, ids, found.column("publication_ids").to_pylist(), strict=True):
            if about:
                rows[id] = min(rows.get(id, (time, about[-1])), (time, about[-1]))
        counts = Counter(ids)
        self.notifications += len(ids)
        self.per_subscription.update(counts)
        chosen = set(sorted(counts, key=lambda id: (self._shown[id], counts[id], id))[:_SHOWN])
        for id, (time, about) in sorted(rows.items(), key=lambda row: (row[1], row[0])):
            if id not in chosen and id in self.first:
                continue
            publication = self._valley.publication(about, time)
            if publication is not None:
                self.first.setdefault(id, publication)
                if id in chosen:
                    self._shown[id] += 1
                    self.lines.put(self._line(id, publication))

    def _line(self, id: str, publication: Publication) -> str:
        seen = ((name, publication.value(name)) for name in self.names[id])
        values = ", ".join(f"{name} {_short(value)}" for name, value in seen if value is not None)
        what = f"{publication.value('station')}: {values}"
        return f"{publication.time:%a %H:%M}  {what:<44} → {self.watching[id].subscriber} ({id.split('/')[-1]})"


def _run(console: Console, seed: int, seconds: float | None, readings: int | None) -> None:
    require("spark", "tidegate demo")
    from tidegate.pipeline.aot_warmup import warmup_aside
    from tidegate.pipeline.session import session
    from tidegate.store.registry import Registry

    watching = subscriptions()
    tally = _ConsoleTotals(watching, seed)
    with ThreadPoolExecutor(1) as aside, tempfile.TemporaryDirectory(prefix="tidegate-demo-") as directory:
        kernels = aside.submit(compile_kernels)  # while Spark starts
        with spark_session(session) as spark:
            with _said_if_slow("compiling kernels, once: this takes up to a minute …"):
                kernels.result()
            with Registry(f"{directory}/registry.db") as registry:
                registry.subscribe(*watching)
                _summary(tally, *_flow(console, spark, registry, directory, tally, seed, seconds, readings))
    warmup_aside()


@contextmanager
def _said_if_slow(what: str) -> Iterator[None]:
    timer = threading.Timer(_PATIENCE, lambda: typer.echo(what, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _flow(
    console: Console,
    spark: SparkSession,
    registry: Registry,
    directory: str,
    tally: _ConsoleTotals,
    seed: int,
    seconds: float | None,
    readings: int | None,
) -> tuple[Status, float]:
    """Run generator, log and Spark, and show notifications as they come; the status, and how many seconds it took."""
    from tidegate.pipeline.flow import Flow
    from tidegate.runs.sinks import Callback
    from tidegate.runs.sources import GeneratorSource

    rate = _RATE if seconds is None else PER_TABLE / _HOUR
    source = GeneratorSource(f"{directory}/log", seed=seed, rate=rate, publications=readings)
    flow = Flow(spark, source, registry, [Callback(tally.add)], checkpoint=f"{directory}/checkpoint", lateness=0)
    started = perf_counter()
    flow.start()
    try:
        with asked_to_stop() as asked, _screen(console) as show:
            began = None
            while not asked.is_set() and not _is_over(flow.status, began, seconds, readings):
                flow.wait(_LOOK)
                if source.failure is not None:
                    raise source.failure
                if began is None and flow.status.batches:
                    began = perf_counter()
                show(tally, flow.status)
            seconds_taken = perf_counter() - started
    finally:
        flow.stop()
    return flow.status, seconds_taken


def _is_over(status: Status, began: float | None, seconds: float | None, readings: int | None) -> bool:
    if readings is not None:
        return status.publications >= readings
    return began is not None and seconds is not None and perf_counter() - began >= seconds


def _hours_seen(status: Status) -> int:
    return 0 if status.newest is None else (moment(status.newest) - BEGIN) // timedelta(hours=1) + 1


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[_ConsoleTotals, Status], None]]:
    """A function that shows lines: a screen that moves on a terminal, plain lines elsewhere."""
    if not console.is_terminal:

        def plain(tally: _ConsoleTotals, status: Status) -> None:
            for line in _new(tally):
                typer.echo(line)

        yield plain
        return
    last: deque[str] = deque(maxlen=_SCREEN)
    with Live(console=console, refresh_per_second=8) as live:

        def moving(tally: _ConsoleTotals, status: Status) -> None:
            last.extend(_new(tally))
            body = [Text(line, no_wrap=True, overflow="ellipsis") for line in last]
            counts = f"{status.publications:,} publications, {tally.notifications:,} notifications"
            counters = f"{counts}, {len(STATIONS)} stations, hour {_hours_seen(status)}"
            live.update(Group(*body, Rule(), Text(counters, style="bold")))

        yield moving


def _new(tally: _ConsoleTotals) -> list[str]:
    return [tally.lines.get() for _ in range(tally.lines.qsize())]


def _summary(tally: _ConsoleTotals, status: Status, seconds: float) -> None:
    notified = tally.per_subscription
    typer.echo(
        f"\n{status.publications:,} publications in {_hours_seen(status)} hours of the valley's time gave "
        f"{tally.notifications:,} notifications to {len(notified)} of {len(tally.watching)} subscriptions."
    )
    rates = f"{status.publications / seconds:,.0f} publications/s, {tally.notifications / seconds:,.0f} notifications/s"
    typer.echo(f"Spark took {seconds:.1f} s and {status.batches} batches, its first one included: {rates}.")
    if notified:
        typer.echo("\nMost notified:")
        for id, count in sorted(notified.items(), key=lambda pair: (-pair[1], pair[0]))[:5]:
            typer.echo(f"  {count:>8,}  {id:<36} {tally.watching[id].where}")
        _explain(tally)
    _try_next()


def _explain(tally: _ConsoleTotals) -> None:
    """Why somebody heard of something: the longest subscription without a pattern, which needs no state."""
    with Engine([tally.watching[id] for id in tally.first]) as engine:
        told = {id: engine.explain(tally.watching[id].id, found) for id, found in tally.first.items()}
    plain = [id for id, explanation in told.items() if not explanation.has_pattern]
    if plain:
        example = max(plain, key=lambda id: (len(tally.names[id]), id))
        subscriber, publication = tally.watching[example].subscriber, tally.first[example]
        typer.echo(f"\nWhy {subscriber} heard of {publication.id} (subscription {example}):")
        for line in str(told[example]).splitlines():
            typer.echo(f"  {line}")


def _try_next() -> None:
    command = "tidegate" if shutil.which("tidegate") else sys.argv[0]
    typer.echo("\nTry this next:")
    for arguments, meaning in (
        ("demo --write valley", "the same valley as files"),
        ("match valley/subscriptions.jsonl valley/publications.jsonl --grouped", "and matched from there"),
        ("functions", "what a subscription can ask"),
    ):
        typer.echo(f"  {command} {arguments:<70} {meaning}")


# --- single publications --------------------------------------------------------------------------------------------


def _names(subscription: Subscription) -> list[str]:
    """The attributes a subscription asks about, apart from what a line shows anyway."""
    found = (node.name for node in walk(parse(str(subscription.where))) if isinstance(node, Attribute))
    return [name for name in dict.fromkeys(found) if name not in RESERVED and name != "station"]


def _publication(row: pa.Table) -> Publication:
    values = {name: value for name, value in row.to_pylist()[0].items() if value is not None}
    if point := values.get("location"):
        values["location"] = (point["lon"], point["lat"])
    fields = {name: values.pop(name) for name in list(values) if name in RESERVED}
    return Publication(**fields, attributes=values)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _write(directory: Path, seed: int, readings: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    options = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
    watching = subscriptions()
    with (directory / "subscriptions.jsonl").open("wb") as file:
        for s in watching:
            file.write(orjson.dumps({"id": s.id, "subscriber": s.subscriber, "where": s.where}, option=options))
    with (directory / "publications.jsonl").open("wb") as file:
        left = readings
        for hour in tables(np.random.default_rng(seed)):
            for row in hour.slice(0, left).to_pylist():
                there = {name: value for name, value in row.items() if value is not None}
                file.write(orjson.dumps(there, option=options))
            if (left := left - len(hour)) <= 0:
                break
    (directory / "valley.toml").write_text(_CONFIG, encoding="utf-8")
    typer.echo(f"{len(watching)} subscriptions and {readings:,} publications written to {directory}")
