"""``tidegate functions``: the operators and functions that the registered families offer."""

from __future__ import annotations

import typer

from tidegate.predicates import FUNCTIONS

__all__ = ["functions"]


def functions() -> None:
    """List every operator and function with its family and an example.

    \b
    Example:
      tidegate functions
    """
    widths = [max(len(getattr(known, part)) for known in FUNCTIONS.values()) for part in ("family", "op")]
    for known in sorted(FUNCTIONS.values(), key=lambda known: known.family):
        typer.echo(f"{known.family:<{widths[0]}}  {known.op:<{widths[1]}}  {known.example}")
