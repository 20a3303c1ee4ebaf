"""``tidegate unsubscribe``: ends subscriptions of a registry."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.registry_argument import Named, registry

__all__ = ["unsubscribe"]


def unsubscribe(
    place: Named,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="The subscriptions, each as subscriber/id.")],
) -> None:
    """End subscriptions of a registry. Either all are ended or none.

    No publication that appears after this command has returned is matched with them.

    \b
    Example:
      tidegate unsubscribe registry.db ann/s1 ann/s2
    """
    with registry(place) as target:
        version = target.unsubscribe(*ids)
        typer.echo(f"{len(ids):,} ended; version {version:,}, {len(target):,} left")
