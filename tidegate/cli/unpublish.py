"""``tidegate unpublish``: withdraws a publication from a data directory."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.errors import SettingError, shown

__all__ = ["unpublish"]


def unpublish(
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="The data directory.")],
    source: Annotated[str, typer.Argument(help="The source of the publication.")],
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
) -> None:
    """Withdraw all publications of a source and id, of every phase.

    From then on they are in no backlog and match no new subscription, and queues that have them are told so. One that
    is published again with the same source, id and phase is still the same one. If there is none of the last day and
    none that is valid, or all were withdrawn before, the exit code is 1.

    \b
    Example:
      tidegate unpublish --data broker north p17
    """
    from tidegate.store.data_directory import DataDirectory
    from tidegate.store.registry import Registry

    found = DataDirectory.found(data)
    if found is None:
        raise SettingError("a data directory", shown(data))
    with Registry(str(found.registry)) as registry, found.open_log(version=lambda: registry.version) as log:
        (is_there,) = log.unpublish([(source, id)])
        end = log.end
    if not is_there:
        typer.echo(f"there is no publication {shown(id)} of {shown(source)} to withdraw", err=True)
        raise typer.Exit(1)
    typer.echo(f"withdrawn; the log ends at row {end:,}", err=True)
