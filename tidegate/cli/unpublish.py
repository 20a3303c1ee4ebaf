"""``tidegate unpublish``: withdraws a publication from a data directory or a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.broker_option import CaFile, OfBroker, TokenFile, connection, expect_no_place
from tidegate.errors import SettingError, shown

__all__ = ["unpublish"]


def unpublish(
    source: Annotated[str, typer.Argument(help="The source of the publication.")],
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="The data directory,")] = None,
    broker: OfBroker = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Withdraw all publications of a source and id, of every phase, from a data directory or a broker.

    From then on they are in no backlog and match no new subscription, and queues that have them are told so. One that
    is published again with the same source, id and phase is still the same one. If there is none of the last day and
    none that is valid, or all were withdrawn before, the exit code is 1.

    \b
    Example:
      tidegate unpublish --data broker north p17
    """
    if data is None and broker is None:
        raise SettingError("--data or --broker", "neither")
    if broker is not None:
        expect_no_place(data, "--data")
        with connection(broker, token_file, ca, "tidegate unpublish --broker") as client:
            is_there, told = client.unpublish(source, id), "withdrawn"
    else:
        is_there, told = _withdrawn(str(data), source, id)
    if not is_there:
        typer.echo(f"there is no publication {shown(id)} of {shown(source)} to withdraw", err=True)
        raise typer.Exit(1)
    typer.echo(told, err=True)


def _withdrawn(data: str, source: str, id: str) -> tuple[bool, str]:
    """Whether there was one, and what to tell if there was."""
    from tidegate.store.data_directory import DataDirectory
    from tidegate.store.registry import Registry

    found = DataDirectory.found(data)
    if found is None:
        raise SettingError("a data directory", shown(data))
    with Registry(str(found.registry)) as registry, found.open_log(version=lambda: registry.version) as log:
        (is_there,) = log.unpublish([(source, id)])
        return is_there, f"withdrawn; the log ends at row {log.end:,}"
