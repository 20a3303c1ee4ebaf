"""The option --shapes of commands that compile expressions: shapes of the user's own, for this call alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["OwnShapes"]


@contextmanager
def _loaded(file: Path) -> Iterator[None]:
    from tidegate.shapes.named_shapes import load, use

    with use():
        load(file)
        yield


def _load(context: typer.Context, file: Path | None) -> Path | None:
    """Callback of --shapes: load the shapes before the command compiles anything, until the command has ended."""
    if file is not None:
        context.with_resource(_loaded(file))
    return file


OwnShapes = Annotated[
    Path | None,
    typer.Option("--shapes", help="Shapes of your own that expressions name: .toml or .csv.", callback=_load),
]
