"""The option --timezone of commands that read files of publications."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["OwnTimezone"]

OwnTimezone = Annotated[
    str | None,
    typer.Option("--timezone", help="What times without a zone mean, such as Europe/Zurich; else they are refused."),
]
