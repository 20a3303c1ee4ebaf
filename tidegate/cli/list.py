"""``tidegate list``: the subscriptions of a registry, or those of a principal at a broker."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import orjson
import typer

from tidegate.cli.broker_option import CaFile, OfBroker, TokenFile, connection, expect_no_place
from tidegate.cli.registry_argument import PerhapsNamed, named, registry
from tidegate.cli.subscription_files import record_of

__all__ = ["list_"]


def list_(
    place: PerhapsNamed = None,
    subscriber: Annotated[str | None, typer.Option(help="Only the subscriptions of this subscriber.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show so many at most; 0 for all.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON Lines, which `subscribe` reads.")] = False,
    broker: OfBroker = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """List the subscriptions of a registry, in the order they came, each as subscriber/id.

    With --broker they are those of the token's principal, each by its id.

    \b
    Example:
      tidegate list registry.db --subscriber ann
    """
    if broker is not None:
        expect_no_place(place if place is not None else subscriber, "a registry and its subscribers")
        with connection(broker, token_file, ca, "tidegate list --broker") as client:
            those = client.subscriptions()
        _show([_Line(one.id, "", one.where, record_of(one)) for one in those], limit, as_json)
        return
    with registry(named(place)) as source:
        found = source.listing(subscriber, limit + 1 if limit else None)
        lines = [
            _Line(one.registered_id, f"{entry.created:%Y-%m-%d %H:%M}  ", one.where, record_of(one))
            for entry in found
            for one in [entry.subscription]
        ]
        _show(lines, limit, as_json)


class _Line(NamedTuple):
    id: str
    made: str
    where: object
    record: bytes


def _show(found: list[_Line], limit: int, as_json: bool) -> None:
    shown = found[:limit] if limit else found
    width = max((len(line.id) for line in shown), default=0)
    for line in shown:
        typer.echo(line.record if as_json else f"{line.id:<{width}}  {line.made}{_text(line.where)}")
    if len(found) > len(shown):
        typer.echo(f"the first {limit:,} are shown; --limit 0 shows all", err=True)


def _text(where: object) -> str:
    return where if isinstance(where, str) else orjson.dumps(where).decode()
