"""``tidegate unsubscribe``: ends subscriptions of a registry or a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.broker_option import CaFile, OfBroker, TokenFile, connection
from tidegate.cli.registry_argument import registry
from tidegate.errors import SettingError, shown

__all__ = ["unsubscribe"]


def unsubscribe(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[REGISTRY] ID…",
            help="A registry, CONFIG file (.toml) or data directory, and subscriptions, each as subscriber/id; with "
            "--broker only the caller's own ids.",
        ),
    ],
    broker: OfBroker = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """End subscriptions of a registry, either all or none, or of a broker.

    No publication that appears after this command has returned is matched with them.

    \b
    Example:
      tidegate unsubscribe registry.db ann/s1 ann/s2
    """
    if broker is not None:
        with connection(broker, token_file, ca, "tidegate unsubscribe --broker") as client:
            for id in places:
                client.unsubscribe(id)
        typer.echo(f"{len(places):,} ended")
        return
    place, *ids = places
    if not ids:
        raise SettingError("a registry and the ids of subscriptions, or --broker", shown(place))
    with registry(place) as target:
        version = target.unsubscribe(*ids)
        typer.echo(f"{len(ids):,} ended; version {version:,}, {len(target):,} left")
