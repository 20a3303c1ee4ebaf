"""The argument REGISTRY of commands: a registry, or the TOML file or the data directory of a run, which has one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.errors import SettingError, shown

if TYPE_CHECKING:
    from tidegate.runs.config import Config
    from tidegate.store.registry import Registry

__all__ = ["Named", "PerhapsNamed", "config", "named", "registry"]

_ARGUMENT = typer.Argument(
    metavar="REGISTRY", help="A registry (a path or a database URL), a CONFIG file (.toml), or a data directory."
)
Named = Annotated[str, _ARGUMENT]
PerhapsNamed = Annotated[str | None, _ARGUMENT]
"""The argument of a command that takes a broker as well."""


def named(given: str | None) -> str:
    """The argument, which must be there."""
    if given is None:
        raise SettingError("a registry, or --broker", "neither")
    return given


def config(given: str) -> Config | None:
    """The configuration of the run, if the argument is a TOML file or a data directory; else None."""
    if "://" in given or not (given.endswith(".toml") or Path(given, "format.json").exists()):
        return None
    from tidegate.runs.config import load

    return load(Path(given))


def registry(given: str, *, create: bool = False) -> Registry:
    """The registry that the argument names. If it is a path it must exist, unless ``create``."""
    from tidegate.store.registry import Registry

    found = config(given)
    if found and found.made() is not None:
        create = True  # a new data directory has an empty registry
    place, storage = (found.subscriptions.registry, found.subscriptions.storage) if found else (given, None)
    if not create and "://" not in place and not Path(place).exists():
        raise SettingError("a registry that exists", shown(place))
    return Registry(place, storage=storage)
