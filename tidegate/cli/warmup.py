"""``tidegate warmup``: compiles the kernels and makes Spark's cache, so that a first start is not slow."""

from __future__ import annotations

from contextlib import nullcontext

import typer
from rich.console import Console

from tidegate.extras import missing

__all__ = ["warmup"]


def warmup() -> None:
    """Compile the kernels and make the cache with which Spark starts in a third of the time. Once per machine.

    It takes a minute or two and 200 MB in the user's cache directory; a second time nothing has to be done. Without
    the extra spark only the kernels are compiled.

    \b
    Example:
      tidegate warmup
    """
    from tidegate.cli.kernel_compilation import compile_kernels

    console = Console(stderr=True)
    moving = console.status("warming up …") if console.is_terminal else nullcontext()
    with moving:
        typer.echo("Compiling kernels…", err=True)
        compile_kernels()
        if missing("spark"):
            typer.echo("Spark is not installed; nothing else has to be done.", err=True)
            return
        from tidegate.pipeline import aot_warmup as aot

        aot.warmup(lambda text: typer.echo(text, err=True))
