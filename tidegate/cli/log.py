"""``tidegate log``: looks for damage in a log, and gives up what is damaged so that pipelines can go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.publish import log_of

__all__ = ["log"]

log = typer.Typer(name="log", add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@log.callback()
def group() -> None:
    """Look after a log.

    \b
    Example:
      tidegate log check readings.log
    """


@log.command()
def check(
    place: Annotated[str, typer.Argument(metavar="LOG", help="The directory of a log, or a CONFIG file.")],
    drop: Annotated[
        bool, typer.Option("--drop", help="Give up the rows of damaged frames, so that pipelines pass over them.")
    ] = False,
) -> None:
    """Compare every frame of a log with its checksum, and name those that are damaged.

    A pipeline stops before a damaged frame. The best remedy is the segment's file from a backup. With --drop the rows
    of these frames are given up for good: the rows behind them keep their numbers, and pipelines go on with them. The
    exit code is 1 if frames are damaged and were not dropped.

    \b
    Example:
      tidegate log check readings.log
    """
    from tidegate.store import log_check
    from tidegate.store.log import Log

    with Log(log_of(place), create=False) as opened:
        directory, begin, end = opened.directory, opened.begin, opened.end
    found = list(log_check.damaged(Path(directory)))
    for frame in found:
        rows = f"rows {frame.first_row:,} to {frame.end.end_row - 1:,}"
        typer.echo(f"{rows}: {frame.reason}; at byte {frame.first_byte} of {frame.file}")
        if drop:
            log_check.drop(Path(directory), frame)
    lost = sum(frame.rows for frame in found)
    word = "dropped" if drop else "damaged"
    typer.echo(f"{end - begin:,} rows, {lost:,} of them in {len(found):,} {word} frames")
    if found and not drop:
        raise typer.Exit(1)
