"""``tidegate functions``: the operators, functions and patterns that the registered families offer."""

from __future__ import annotations

import typer

from tidegate.patterns import FAMILIES
from tidegate.predicates import FUNCTIONS, MEASURES

__all__ = ["functions"]


def functions() -> None:
    """List every operator, function and pattern with its family and an example.

    \b
    Example:
      tidegate functions
    """
    listed = [(known.family, known.op, known.example) for known in FUNCTIONS.values()]
    listed += [(known.family, known.op, known.example) for known in MEASURES.values()]
    listed += [("pattern", name, family.example) for name, family in FAMILIES.items()]
    widths = [max(len(row[part]) for row in listed) for part in (0, 1)]
    for family, op, example in sorted(listed, key=lambda row: row[0]):
        typer.echo(f"{family:<{widths[0]}}  {op:<{widths[1]}}  {example}")
