"""``tidegate overlay``: the experiments with networks of brokers, their figures, and a picture of one network.

What is measured is the business of ``tidegate.overlay``, how it is spread over cores that of ``tidegate.pipeline``;
here is only what is asked, and how it is told.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console

from tidegate import __version__
from tidegate.cli.loads import LOADS, percent, summary_of, tell
from tidegate.cli.progress import progress
from tidegate.cli.sought_shape import meant
from tidegate.cli.spark_command import interruptible, spark_session
from tidegate.errors import SettingError, shown
from tidegate.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.overlay.simulate import Cell

__all__ = ["overlay"]

overlay = typer.Typer(name="overlay", add_completion=False, rich_markup_mode=None, no_args_is_help=True)

#: Where SensorScope's files are looked for if nothing is said.
USUAL = Path("../shared/data/sensorscope")
PICTURES = (".html", ".svg")
#: Seconds between two lines about progress where no bar can be shown.
_PAUSE = 30.0

_Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder of the results.")]
_Data = Annotated[
    Path | None, typer.Option("--data", help=f"The folder of SensorScope's files; {USUAL} if that is there.")
]
_Generated = Annotated[bool, typer.Option("--generated", help="Replay generated weather, not SensorScope's files.")]
_Json = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]


@overlay.callback()
def group() -> None:
    """Measure how brokers that form a network share the work, draw the figures, and look at one network.

    \b
    Example:
      tidegate overlay run results --quick
    """


# --- run ------------------------------------------------------------------------------------------------------------


@overlay.command()
def run(
    out: _Out,
    setup: Annotated[
        list[str] | None, typer.Option(help="Only this set-up (small, medium, …); may be given several times.")
    ] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help="Only this strategy (naive, multi-join, …); may be given several times.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many networks and workloads are drawn for each point; 5, or 2 with --quick.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How many reporting intervals are replayed; 40, or 12 with --quick.", min=1)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few and small networks: less than a minute.")] = False,
    data: _Data = None,
    generated: _Generated = False,
    as_json: _Json = False,
) -> None:
    """Measure loads, recall and precision of every strategy, in every set-up, for every number of subscriptions.

    Each measurement is a task of one Spark job and is kept as soon as it is done: the same command goes on where one
    was stopped, and more seeds or set-ups are added to those that are there. At the end OUT has all of them in
    results.parquet.

    \b
    Example:
      tidegate overlay run results --setup medium --seeds 3
    """
    from tidegate.overlay.simulate import SCHEMA, plan
    from tidegate.pipeline.cells import Folder

    began = perf_counter()
    setups, strategies = _setups(setup), _strategies(strategy)
    drawn = seeds if seeds is not None else 2 if quick else 5
    cells = [cell for cell in plan(setups, drawn, quick, rounds) if cell.strategy in strategies]
    if not cells:
        got = f"{', '.join(strategies)} in {', '.join(setups)}" + (" with --quick" if quick else "")
        raise SettingError("strategies and set-ups that are measured together", got)
    found = _data(data, generated)
    folder, about = Folder(out, SCHEMA), {"rounds": cells[0].rounds, **_about(found)}
    rows = folder.whole(cells, about)
    if rows is None:
        require("spark", "tidegate overlay run")
        folder.make()  # what cannot be written is told before Spark is started
        from tidegate.pipeline.session import session

        try:
            with spark_session(session) as spark:
                rows = interruptible(spark, lambda: _swept(spark, cells, found, out, about))
        except KeyboardInterrupt:
            kept = len(cells) - len(folder.left(cells, about))
            typer.echo(f"\n{kept:,} of {len(cells):,} cells are kept; the same command goes on from there", err=True)
            raise
    else:
        typer.echo(f"nothing to do: all {len(cells):,} cells are there", err=True)
    summary = summary_of(rows)
    if as_json:
        facts = {"out": str(out), **about, "cells": len(cells), "seconds": round(perf_counter() - began, 1)}
        typer.echo(orjson.dumps(facts | {"rows": summary}, option=orjson.OPT_INDENT_2).decode())
        return
    tell(summary, _console())
    typer.echo(f"{len(cells):,} cells in {out}; `tidegate overlay figures {out}` draws them", err=True)


def _swept(spark: Any, cells: Sequence[Cell], data: Path | None, out: Path, about: dict[str, Any]) -> pa.Table:
    from tidegate.overlay.simulate import SCHEMA, measure
    from tidegate.pipeline.sweep import sweep

    with _progress(len(cells)) as report:
        return sweep(spark, cells, partial(measure, folder=data), SCHEMA, out, report, about)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on a terminal; elsewhere a line now and then, as these are long runs."""
    plain = not Console(stderr=True).is_terminal
    began = last = perf_counter()

    with progress(total) as show:

        def report(done: int, of: int, word: str) -> None:
            nonlocal last
            if word:
                typer.echo(f"warning: {word}", err=True)
            show(done, f"{done:,} of {of:,} cells")
            now = perf_counter()
            if plain and now - last >= _PAUSE:
                typer.echo(f"{done:,} of {of:,} cells after {now - began:,.0f} s", err=True)
                last = now

        yield report


# --- figures --------------------------------------------------------------------------------------------------------


@overlay.command()
def figures(
    out: _Out,
    to: Annotated[Path | None, typer.Option(help="The folder for the figures; OUT/figures if nothing is said.")] = None,
) -> None:
    """Draw the figures of a sweep as PNG and SVG, and write the page that compares them with the paper's claims.

    A sweep that has not come to its end is drawn with what is there.

    \b
    Example:
      tidegate overlay figures results --to docs/overlay
    """
    from tidegate.overlay.simulate import SCHEMA
    from tidegate.pipeline.cells import Folder

    require("plots", "tidegate overlay figures")
    place = to or out / "figures"
    if place.exists() and not place.is_dir():
        raise SettingError("a folder for the figures", "a file", str(place))
    found = Folder(out, SCHEMA).gathered()
    missing = found.cells - len(found.rows)
    if missing:
        typer.echo(f"warning: {missing:,} of {found.cells:,} cells are missing; drawn is what is there", err=True)
    from tidegate.overlay.report.page import write

    page = write(found.rows, place, f"tidegate overlay figures {out}" + (f" --to {to}" if to else ""))
    _console().print(f"{page}, and its figures beside it")


# --- show -----------------------------------------------------------------------------------------------------------


@overlay.command()
def show(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to draw to: .html or .svg.")],
    setup: Annotated[str, typer.Option(help="The set-up: small, medium, large-network or large-sources.")] = "medium",
    strategy: Annotated[str, typer.Option(help="The strategy.")] = "filter-split-forward",
    subscriptions: Annotated[int, typer.Option(help="How many subscriptions.", min=0)] = 300,
    seed: Annotated[int, typer.Option(help="Which network and workload.", min=0)] = 1,
    rounds: Annotated[int, typer.Option(help="How many reporting intervals are replayed.", min=1)] = 20,
    data: _Data = None,
    generated: _Generated = False,
) -> None:
    """Draw one network: its nodes and sensors, where subscriptions are, and links as wide as their traffic.

    \b
    Example:
      tidegate overlay show --setup small --strategy multi-join --out network.html
    """
    from tidegate.overlay.picture import draw, html
    from tidegate.overlay.simulate import CONTENDERS, Cell, measure
    from tidegate.overlay.topology import SETUPS
    from tidegate.overlay.workload import workload

    if out.suffix.lower() not in PICTURES:
        raise SettingError(f"a picture that ends in {' or '.join(PICTURES)}", shown(out.name), "--out")
    if not out.absolute().parent.is_dir():
        raise SettingError("a picture in a folder that exists", shown(str(out)), "--out")
    (setup,), (strategy,) = _setups([setup]), _strategies([strategy])
    found = _data(data, generated)
    subsumption = next(kind for name, kind in CONTENDERS if name == strategy)
    row = measure(Cell(setup, strategy, subsumption, subscriptions, seed, rounds), found)
    work = workload(SETUPS[setup], seed, found, rounds, subscriptions)
    kind = "" if subsumption == "none" else f" ({subsumption})"
    title = f"{setup} set-up, {strategy}{kind}, {subscriptions:,} subscriptions, {rounds:,} rounds"
    picture = draw(
        work.topology,
        {(link["a"], link["b"]): (link["subscriptions"], link["readings"], link["bytes"]) for link in row["links"]},
        Counter(node for node, _ in work.subscriptions),
        title,
    )
    out.write_text(html(picture, title) if out.suffix.lower() == ".html" else picture, "utf-8")
    told = ", ".join(f"{name.replace('_', ' ')} {row[name]:,}" for name in LOADS)
    _console().print(f"{out}: {told}, recall {percent(row['recall'])}, precision {percent(row['precision'])}")


# --- options --------------------------------------------------------------------------------------------------------


def _setups(given: Sequence[str] | None) -> list[str]:
    from tidegate.overlay.topology import SETUPS

    return _known(given, SETUPS, "set-up")


def _strategies(given: Sequence[str] | None) -> list[str]:
    from tidegate.overlay.simulate import CONTENDERS

    if "covering" in (given or ()):
        expected = "a strategy for readings that belong together"
        raise SettingError(expected, "covering, which is for plain conditions", "--strategy")
    return _known(given, [name for name, _ in CONTENDERS], "strategy")


def _known(given: Sequence[str] | None, known: Iterable[str], what: str) -> list[str]:
    names = list(dict.fromkeys(known))
    for name in given or ():
        if name not in names:
            close = meant(get_close_matches(name, names, 1))
            raise SettingError(f"a {what} ({', '.join(names)})", shown(name) + close)
    return list(dict.fromkeys(given or names))


def _data(folder: Path | None, generated: bool) -> Path | None:
    """The folder that is replayed, None for the generator; which it is, is said."""
    if folder is not None and generated:
        raise SettingError("either --data or --generated", "both")
    if folder is None and not generated and USUAL.is_dir():
        folder = USUAL
    if folder is None:
        why = "" if generated else f" ({USUAL} is not there, and --data not given)"
        typer.echo(f"replaying generated weather{why}", err=True)
        return None
    import numpy as np

    from tidegate.overlay.replay import replay

    replay(folder, 1, 1, np.random.default_rng(0))  # what is wrong with the files is told before Spark is started
    typer.echo(f"replaying SensorScope's readings in {folder}", err=True)
    return folder.resolve()


def _about(data: Path | None) -> dict[str, Any]:
    """What makes measurements comparable, beside what the cells themselves say."""
    if data is None:
        return {"version": __version__, "data": "generated"}
    sizes = [os.stat(path).st_size for path in sorted(data.glob("*.gz"))]
    return {"version": __version__, "data": "sensorscope", "files": f"{len(sizes)} of {sum(sizes):,} bytes"}


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)
