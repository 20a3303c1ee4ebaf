"""``python -m bench filter-split-forward run|figures|show``: the sweep, its page, and a picture of one network.

What is measured is the business of ``simulate``, how it is spread over cores that of ``sweep``; this module takes a
user's words, refuses what cannot be measured before Spark is started, and prints what came out.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
from rich.console import Console

from bench.papers.filter_split_forward import simulate
from bench.papers.filter_split_forward.load_table import LOADS, percent, summary_of, tell
from bench.papers.filter_split_forward.network_picture import draw, html
from bench.papers.filter_split_forward.replay import replay
from bench.papers.filter_split_forward.results_folder import ResultsFolder
from bench.papers.filter_split_forward.simulate import CONTENDERS, SCHEMA, Cell, plan
from bench.papers.filter_split_forward.topology import SETUPS
from bench.papers.filter_split_forward.workload import ROUNDS, workload
from bench.sensorscope import FOLDER
from tidegate import __version__
from tidegate.cli.progress import progress
from tidegate.cli.spark_command import interruptible, spark_session
from tidegate.errors import SettingError, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["commands"]

PICTURES = (".html", ".svg")
#: Seconds between two lines about progress where no bar can be shown.
_PAUSE = 30.0
_PROGRAM = "python -m bench filter-split-forward"


def commands(words: Sequence[str]) -> None:
    """Do what the words after the bench's name say."""
    given = _parser().parse_args(list(words))
    work: Callable[[Namespace], None] = given.work
    work(given)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(_PROGRAM, description=__doc__, allow_abbrev=False)
    added = parser.add_subparsers(required=True, metavar="run|figures|show")

    run = added.add_parser("run", help="measure every strategy, in every set-up, for every number of subscriptions")
    run.set_defaults(work=_run)
    run.add_argument("out", metavar="OUT", type=Path, help="the folder of the results; a sweep that is there goes on")
    run.add_argument("--setup", action="append", help="only this set-up (small, medium, …); may be given several times")
    run.add_argument("--strategy", action="append", help="only this strategy (naive, …); may be given several times")
    run.add_argument("--seeds", type=int, help="networks and workloads drawn for each point; 5, or 2 with --quick")
    run.add_argument(
        "--rounds",
        type=_at_least(1),
        help=f"reporting intervals that are replayed; {ROUNDS}, or {simulate.QUICK_ROUNDS} with --quick",
    )
    run.add_argument("--quick", action="store_true", help="few and small networks: less than a minute")
    run.add_argument("--json", action="store_true", help="print as JSON, for programs")

    figures = added.add_parser("figures", help="draw the figures and write the page that compares claims")
    figures.set_defaults(work=_figures)
    figures.add_argument("out", metavar="OUT", type=Path, help="the folder of the results")
    figures.add_argument("--to", type=Path, help="the folder for the figures; OUT/figures if nothing is said")

    show = added.add_parser("show", help="draw one network: nodes, sensors, subscriptions, traffic")
    show.set_defaults(work=_show)
    show.add_argument("--out", "-o", type=Path, required=True, help="the file to draw to: .html or .svg")
    show.add_argument("--setup", default="medium", help=f"one of {', '.join(SETUPS)}")
    show.add_argument("--strategy", default="filter-split-forward", help="the strategy")
    show.add_argument("--subscriptions", type=_at_least(0), default=300, help="how many subscriptions")
    show.add_argument("--seed", type=_at_least(0), default=1, help="which network and workload")
    show.add_argument(
        "--rounds", type=_at_least(1), default=ROUNDS, help=f"reporting intervals that are replayed; {ROUNDS}"
    )

    for each in (run, show):
        each.add_argument("--data", type=Path, help="the folder of SensorScope's files")
        each.add_argument("--generated", action="store_true", help="replay generated weather, not SensorScope's files")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise ArgumentTypeError(f"expected a whole number of at least {least}; got {shown(word)}")
        return int(word)

    return number


# --- run ------------------------------------------------------------------------------------------------------------


def _run(given: Namespace) -> None:
    """Measure what OUT does not have yet and print a table of loads.

    Each measurement is a task of one Spark job and is kept as soon as it is done: the same command goes on where one
    was stopped, and more seeds or set-ups are added to those that are there. At the end OUT has all of them in
    results.parquet.
    """
    began, out = perf_counter(), given.out
    cells = _cells(given)
    data = _data(given.data, given.generated)
    folder, about = ResultsFolder(out, SCHEMA), {"rounds": cells[0].rounds, **_about(data)}
    rows = folder.whole(cells, about)
    if rows is None:
        folder.make()  # what cannot be written is told before Spark is started
        rows = _measured(folder, cells, data, about)
    else:
        _say(f"nothing to do: all {len(cells):,} cells are there")
    summary = summary_of(rows)
    if given.json:
        facts = {"out": str(out), **about, "cells": len(cells), "seconds": round(perf_counter() - began, 1)}
        print(orjson.dumps(facts | {"rows": summary}, option=orjson.OPT_INDENT_2).decode())
        return
    tell(summary, _console())
    _say(f"{len(cells):,} cells in {out}; `{_PROGRAM} figures {out}` draws them")


def _cells(given: Namespace) -> list[Cell]:
    setups, strategies = _setups(given.setup), _strategies(given.strategy)
    seeds = given.seeds if given.seeds is not None else 2 if given.quick else 5
    cells = [cell for cell in plan(setups, seeds, given.quick, given.rounds) if cell.strategy in strategies]
    if not cells:
        got = f"{', '.join(strategies)} in {', '.join(setups)}" + (" with --quick" if given.quick else "")
        raise SettingError("strategies and set-ups that are measured together", got)
    return cells


def _measured(folder: ResultsFolder, cells: Sequence[Cell], data: Path | None, about: dict[str, Any]) -> pa.Table:
    # Here, as Spark takes seconds to import and what is refused needs none.
    from tidegate.pipeline.session import session

    try:
        with spark_session(session) as spark:
            return interruptible(spark, lambda: _swept(spark, cells, data, folder.path, about))
    except KeyboardInterrupt:
        kept = len(cells) - len(folder.left(cells, about))
        _say(f"\n{kept:,} of {len(cells):,} cells are kept; the same command goes on from there")
        raise


def _swept(spark: SparkSession, cells: Sequence[Cell], data: Path | None, out: Path, about: dict[str, Any]) -> pa.Table:
    from bench.papers.filter_split_forward.sweep import sweep

    with _progress(len(cells)) as report:
        return sweep(spark, cells, partial(simulate.measure, folder=data), SCHEMA, out, report, about)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on a terminal; elsewhere a line now and then, as these are long runs."""
    plain = not Console(stderr=True).is_terminal
    began = last = perf_counter()

    with progress(total) as show:

        def report(done: int, of: int, word: str) -> None:
            nonlocal last
            if word:
                _say(f"warning: {word}")
            show(done, f"{done:,} of {of:,} cells")
            now = perf_counter()
            if plain and now - last >= _PAUSE:
                _say(f"{done:,} of {of:,} cells after {now - began:,.0f} s")
                last = now

        yield report


# --- figures --------------------------------------------------------------------------------------------------------


def _figures(given: Namespace) -> None:
    """Draw the figures of a sweep and write its page. A sweep that has not ended is drawn with what is there."""
    from bench.papers.filter_split_forward.page import write

    out, to = given.out, given.to
    place = to or out / "figures"
    if place.exists() and not place.is_dir():
        raise SettingError("a folder for the figures", "a file", str(place))
    found = ResultsFolder(out, SCHEMA).gathered()
    missing = found.cells - len(found.rows)
    if missing:
        _say(f"warning: {missing:,} of {found.cells:,} cells are missing; drawn is what is there")
    page = write(found.rows, place, f"{_PROGRAM} figures {out}" + (f" --to {to}" if to else ""))
    _console().print(f"{page}, and its figures beside it")


# --- show -----------------------------------------------------------------------------------------------------------


def _show(given: Namespace) -> None:
    """Draw one network: its nodes and sensors, where subscriptions are, and links as wide as their traffic."""
    out = given.out
    if out.suffix.lower() not in PICTURES:
        raise SettingError(f"a picture that ends in {' or '.join(PICTURES)}", shown(out.name), "--out")
    if not out.absolute().parent.is_dir():
        raise SettingError("a picture in a folder that exists", shown(str(out)), "--out")
    (setup,), (strategy,) = _setups([given.setup]), _strategies([given.strategy])
    data = _data(given.data, given.generated)
    subsumption = next(kind for name, kind in CONTENDERS if name == strategy)
    row = simulate.measure(Cell(setup, strategy, subsumption, given.subscriptions, given.seed, given.rounds), data)
    work = workload(SETUPS[setup], given.seed, data, given.rounds, given.subscriptions)
    kind = "" if subsumption == "none" else f" ({subsumption})"
    title = f"{setup} set-up, {strategy}{kind}, {given.subscriptions:,} subscriptions, {given.rounds:,} rounds"
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
    return _known(given, SETUPS, "set-up")


def _strategies(given: Sequence[str] | None) -> list[str]:
    if "covering" in (given or ()):
        expected = "a strategy for readings that belong together"
        raise SettingError(expected, "covering, which is for plain conditions", "--strategy")
    return _known(given, [name for name, _ in CONTENDERS], "strategy")


def _known(given: Sequence[str] | None, known: Iterable[str], what: str) -> list[str]:
    names = list(dict.fromkeys(known))
    for name in given or ():
        if name not in names:
            close = "".join(f" (did you mean {near}?)" for near in get_close_matches(name, names, 1))
            raise SettingError(f"a {what} ({', '.join(names)})", shown(name) + close)
    return list(dict.fromkeys(given or names))


def _data(folder: Path | None, generated: bool) -> Path | None:
    """The folder that is replayed, None for the generator; which it is, is said."""
    if folder is not None and generated:
        raise SettingError("either --data or --generated", "both")
    if folder is None and not generated and FOLDER.is_dir():
        folder = FOLDER
    if folder is None:
        why = "" if generated else f" ({FOLDER} is not there, and --data not given)"
        _say(f"replaying generated weather{why}")
        return None
    replay(folder, 1, 1, np.random.default_rng(0))  # what is wrong with the files is told before Spark is started
    _say(f"replaying SensorScope's readings in {folder}")
    return folder.resolve()


def _about(data: Path | None) -> dict[str, Any]:
    """What makes measurements comparable, beside what the cells themselves say."""
    if data is None:
        return {"version": __version__, "data": "generated"}
    sizes = [os.stat(path).st_size for path in sorted(data.glob("*.gz"))]
    return {"version": __version__, "data": "sensorscope", "files": f"{len(sizes)} of {sum(sizes):,} bytes"}


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)
