"""``tidegate demo``: the valley of ``tidegate.demo``, run through the engine and shown as it happens."""

from __future__ import annotations

import shutil
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import ceil
from pathlib import Path
from time import perf_counter, sleep
from typing import Annotated, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from tidegate.demo import STATIONS, subscriptions, tables
from tidegate.engine import Engine
from tidegate.errors import SettingError
from tidegate.language import Attribute, parse, walk
from tidegate.model import RESERVED, Publication, Subscription

__all__ = ["demo"]

#: Seconds that an hour of the valley takes on the screen, and notifications shown of each.
_HOUR, _SHOWN = 0.25, 3
_SECONDS, _READINGS = 12.0, 50_000
_SCREEN = 16
_PATIENCE = 2.0


def demo(
    seed: Annotated[int, typer.Option(help="Another seed, another weather.")] = 7,
    seconds: Annotated[float | None, typer.Option(help="How long to run; 12 on a terminal.")] = None,
    readings: Annotated[int | None, typer.Option(help="How many publications; 50,000 without a terminal.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the files of the demo to this directory instead.")] = None,
) -> None:
    """Watch an alpine sensor network: forty stations, a hundred subscriptions, notifications as they happen.

    Everything but the rates is the same each time for the same seed.

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


def _hours(seed: int, seconds: float | None, readings: int | None) -> Iterator[pa.Table]:
    hours = tables(np.random.default_rng(seed))
    if seconds is not None:
        yield from islice(hours, ceil(seconds / _HOUR))
        return
    left = readings or 0
    while left > 0:
        table = next(hours).slice(0, left)
        left -= len(table)
        yield table


# --- running --------------------------------------------------------------------------------------------------------


class _Tally:
    """What has been published and notified so far, and which lines of it are worth showing."""

    def __init__(self, watching: list[Subscription]) -> None:
        self.watching = {s.id: s for s in watching}
        self.names = {s.id: _names(s) for s in watching}
        self.publications = self.notifications = self.hours = 0
        self.seconds = 0.0
        self.per_subscription: Counter[str] = Counter()
        self.shown: Counter[str] = Counter()
        self.first: dict[str, Publication] = {}

    def add(self, table: pa.Table, found: pa.Table, seconds: float) -> list[str]:
        """Count an hour; the lines to show for it, of the subscriptions that have been shown least."""
        self.publications += len(table)
        self.notifications += len(found)
        self.hours += 1
        self.seconds += seconds
        ids = found.column("subscription_id")
        counts = {row["values"]: row["counts"] for row in pc.value_counts(ids).to_pylist()}
        self.per_subscription.update(counts)
        chosen = sorted(counts, key=lambda id: (self.shown[id], counts[id], id))[:_SHOWN]
        rows = {id: row for row, id in enumerate(table.column("id").to_pylist())} if chosen else {}
        lines = []
        for id in chosen:
            at = pc.index(ids, id).as_py()
            publication = _publication(table.slice(rows[found.column("publication_ids")[at].as_py()[0]], 1))
            self.shown[id] += 1
            self.first.setdefault(id, publication)
            lines.append((publication.time, self._line(id, publication)))
        return [line for _, line in sorted(lines)]

    def _line(self, id: str, publication: Publication) -> str:
        seen = ((name, publication.value(name)) for name in self.names[id])
        values = ", ".join(f"{name} {_short(value)}" for name, value in seen if value is not None)
        what = f"{publication.value('station')}: {values}"
        return f"{publication.time:%a %H:%M}  {what:<44} → {self.watching[id].subscriber} ({id.split('/')[1]})"

    def counters(self) -> str:
        counts = f"{self.publications:,} publications, {self.notifications:,} notifications"
        return f"{counts}, {len(STATIONS)} stations, hour {self.hours}"


def _run(console: Console, seed: int, seconds: float | None, readings: int | None) -> None:
    watching = subscriptions()
    with _said_if_slow("compiling kernels, once: this takes up to a minute …"):
        engine = Engine(watching)
        engine.publish(next(tables(np.random.default_rng(seed))).slice(0, 64))
    tally = _Tally(watching)
    with _screen(console) as show:
        due = perf_counter()
        for table in _hours(seed, seconds, readings):
            began = perf_counter()
            found = engine.publish(table)
            show(tally.add(table, found, perf_counter() - began), tally)
            if seconds is not None:
                due += _HOUR
                sleep(max(0.0, due - perf_counter()))
    _summary(tally, engine)


@contextmanager
def _said_if_slow(what: str) -> Iterator[None]:
    timer = threading.Timer(_PATIENCE, lambda: typer.echo(what, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _screen(console: Console) -> Iterator[Any]:
    """A function that shows lines: a screen that moves on a terminal, plain lines elsewhere."""
    if not console.is_terminal:

        def plain(lines: list[str], tally: _Tally) -> None:
            for line in lines:
                typer.echo(line)

        yield plain
        return
    last: deque[str] = deque(maxlen=_SCREEN)
    with Live(console=console, refresh_per_second=8) as live:

        def moving(lines: list[str], tally: _Tally) -> None:
            last.extend(lines)
            body = [Text(line, no_wrap=True, overflow="ellipsis") for line in last]
            live.update(Group(*body, Rule(), Text(tally.counters(), style="bold")))

        yield moving


def _summary(tally: _Tally, engine: Engine) -> None:
    notified, seconds = tally.per_subscription, max(tally.seconds, 1e-9)
    typer.echo(
        f"\n{tally.publications:,} publications in {tally.hours} hours of the valley's time gave "
        f"{tally.notifications:,} notifications to {len(notified)} of {len(engine)} subscriptions."
    )
    rates = f"{tally.publications / seconds:,.0f} publications/s, {tally.notifications / seconds:,.0f} notifications/s"
    typer.echo(f"Matching took {tally.seconds:.2f} s: {rates}.")
    if notified:
        typer.echo("\nMost notified:")
        for id, count in sorted(notified.items(), key=lambda pair: (-pair[1], pair[0]))[:5]:
            typer.echo(f"  {count:>8,}  {id:<36} {tally.watching[id].where}")
        example = max(tally.first, key=lambda id: (len(tally.names[id]), id))
        publication = tally.first[example]
        typer.echo(f"\nWhy {tally.watching[example].subscriber} heard of {publication.id} (subscription {example}):")
        for line in str(engine.explain(example, publication)).splitlines():
            typer.echo(f"  {line}")
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
        for table in _hours(seed, None, readings):
            for row in table.to_pylist():
                there = {name: value for name, value in row.items() if value is not None}
                file.write(orjson.dumps(there, option=options))
    typer.echo(f"{len(watching)} subscriptions and {readings:,} publications written to {directory}")
