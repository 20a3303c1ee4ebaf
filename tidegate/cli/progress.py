"""A bar on the terminal while a file is read; nothing where standard error is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

__all__ = ["progress"]


@contextmanager
def progress(total: int) -> Iterator[Callable[[int, str], None]]:
    """A function that shows how much of ``total`` is done, and a text beside it."""
    console = Console(stderr=True)
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def show(done: int, text: str) -> None:
            bar.update(task, completed=done, description=text)

        yield show
