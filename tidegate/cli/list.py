"""``tidegate list``: the subscriptions of a registry."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from tidegate.cli.registry_argument import Named, registry
from tidegate.cli.subscription_files import record_of

__all__ = ["list_"]


def list_(
    place: Named,
    subscriber: Annotated[str | None, typer.Option(help="Only the subscriptions of this subscriber.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show so many at most; 0 for all.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON Lines, which `subscribe` reads.")] = False,
) -> None:
    """List the subscriptions of a registry, in the order they came, each as subscriber/id.

    \b
    Example:
      tidegate list registry.db --subscriber ann
    """
    with registry(place) as source:
        found = source.listing(subscriber, limit + 1 if limit else None)
        shown = found[:limit] if limit else found
        if as_json:
            for entry in shown:
                typer.echo(record_of(entry.subscription))
        elif shown:
            width = max(len(entry.subscription.registered_id) for entry in shown)
            for entry in shown:
                one, made = entry.subscription, f"{entry.created:%Y-%m-%d %H:%M}"
                typer.echo(f"{one.registered_id:<{width}}  {made}  {_text(one.where)}")
        if len(found) > len(shown):
            typer.echo(f"the first {limit:,} are shown; --limit 0 shows all", err=True)


def _text(where: object) -> str:
    return where if isinstance(where, str) else orjson.dumps(where).decode()
