"""``tidegate shapes``: the shapes that have names, with pictures; and which tolerance fits a history.

``tidegate.shapes.tolerance`` computes which notifications a tolerance would have brought; here are the commands and
their options. ``history_files`` reads the history, and ``tolerance_report`` prints, draws and plots the outcome.
"""

from __future__ import annotations

from itertools import zip_longest
from math import inf
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import numpy as np
import orjson
import typer
from rich.console import Console
from rich.text import Text

from tidegate.cli.history_files import Columns, ReadHistory, read
from tidegate.cli.progress import progress
from tidegate.cli.series_pictures import picture
from tidegate.cli.sought_shape import SoughtShape, meant, pattern_of
from tidegate.cli.tolerance_report import ToleranceReport, draw, plottable
from tidegate.errors import SettingError, shown
from tidegate.shapes.named_shapes import NamedShape, everything, find, load, near, use
from tidegate.shapes.normal_form import LONGEST, SHORTEST, rendered
from tidegate.shapes.tolerance import Distances, ToleranceOutcomes, sliding, whole

__all__ = ["shapes"]

shapes = typer.Typer(name="shapes", add_completion=False, rich_markup_mode=None)

_File = Annotated[Path | None, typer.Option("--file", "-f", help="Shapes of your own: .toml or .csv.")]
_Length = Annotated[
    int | None, typer.Option("--length", "-n", min=SHORTEST, max=LONGEST, help="How many numbers to draw it at.")
]


@shapes.callback(invoke_without_command=True)
def listed(context: typer.Context, file: _File = None) -> None:
    """List the shapes that have names, with a small picture of each.

    A file of your own has tables [shapes.my-shape] with points = [numbers] and, if wanted, meaning = "text"; or, as
    CSV, a name and then numbers on each line.

    \b
    Example:
      tidegate shapes --file mine.toml
    """
    context.with_resource(use())  # the shapes of the file are known in this call only
    if file is not None:
        load(file)
    if context.invoked_subcommand is None:
        console = _console()
        for i, shape in enumerate(everything()):
            _list_one(console, shape, apart=i > 0)


@shapes.command()
def show(
    name: Annotated[str, typer.Argument(help="The shape's name.")],
    length: _Length = None,
    file: _File = None,
) -> None:
    """Show one shape: a larger picture, and its numbers.

    \b
    Example:
      tidegate shapes show head-and-shoulders --length 24
    """
    if file is not None:
        load(file)
    shape = find(name)
    if shape is None:
        raise SettingError("the name of a shape (`tidegate shapes` lists them)", shown(name) + meant(near(name)))
    numbers = shape.points if length is None else tuple(rendered(shape.points, length).tolist())
    console = _console()
    console.print(Text.assemble((shape.name, "bold"), f"  {shape.meaning}"))
    console.print()
    for line in picture(numbers, 64, 8, console):
        console.print(Text(line, "cyan"))
    console.print()
    what = f"{len(numbers):,} control points" if length is None else f"{length:,} numbers"
    console.print(f"{what}:")
    for line in wrap(_tuple(numbers), 80):
        console.print(line)


def _list_one(console: Console, shape: NamedShape, apart: bool) -> None:
    beside = [shape.name, *wrap(shape.meaning, max(console.width - 28, 20))]
    if apart:
        console.print()
    lines = picture(shape.points, 24, 3, console)
    for i, (line, words) in enumerate(zip_longest(lines, beside, fillvalue="")):
        both = Text.assemble((f"{line:<24}  " if lines else "", "cyan"), (words, "bold" if i == 0 else ""))
        both.rstrip()
        console.print(both)


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _tuple(numbers: tuple[float, ...]) -> str:
    return f"({', '.join(f'{number:.6g}' for number in numbers)})"


# --- tolerance ------------------------------------------------------------------------------------------------------

#: Notifications a day that tolerances are suggested for.
RATES = {"1 a month": 1 / 30, "1 a week": 1 / 7, "1 a day": 1.0, "10 a day": 10.0, "100 a day": 100.0}


@shapes.command()
def tolerance(
    pattern: Annotated[
        str, typer.Option(help="The name of a shape, numbers such as '0, 1, 0', or a file with one shape or numbers.")
    ],
    history: Annotated[Path, typer.Option(help="Readings or series: .csv, .parquet, .arrow, .jsonl or .json.")],
    attribute: Annotated[str, typer.Option(help="The attribute that has the numbers, or lists of them.")] = "value",
    length: Annotated[
        int | None,
        typer.Option(
            "--length", "-n", min=SHORTEST, max=LONGEST, help="How many readings the pattern is stretched over."
        ),
    ] = None,
    stretched: Annotated[
        bool, typer.Option("--stretched", help="Numbers are control points, drawn at the length of each series.")
    ] = False,
    source: Annotated[list[str] | None, typer.Option(help="Only this source; may be given several times.")] = None,
    own: Annotated[
        list[float] | None, typer.Option("--tolerance", min=0, help="A tolerance to tell of too; several times.")
    ] = None,
    time_column: Annotated[str, typer.Option(help="The column of times; without a zone they are UTC.")] = "time",
    source_column: Annotated[str, typer.Option(help="The column of sources; - if all is of one source.")] = "source",
    file: _File = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the outcome to this file: .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Suggest tolerances for a pattern: how many notifications a day each would have brought in a history.

    Where the attribute is a number, every window of successive readings of a source is compared, and a run of windows
    within the tolerance is one notification, as in a stream. Where it is a list of numbers, each list is compared.

    \b
    Example:
      tidegate shapes tolerance --pattern spike --length 60 --history readings.csv --attribute temperature
    """
    if file is not None:
        load(file)
    if plot is not None:
        plottable(plot)
    if any(not 0 <= one < inf for one in own or ()):
        raise SettingError("finite numbers as --tolerance", ", ".join(map(str, own or ())))
    looked_for = pattern_of(pattern, length is not None or stretched)
    found = read(history, attribute, Columns(time_column, source_column), source or [])
    length = _length_of(looked_for, length, found)
    if not found.history.days:
        raise SettingError("a history of more than one moment", "one whose times are all the same", str(history))
    distances = _distances(looked_for, length, found)
    outcomes = ToleranceOutcomes(distances)
    if outcomes.closest == inf:
        raise SettingError("values that are not constant", "windows without a shape only", f"{attribute}, {history}")
    days = distances.days
    suggested = {name: outcomes.suggested(rate) for name, rate in RATES.items() if rate * days >= 1}
    listed = outcomes.grid([*(own or ()), *(one.tolerance for one in suggested.values() if one)])
    told = ToleranceReport(looked_for, attribute, length, found, outcomes, listed, suggested)
    if as_json:
        typer.echo(orjson.dumps(told.record(), option=orjson.OPT_INDENT_2).decode())
    else:
        told.report(_console(), own or [])
    if plot is not None:
        draw(told, plot)
        typer.echo(f"plot written to {plot}", err=True)


def _length_of(pattern: SoughtShape, given: int | None, found: ReadHistory) -> int | None:
    """How many readings a window has; None where whole series are compared."""
    if found.has_series:
        if given is not None:
            raise SettingError(f"no --length, since {found.attribute} has series of their own", f"{given}")
        return None
    if given is None and pattern.is_stretched:
        raise SettingError("--length, the number of readings that the pattern is stretched over", "none")
    length = given or len(pattern.points)
    if pattern.at(length) is None:
        raise SettingError("a --length at which the pattern has a shape", f"{length}")
    most = int(found.history.lengths.max())
    if most < length:
        raise SettingError(
            f"a source with {length:,} readings of {found.attribute}", f"{most:,} at most", str(found.path)
        )
    return length


def _distances(pattern: SoughtShape, length: int | None, found: ReadHistory) -> Distances:
    if length is None:
        lengths = found.history.lengths
        if all(pattern.at(int(n)) is None for n in np.unique(lengths[(lengths >= SHORTEST) & (lengths <= LONGEST)])):
            wanted = f"series of {len(pattern.points):,} numbers, or --stretched,"
            if pattern.is_stretched:
                wanted = f"series of {SHORTEST} to {LONGEST:,} numbers"
            some = ", ".join(f"{n:,}" for n in np.unique(lengths)[:5])
            raise SettingError(f"{wanted} as {found.attribute}", f"series of {some}", str(found.path))
        total = len(lengths)
    else:
        total = int(np.maximum(found.history.lengths - length + 1, 0).sum())
    with progress(total) as bar:

        def show(done: int) -> None:
            bar(done, f"{done:,} of {total:,} distances")

        if length is None:
            return whole(found.history, pattern.at, show)
        at_length = pattern.at(length)
        assert at_length is not None
        return sliding(found.history, at_length, show)
